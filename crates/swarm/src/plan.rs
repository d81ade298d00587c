//! Plans: a run as data, with drive, host, operations and faults, so that a failure can be reproduced, shrunk and stored as a file.
//!
//! A plan is TOML. Each operation and fault is a line:
//!
//! ```toml
//! seed = 7
//! ops = ["write 1 120+8", "write 1 3+1 fua", "flush 1", "read 1 0+32", "trim 1 0+8 64+2", "zeroes 1 8+8 deallocate"]
//! faults = ["cut 3+250 then 40 7", "flash program die 0 nth 12 life 0"]
//! ```
//!
//! - `write 1 120+8` writes 8 blocks from LBA 120 of the first namespace. Ranges are limited to the namespace.
//! - `exchange 1 0+4` is a Compare and Write with the expected data, `exchange 1 0+4 wrong` one with other data.
//! - `store 2 17 400` stores a value of 400 bytes under key 17 in the second KV namespace. Namespace numbers wrap around.
//! - `cut 3+250 then 40 7` cuts the power 250 polls after the start of operation 3 (from 0), again 40 polls after power-on, and again 7
//!   polls after that power-on. With `blind` the work continues without a verification of what survived; with `ends` it does not continue.
//! - Faults other than cuts happen a number of microseconds after the start of an operation.
//! - `leave 3+20 back 500` removes a drive from its JBOF for 500 us; `lose-power` does the same without a notification of its slot;
//!   `lose-link 3+20 back 500` interrupts its link to the fabric; `restart-host 3+20` restarts all drivers of the JBOF.
//! - `unplug 3+20 member 1 returns` unplugs a member of an array, which returns after the next power-on; with `with-power`, at the next
//!   cut.

mod drive;
mod jbof;
mod line;
mod op;

pub use drive::*;
pub use jbof::*;
pub use line::LineError;
pub use op::*;

use super::defects::{self, AnyDefect};
use byteway_defect::Planted;
use serde::{Deserialize, Serialize};

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Seed of the random behavior of the drive.
    pub seed: u64,
    /// The defect on purpose, if any.
    #[serde(
        default,
        skip_serializing_if = "Planted::is_none",
        serialize_with = "defects::to_text",
        deserialize_with = "defects::from_text"
    )]
    pub defect: Planted<AnyDefect>,
    /// Operations, in the order in which workers take them.
    pub ops: Vec<Op>,
    /// Faults.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// The host.
    pub host: HostSpec,
    /// The drive.
    pub drive: DriveSpec,
    /// Further drives, each with its own link and host workload, on the power supply of the first one: its cuts are theirs. Their plans
    /// have no cuts, no power cycles and no neighbors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<Plan>,
    /// The JBOF in which drive and neighbors lend each other processors, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jbof: Option<JbofSpec>,
}

/// Upper limit of neighbors.
pub const NEIGHBOURS_MAX: usize = 2;
/// Upper limit of the neighbors in a JBOF.
pub const JBOF_NEIGHBOURS_MAX: usize = 3;

/// Host configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Number of outstanding operations.
    pub depth: u32,
    /// Number of queue pairs over which they are spread.
    pub queues: u16,
    /// Entries of each queue.
    pub entries: u32,
    /// Whether completions interrupt; otherwise they are polled.
    #[serde(default)]
    pub interrupts: bool,
}

impl Plan {
    /// Parses TOML.
    ///
    /// # Errors
    /// A description of the first invalid value.
    pub fn from_toml(text: &str) -> Result<Plan, String> {
        let plan: Plan = toml::from_str(text).map_err(|error| error.to_string())?;
        plan.check().map(|()| plan).map_err(str::to_owned)
    }

