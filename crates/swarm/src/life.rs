//! The host from power-on to power-off: driver, workers, and faults.

use super::drive::TRANSFER_BYTES_MAX;
use super::failure::{Failure, Kind};
use super::jbof::{Begun, InJbof};
use super::pairs;
use super::plan::{Extent, Fault, FlashVerb, HoldsKind, Op};
use super::programs;
use super::seat::Run;
use super::space::Holds;
use super::tables;
use super::tables_oracle::TablesOracle;
use super::unplug::Bays;
use byteway_array::SlotState;
use byteway_clock::{Clock, Delay, Notify, Semaphore};
use byteway_host::Outcome;
use byteway_host::{
    AnyIoError, Client, ClientConfig, ClientErrorKind, Completion, Driver, DriverConfig, DriverError,
    IoBuffer, IoError, KvClient, KvConfig, Lost, Port, QueueConfig, QueuePair, Rules, TablesClient,
    TablesConfig,
};
use byteway_link::{Direction, HostEnd};
use byteway_transfer::Method;
use byteway_wire::nvme::{Abort, Range, Status};
use byteway_world::PoweredDrive;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Longest payload of an operation in bytes: more than two large flash pages.
pub(super) const OP_BYTES_MAX: u32 = 64 << 10;

/// Upper limit of the scheduling turns of a pause without modeled time.
const TURNS_MAX: u64 = 1000;

/// Upper limit of polls of an array's repair or rebuild, one each millisecond.
const LOOKS_MAX: u32 = 10_000;

/// Events for which the rig waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifeEvent {
    /// The watched operation was submitted.
    Begun,
    /// The drive was shut down.
    Cycled,
    /// All work is done, or something failed.
    Ended,
}

/// A life.
pub(super) struct Life {
    pub(super) clock: Clock,
    pub(super) run: Rc<Run>,
    whole: RefCell<Rc<PoweredDrive>>,
    /// The JBOF of the drive, if any.
    pub(super) in_jbof: Option<InJbof>,
    /// The slots of an array's members.
    pub(super) bays: Bays,
    moment: Cell<Option<LifeEvent>>,
    changed: Notify,
    /// The operation whose start the rig waits for.
    watched: Cell<Option<usize>>,
    has_attached: Cell<bool>,
    /// Number of running workers.
    working: Cell<u32>,
    /// Number of outstanding operations that may overlap, and whether an exclusive one is outstanding.
    together: Cell<u32>,
    alone: Cell<bool>,
    /// No further operation may start.
    stopping: Cell<bool>,
    driver: RefCell<Option<Driver>>,
    /// Serializes operations on tables.
    pub(super) tables_turn: Semaphore,
    /// Serializes operations on local memory and programs. Lock order: `tables_turn` first.
    pub(super) programs_turn: Semaphore,
    host: RefCell<Option<HostEnd>>,
}

/// A worker's client for a namespace.
pub(super) struct WorkerClient {
    pub(super) nsid: u32,
    side: Side,
    pub(super) buffer: IoBuffer,
    /// Data for the Write of a Compare and Write.
    written: IoBuffer,
}

/// The client, by kind of namespace.
enum Side {
    Blocks(Client),
    Pairs(KvClient),
    Tables(TablesClient, Rc<TablesOracle>),
}

impl WorkerClient {
    /// The client of a block namespace.
    pub(super) fn blocks(&self) -> Option<&Client> {
        match &self.side {
            Side::Blocks(client) => Some(client),
            Side::Pairs(_) | Side::Tables(..) => None,
        }
    }

    fn holds(&self) -> HoldsKind {
        match self.side {
            Side::Blocks(_) => HoldsKind::Blocks,
            Side::Pairs(_) => HoldsKind::Pairs,
            Side::Tables(..) => HoldsKind::Tables,
        }
    }

    async fn flush(&self) -> Result<(), AnyIoError> {
        match &self.side {
            Side::Blocks(client) => client.flush().await.map(drop)?,
            Side::Pairs(client) => client.flush().await.map(drop)?,
            Side::Tables(..) => {} // tables are always durable
        }
        Ok(())
    }
}

