//! The world of a run: a host, and the drives of a scenario, each on a link of its own.
//!
//! One executor has all of it, so a run of several drives takes one core of the machine. Drives have nothing in common but the
//! host's processors: each has its own memory of the host, its own driver, and random streams that contain its name. So a
//! drive's figures are those that it has alone, as long as no processor of the host is shared.

use crate::build;
use byteway_clock::{Clock, Owner};
use byteway_device::{ConfigError, Drive};
use byteway_link::{DeviceEnd, Direction, HostEnd, Link, Memory, Purpose};
use byteway_measure::Snapshot;
use byteway_scenario::Scenario;
use byteway_scenario::profile::Profile;
use std::rc::Rc;

/// The drives of a run, in the order of [`Scenario::drives`], with power.
pub struct World {
    /// Each with its link.
    pub members: Vec<Member>,
}

/// A drive at its link.
pub struct Member {
    /// The link's end at the host.
    pub host: HostEnd,
    /// The drive.
    pub drive: Rc<Drive>,
}

/// Two parts of the simulation have counted different bytes: a defect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{of}the books don't balance: {what}: {ledger} in the ledger, {counted} counted; this is a defect",
    of = .drive.as_ref().map(|name| format!("drive {name}: ")).unwrap_or_default()
)]
pub struct Unbalanced {
    /// Which of several drives it was.
    pub drive: Option<String>,
    /// What was counted.
    pub what: &'static str,
    /// Bytes in the link's ledger.
    pub ledger: u64,
    /// Bytes that host memory or the controller has counted.
    pub counted: u64,
}

/// A drive's link to a host with memory of its own.
pub fn link(clock: &Clock, profile: &Profile) -> (HostEnd, DeviceEnd) {
    Link::connect(clock, build::link(profile), Memory::simulated())
}

impl World {
    /// Builds all drives of a scenario, and gives them power. What each of them uses is its owner's in a trace
    /// ([`Owner`], numbered as the drives are); the host's processors are the first one's.
    ///
    /// # Errors
    /// There can be no such drive.
    pub fn build(clock: &Clock, scenario: &Scenario) -> Result<World, ConfigError> {
        let mut world = World { members: Vec::new() };
        for (number, attached) in scenario.drives.iter().enumerate() {
            let clock = clock.owned_by(Owner(number as u16));
            let (host, device) = link(&clock, &attached.plan.profile);
            match Drive::new(&device, build::drive(scenario, number)) {
                Ok(drive) => world.members.push(Member { host, drive: Rc::new(drive) }),
                Err(error) => {
                    world.power_off();
                    return Err(error);
                }
            }
        }
        Ok(world)
    }

    /// The power goes. A drive and its link hold each other until then, and a comparison makes many.
    pub fn power_off(&self) {
        for member in &self.members {
            member.drive.power_off();
        }
    }

    /// The counters of each drive.
    pub fn snapshots(&self, clock: &Clock) -> Vec<Snapshot> {
        self.members.iter().map(|member| member.snapshot(clock)).collect()
    }

    /// The same, without a new allocation.
    pub fn retake(&self, clock: &Clock, snapshots: &mut [Snapshot]) {
        for (member, snapshot) in self.members.iter().zip(snapshots) {
            snapshot.retake(clock, &member.host, &member.drive);
        }
    }

    /// The ledger, host memory and the controller of each drive have counted the same bytes, each for itself.
    ///
    /// # Errors
    /// They have not.
    pub fn balance(&self, scenario: &Scenario) -> Result<(), Unbalanced> {
        (self.members.iter().zip(&scenario.drives)).try_for_each(|(member, attached)| {
            member.balance(&attached.plan.profile).map_err(|unbalanced| Unbalanced {
                drive: attached.plan.name.clone().filter(|_| self.members.len() > 1),
                ..unbalanced
            })
        })
    }
}

impl Member {
    /// Its counters.
    pub fn snapshot(&self, clock: &Clock) -> Snapshot {
        Snapshot::take(clock, &self.host, &self.drive)
    }

    fn balance(&self, profile: &Profile) -> Result<(), Unbalanced> {
        let ledger = self.host.ledger();
        let counters = self.drive.controller.counters();
        let payload = |purpose, direction| ledger.entry(purpose, direction).payload;
        let lists =
            payload(Purpose::PrpList, Direction::Down) + payload(Purpose::SglSegment, Direction::Down);
        let memory = self.host.memory();
        // Entries of submission queues are commands, or carry payload.
        let entries =
            payload(Purpose::SqeFetch, Direction::Down) + payload(Purpose::InlineChunk, Direction::Down);
        let down = payload(Purpose::Data, Direction::Down) + entries + lists;
        let up = payload(Purpose::Data, Direction::Up) + payload(Purpose::Cqe, Direction::Up);
        let checks = [
            ("bytes read from host memory", down, memory.dma_read_bytes()),
            ("bytes written to host memory", up, memory.dma_written_bytes()),
            ("bytes of entries fetched", entries, counters.fetched.get() * 64),
            ("bytes of completions posted", payload(Purpose::Cqe, Direction::Up), counters.posted.get() * 16),
            (
                "bytes of data to the host",
                payload(Purpose::Data, Direction::Up),
                counters.data_out_bytes.get(),
            ),
        ];
        // A DMA that fetches whole units brings more than the commands asked for, and one that failed less.
        let exact = profile.controller.dma_unit.0 == 1;
        let brought = (
            "bytes of data to the device",
            payload(Purpose::Data, Direction::Down),
            counters.data_in_bytes.get(),
        );
        let mut checks = checks.iter().chain(exact.then_some(&brought));
        match checks.find(|(_, ledger, counted)| ledger != counted) {
            Some(&(what, ledger, counted)) => Err(Unbalanced { drive: None, what, ledger, counted }),
            None => Ok(()),
        }
    }
}
