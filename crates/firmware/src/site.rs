//! A site: cores that run at a frequency, and a DRAM.

use crate::work::Work;
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
    /// A trace shows what is done here.
    traced: bool,
    /// Work that was done for other drives.
    lent: Cell<Delay>,
    /// Pieces of such work that are at a core, or are next.
    lent_turns: Semaphore,
}

/// A piece of another drive's work that goes on when this one's own comes: no longer, unless one unit takes longer.
const LENT_PIECE: Delay = Delay::from_us(1);

/// After so long a piece is queued like the drive's own work.
const LENT_PATIENCE: Delay = Delay::from_us(20);

/// Where firmware work runs: a drive's controller, a host, a bridge, a peer. Cheap to clone; clones are the same
/// cores.
#[derive(Clone)]
pub struct Site(Rc<Inner>);

impl Site {
    /// `cores` of `hertz` each (at least one of each), and a DRAM of `dram_rate` bytes a second whose accesses take
    /// `dram_latency`.
    pub fn new(clock: &Clock, cores: usize, hertz: u64, dram_latency: Delay, dram_rate: Rate) -> Self {
        Self::over(clock, Rc::new(Station::new(clock, cores)), hertz, dram_latency, dram_rate)
    }

    /// The same over cores that others use, too: firmware on the host competes with the host's software for them.
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

    /// The drive's own, which a trace shows: its cores, which nobody else has, and its DRAM. To be called before it is shared.
    pub fn traced(mut self) -> Self {
        if let Some(inner) = Rc::get_mut(&mut self.0) {
            let cores = Station::new(&inner.clock, inner.cores.servers());
            inner.cores = Rc::new(cores.traced_as(Resource::Core, 0));
            inner.traced = true;
        }
        self
    }

    /// Takes `cycles` for `work` of the core that is free first. None waits for nobody.
    pub fn reserve(&self, work: Work, cycles: u64) -> Service {
        if cycles == 0 {
            return Service { queued: Delay::ZERO, end: self.0.clock.now() };
        }
        self.0.cores.reserve_for(work.name(), self.0.frequency.time_for(cycles))
    }

    /// Takes `time`, whatever the frequency, for `work` of the core that is free first.
    pub fn spend(&self, work: Work, time: Delay) -> Service {
        self.0.cores.reserve_for(work.name(), time)
    }

    /// Takes `count` times `cycles` for `work` of another drive, and waits until they are spent. Gives how long it waited for a core.
    ///
    /// It is done in pieces, and a piece takes a core when one is idle: what the drive does for itself, which [reserves](Site::reserve), comes
    /// before all that has not begun. A piece that has waited for some time takes its turn like any work, so that what has been taken on ends.
    pub async fn work_lent(&self, work: Work, cycles: u64, count: u64) -> Delay {
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

    /// The same for two pieces of work, one after the other without a pause.
    pub fn reserve_both(&self, first: (Work, u64), second: (Work, u64)) -> Service {
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

    /// Takes `cycles` for `work` of the core that is free first, and waits until they are spent.
    pub async fn work(&self, work: Work, cycles: u64) -> Service {
        let service = self.reserve(work, cycles);
        self.0.clock.sleep_until(service.end).await;
        service
    }

    /// Moves `bytes` into or out of the DRAM, as `what` says. The caller waits for what it needs of the passage.
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

    /// Bytes that have gone into the DRAM and out of it.
    pub fn dram_bytes(&self) -> u64 {
        self.0.dram.bytes()
    }

    /// How long one access to the DRAM takes.
    pub fn dram_latency(&self) -> Delay {
        self.0.dram.propagation()
    }

    /// How many cores.
    pub fn cores(&self) -> usize {
        self.0.cores.servers()
    }

    /// Work done and reserved in all, summed over the cores.
    pub fn busy(&self) -> Delay {
        self.0.cores.busy()
    }

    /// How often work was asked for.
    pub fn served(&self) -> u64 {
        self.0.cores.served()
    }

    /// Of that work, `cycles` were for another drive.
    pub fn note_lent(&self, cycles: u64) {
        self.0.lent.set(self.0.lent.get() + self.0.frequency.time_for(cycles));
    }

    /// Of that work, `time` was for another drive.
    pub fn note_lent_time(&self, time: Delay) {
        self.0.lent.set(self.0.lent.get() + time);
    }

    /// How much of the work was for other drives.
    pub fn lent(&self) -> Delay {
        self.0.lent.get()
    }

    /// Share of the cores' time from `since` to now that was work: 0 to 1. `busy_then` is [`Site::busy`] at `since`.
    pub fn utilisation(&self, since: Time, busy_then: Delay) -> f64 {
        self.0.cores.utilisation(since, busy_then)
    }

    /// Whether both are the same cores.
    pub fn is(&self, other: &Site) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}