impl Life {
    /// Starts a life by spawning its tasks.
    pub(super) fn begin(
        clock: &Clock,
        run: Rc<Run>,
        (whole, bays): (Rc<PoweredDrive>, Bays),
        in_jbof: Option<InJbof>,
        watched: Option<usize>,
        looks: bool,
    ) -> Rc<Life> {
        let host = whole.host.clone();
        let life = Rc::new(Life {
            clock: clock.clone(),
            run,
            whole: RefCell::new(whole),
            in_jbof,
            bays,
            moment: Cell::default(),
            changed: Notify::new(clock),
            watched: Cell::new(watched),
            has_attached: Cell::default(),
            working: Cell::default(),
            together: Cell::default(),
            alone: Cell::default(),
            stopping: Cell::default(),
            driver: RefCell::default(),
            tables_turn: Semaphore::new(clock, 1),
            programs_turn: Semaphore::new(clock, 1),
            host: RefCell::default(),
        });
        let own = life.clone();
        clock.spawn("rig", async move {
            match own.go(&host, looks).await {
                Ok(()) => own.reach(LifeEvent::Ended),
                Err(failure) => own.fail(failure),
            }
        });
        life
    }

    /// The drive; in a JBOF, that of the last session.
    pub(super) fn whole(&self) -> Rc<PoweredDrive> {
        self.whole.borrow().clone()
    }

    /// Whether outstanding commands will never complete: the drive in a JBOF has lost power, or its host has restarted.
    fn is_disconnected(&self) -> bool {
        self.in_jbof.as_ref().is_some_and(InJbof::is_over)
    }

    /// Waits for the rig's next event.
    pub(super) async fn next_moment(self: Rc<Self>) -> LifeEvent {
        loop {
            if let Some(moment) = self.moment.take() {
                return moment;
            }
            self.changed.notified().await;
        }
    }

    /// Whether the driver has attached, which implies the end of recovery.
    pub(super) fn has_attached(&self) -> bool {
        self.has_attached.get()
    }

    fn reach(&self, moment: LifeEvent) {
        self.moment.set(Some(moment));
        self.changed.notify_all();
    }

    fn fail(&self, failure: Failure) {
        self.stopping.set(true);
        self.run.fail(failure);
        self.reach(LifeEvent::Ended);
    }

    /// Runs a life; in a JBOF, one session after another.
    async fn go(self: &Rc<Self>, host: &HostEnd, mut looks: bool) -> Result<(), Failure> {
        let Some(in_jbof) = &self.in_jbof else {
            let (driver, queues) = self.attach(host).await?;
            return self.session(&driver, &queues, host, looks).await;
        };
        loop {
            let Begun { driver, whole, was_off } = in_jbof.begin(&self.clock).await;
            if was_off {
                self.run.count(|tally| tally.drives_left += 1);
                self.run.spaces.borrow().iter().for_each(|space| space.holds.cut_power());
            }
            self.driver.take(); // the previous session's driver
            let host = whole.host.clone();
            self.whole.replace(whole);
            let ended = async {
                let queues = in_jbof.queues(self.run.plan.host.queues.max(1)).await?;
                self.has_attached.set(true);
                self.driver.replace(Some(driver.clone()));
                self.session(&driver, &queues, &host, looks).await
            };
            let ended = ended.await;
            while self.working.get() > 0 {
                self.changed.notified().await;
            }
            let is_wrong = |failure: &Failure| !matches!(failure.kind, Kind::Error);
            match ended {
                Err(failure) if is_wrong(&failure) || !in_jbof.is_over() => return Err(failure),
                Ok(()) if !in_jbof.is_over() => return Ok(()),
                _ => self.run.count(|tally| tally.sessions_cut += 1),
            }
            looks = true;
        }
    }

    /// Attaches a driver and creates its queue pairs.
    async fn attach(&self, host: &HostEnd) -> Result<(Driver, Vec<QueuePair>), Failure> {
        let spec = &self.run.plan.host;
        let completion = if spec.interrupts { Completion::Interrupt } else { Completion::Polled };
        let loses = |fault: &Fault| matches!(fault, Fault::Interrupt { .. });
        // Only workers that wait for a lost interrupt need a timeout; any other hang must be found. Formatting takes longer in an array
        // with a missing member.
        let patience = Delay::from_ms(if self.run.plan.drive.array.is_some() { 1000 } else { 50 });
        let timeout = self.run.plan.faults.iter().any(loses).then_some(patience);
        let config = DriverConfig {
            completion,
            queues_wanted: spec.queues,
            timeout,
            timeout_period: Delay::from_ms(10),
            ..DriverConfig::default()
        };
        let driver = Driver::attach(Port::Link(host.clone()), config).await.map_err(broken)?;
        self.has_attached.set(true);
        self.driver.replace(Some(driver.clone()));
        let mut queues = Vec::new();
        for index in 0..spec.queues.max(1) {
            let vector = spec.interrupts.then_some(1 + index);
            let config = QueueConfig { vector, ..QueueConfig::new(spec.entries) };
            queues.push(driver.create_queue_pair(config).await.map_err(broken)?);
        }
        Ok((driver, queues))
    }

