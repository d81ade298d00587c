//! The host: its processors. Its memory is in the bays, a region for each drive.

use byteway_clock::{Clock, Resource, Station};
use std::rc::Rc;

/// A host. A drive that another process serves has no more of a world than this: its link and memory are real.
pub struct Host {
    clock: Clock,
    processors: Vec<Rc<Station>>,
    keeps_names: bool,
}

impl Host {
    /// A host with `processors`, at least one, which in a trace belong to `clock`'s owner.
    pub fn new(clock: &Clock, processors: u16) -> Host {
        Self::make(clock, processors, false)
    }

    /// The same, whose processors keep apart what they do, by name ([`Station::keeping_names`]).
    pub fn keeping_names(clock: &Clock, processors: u16) -> Host {
        Self::make(clock, processors, true)
    }

    fn make(clock: &Clock, processors: u16, keeps_names: bool) -> Host {
        let count = u32::from(processors.max(1));
        let host = Host { clock: clock.clone(), processors: Vec::new(), keeps_names };
        let processors = (0..count).map(|index| host.processor(index)).collect();
        Host { processors, ..host }
    }

    /// The processors on which applications run.
    pub fn processors(&self) -> &[Rc<Station>] {
        &self.processors
    }

    /// A processor more, which takes the interrupts of drive `drive`. In a trace it follows those of the applications.
    pub fn interrupt_processor(&self, drive: usize) -> Rc<Station> {
        self.processor((self.processors.len() + drive) as u32)
    }

    fn processor(&self, index: u32) -> Rc<Station> {
        let processor = Station::new(&self.clock, 1).traced_as(Resource::HostCore, index);
        Rc::new(if self.keeps_names { processor.keeping_names() } else { processor })
    }
}
