//! A site: cores with a frequency, and a DRAM.

use crate::work::WorkKind;
use byteway_clock::{
    Clock, Delay, Detail, Passage, Pipe, Rate, Resource, Semaphore, Service, Station, Time, Track, Usage,
};
use std::cell::Cell;
use std::rc::Rc;

struct Inner {
    clock: Clock,
    cores: Rc<Station>,
    frequency: Rate,
    dram: Pipe,
    /// Whether the site's work appears in traces.
    traced: bool,
    /// Core time spent for other drives.
    lent: Cell<Delay>,
    /// Limits the pieces of such work that occupy or wait for a core.
    lent_turns: Semaphore,
}

/// Maximum length of a piece of another drive's work, which delays the own work that arrives meanwhile; one
/// unit may take longer.
const LENT_PIECE: Delay = Delay::from_us(1);

/// Time after which a waiting piece is queued like the drive's own work.
const LENT_PATIENCE: Delay = Delay::from_us(20);

/// A place where firmware work runs: a drive's controller, a host, a bridge, a peer. Cheap to clone; clones
/// are the same cores.
#[derive(Clone)]
pub struct Site(Rc<Inner>);

impl Site {
    /// `cores` of `hertz` each (at least one of each), and a DRAM of `dram_rate` bytes a second with the
    /// access time `dram_latency`.
    pub fn new(clock: &Clock, cores: usize, hertz: u64, dram_latency: Delay, dram_rate: Rate) -> Self {
        Self::over(clock, Rc::new(Station::new(clock, cores)), hertz, dram_latency, dram_rate)
    }

    /// A site over shared cores: firmware on the host competes with the host's software.
    pub fn over(clock: &Clock, cores: Rc<Station>, hertz: u64, dram_latency: Delay, dram_rate: Rate) -> Self {
        let lent_turns = Semaphore::new(clock, cores.servers());
        Site(Rc::new(Inner {
            clock: clock.clone(),
            lent_turns,
            cores,
            frequency: Rate::per_second(hertz),
            dram: Pipe::new(clock, dram_rate, dram_latency),
            traced: false,
            lent: Cell::default(),
        }))
    }

    /// Shows the site in traces, for a drive's own cores and DRAM. Call this before sharing it.
    pub fn traced(mut self) -> Self {
        if let Some(inner) = Rc::get_mut(&mut self.0) {
            let cores = Station::new(&inner.clock, inner.cores.servers());
            inner.cores = Rc::new(cores.traced_as(Resource::Core, 0));
            inner.traced = true;
        }
        self
    }

    /// Reserves `cycles` of the earliest free core for `work`. Zero cycles wait for no core.
    pub fn reserve(&self, work: WorkKind, cycles: u64) -> Service {
        if cycles == 0 {
            return Service { queued: Delay::ZERO, end: self.0.clock.now() };
        }
        self.0.cores.reserve_for(work.name(), self.0.frequency.time_for(cycles))
    }

    /// Reserves `time`, whatever the frequency, of the earliest free core for `work`.
    pub fn spend(&self, work: WorkKind, time: Delay) -> Service {
        self.0.cores.reserve_for(work.name(), time)
    }

    /// Executes `count` times `cycles` of another drive's `work`. Returns the time spent waiting for a core.
    ///
    /// The work is split into pieces, each of which takes a core only when one is idle, so the drive's own
    /// work, which [reserves](Site::reserve), precedes every piece that has not begun. A piece that has
    /// waited for 20 us is queued like any work, so that accepted work completes.
    pub async fn work_lent(&self, work: WorkKind, cycles: u64, count: u64) -> Delay {
        let Inner { clock, cores, frequency, .. } = &*self.0;
        let began = clock.now();
        let (mut left, mut worked) = (if cycles == 0 { 0 } else { count }, Delay::ZERO);
        let of_piece = (LENT_PIECE.0 / frequency.time_for(cycles.max(1)).0.max(1)).max(1);
        while left > 0 {
            let piece = left.min(of_piece);
            left -= piece;
            let _turn = self.0.lent_turns.acquire(1).await;
            let until = clock.now() + LENT_PATIENCE;
            while cores.next_free() > clock.now() && clock.now() < until {
                clock.sleep_until(cores.next_free().min(until)).await;
            }
            let now = clock.now();
            let service = self.reserve(work, cycles.saturating_mul(piece));
            self.note_lent(cycles.saturating_mul(piece));
            clock.sleep_until(service.end).await;
            worked += service.end.since(now).saturating_sub(service.queued);
        }
        clock.now().since(began).saturating_sub(worked)
    }

    /// Like [`reserve`](Site::reserve), for two pieces of work in sequence without a gap.
    pub fn reserve_both(&self, first: (WorkKind, u64), second: (WorkKind, u64)) -> Service {
        let cycles = first.1.saturating_add(second.1);
        if cycles == 0 {
            return Service { queued: Delay::ZERO, end: self.0.clock.now() };
        }
        let whole = self.0.frequency.time_for(cycles);
        self.0.cores.reserve_parts(whole, || {
            let before = self.0.frequency.time_for(first.1);
            [(first.0.name(), before), (second.0.name(), whole.saturating_sub(before))]
        })
    }

    /// Does `cycles` of `work` on the earliest free core, and waits for the end.
    pub async fn work(&self, work: WorkKind, cycles: u64) -> Service {
        let service = self.reserve(work, cycles);
        self.0.clock.sleep_until(service.end).await;
        service
    }

    /// Moves `bytes` into or out of the DRAM; `what` names the transfer in traces. The caller waits for
    /// whichever time of the passage it needs.
    pub fn dram(&self, what: &'static str, bytes: u64) -> Passage {
        let passage = self.0.dram.send(bytes);
        if self.0.clock.is_traced() && self.0.traced {
            let begin = self.0.clock.now() + passage.queued;
            let track = Track::new(Resource::Dram, 0);
            let details = [("bytes", Detail::Number(bytes))];
            self.0.clock.note(&Usage { track, what, begin, end: passage.sent, details: &details });
        }
        passage
    }

    /// Total bytes moved into and out of the DRAM.
    pub fn dram_bytes(&self) -> u64 {
        self.0.dram.bytes()
    }

    /// Time of one DRAM access.
    pub fn dram_latency(&self) -> Delay {
        self.0.dram.propagation()
    }

    /// Number of cores.
    pub fn cores(&self) -> usize {
        self.0.cores.servers()
    }

    /// Work done up to now, summed over the cores.
    pub fn busy(&self) -> Delay {
        self.0.cores.busy()
    }

    /// Number of reservations.
    pub fn served(&self) -> u64 {
        self.0.cores.served()
    }

    /// Notes that `cycles` of the work were for another drive.
    pub fn note_lent(&self, cycles: u64) {
        self.0.lent.set(self.0.lent.get() + self.0.frequency.time_for(cycles));
    }

    /// Notes that `time` of the work was for another drive.
    pub fn note_lent_time(&self, time: Delay) {
        self.0.lent.set(self.0.lent.get() + time);
    }

    /// Work done for other drives.
    pub fn lent(&self) -> Delay {
        self.0.lent.get()
    }

    /// Utilisation of the cores from `since` to now, 0 to 1. `busy_then` is [`Site::busy`] at `since`.
    pub fn utilisation(&self, since: Time, busy_then: Delay) -> f64 {
        self.0.cores.utilisation(since, busy_then)
    }

    /// Whether both are the same site.
    pub fn is(&self, other: &Site) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}