    /// A session with one driver.
    async fn session(
        self: &Rc<Self>,
        driver: &Driver,
        queues: &[QueuePair],
        host: &HostEnd,
        looks: bool,
    ) -> Result<(), Failure> {
        let spec = &self.run.plan.host;
        if self.in_jbof.is_some() {
            self.format_again(driver).await?;
        }
        self.check_outcomes(driver).await?;
        if looks {
            self.look(driver, &queues[0]).await?;
        }
        if self.run.next.get() >= self.run.plan.ops.len() {
            return self.check(driver).await;
        }
        self.host.replace(Some(host.clone()));
        self.inject_faults(None);
        self.working.set(spec.depth.max(1));
        for worker in 0..spec.depth.max(1) {
            let queue = queues[worker as usize % queues.len()].clone();
            let (life, driver) = (self.clone(), driver.clone());
            self.clock.spawn("worker", async move {
                if let Err(failure) = life.work(&driver, &queue).await {
                    life.fail(failure);
                }
                life.working.set(life.working.get() - 1);
                life.changed.notify_all();
            });
        }
        while self.working.get() > 0 {
            self.changed.notified().await;
        }
        if self.is_disconnected() {
            return Ok(());
        }
        let finished = self.finish(driver, &queues[0]).await;
        if self.stopping.get() {
            std::future::pending::<()>().await; // another task ends this life
        }
        finished
    }

    /// Flushes after all operations, which makes the state durable and known.
    async fn finish(&self, driver: &Driver, queue: &QueuePair) -> Result<(), Failure> {
        if self.stopping.get() {
            return Ok(());
        }
        self.look(driver, queue).await?;
        for mut way in self.ways(driver, queue, 4096)? {
            // Only in some runs, so that the last check after a cut has content to verify in the others.
            if let (Side::Pairs(client), 0) = (&way.side, self.run.plan.seed % 3) {
                self.empty_pairs(client, &mut way.buffer).await?;
            }
            if let (Side::Tables(client, oracle), 0) = (&way.side, self.run.plan.seed % 3) {
                self.empty_tables(oracle, client, &mut way.buffer).await?;
            }
            loop {
                match way.flush().await {
                    // A reset or abort that started before the end.
                    Err(IoError::Lost(Lost::Reset)) => continue,
                    Err(IoError::Status(status)) if status.is(Status::ABORT_REQUESTED) => continue,
                    Err(IoError::Status(status))
                        if status.is(Status::NAMESPACE_WRITE_PROTECTED) && self.is_read_only()
                            || status.is(Status::UNRECOVERED_ERROR) && self.run.reads_fail.get() =>
                    {
                        break;
                    }
                    Err(error) => return Err(Failure::new(Kind::Error, format!("the last flush: {error}"))),
                    Ok(_) => break,
                }
            }
        }
        self.check(driver).await
    }