    /// Checks host, and size of the drive; the drive's own constraints are checked when it is built.
    fn check(&self) -> Result<(), &'static str> {
        let HostSpec { depth, queues, entries, .. } = self.host;
        let DriveSpec { channels, ways, planes, blocks, pages, page_bytes, bits, .. } = self.drive;
        let shape = [channels, ways, planes, blocks, pages, page_bytes / 4096];
        let drives = self.drive.array.as_ref().map_or(1, |array| array.members.saturating_add(array.spares));
        let shape = shape.into_iter().chain([drives]);
        let units = shape.map(u64::from).fold(1, u64::saturating_mul);
        let is_block = |namespace: &NamespaceSpec| matches!(namespace.block, 512 | 4096);
        let checks = [
            ((1..=256).contains(&depth), "host.depth must be from 1 to 256"),
            ((1..=8).contains(&queues), "host.queues must be from 1 to 8"),
            ((2..=1024).contains(&entries), "host.entries must be from 2 to 1024"),
            (units <= 1 << 20, "the drive must have at most 2^20 units of 4 KiB"),
            ((1..=4).contains(&bits), "drive.bits must be from 1 to 4"),
            (self.drive.buffer_units <= 1 << 16, "drive.buffer_units must be at most 65536"),
            (
                !(self.drive.files && self.drive.protected),
                "a drive in files (drive.files) has no power-loss protection (drive.protected)",
            ),
            (self.drive.namespaces.iter().all(is_block), "a namespace's block must have 512 or 4096 bytes"),
            (self.drive.kv.value_bytes_max <= 48 << 10, "drive.kv.value_bytes_max must be at most 49152"),
            (
                self.drive.endpoints == 0 || self.drive.can_be_hosted(),
                "a drive whose firmware runs on the host (drive.endpoints) is empty at first, without protection, files, pairs \
                 and memory of the host's, and its channels divide among the endpoints",
            ),
            (
                self.drive.extents.is_none() || self.drive.can_have_extents(),
                "a drive with an extent tree (drive.extents) must be empty initially, with all of its map in DRAM",
            ),
            (
                self.drive.extents.is_none_or(|entries| (4..=1024).contains(&entries)),
                "drive.extents must be from 4 to 1024 entries per node",
            ),
            (
                self.drive.absorbs_parts.is_none_or(|units| (1..=1 << 16).contains(&units)),
                "drive.absorbs_parts must be from 1 to 65536",
            ),
            (self.drive.read_cache_units <= 1 << 16, "drive.read_cache_units must be at most 65536"),
            (
                self.drive.policies.found().is_ok(),
                "drive.policies must be names of built-in policies, of their kinds",
            ),
            (
                self.drive.read_cache_units > 0 || !self.drive.policies.has_of_cache(),
                "drive.policies.admission and drive.policies.prefetch are of a read cache (drive.read_cache_units)",
            ),
            (
                self.drive.policies.streams.is_none()
                    || !self.drive.upkeep.has_cache() && self.drive.base != BaseSpec::Steady,
                "a drive with streams (drive.policies.streams) has no SLC cache, and does not begin in the steady state",
            ),
            (
                self.drive.can_be_partial(),
                "a part of the firmware on the host (drive.partial) is of a drive without endpoints, and with the map there it \
                 has no cached map",
            ),
            (
                self.drive.array.is_none() || self.drive.can_be_array(),
                "drives of an array (drive.array) are empty at first, with firmware and flash of their own, without files, pairs and \
                 memory of the host's",
            ),
            (drives <= 8, "an array (drive.array) must have at most 8 drives"),
            (
                self.drive.array.is_none() || !self.ops.iter().any(Op::needs_own_flash),
                "an array (drive.array) supports neither `mar` nor `sanitize`",
            ),
            (
                self.drive.array.is_none()
                    || !self.faults.iter().any(|fault| matches!(fault, Fault::Flash { .. })),
                "flash faults are not supported with an array (drive.array)",
            ),
            (
                !(self.drive.has_pairs() || self.drive.has_tables()) || self.drive.base == BaseSpec::Empty,
                "a drive with a KV or table namespace must be empty initially",
            ),
            (
                self.drive.programs.is_none_or(|programs| (1..=64).contains(&programs.memory_units)),
                "drive.programs.memory_units must be from 1 to 64",
            ),
            (self.keys() <= 1 << 20, "keys must be numbers below 2^20"),
            (!self.drive.namespaces.is_empty(), "a drive must have a namespace"),
            (self.ops.len() <= 1_000_000, "there can be at most 1,000,000 operations"),
            (self.faults.len() <= 10_000, "there can be at most 10,000 faults"),
            (
                self.neighbours.len()
                    <= if self.jbof.is_some() { JBOF_NEIGHBOURS_MAX } else { NEIGHBOURS_MAX },
                "there can be at most 2 neighbor drives, and 3 in a JBOF (`[jbof]`)",
            ),
            (
                self.jbof.is_none() || self.all().all(|plan| plan.drive.can_be_in_a_jbof()),
                "drives of a JBOF (`[jbof]`) have firmware and flash of their own, without files, pairs and memory of the host's, and take \
                 their time",
            ),
            (
                self.jbof.is_none() || !self.all().flat_map(|plan| &plan.faults).any(Fault::is_not_of_a_jbof),
                "a JBOF (`[jbof]`) supports no power cycles, unplugged members or flash faults",
            ),
            (
                self.jbof.as_ref().is_none_or(|spec| {
                    spec.period_us >= 10
                        && spec.timeout_us >= 1000
                        && (4..=1024).contains(&spec.entries)
                        && self.all().all(|plan| plan.host.queues <= 4)
                }),
                "a JBOF (`[jbof]`) has a period_us of at least 10, a timeout_us of at least 1000, entries from 4 to 1024, and hosts with at \
                 most 4 queues",
            ),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, wrong)| Err(wrong))?;
        self.neighbours.iter().try_for_each(|plan| plan.check_neighbour(self))
    }

    /// Checks whether it can be a neighbor of `first`.
    fn check_neighbour(&self, first: &Plan) -> Result<(), &'static str> {
        let ends_power = |fault: &Fault| matches!(fault, Fault::Cut { .. } | Fault::Cycle { .. });
        let checks = [
            (self.neighbours.is_empty(), "a neighbor drive must have no neighbors"),
            (self.jbof.is_none(), "a neighbor drive must have no JBOF (`[jbof]`)"),
            (
                !self.faults.iter().any(ends_power),
                "power cuts must be in the faults of the first drive's plan",
            ),
            (self.drive.untimed == first.drive.untimed, "drive.untimed must be the same of all drives"),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, wrong)| Err(wrong))?;
        self.check()
    }

    /// This plan and its neighbors.
    pub fn all(&self) -> impl Iterator<Item = &Plan> {
        std::iter::once(self).chain(&self.neighbours)
    }

    /// Upper bound (exclusive) of the key numbers in the plan.
    pub fn keys(&self) -> u32 {
        self.ops.iter().filter_map(Op::key).max().map_or(0, |key| key.saturating_add(1))
    }

    /// Formats the plan as TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a plan has only keys that TOML supports")
    }

    /// The plan without the operations in `range`; faults keep their position relative to the others.
    pub fn without_ops(&self, range: std::ops::Range<usize>) -> Plan {
        let mut plan = self.clone();
        plan.ops.drain(range.clone());
        for fault in &mut plan.faults {
            if let Some(op) = fault.anchor_mut().and_then(|anchor| anchor.op.as_mut())
                && *op >= range.start
            {
                *op = if *op < range.end { range.start } else { *op - range.len() };
                *op = (*op).min(plan.ops.len().saturating_sub(1));
            }
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A neighbor's own power cut would unexpectedly cut all drives.
    #[test]
    fn an_impossible_neighbour_is_named() {
        let plan = || crate::draw::draw(1, 0);
        let refused = |change: &dyn Fn(&mut Plan), words: &str| {
            let mut first = plan();
            first.neighbours = vec![Plan { faults: Vec::new(), neighbours: Vec::new(), ..first.clone() }];
            assert_eq!(Plan::from_toml(&first.to_toml()).as_ref(), Ok(&first));
            change(&mut first);
            let error = Plan::from_toml(&first.to_toml()).unwrap_err();
            assert!(error.contains(words), "{error}");
        };
        refused(
            &|plan| plan.neighbours[0].neighbours = vec![plan.neighbours[0].clone()],
            "must have no neighbors",
        );
        refused(&|plan| plan.neighbours[0].drive.untimed ^= true, "drive.untimed");
        refused(&|plan| plan.neighbours = vec![plan.neighbours[0].clone(); 3], "at most 2");
        let at = Anchor { op: None, later: 1 };
        refused(
            &|plan| plan.neighbours[0].faults = vec![Fault::Cycle { at }],
            "faults of the first drive's plan",
        );
    }

    // Plans are edited by hand, so an error must name the mistake.
    #[test]
    fn an_impossible_host_is_named() {
        let mut plan = Plan {
            seed: 1,
            defect: Planted::none(),
            ops: Vec::new(),
            faults: Vec::new(),
            host: host(),
            drive: drive(),
            neighbours: Vec::new(),
            jbof: None,
        };
        plan.host.depth = 0;
        assert_eq!(Plan::from_toml(&plan.to_toml()).unwrap_err(), "host.depth must be from 1 to 256");
    }

    // If removing operations moved a cut relative to the others, no plan could be shrunk.
    #[test]
    fn faults_keep_their_place_when_operations_go() {
        let ops = (0..10).map(Op::Pause).collect();
        let fault =
            |op| Fault::Cut { at: Anchor { op, later: 1 }, again: Vec::new(), blind: false, ends: false };
        let faults = [None, Some(2), Some(5), Some(9)].map(fault).to_vec();
        let plan = Plan {
            seed: 1,
            defect: Planted::none(),
            ops,
            faults,
            host: host(),
            drive: drive(),
            neighbours: Vec::new(),
            jbof: None,
        };
        let fewer = plan.without_ops(4..7);
        assert_eq!(fewer.ops.len(), 7);
        assert_eq!(fewer.faults, [None, Some(2), Some(4), Some(6)].map(fault).to_vec());
        assert_eq!(Plan::from_toml(&fewer.to_toml()).unwrap(), fewer);
    }

    fn host() -> HostSpec {
        HostSpec { depth: 1, queues: 1, entries: 2, interrupts: false }
    }

    fn drive() -> DriveSpec {
        DriveSpec {
            channels: 1,
            ways: 1,
            planes: 1,
            blocks: 8,
            pages: 8,
            page_bytes: 8192,
            bits: 1,
            base: BaseSpec::Empty,
            buffer_units: 8,
            protected: false,
            cost_benefit: false,
            policies: PoliciesSpec::default(),
            collect_start: 2,
            collect_reserve: 1,
            map_cache_pages: None,
            host_buffer_pages: None,
            wide_map: false,
            suspends: false,
            cache_read: false,
            data_out_first: false,
            checkpoint_units: 0,
            files: false,
            untimed: false,
            endpoints: 0,
            extents: None,
            absorbs_parts: None,
            read_cache_units: 0,
            in_turn: false,
            housekeeping_units: 0,
            rest_us: 0,
            partial: PartialSpec::default(),
            array: None,
            upkeep: UpkeepSpec::default(),
            kv: KvSpec::default(),
            programs: None,
            namespaces: vec![NamespaceSpec { units: 32, block: 4096, pairs: false, tables: false }],
        }
    }
}
