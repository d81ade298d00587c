//! The host's processors. Its memory is in the bays, one region per drive.

use byteway_clock::{Clock, Resource, Station};
use std::rc::Rc;

/// A host. For a drive served to another process this is all of the world: link and memory are real.
pub struct Host {
    clock: Clock,
    processors: Vec<Rc<Station>>,
    is_pooled: bool,
    keeps_names: bool,
}

impl Host {
    /// A host with `processors` processors (at least one), which in a trace belong to `clock`'s owner.
    pub fn new(clock: &Clock, processors: u16) -> Host {
        Self::make(clock, processors, false)
    }

    /// Like [`Host::new`]; the processors record their work by name ([`Station::keeping_names`]).
    pub fn keeping_names(clock: &Clock, processors: u16) -> Host {
        Self::make(clock, processors, true)
    }

    /// A host whose processors are one pool: all work of applications, interrupts and the host itself takes the first
    /// free processor.
    pub fn pooled(clock: &Clock, processors: u16) -> Host {
        let pool = Station::new(clock, usize::from(processors.max(1)));
        let pool = Rc::new(pool.traced_as(Resource::HostCore, 0).keeping_names());
        Host { clock: clock.clone(), processors: vec![pool], is_pooled: true, keeps_names: true }
    }

    fn make(clock: &Clock, processors: u16, keeps_names: bool) -> Host {
        let count = u32::from(processors.max(1));
        let host = Host { clock: clock.clone(), processors: Vec::new(), is_pooled: false, keeps_names };
        let processors = (0..count).map(|index| host.processor(index)).collect();
        Host { processors, ..host }
    }

    /// Number of processors.
    pub fn count(&self) -> usize {
        self.processors.iter().map(|processor| processor.servers()).sum()
    }

    /// The processors on which applications run; in a pool, one station with as many servers.
    pub fn processors(&self) -> &[Rc<Station>] {
        &self.processors
    }

    /// A further processor, for the interrupts of drive `drive`; in a trace it follows those of the applications. In a
    /// pool it is the pool.
    pub fn interrupt_processor(&self, drive: usize) -> Rc<Station> {
        if self.is_pooled {
            return self.processors[0].clone();
        }
        self.processor((self.processors.len() + drive) as u32)
    }

    fn processor(&self, index: u32) -> Rc<Station> {
        let processor = Station::new(&self.clock, 1).traced_as(Resource::HostCore, index);
        Rc::new(if self.keeps_names { processor.keeping_names() } else { processor })
    }
}