    /// A client for each namespace on one queue.
    fn ways(&self, driver: &Driver, queue: &QueuePair, bytes_max: u32) -> Result<Vec<WorkerClient>, Failure> {
        let namespaces = driver.namespaces();
        let spaces = self.run.spaces.borrow();
        let mut ways = Vec::new();
        fn wrong(error: impl std::fmt::Display) -> Failure {
            Failure::new(Kind::Error, error.to_string())
        }
        for space in spaces.iter() {
            let oracle = match &space.holds {
                Holds::Blocks(oracle) => oracle,
                Holds::Tables(oracle) => {
                    let config = TablesConfig::new(Rules::only(Method::Prp), OP_BYTES_MAX);
                    let client = TablesClient::new(queue.clone(), space.nsid, &config);
                    let [buffer, written] =
                        [client.buffer().map_err(wrong)?, client.buffer().map_err(wrong)?];
                    let side = Side::Tables(client, oracle.clone());
                    ways.push(WorkerClient { nsid: space.nsid, side, buffer, written });
                    continue;
                }
                Holds::Pairs(oracle) => {
                    if !driver.kv_namespaces().iter().any(|namespace| namespace.nsid == space.nsid) {
                        return Err(Failure::new(Kind::Data, format!("namespace {} is gone", space.nsid)));
                    }
                    let config = KvConfig {
                        oracle: Some(oracle.clone()),
                        ..KvConfig::new(Rules::only(Method::Prp), OP_BYTES_MAX)
                    };
                    let client = KvClient::new(queue.clone(), space.nsid, config);
                    let [buffer, written] =
                        [client.buffer().map_err(wrong)?, client.buffer().map_err(wrong)?];
                    ways.push(WorkerClient { nsid: space.nsid, side: Side::Pairs(client), buffer, written });
                    continue;
                }
            };
            let found = namespaces.iter().find(|namespace| namespace.nsid == space.nsid);
            let Some(namespace) = found else {
                return Err(Failure::new(Kind::Data, format!("namespace {} is gone", space.nsid)));
            };
            let (blocks, block) = {
                let oracle = oracle.borrow();
                (oracle.blocks(), oracle.block())
            };
            if namespace.blocks != blocks || namespace.block_bytes as usize != block.bytes() {
                let text = format!(
                    "namespace {} has {} blocks of {} B instead of {blocks} of {} B",
                    space.nsid,
                    namespace.blocks,
                    namespace.block_bytes,
                    block.bytes()
                );
                return Err(Failure::new(Kind::Data, text));
            }
            let config = ClientConfig {
                rules: Rules::only(Method::Prp),
                bytes_max,
                oracle: Some(oracle.clone()),
                verify_bytes: true,
            };
            let client = Client::new(queue.clone(), *namespace, config).map_err(wrong)?;
            let [buffer, written] = [client.buffer().map_err(wrong)?, client.buffer().map_err(wrong)?];
            ways.push(WorkerClient { nsid: space.nsid, side: Side::Blocks(client), buffer, written });
        }
        Ok(ways)
    }

    /// Reads and verifies all of the drive's local memory.
    async fn look_at_memory(&self, driver: &Driver, queue: &QueuePair) -> Result<(), Failure> {
        let Some(oracle) = &self.run.programs else { return Ok(()) };
        let client = programs::client(driver, queue, oracle);
        for op in programs::reads(oracle) {
            if let Err(error) = programs::perform(&self.programs_turn, oracle, &client, &op, &|| true).await {
                self.judge(None, &op, error)?;
            }
        }
        Ok(())
    }

    /// Reads and verifies every block and every key-value pair.
    async fn look(&self, driver: &Driver, queue: &QueuePair) -> Result<(), Failure> {
        self.look_at_memory(driver, queue).await?;
        for WorkerClient { side, mut buffer, .. } in self.ways(driver, queue, TRANSFER_BYTES_MAX)? {
            let client = match side {
                Side::Blocks(client) => client,
                Side::Pairs(client) => {
                    self.look_at_pairs(&client, &mut buffer).await?;
                    continue;
                }
                Side::Tables(client, oracle) => {
                    self.look_at_tables(&oracle, &client, &mut buffer).await?;
                    continue;
                }
            };
            let namespace = *client.namespace();
            let step = u64::from(TRANSFER_BYTES_MAX / namespace.block_bytes);
            let mut lba = 0;
            while lba < namespace.blocks {
                if self.is_disconnected() {
                    return Ok(()); // the next session verifies
                }
                let blocks = step.min(namespace.blocks - lba) as u32;
                let read = client.read(&mut buffer, lba, blocks).await;
                if let Err(error) = read {
                    let op = Op::Read { namespace: namespace.nsid, extent: Extent { lba, blocks } };
                    self.judge(None, &op, error)?;
                    self.read_one_by_one(&client, &mut buffer, lba, blocks).await?;
                }
                lba += u64::from(blocks);
            }
        }
        Ok(())
    }

    /// A read of many blocks has failed: reads them one by one.
    async fn read_one_by_one(
        &self,
        client: &Client,
        buffer: &mut IoBuffer,
        lba: u64,
        blocks: u32,
    ) -> Result<(), Failure> {
        for lba in lba..lba + u64::from(blocks) {
            if self.is_disconnected() {
                return Ok(());
            }
            if let Err(error) = client.read(buffer, lba, 1).await {
                let namespace = client.namespace().nsid;
                let op = Op::Read { namespace, extent: Extent { lba, blocks: 1 } };
                self.judge(None, &op, error)?;
            }
        }
        Ok(())
    }

