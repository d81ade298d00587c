//! A site: cores that run at a frequency, and a DRAM.

use byteway_clock::{Clock, Delay, Passage, Pipe, Rate, Service, Station, Time};
use std::rc::Rc;

struct Inner {
    clock: Clock,
    cores: Station,
    frequency: Rate,
    dram: Pipe,
}

/// Where firmware work runs: a drive's controller, a host, a bridge, a peer. Cheap to clone; clones are the same
/// cores.
#[derive(Clone)]
pub struct Site(Rc<Inner>);

impl Site {
    /// `cores` of `hertz` each (at least one of each), and a DRAM of `dram_rate` bytes a second whose accesses take
    /// `dram_latency`.
    pub fn new(clock: &Clock, cores: usize, hertz: u64, dram_latency: Delay, dram_rate: Rate) -> Self {
        Site(Rc::new(Inner {
            clock: clock.clone(),
            cores: Station::new(clock, cores),
            frequency: Rate::per_second(hertz),
            dram: Pipe::new(clock, dram_rate, dram_latency),
        }))
    }

    /// Takes `cycles` of the core that is free first. None waits for nobody.
    pub fn reserve(&self, cycles: u64) -> Service {
        if cycles == 0 {
            return Service { queued: Delay::ZERO, end: self.0.clock.now() };
        }
        self.0.cores.reserve(self.0.frequency.time_for(cycles))
    }

    /// Takes `cycles` of the core that is free first, and waits until they are spent.
    pub async fn work(&self, cycles: u64) -> Service {
        let service = self.reserve(cycles);
        self.0.clock.sleep_until(service.end).await;
        service
    }

    /// Moves `bytes` into or out of the DRAM. The caller waits for what it needs of the passage.
    pub fn dram(&self, bytes: u64) -> Passage {
        self.0.dram.send(bytes)
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

    /// Share of the cores' time from `since` to now that was work: 0 to 1. `busy_then` is [`Site::busy`] at `since`.
    pub fn utilisation(&self, since: Time, busy_then: Delay) -> f64 {
        self.0.cores.utilisation(since, busy_then)
    }

    /// Whether both are the same cores.
    pub fn is(&self, other: &Site) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}
