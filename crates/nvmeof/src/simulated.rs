//! The target on a simulated network: the work of its adapter, its processors and its transport driver for
//! each message.
//!
//! Each connection has a completion queue of the adapter, polled by the processor of that connection: the
//! first event raises an interrupt, and the processor continues while there are more. Commands start in order
//! of arrival and execute concurrently.

use crate::discovery::Reached;
use crate::movement::Movement;
use crate::path::CommandContext;
use crate::queue::{Queue, Target};
use byteway_clock::{Channel, Clock, Delay, SpanId, Stage, Station, Time};
use byteway_host::fabric::{Connection, ToHost, ToTarget};
use byteway_link::{MessageKind, NetworkEnd};
use byteway_wire::fabrics::DataPointer;
use byteway_wire::nvme::{Cqe, Sqe, Status};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Processor time of the target's transport driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportCosts {
    /// An interrupt of the adapter, and the switch to the task that polls the completion queue.
    pub interrupt: Delay,
    /// Receiving a command: taking, parsing and mapping it.
    pub receive: Delay,
    /// Requesting data, and processing its arrival.
    pub fetch: Delay,
    /// Posting data and response.
    pub respond: Delay,
    /// Handling the send completion of a response, which frees its resources.
    pub sent: Delay,
    /// Copying each KiB of data by a processor; zero with RDMA.
    pub copy: Delay,
}

impl TransportCosts {
    fn copying(&self, bytes: usize) -> Delay {
        Delay((u128::from(self.copy.0) * bytes as u128 / 1024) as u64)
    }
}

/// The target's end of a network.
pub type TargetEnd = NetworkEnd<(Connection, ToHost), (Connection, ToTarget)>;

/// State that all connections share.
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

/// A target on a simulated network.
pub struct SimulatedTarget(Rc<Serving>);

/// An event in a connection's completion queue.
enum Event {
    Command { arrived: Time, work: PendingCommand },
    Data { arrived: Time, tag: u16, data: Vec<u8> },
    Sent,
}

/// Data of one command, with its time of arrival.
type Arrivals = Channel<(Time, Vec<u8>)>;

/// A command being processed.
struct PendingCommand {
    span: SpanId,
    sqe: Sqe,
    movement: Movement,
    data: Vec<u8>,
    /// The host address of its next data.
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
    works: Channel<PendingCommand>,
    /// Commands that wait for data, by tag.
    fetching: RefCell<BTreeMap<u16, Arrivals>>,
    workers: Cell<u16>,
    idle: Cell<u16>,
    is_connected: Cell<bool>,
    is_closed: Cell<bool>,
}

impl SimulatedTarget {
    /// Serves connections on `network`, assigned round-robin to `processors` (at least one).
    pub fn serve(
        network: TargetEnd,
        target: &Rc<Target>,
        processors: &[Rc<Station>],
        costs: TransportCosts,
    ) -> SimulatedTarget {
        SimulatedTarget::serve_at(Reached::default(), network, target, processors, costs)
    }

    /// Like [`SimulatedTarget::serve`], at one port of the target.
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

    /// Number of received commands.
    pub fn commands(&self) -> u64 {
        self.0.commands.get()
    }

    /// Messages of connections that are not open.
    pub fn strays(&self) -> u64 {
        self.0.strays.get()
    }

    /// The target's end of the network.
    pub fn network(&self) -> &TargetEnd {
        &self.0.network
    }

    /// The target's processors.
    pub fn processors(&self) -> &[Rc<Station>] {
        &self.0.processors
    }
}

/// Dispatches each message to its connection.
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
            // The host does not know yet that the target has closed the connection.
            (_, Some(session)) if session.is_closed.get() => {}
            (ToTarget::Command { span, queued, sqe, data, .. }, Some(session)) => {
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
            self.serving.network.send(MessageKind::Connection, 0, closed);
        }
    }

    /// Starts a received command, in order of arrival.
    fn command(&self, span: SpanId, sqe: Sqe, data: Vec<u8>) {
        let begun = match self.queue.begin(&sqe) {
            Ok(begun) => begun,
            Err(_) => return self.close(),
        };
        let movement = begun.unwrap_or(Movement::None);
        let mut work =
            PendingCommand { span, sqe, movement, data, address: 0, fetched_bytes: 0, refused: begun.err() };
        if work.refused.is_none() {
            work.refused = self.describe(&mut work).err();
        }
        let arrived = self.serving.clock.now();
        let _ = self.events.try_send(Event::Command { arrived, work });
    }

    /// Checks a command's data pointer against the data that it moves.
    fn describe(&self, work: &mut PendingCommand) -> Result<(), Status> {
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

    /// Polls the completion queue: an interrupt, then one event after another until it is empty.
    async fn look(self: Rc<Self>) {
        let Serving { clock, costs, .. } = &*self.serving;
        loop {
            let mut next = Some(self.events.receive().await);
            let interrupt = self.processor.serve_for("adapter's interrupt", costs.interrupt).await;
            let mut waited = Some(interrupt.queued);
            while let Some(event) = next {
                match event {
                    Event::Command { arrived, work } => {
                        // An event that arrives during the loop has waited for earlier events; the first has
                        // waited for the processor.
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

    /// Charges the elapsed time, of which at most `queued` is queueing.
    fn charge(&self, span: SpanId, queued: Delay, stage: Stage) {
        let clock = &self.serving.clock;
        clock.spans().charge_split(span, clock.now(), queued, stage);
    }

    /// Hands a command to an idle worker; there are as many workers as commands in flight.
    fn begin(self: &Rc<Self>, work: PendingCommand) {
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

    async fn execute(self: &Rc<Self>, tag: u16, mut work: PendingCommand) {
        let Serving { clock, network, costs, .. } = &*self.serving;
        let PendingCommand { span, sqe, movement, .. } = work;
        let mut credit = None; // held until the adapter has the data
        if work.refused.is_none() && work.fetched_bytes > 0 {
            work.refused = self.fetch(tag, &mut work).await.err();
        }
        let cqe = match work.refused {
            Some(status) => Some(Cqe::new(0, status, 0, 0)),
            None => {
                let lane = self.processor_number();
                self.queue
                    .execute_for(CommandContext { span, lane }, &sqe, movement, &mut work.data, &mut credit)
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
            let PendingCommand { address, mut data, .. } = work;
            data.truncate(bytes as usize);
            network.send(MessageKind::Data, data.len() as u64, |queued| {
                waited = queued;
                (self.connection, ToHost::Deliver { address, data })
            });
        }
        let sent = network.send(MessageKind::Response, Cqe::SIZE as u64, |queued| {
            let queued = if delivers { waited } else { queued };
            (self.connection, ToHost::Response { span, queued, cqe })
        });
        clock.sleep_until(sent).await;
        let _ = self.events.try_send(Event::Sent);
    }

    /// Makes the host's adapter send a command's data.
    async fn fetch(&self, tag: u16, work: &mut PendingCommand) -> Result<(), Status> {
        let Serving { clock, network, costs, .. } = &*self.serving;
        let service = self.processor.serve_for("ask for data", costs.fetch).await;
        self.charge(work.span, service.queued, Stage::Target);
        let place = Channel::unbounded(clock);
        self.fetching.borrow_mut().insert(tag, place.clone());
        let (address, bytes) = (work.address, work.fetched_bytes);
        let fetch = |_| (self.connection, ToHost::Fetch { tag, address, bytes });
        network.send(MessageKind::DataRequest, 0, fetch);
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