    /// Invariants after the end of all operations.
    async fn check(&self, driver: &Driver) -> Result<(), Failure> {
        self.clock.timer(Delay::from_ms(20)).await;
        if driver.protocol_errors() > 0 {
            let text = format!("{} completions contradict what was submitted", driver.protocol_errors());
            return Err(Failure::new(Kind::Error, text));
        }
        if self.in_jbof.is_some() {
            return Ok(()); // its peers may still use it
        }
        self.wait_for_rest().await?;
        let whole = self.whole();
        let controller = &whole.drive.controller;
        if !controller.is_quiet() {
            return Err(Failure::new(Kind::Leak, "an idle controller holds resources"));
        }
        let Some(ftl) = controller.backing().ftl() else { return Ok(()) };
        let (free, buffered, slots) = (ftl.slots_free(), ftl.units_buffered(), ftl.slots());
        if free + buffered != slots || ftl.units_locked() > 0 {
            let text = format!(
                "{slots} slots of the write buffer: {free} are free, {buffered} in use; {} units are locked",
                ftl.units_locked()
            );
            return Err(Failure::new(Kind::Leak, text));
        }
        Ok(())
    }

    /// Waits until an array has repaired the effects of a power cut and rebuilt its members, and until a bridge has drained its memory.
    async fn wait_for_rest(&self) -> Result<(), Failure> {
        let whole = self.whole();
        let backing = whole.drive.controller.backing();
        let Some(array) = backing.array() else { return Ok(()) };
        let is_rebuilt = |(state, _): &(SlotState, _)| !matches!(state, SlotState::Rebuilding { .. });
        for _ in 0..LOOKS_MAX {
            let state = array.state();
            if state.is_broken {
                return Err(Failure::new(Kind::Error, "the array has lost more members than were unplugged"));
            }
            if state.regions_unsynced == 0 && state.slots.iter().all(is_rebuilt) && backing.locked() == 0 {
                return Ok(());
            }
            self.clock.timer(Delay::from_ms(1)).await;
        }
        Err(Failure::new(Kind::Hang, format!("the array does not come to rest: `{:?}`", array.state())))
    }

    /// Takes operations until none are left.
    async fn work(self: &Rc<Self>, driver: &Driver, queue: &QueuePair) -> Result<(), Failure> {
        let run = self.run.clone();
        let mut version = run.spaces_version.get();
        let mut ways = self.ways(driver, queue, OP_BYTES_MAX)?;
        let programs = run.programs.as_ref().map(|oracle| (oracle, programs::client(driver, queue, oracle)));
        while !self.stopping.get() && !self.is_disconnected() {
            let index = run.next.get();
            let Some(op) = run.plan.ops.get(index) else { return Ok(()) };
            run.next.set(index + 1);
            run.count(|tally| tally.ops += 1);
            self.inject_faults(Some(index));
            if self.watched.get() == Some(index) {
                self.watched.set(None);
                self.reach(LifeEvent::Begun);
            }
            self.enter(op.is_alone()).await;
            if self.is_disconnected() {
                self.leave(op.is_alone());
                return Ok(());
            }
            if self.stopping.get() {
                return Ok(());
            }
            if version != run.spaces_version.get() {
                version = run.spaces_version.get();
                ways = self.ways(driver, queue, OP_BYTES_MAX)?;
            }
            let ended = if op.is_alone() {
                match self.perform_alone(driver, op, way_of(op, &mut ways)).await {
                    Err(failure) if !self.is_disconnected() => return Err(failure),
                    Err(_) => Ok(()),
                    Ok(ended) => ended,
                }
            } else if matches!(op, Op::Memory { .. } | Op::Program { .. }) {
                match &programs {
                    Some((oracle, client)) => {
                        let may_store = || !self.is_read_only();
                        programs::perform(&self.programs_turn, oracle, client, op, &may_store).await
                    }
                    None => Ok(()),
                }
            } else {
                self.perform(op, &mut ways).await
            };
            if let Err(error) = ended
                && !self.may_lack_space(op, &error, &mut ways)
            {
                self.judge(Some(index), op, error)?;
            }
            self.leave(op.is_alone());
        }
        Ok(())
    }

