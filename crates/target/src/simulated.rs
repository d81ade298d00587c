//! The target on a simulated network: what its adapter, its processors and its driver for the transport do with each message.
//!
//! Each connection has a completion queue of the adapter's, which the processor of that connection looks into: the first event
//! interrupts it, and it goes on while there are more. Commands begin in the order in which they came and are executed side by side.

use crate::discovery::Reached;
use crate::path::{Errand, Movement};
use crate::queue::{Queue, Target};
use byteway_clock::{Channel, Clock, Delay, SpanId, Stage, Station, Time};
use byteway_host::fabric::{Connection, ToHost, ToTarget};
use byteway_link::{NetworkEnd, Parcel};
use byteway_wire::fabrics::DataPointer;
use byteway_wire::nvme::{Cqe, Sqe, Status};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What the driver for the transport costs the target's processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportCosts {
    /// An interrupt of the adapter's, and the switch to who looks into its completion queue.
    pub interrupt: Delay,
    /// A command that has come: it is taken, parsed and mapped.
    pub receive: Delay,
    /// Asking for data, and taking what has come.
    pub fetch: Delay,
    /// Posting data and response.
    pub respond: Delay,
    /// Learning that a response was sent: what it used is free again.
    pub sent: Delay,
    /// Each KiB of data that a processor copies: nothing with RDMA.
    pub copy: Delay,
}

impl TransportCosts {
    fn copying(&self, bytes: usize) -> Delay {
        Delay((u128::from(self.copy.0) * bytes as u128 / 1024) as u64)
    }
}

/// The target's end of a network.
pub type TargetEnd = NetworkEnd<(Connection, ToHost), (Connection, ToTarget)>;

/// What all connections share.
struct Serving {
    clock: Clock,
    network: TargetEnd,
    target: Rc<Target>,
    reached: Reached,
    processors: Vec<Rc<Station>>,
    costs: TransportCosts,
    commands: Cell<u64>,
    strays: Cell<u64>,
}

/// A target on a network.
pub struct SimulatedTarget(Rc<Serving>);

/// What a connection's processor finds in its completion queue.
enum Event {
    Command { arrived: Time, work: Work },
    Data { arrived: Time, tag: u16, data: Vec<u8> },
    Sent,
}

/// Data of one command, with when it arrived.
type Arrivals = Channel<(Time, Vec<u8>)>;

/// A command on its way.
struct Work {
    span: SpanId,
    sqe: Sqe,
    movement: Movement,
    data: Vec<u8>,
    /// Where more of its data is, or where its data goes.
    address: u64,
    fetched_bytes: u32,
    refused: Option<Status>,
}

/// A connection.
struct Session {
    serving: Rc<Serving>,
    connection: Connection,
    queue: Queue,
    processor: Rc<Station>,
    events: Channel<Event>,
    works: Channel<Work>,
    /// Commands that wait for data, by their tags.
    fetching: RefCell<BTreeMap<u16, Arrivals>>,
    workers: Cell<u16>,
    idle: Cell<u16>,
    is_connected: Cell<bool>,
    is_closed: Cell<bool>,
}

impl SimulatedTarget {
    /// Serves what comes over `network`. Connections take turns among `processors`, of which there is one at least.
    pub fn serve(
        network: TargetEnd,
        target: &Rc<Target>,
        processors: &[Rc<Station>],
        costs: TransportCosts,
    ) -> SimulatedTarget {
        SimulatedTarget::serve_at(Reached::default(), network, target, processors, costs)
    }

    /// The same, at one of the target's ports.
    pub fn serve_at(
        reached: Reached,
        network: TargetEnd,
        target: &Rc<Target>,
        processors: &[Rc<Station>],
        costs: TransportCosts,
    ) -> SimulatedTarget {
        let clock = network.clock().clone();
        let serving = Rc::new(Serving {
            clock: clock.clone(),
            network,
            target: target.clone(),
            reached,
            processors: processors.to_vec(),
            costs,
            commands: Cell::default(),
            strays: Cell::default(),
        });
        clock.spawn("target's adapter", dispatch(serving.clone()));
        SimulatedTarget(serving)
    }

    /// Commands that have come.
    pub fn commands(&self) -> u64 {
        self.0.commands.get()
    }

    /// Messages of connections that are not open.
    pub fn strays(&self) -> u64 {
        self.0.strays.get()
    }

    /// Its end of the network.
    pub fn network(&self) -> &TargetEnd {
        &self.0.network
    }

    /// Its processors.
    pub fn processors(&self) -> &[Rc<Station>] {
        &self.0.processors
    }
}

