//! A drive and its host under one runner or the other, and the ways between them.

use crate::both_runners::{MEMORY_BASE, MEMORY_BYTES, give_up_after, map_memory, memfd};
use byteway_clock::{Delay, Executor, Timing};
use byteway_device::DriveConfig;
use byteway_host::Port;
use byteway_link::Memory;
use byteway_link::memory::{Access, Backing};
use byteway_serve::function::{Doorbells, Function, REGION_BAR0};
use byteway_testkit::SmallWorld;
use byteway_world::PoweredDrive;
use std::rc::Rc;

/// How a test is played.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// In virtual time, over the simulated link, in simulated memory.
    Virtual,
    /// In real time, over the simulated link, in shared memory.
    Link(Timing),
    /// In real time, by the function that a host attaches to, in shared memory.
    Served(Timing, Doorbells),
}

/// A drive, and the way to it.
pub struct Setting {
    pub port: Port,
    pub powered: PoweredDrive,
}

/// What a client of the function asks it for.
struct Registers(Rc<Function>);

impl byteway_host::Registers for Registers {
    fn read(&self, offset: u64, bytes: u32) -> u64 {
        let mut value = [0; 8];
        self.0.read(REGION_BAR0, offset, &mut value[..bytes as usize]).unwrap();
        u64::from_le_bytes(value)
    }

    fn write(&self, offset: u64, value: u64, bytes: u32) {
        self.0.write(REGION_BAR0, offset, &value.to_le_bytes()[..bytes as usize]).unwrap();
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        self.0.write(REGION_BAR0, offset, bytes).unwrap();
    }
}

/// Plays `main` with a drive.
pub fn run<T: 'static>(how: How, config: DriveConfig, main: impl AsyncFnOnce(Setting) -> T + 'static) -> T {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let file = memfd("byteway-memory", MEMORY_BYTES);
    let memory = match how {
        How::Virtual => Memory::simulated(),
        How::Link(_) => map_memory(&file),
        How::Served(..) => Memory::guest(),
    };
    let powered = SmallWorld { memory, ..SmallWorld::of(config) }.power_on(&clock);
    let port = match how {
        How::Served(_, doorbells) => {
            let function = Function::new(&powered.host, &powered.drive.controller, 1, 5, doorbells).unwrap();
            let backing = Backing::File { file: &file, offset: 0 };
            powered.memory.map(MEMORY_BASE, MEMORY_BYTES, backing, Access::ReadWrite).unwrap();
            let doorbells = function.region(REGION_BAR0).mappable.map(|mappable| {
                let doorbells = Memory::guest();
                let backing = Backing::File { file: &mappable.file, offset: mappable.offset };
                doorbells.map(mappable.offset, mappable.bytes, backing, Access::ReadWrite).unwrap();
                doorbells
            });
            Port::shared(Box::new(Registers(function)), doorbells, map_memory(&file), &clock)
        }
        _ => Port::Link(powered.host.clone()),
    };
    let main = main(Setting { port, powered });
    match how {
        How::Virtual => executor.run(main).unwrap(),
        How::Link(timing) | How::Served(timing, _) => {
            give_up_after(&clock, Delay::from_s(200));
            executor.run_real(timing, None, main).unwrap()
        }
    }
}
