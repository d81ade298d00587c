//! Samples: the few counters of a drive of which a time series takes the differences, at the end of each of its steps.
//! A [`Snapshot`] has every counter, and would cost a read of a short run more than its share of the drive's work.

use crate::host::HostCost;
use crate::snapshot::{Parts, Snapshot};
use crate::upkeep::map_misses;
use byteway_clock::Delay;
use byteway_device::Drive;
use byteway_firmware::{Ftl, FtlCounters, Site};
use byteway_flash::{Counters as FlashCounters, Flash};
use byteway_link::{Direction, HostEnd, Ledger};
use std::rc::Rc;

byteway_clock::counters! {
    /// Counts of a drive, without dies and channels.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct DriveCounts {
        pub(crate) cores_ps: u64,
        pub(crate) link: [LinkCounts; 2],
        pub(crate) written_bytes: u64,
        pub(crate) programmed_units: u64,
        pub(crate) erases: u64,
        pub(crate) map_hits: u64,
        pub(crate) map_misses: u64,
        pub(crate) suspends: u64,
        pub(crate) retries: u64,
    }
}

byteway_clock::counters! {
    /// One direction of the link.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct LinkCounts {
        pub(crate) busy_ps: u64,
        pub(crate) payload_bytes: u64,
        pub(crate) wire_bytes: u64,
    }
}

/// What a series takes of a drive at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Counts so far.
    pub(crate) counts: DriveCounts,
    /// Free superblocks, and units in the write buffer.
    pub(crate) free: u64,
    pub(crate) buffered_units: u64,
    /// Busy time of each die, and of each channel.
    pub(crate) dies: Vec<Delay>,
    pub(crate) channels: Vec<Delay>,
    /// Cost of I/O on the host, if followed: for all drives together.
    pub host: Option<HostCost>,
}

impl DriveCounts {
    /// Adds what a translation layer has counted.
    fn add_layer(&mut self, ftl: &FtlCounters) {
        self.programmed_units += ftl.units_programmed();
        self.map_hits += ftl.map_hits;
        self.map_misses += map_misses(ftl);
    }

    /// Adds what a flash array has counted.
    fn add_flash(&mut self, flash: &FlashCounters) {
        self.erases += flash.erases;
        self.suspends += flash.suspends;
        self.retries += flash.retries;
    }

    /// Adds the traffic of a link. Over all purposes: a read may be attributed to another purpose after the step in
    /// which it happened.
    fn add_traffic(&mut self, ledger: &Ledger) {
        for direction in Direction::ALL {
            let (link, total) = (&mut self.link[direction as usize], ledger.total(direction));
            link.payload_bytes += total.payload;
            link.wire_bytes += total.wire;
        }
    }

    /// Busy times that a link, or one upstream of it, has reached. Ports of a switch share its upstream link, and each
    /// reports the utilisation of that link.
    fn note_busy(&mut self, (down, up): (Delay, Delay)) {
        for (direction, busy) in [(Direction::Down, down), (Direction::Up, up)] {
            let busy_ps = &mut self.link[direction as usize].busy_ps;
            *busy_ps = (*busy_ps).max(busy.0);
        }
    }

    /// What was counted since `then`.
    pub(crate) fn since(mut self, then: &DriveCounts) -> DriveCounts {
        // Busy times include what is reserved ahead, which may be given up.
        let cores_ps = self.cores_ps.saturating_sub(then.cores_ps);
        let busy = [0, 1].map(|way| self.link[way].busy_ps.saturating_sub(then.link[way].busy_ps));
        (self.cores_ps, self.link[0].busy_ps, self.link[1].busy_ps) =
            (then.cores_ps, then.link[0].busy_ps, then.link[1].busy_ps);
        let mut counts = self - *then;
        (counts.cores_ps, counts.link[0].busy_ps, counts.link[1].busy_ps) = (cores_ps, busy[0], busy[1]);
        counts
    }
}

impl From<&Snapshot> for Sample {
    fn from(snapshot: &Snapshot) -> Sample {
        let mut counts = DriveCounts {
            cores_ps: snapshot.cores.0,
            written_bytes: snapshot.host_bytes,
            ..DriveCounts::default()
        };
        counts.add_layer(&snapshot.ftl);
        counts.add_flash(&snapshot.flash);
        counts.add_traffic(&snapshot.ledger);
        counts.note_busy(snapshot.link);
        Sample {
            counts,
            free: snapshot.ftl.blocks_free,
            buffered_units: snapshot.buffered_units,
            dies: snapshot.dies.clone(),
            channels: snapshot.channels.clone(),
            host: snapshot.host.clone(),
        }
    }
}

/// A drive of which a series takes samples: its parts, looked up once.
pub struct SampledDrive {
    drive: Rc<Drive>,
    layers: Vec<Ftl>,
    links: Vec<HostEnd>,
    arrays: Vec<Flash>,
    sites: Vec<Site>,
}

impl SampledDrive {
    /// A drive and its parts, which stay the same for as long as it exists.
    pub fn new(drive: Rc<Drive>, parts: &Parts<'_>) -> SampledDrive {
        SampledDrive {
            drive,
            layers: parts.layers.iter().copied().cloned().collect(),
            links: parts.links.iter().copied().cloned().collect(),
            arrays: parts.arrays.iter().copied().cloned().collect(),
            sites: parts.sites.iter().copied().cloned().collect(),
        }
    }

    /// Takes a sample in place, except for the host's cost; without allocation once `sample` is of this drive. It has
    /// no effects: nothing is delivered, woken or charged.
    pub fn sample(&self, sample: &mut Sample) {
        let mut counts = DriveCounts::default();
        let mut written = 0;
        (sample.free, sample.buffered_units) = (0, 0);
        for layer in &self.layers {
            sample.free += layer.look_at_counters(|counters| {
                counts.add_layer(counters);
                written += counters.user_bytes_written;
            });
            sample.buffered_units += u64::from(layer.units_buffered());
        }
        let controller = &self.drive.controller;
        counts.written_bytes = match controller.backing().ftl() {
            Some(_) => written,
            None => controller.counters().written_bytes.get(),
        };
        for link in &self.links {
            counts.add_traffic(link.ledger());
            counts.note_busy(link.root_busy());
        }
        sample.dies.clear();
        sample.channels.clear();
        for flash in &self.arrays {
            counts.add_flash(&flash.counters());
            flash.add_busy(&mut sample.dies, &mut sample.channels);
        }
        counts.cores_ps = self.sites.iter().map(|site| site.busy().0).sum();
        sample.counts = counts;
    }

    /// What a policy of the drive did wrong, if one did.
    pub fn policy_fault(&self) -> Option<String> {
        let of_layers = self.layers.iter().find_map(Ftl::policy_fault);
        of_layers.or_else(|| self.arrays.iter().find_map(Flash::policy_fault))
    }
}