/// Gives each message to its connection.
async fn dispatch(serving: Rc<Serving>) {
    let mut sessions: BTreeMap<Connection, Rc<Session>> = BTreeMap::new();
    loop {
        let (connection, message) = serving.network.receive().await;
        let session = sessions.get(&connection);
        match (message, session) {
            (ToTarget::Open, _) => {
                sessions.insert(connection, Session::open(&serving, connection));
            }
            (ToTarget::Close, Some(session)) => {
                session.close();
                sessions.remove(&connection);
            }
            // The host has not heard yet that the target has closed it.
            (_, Some(session)) if session.is_closed.get() => {}
            (ToTarget::Command { span, queued, sqe, data }, Some(session)) => {
                serving.clock.spans().charge_split(span, serving.clock.now(), queued, Stage::Fabric);
                serving.commands.set(serving.commands.get() + 1);
                session.command(span, sqe, data);
            }
            (ToTarget::Data { tag, data }, Some(session)) => {
                let _ = session.events.try_send(Event::Data { arrived: serving.clock.now(), tag, data });
            }
            (_, None) => serving.strays.set(serving.strays.get() + 1),
        }
    }
}

impl Session {
    fn open(serving: &Rc<Serving>, connection: Connection) -> Rc<Session> {
        let clock = &serving.clock;
        let number = usize::from(connection.association) + usize::from(connection.qid).saturating_sub(1);
        let session = Rc::new(Session {
            serving: serving.clone(),
            connection,
            queue: Queue::at(&serving.target, serving.reached),
            processor: serving.processors[number % serving.processors.len()].clone(),
            events: Channel::unbounded(clock),
            works: Channel::unbounded(clock),
            fetching: RefCell::default(),
            workers: Cell::default(),
            idle: Cell::default(),
            is_connected: Cell::default(),
            is_closed: Cell::default(),
        });
        clock.spawn("target's completion queue", session.clone().look());
        session
    }

    fn close(&self) {
        if !self.is_closed.replace(true) {
            self.queue.close();
            let closed = |_| (self.connection, ToHost::Closed);
            self.serving.network.send(Parcel::Connection, 0, closed);
        }
    }

    /// A command has come: in what order they do is the order in which they begin.
    fn command(&self, span: SpanId, sqe: Sqe, data: Vec<u8>) {
        let begun = match self.queue.begin(&sqe) {
            Ok(begun) => begun,
            Err(_) => return self.close(),
        };
        let movement = begun.unwrap_or(Movement::None);
        let mut work = Work { span, sqe, movement, data, address: 0, fetched_bytes: 0, refused: begun.err() };
        if work.refused.is_none() {
            work.refused = self.describe(&mut work).err();
        }
        let arrived = self.serving.clock.now();
        let _ = self.events.try_send(Event::Command { arrived, work });
    }

    /// Holds a command's data pointer against what it moves.
    fn describe(&self, work: &mut Work) -> Result<(), Status> {
        let wrong_length = Status::DATA_SGL_LENGTH_INVALID.with_dnr();
        let pointer = match work.movement {
            Movement::None => return Ok(()),
            _ => DataPointer::parse(&work.sqe.sgl()).map_err(|error| error.status().with_dnr())?,
        };
        match (work.movement, pointer) {
            (Movement::ToDrive(bytes), DataPointer::InCapsule { offset: 0, bytes: given }) => {
                if given < bytes || work.data.len() != given as usize || given > self.queue.in_capsule_bytes()
                {
                    return Err(wrong_length);
                }
                work.data.truncate(bytes as usize);
            }
            (
                Movement::ToDrive(bytes) | Movement::ToHost(bytes),
                DataPointer::Keyed { address, bytes: given, .. },
            ) => {
                if given < bytes {
                    return Err(wrong_length);
                }
                work.address = address;
                work.fetched_bytes = if work.movement == Movement::ToDrive(bytes) { bytes } else { 0 };
            }
            (_, DataPointer::InCapsule { .. }) => return Err(Status::SGL_OFFSET_INVALID.with_dnr()),
            _ => return Err(Status::SGL_TYPE_INVALID.with_dnr()),
        }
        Ok(())
    }

    /// Looks into the completion queue: an interrupt, then one event after the other until there is none.
    async fn look(self: Rc<Self>) {
        let Serving { clock, costs, .. } = &*self.serving;
        loop {
            let mut next = Some(self.events.receive().await);
            let interrupt = self.processor.serve_for("adapter's interrupt", costs.interrupt).await;
            let mut waited = Some(interrupt.queued);
            while let Some(event) = next {
                match event {
                    Event::Command { arrived, work } => {
                        // Who comes while others are looked at has waited for these; who comes first, for the processor.
                        let waited = waited.unwrap_or(clock.now().since(arrived));
                        let cost = costs.receive + costs.copying(work.data.len());
                        let service = self.processor.serve_for("receive", cost).await;
                        self.charge(work.span, waited + service.queued, Stage::Target);
                        self.begin(work);
                    }
                    Event::Data { arrived, tag, data } => {
                        let cost = costs.fetch + costs.copying(data.len());
                        self.processor.serve_for("take data", cost).await;
                        if let Some(place) = self.fetching.borrow_mut().remove(&tag) {
                            let _ = place.try_send((arrived, data));
                        }
                    }
                    Event::Sent => {
                        self.processor.serve_for("sent", costs.sent).await;
                    }
                }
                waited = None;
                next = self.events.try_receive();
            }
        }
    }