    /// Waits until an operation may start.
    async fn enter(&self, alone: bool) {
        while self.alone.get() {
            self.changed.notified().await;
        }
        if !alone {
            return self.together.set(self.together.get() + 1);
        }
        self.alone.set(true);
        while self.together.get() > 0 {
            self.changed.notified().await;
        }
    }

    fn leave(&self, alone: bool) {
        match alone {
            true => self.alone.set(false),
            false => self.together.set(self.together.get() - 1),
        }
        self.changed.notify_all();
    }

    async fn perform(&self, op: &Op, ways: &mut [WorkerClient]) -> Result<(), AnyIoError> {
        if let Op::Pause(micros) = op {
            self.later(*micros).await;
            return Ok(());
        }
        let Some(WorkerClient { side, buffer, written, .. }) = way_of(op, ways) else { return Ok(()) };
        let client = match side {
            Side::Blocks(client) => &*client,
            Side::Pairs(client) => return Ok(pairs::perform(client, buffer, op).await?),
            Side::Tables(client, oracle) => {
                let programs = self.run.programs.as_ref().map(|programs| (&self.programs_turn, programs));
                return tables::perform((&self.tables_turn, &**oracle), programs, client, buffer, op).await;
            }
        };
        let fit = |extent: &Extent| fit(client, extent);
        match op {
            Op::Write { extent, fua, .. } => {
                let Extent { lba, blocks } = fit(extent);
                match fua {
                    true => client.write_fua(buffer, lba, blocks).await,
                    false => client.write(buffer, lba, blocks).await,
                }
            }
            Op::Read { extent, .. } => {
                let Extent { lba, blocks } = fit(extent);
                client.read(buffer, lba, blocks).await
            }
            Op::Compare { extent, .. } => {
                let Extent { lba, blocks } = fit(extent);
                client.compare(buffer, lba, blocks).await
            }
            Op::Exchange { extent, wrong, .. } => {
                let Extent { lba, blocks } = fit(extent);
                let blocks = blocks.min(self.run.plan.drive.stripe_units());
                if *wrong {
                    return Ok(client.compare_and_write_wrong(buffer, written, lba, blocks).await?);
                }
                client.compare_and_write(buffer, written, lba, blocks).await
            }
            Op::Zeroes { extent, deallocate, .. } => {
                let Extent { lba, blocks } = fit(extent);
                client.write_zeroes(lba, blocks, *deallocate).await
            }
            Op::Trim { extents, .. } => {
                let range =
                    |extent: Extent| Range { slba: extent.lba, length: extent.blocks, ..Range::default() };
                let ranges: Vec<Range> = extents.iter().map(|extent| range(fit(extent))).collect();
                client.trim(buffer, &ranges).await
            }
            Op::Flush { .. } => client.flush().await,
            Op::Verify { extent, .. } => {
                let Extent { lba, blocks } = fit(extent);
                client.verify_media(lba, blocks).await
            }
            Op::Mar { extent, .. } => {
                let Extent { lba, blocks } = fit(extent);
                client.write_uncorrectable(lba, blocks).await
            }
            Op::Copy { .. }
            | Op::Format { .. }
            | Op::Create { .. }
            | Op::Delete { .. }
            | Op::Store { .. }
            | Op::Retrieve { .. }
            | Op::Remove { .. }
            | Op::Exist { .. }
            | Op::List { .. }
            | Op::Scan { .. }
            | Op::Table { .. }
            | Op::Memory { .. }
            | Op::Program { .. }
            | Op::Sanitize
            | Op::Pause(_) => return Ok(()),
        }?;
        Ok(())
    }

    /// Whether a store failed for lack of free space that may really be exhausted. A deletion also needs space for its record while an
    /// iterator holds the released one.
    fn may_lack_space(&self, op: &Op, error: &AnyIoError, ways: &mut [WorkerClient]) -> bool {
        let IoError::Status(status) = error else { return false };
        let is_full = status.is(Status::CAPACITY_EXCEEDED)
            && match (op, way_of(op, ways).map(|way| &way.side)) {
                (Op::Store { bytes, .. }, Some(Side::Pairs(client))) => self.may_be_full(client, *bytes),
                (Op::Remove { .. }, _) => self.has_scans() || self.run.reads_fail.get(),
                (Op::Table { .. }, _) => true, // the final check verifies that space is reclaimed
                _ => false,
            };
        if is_full {
            self.run.count(|tally| tally.pairs_refused += 1);
        }
        is_full
    }

