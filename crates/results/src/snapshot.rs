//! Snapshots: every counter of link, drive and flash at one instant, and a drive between two of them.

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
    /// Time of the snapshot.
    pub at: Time,
    /// Traffic on the link so far.
    pub ledger: Ledger,
    /// Bytes written by hosts: to the translation layer, or to the array in front of several drives.
    pub host_bytes: u64,
    /// Counters of the translation layer.
    pub ftl: FtlCounters,
    /// Units in the write buffer.
    pub buffered_units: u64,
    /// Counters of the flash.
    pub flash: FlashCounters,
    /// Busy time of each die.
    pub dies: Vec<Delay>,
    /// Busy time of each channel.
    pub channels: Vec<Delay>,
    /// Busy time of all cores together.
    pub cores: Delay,
    /// Hold time of the lock of each translation layer on the host whose map and write buffer have a lock.
    pub locks: Vec<Delay>,
    /// Time for which the drive has merged parts of units, if its firmware does.
    pub merging: Option<Delay>,
    /// Busy time of the link: down, up.
    pub link: (Delay, Delay),
    /// Counters and usage of the stores of all key-value namespaces.
    pub pairs: Vec<(KvCounters, KvUsage)>,
    /// Commit records answered, and polls for them.
    pub commits: (u64, u64),
    /// Cost of I/O on the host, if followed: for all drives together.
    pub host: Option<HostCost>,
}

/// A drive over the measured part of its jobs.
#[derive(Clone, Copy)]
pub struct MeasuredDrive<'a> {
    /// Plan of the drive.
    pub plan: &'a DrivePlan,
    /// Counters at the begin.
    pub begin: &'a Snapshot,
    /// Counters at the end.
    pub end: &'a Snapshot,
    /// Wear of its flash at the end.
    pub wear: &'a Wear,
}

/// The parts of a drive of any composition.
pub struct Parts<'a> {
    /// The translation layers that process its data.
    pub layers: Vec<&'a Ftl>,
    /// The host's links to its data.
    pub links: Vec<&'a HostEnd>,
    /// The flash arrays that hold it.
    pub arrays: Vec<&'a Flash>,
    /// The sites of its drives.
    pub sites: Vec<&'a Site>,
}

impl Snapshot {
    /// Takes a snapshot of a drive and its parts. It has no effects: nothing is delivered, woken or charged.
    pub fn take(clock: &Clock, drive: &Drive, parts: &Parts<'_>) -> Self {
        let mut snapshot = Snapshot { at: clock.now(), ..Snapshot::default() };
        for layer in &parts.layers {
            snapshot.ftl += layer.counters();
            snapshot.buffered_units += u64::from(layer.units_buffered());
        }
        let controller = &drive.controller;
        snapshot.host_bytes = match controller.backing().ftl() {
            Some(_) => snapshot.ftl.user_bytes_written,
            None => controller.counters().written_bytes.get(),
        };
        snapshot.locks.extend(parts.layers.iter().filter_map(|layer| layer.placement().lock_busy()));
        for link in &parts.links {
            snapshot.ledger = snapshot.ledger.with(link.ledger());
            // Ports of a switch share its upstream link, and each reports the utilisation of that link.
            let (down, up) = link.root_busy();
            snapshot.link = (snapshot.link.0.max(down), snapshot.link.1.max(up));
        }
        for flash in &parts.arrays {
            let geometry = flash.geometry();
            snapshot.flash += flash.counters();
            snapshot.dies.extend((0..geometry.dies()).map(|die| flash.die_busy(die)));
            snapshot.channels.extend((0..geometry.channels).map(|channel| flash.channel_busy(channel)));
        }
        snapshot.merging = controller.merging_busy();
        snapshot.cores = parts.sites.iter().map(|site| site.busy()).sum();
        snapshot.commits = (drive.controller.counters().records.get(), drive.controller.commit_looks());
        drive.controller.each_pairs(|pairs| snapshot.pairs.push((pairs.counters(), pairs.usage())));
        snapshot
    }
}
