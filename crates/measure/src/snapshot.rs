//! Every counter of link, drive and flash at one instant, and a drive between two of them.

use crate::host::HostCost;
use crate::results::Wear;
use byteway_clock::{Clock, Delay, Time};
use byteway_device::Drive;
use byteway_firmware::{Ftl, FtlCounters, Site};
use byteway_flash::{Counters as FlashCounters, Flash};
use byteway_kv::{KvCounters, KvUsage};
use byteway_link::{HostEnd, Ledger};
use byteway_scenario::DrivePlan;

/// Every counter at one instant.
#[derive(Default)]
pub struct Snapshot {
    /// When.
    pub at: Time,
    /// What has crossed the link.
    pub ledger: Ledger,
    /// Bytes that hosts have written: to the translation layer, or to what stands in front of several drives.
    pub host_bytes: u64,
    /// What the translation layer has done.
    pub ftl: FtlCounters,
    /// What flash has done.
    pub flash: FlashCounters,
    /// How long each die has been busy.
    pub dies: Vec<Delay>,
    /// Each channel.
    pub channels: Vec<Delay>,
    /// All cores together.
    pub cores: Delay,
    /// Of each translation layer on the host whose map and write buffer have a lock: how long that has been held.
    pub locks: Vec<Delay>,
    /// The link: down, up.
    pub link: (Delay, Delay),
    /// What the stores of all key-value namespaces have done, and what they hold.
    pub pairs: Vec<(KvCounters, KvUsage)>,
    /// Commit records answered, and looks for them.
    pub commits: (u64, u64),
    /// What I/O has cost the host, if that is followed: of all drives together.
    pub host: Option<HostCost>,
}

/// A drive over the measured part of its jobs.
#[derive(Clone, Copy)]
pub struct MeasuredDrive<'a> {
    /// How it was planned.
    pub plan: &'a DrivePlan,
    /// Its counters when that began.
    pub begin: &'a Snapshot,
    /// When it ended.
    pub end: &'a Snapshot,
    /// How worn its flash is then.
    pub wear: &'a Wear,
}

/// What a drive consists of, however it is made.
pub struct Parts<'a> {
    /// The translation layers that its data goes through.
    pub layers: Vec<&'a Ftl>,
    /// The host's links to its data.
    pub links: Vec<&'a HostEnd>,
    /// The flash arrays that it is in.
    pub arrays: Vec<&'a Flash>,
    /// The cores of its drives.
    pub sites: Vec<&'a Site>,
}

impl Snapshot {
    /// Takes one of a drive and its parts.
    pub fn take(clock: &Clock, drive: &Drive, parts: &Parts<'_>) -> Self {
        let mut snapshot = Snapshot::default();
        snapshot.retake(clock, drive, parts);
        snapshot
    }

    /// Takes it anew, without a new allocation. It only looks: nothing is delivered, woken or charged.
    pub fn retake(&mut self, clock: &Clock, drive: &Drive, parts: &Parts<'_>) {
        self.at = clock.now();
        self.ftl = FtlCounters::default();
        parts.layers.iter().for_each(|layer| self.ftl += layer.counters());
        let controller = &drive.controller;
        self.host_bytes = match controller.backing().ftl() {
            Some(_) => self.ftl.user_bytes_written,
            None => controller.counters().written_bytes.get(),
        };
        self.locks.clear();
        self.locks.extend(parts.layers.iter().filter_map(|layer| layer.placement().lock_busy()));
        (self.ledger, self.link) = Default::default();
        for link in &parts.links {
            self.ledger = self.ledger.with(link.ledger());
            // Ports of a switch share its upstream link, and each says how busy that is.
            let (down, up) = link.root_busy();
            self.link = (self.link.0.max(down), self.link.1.max(up));
        }
        self.flash = FlashCounters::default();
        self.dies.clear();
        self.channels.clear();
        for flash in &parts.arrays {
            let geometry = flash.geometry();
            self.flash += flash.counters();
            self.dies.extend((0..geometry.dies()).map(|die| flash.die_busy(die)));
            self.channels.extend((0..geometry.channels).map(|channel| flash.channel_busy(channel)));
        }
        self.cores = parts.sites.iter().map(|site| site.busy()).sum();
        self.commits = (drive.controller.counters().records.get(), drive.controller.commit_looks());
        self.pairs.clear();
        drive.controller.each_pairs(|pairs| self.pairs.push((pairs.counters(), pairs.usage())));
    }
}