    /// Whether the plan's faults explain an error.
    pub(super) fn judge(
        &self,
        index: Option<usize>,
        op: &Op,
        error: impl Into<AnyIoError>,
    ) -> Result<(), Failure> {
        let error = error.into();
        let has = |is: fn(&Fault) -> bool| self.run.plan.faults.iter().any(is);
        // A command without a reply from an unpowered drive is eventually aborted, and the drive reset.
        let is_in_jbof = self.in_jbof.is_some();
        // A command that waits for a lost interrupt times out, and its Abort may too.
        let loses = has(|fault| matches!(fault, Fault::Interrupt { .. }));
        let resets = loses || has(|fault| matches!(fault, Fault::Reset { .. }));
        let cycles = has(|fault| matches!(fault, Fault::Cycle { .. }));
        let aborts = loses || has(|fault| matches!(fault, Fault::Abort { .. }));
        let reads_fail = self.run.reads_fail.get();
        let may_be_marred = self.run.plan.ops.iter().any(|op| matches!(op, Op::Mar { .. }));
        let explained = match &error {
            IoError::Client(error) if error.kind == ClientErrorKind::Uncertain => return Ok(()),
            IoError::Lost(_) if self.is_disconnected() => true,
            IoError::Lost(Lost::Reset) => resets || is_in_jbof,
            IoError::Lost(Lost::ShutDown) => cycles,
            IoError::Status(status) if status.is(Status::ABORT_REQUESTED) => aborts || is_in_jbof,
            IoError::Status(status) if status.is(Status::NAMESPACE_WRITE_PROTECTED) => {
                self.is_read_only() && op.may_write()
            }
            // A store that cannot read its index fails all operations.
            IoError::Status(status) if status.is(Status::UNRECOVERED_ERROR) => reads_fail,
            // The iterator, cursor or upload belonged to a failed command, or ended with a reset, which a command that takes too long in a
            // JBOF may also cause.
            IoError::Status(status) if status.is(Status::INVALID_FIELD) => {
                matches!(op, Op::Scan { .. } | Op::Table { .. })
                    && (resets || aborts || reads_fail || is_in_jbof)
            }
            // A write of part of a unit whose remainder cannot be read.
            IoError::Status(status) if status.is(Status::WRITE_FAULT) => reads_fail,
            // The oracle has accepted the failed read.
            IoError::Status(status) if status.is(Status::UNRECOVERED_READ_ERROR) => {
                reads_fail || may_be_marred || matches!(op, Op::Read { .. } | Op::Verify { .. })
            }
            _ => false,
        };
        if explained {
            self.run.count(|tally| tally.ops_failed += 1);
            return Ok(());
        }
        let is_wrong = match &error {
            IoError::Client(error) => error.kind == ClientErrorKind::WrongData,
            error => matches!(error, IoError::BrokenResult),
        };
        let kind = if is_wrong { Kind::Data } else { Kind::Error };
        let text = match index {
            Some(index) => format!("operation {index}, `{op}`: {error}"),
            None => format!("verifying the drive, `{op}`: {error}"),
        };
        Err(Failure::new(kind, text))
    }

    /// Whether programs or erases of flash fail.
    pub(super) fn writes_fail(&self) -> bool {
        let fails =
            |fault: &Fault| matches!(fault, Fault::Flash { verb: FlashVerb::Program | FlashVerb::Erase, .. });
        self.run.plan.faults.iter().any(fails)
    }

    /// Whether the drive is at its end of life, as the plan's faults explain.
    pub(super) fn is_read_only(&self) -> bool {
        self.writes_fail() && self.whole().layers().iter().any(|layer| layer.health().is_read_only)
    }

    /// Injects the faults anchored at the start of an operation, or of the work.
    fn inject_faults(self: &Rc<Self>, op: Option<usize>) {
        let faults = self.run.plan.faults.iter().enumerate();
        for (index, fault) in faults {
            let Some(at) = fault.anchor().filter(|at| at.op == op) else { continue };
            if matches!(fault, Fault::Cut { .. })
                || std::mem::replace(&mut self.run.struck.borrow_mut()[index], true)
            {
                continue;
            }
            let (life, fault) = (self.clone(), fault.clone());
            self.clock.spawn("fault", async move {
                life.later(at.later).await;
                if let Err(failure) = life.disturb(fault).await {
                    life.fail(failure);
                }
            });
        }
    }