    /// Charges what has passed, of which at most `queued` was waiting.
    fn charge(&self, span: SpanId, queued: Delay, stage: Stage) {
        let clock = &self.serving.clock;
        clock.spans().charge_split(span, clock.now(), queued, stage);
    }

    /// Gives a command to whoever is free; there are as many as commands under way.
    fn begin(self: &Rc<Self>, work: Work) {
        let _ = self.works.try_send(work);
        if self.idle.get() > 0 {
            self.idle.set(self.idle.get() - 1);
            return;
        }
        let worker = self.workers.get();
        self.workers.set(worker + 1);
        self.serving.clock.spawn("target's command", self.clone().execute_all(worker));
    }

    async fn execute_all(self: Rc<Self>, tag: u16) {
        loop {
            let work = self.works.receive().await;
            self.execute(tag, work).await;
            self.idle.set(self.idle.get() + 1);
        }
    }

    async fn execute(self: &Rc<Self>, tag: u16, mut work: Work) {
        let Serving { clock, network, costs, .. } = &*self.serving;
        let Work { span, sqe, movement, .. } = work;
        let mut credit = None; // until the adapter has the data
        if work.refused.is_none() && work.fetched_bytes > 0 {
            work.refused = self.fetch(tag, &mut work).await.err();
        }
        let cqe = match work.refused {
            Some(status) => Some(Cqe::new(0, status, 0, 0)),
            None => {
                let lane = self.processor_number();
                self.queue
                    .execute_for(Errand { span, lane }, &sqe, movement, &mut work.data, &mut credit)
                    .await
            }
        };
        let Some(cqe) = cqe else { return self.queue.forget(&sqe) };
        if !self.is_connected.get() && self.queue.qid().is_some() {
            self.is_connected.set(true);
            let over = self.clone();
            clock.spawn("end of a connection", async move {
                over.queue.over().await;
                over.close();
            });
        }
        let delivers = matches!(movement, Movement::ToHost(_)) && cqe.status().is_success();
        let copied = if delivers { costs.copying(work.data.len()) } else { Delay::ZERO };
        let service = self.processor.serve_for("respond", costs.respond + copied).await;
        self.charge(span, service.queued, Stage::Target);
        let cqe = self.queue.end(&sqe, cqe);
        if self.is_closed.get() {
            return;
        }
        let mut waited = Delay::ZERO;
        if let (Movement::ToHost(bytes), true) = (movement, delivers) {
            let Work { address, mut data, .. } = work;
            data.truncate(bytes as usize);
            network.send(Parcel::Data, data.len() as u64, |queued| {
                waited = queued;
                (self.connection, ToHost::Deliver { address, data })
            });
        }
        let sent = network.send(Parcel::Response, Cqe::SIZE as u64, |queued| {
            let queued = if delivers { waited } else { queued };
            (self.connection, ToHost::Response { span, queued, cqe })
        });
        clock.sleep_until(sent).await;
        let _ = self.events.try_send(Event::Sent);
    }

    /// Has the host's adapter send a command's data.
    async fn fetch(&self, tag: u16, work: &mut Work) -> Result<(), Status> {
        let Serving { clock, network, costs, .. } = &*self.serving;
        let service = self.processor.serve_for("ask for data", costs.fetch).await;
        self.charge(work.span, service.queued, Stage::Target);
        let place = Channel::unbounded(clock);
        self.fetching.borrow_mut().insert(tag, place.clone());
        let (address, bytes) = (work.address, work.fetched_bytes);
        let fetch = |_| (self.connection, ToHost::Fetch { tag, address, bytes });
        network.send(Parcel::DataRequest, 0, fetch);
        let (arrived, data) = place.receive().await;
        clock.spans().charge(work.span, arrived, Stage::Fabric);
        self.charge(work.span, Delay::ZERO, Stage::Target);
        if data.len() != bytes as usize {
            return Err(Status::DATA_TRANSFER_ERROR);
        }
        work.data = data;
        Ok(())
    }

    fn processor_number(&self) -> usize {
        let processors = &self.serving.processors;
        processors.iter().position(|one| Rc::ptr_eq(one, &self.processor)).unwrap_or(0)
    }
}