    /// Waits for `micros`. Without modeled time, all ready tasks would finish before time advances; there each microsecond is one turn of
    /// all tasks instead.
    async fn later(&self, micros: u64) {
        if !self.clock.is_immediate() {
            return self.clock.sleep(Delay::from_us(micros)).await;
        }
        for _ in 0..micros.min(TURNS_MAX) {
            self.clock.yield_now().await;
        }
    }

    async fn disturb(&self, fault: Fault) -> Result<(), Failure> {
        if let Some(in_jbof) = &self.in_jbof
            && in_jbof.disturb(&self.clock, &fault).await?
        {
            self.run.count(|tally| tally.jbof_faults += 1);
            return Ok(());
        }
        let driver = self.driver.borrow().clone();
        let Some(driver) = driver.filter(|_| !self.stopping.get()) else { return Ok(()) };
        match fault {
            Fault::Reset { .. } => {
                self.run.count(|tally| tally.resets += 1);
                let session = || self.in_jbof.as_ref().map(InJbof::session);
                let began_in = session();
                match driver.reset().await {
                    Err(DriverError::Gone(Lost::ShutDown)) => Ok(()),
                    // The driver has been dropped; there may be another one already.
                    Err(_) if self.is_disconnected() || session() != began_in => Ok(()),
                    result => result.map_err(broken),
                }
            }
            Fault::Abort { queue, command, .. } => {
                self.run.count(|tally| tally.aborts += 1);
                let sqe = Abort { sqid: queue, cid: command }.sqe(0);
                // The result is irrelevant: the command may have completed long ago.
                let _ = driver.admin(sqe, byteway_host::Data::None).await;
                Ok(())
            }
            Fault::Cycle { .. } => {
                self.stopping.set(true);
                let begun: Vec<_> =
                    self.run.spaces.borrow().iter().map(|space| space.holds.begin_flush()).collect();
                driver.shutdown().await.map_err(broken)?;
                // At its end of life the drive may lack space, which a shutdown does not report.
                let outcome = if self.is_read_only() { Outcome::Uncertain } else { Outcome::Done };
                // Nor does it report that a KV store could not read its index.
                let of_pairs = if self.run.reads_fail.get() { Outcome::Uncertain } else { outcome };
                begun.into_iter().for_each(|begun| begun.end(outcome, of_pairs));
                self.reach(LifeEvent::Cycled);
                Ok(())
            }
            Fault::Interrupt { .. } => {
                self.run.count(|tally| tally.interrupts_lost += 1);
                self.host.borrow().iter().for_each(HostEnd::lose_interrupt);
                Ok(())
            }
            Fault::Replay { bytes, .. } => {
                self.run.count(|tally| tally.replays += 1);
                for host in self.host.borrow().iter() {
                    host.replay(Direction::Down, bytes);
                    host.replay(Direction::Up, bytes);
                }
                Ok(())
            }
            Fault::Unplug { .. } => {
                self.bays.inject_faults(&self.run, &self.whole(), &fault);
                Ok(())
            }
            Fault::Cut { .. }
            | Fault::Flash { .. }
            | Fault::Leave { .. }
            | Fault::Link { .. }
            | Fault::Host { .. } => Ok(()),
        }
    }
}

/// The client of the operation's namespace, among those of the matching kind.
fn way_of<'a>(op: &Op, ways: &'a mut [WorkerClient]) -> Option<&'a mut WorkerClient> {
    let fits = |way: &WorkerClient| op.is_about().is_none_or(|kind| kind == way.holds());
    let namespace = op.namespace()?.max(1) as usize - 1;
    let count = ways.iter().filter(|way| fits(way)).count();
    let index = namespace.checked_rem(count)?;
    ways.iter_mut().filter(|way| fits(way)).nth(index)
}

/// Limits an extent to the namespace and to the longest command.
pub(super) fn fit(client: &Client, extent: &Extent) -> Extent {
    let namespace = client.namespace();
    let lba = extent.lba % namespace.blocks;
    let most = u64::from(OP_BYTES_MAX / namespace.block_bytes).min(namespace.blocks - lba);
    Extent { lba, blocks: extent.blocks.min(most as u32) }
}

/// A failure of the driver.
pub(super) fn broken(error: DriverError) -> Failure {
    Failure::new(Kind::Error, format!("the driver: {error}"))
}
