//! A run of the swarm as data: the drive, the host, what is asked of it and what goes wrong, so that a failure can be
//! run again, made smaller and kept as a file.
//!
//! A plan is TOML. Operations and faults are a line each:
//!
//! ```toml
//! seed = 7
//! ops = ["write 1 120+8", "write 1 3+1 fua", "flush 1", "read 1 0+32", "trim 1 0+8 64+2", "zeroes 1 8+8 deallocate"]
//! faults = ["cut 3+250 then 40 7", "flash program die 0 nth 12 life 0"]
//! ```
//!
//! `exchange 1 0+4` is a Compare and Write of what must be there, `exchange 1 0+4 wrong` one of something else.
//! `write 1 120+8` writes 8 blocks from 120 on of the first namespace; addresses and lengths are cut to the namespace.
//! `store 2 17 400` stores a value of 400 bytes under key 17 in the second of the namespaces that hold pairs; addresses of
//! namespaces go round.
//! `cut 3+250 then 40 7` cuts the power 250 polls after operation 3 (counting from 0) was begun, again 40 polls after
//! power-on, and again 7 polls after that power-on; `blind`: what survived
//! is not read before the work goes on; `ends`: the work doesn't go on. Faults that are not cuts happen a time after an operation was begun.
//! `leave 3+20 back 500` pulls a drive of a box out, which is back 500 us later, `lose-power` the same where its slot does not say so;
//! `lose-link 3+20 back 500` is of its link to the fabric, and `restart-host 3+20` of all drivers of the box.
//! `unplug 3+20 member 1 returns` unplugs a member of an array, which is back after the next power-on; `with-power`: at the next cut.

mod boxed;
mod drive;
mod line;
mod op;

pub use boxed::*;
pub use drive::*;
pub use line::LineError;
pub use op::*;

use serde::{Deserialize, Serialize};

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Seed of what is random in the drive.
    pub seed: u64,
    /// What is asked of it, in the order in which workers take it.
    pub ops: Vec<Op>,
    /// What goes wrong.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// The host.
    pub host: HostSpec,
    /// The drive.
    pub drive: DriveSpec,
    /// Further drives, each on a link of its own and with a host's work of its own, that have their power from where the first one
    /// has it: its cuts are theirs. Their plans have no cuts, no power cycles and no neighbours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<Plan>,
    /// The drive and its neighbours are in a box, and lend each other processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jbof: Option<BoxSpec>,
}

/// Neighbours, at most.
pub const NEIGHBOURS_MAX: usize = 2;
/// Drives beside the first one in a box, at most.
pub const BOX_NEIGHBOURS_MAX: usize = 3;

/// How the host works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Operations under way at once.
    pub depth: u32,
    /// Queue pairs that they are spread over.
    pub queues: u16,
    /// Entries of each.
    pub entries: u32,
    /// Completions interrupt; else they are polled.
    #[serde(default)]
    pub interrupts: bool,
}

impl Plan {
    /// From TOML.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_toml(text: &str) -> Result<Plan, String> {
        let plan: Plan = toml::from_str(text).map_err(|error| error.to_string())?;
        plan.check().map(|()| plan).map_err(str::to_owned)
    }

    /// Whether it is a small drive and a possible host; what the drive itself refuses comes out when it is built.
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
            (self.drive.namespaces.iter().all(is_block), "a namespace's block has 512 or 4096 bytes"),
            (self.drive.kv.value_bytes_max <= 48 << 10, "drive.kv.value_bytes_max must be at most 49152"),
            (
                self.drive.endpoints == 0 || self.drive.can_be_hosted(),
                "a drive whose firmware runs on the host (drive.endpoints) is empty at first, without protection, files, pairs \
                 and memory of the host's, and its channels divide among the endpoints",
            ),
            (
                self.drive.extents.is_none() || self.drive.can_have_extents(),
                "a drive whose map is a tree of extents (drive.extents) is empty at first, and all of its map is in DRAM",
            ),
            (
                self.drive.extents.is_none_or(|entries| (4..=1024).contains(&entries)),
                "drive.extents must be from 4 to 1024 entries of a node",
            ),
            (
                self.drive.absorbs_parts.is_none_or(|units| (1..=1 << 16).contains(&units)),
                "drive.absorbs_parts must be from 1 to 65536",
            ),
            (self.drive.read_cache_units <= 1 << 16, "drive.read_cache_units must be at most 65536"),
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
            (drives <= 8, "an array (drive.array) has at most 8 drives"),
            (
                self.drive.array.is_none() || !self.ops.iter().any(Op::needs_own_flash),
                "over an array (drive.array) there is neither `mar` nor `sanitize`",
            ),
            (
                self.drive.array.is_none()
                    || !self.faults.iter().any(|fault| matches!(fault, Fault::Flash { .. })),
                "the flash of an array's members (drive.array) does not fail",
            ),
            (
                !self.drive.has_pairs() || self.drive.base == BaseSpec::Empty,
                "a drive with a namespace of pairs is empty at first",
            ),
            (self.keys() <= 1 << 20, "keys are numbers below 2^20"),
            (!self.drive.namespaces.is_empty(), "a drive has a namespace"),
            (self.ops.len() <= 1_000_000, "there can be at most 1,000,000 operations"),
            (self.faults.len() <= 10_000, "there can be at most 10,000 faults"),
            (
                self.neighbours.len()
                    <= if self.jbof.is_some() { BOX_NEIGHBOURS_MAX } else { NEIGHBOURS_MAX },
                "there can be at most 2 neighbour drives, and 3 in a box (jbof)",
            ),
            (
                self.jbof.is_none() || self.all().all(|plan| plan.drive.can_be_in_a_box()),
                "drives of a box (jbof) have firmware and flash of their own, without files, pairs and memory of the host's, and take \
                 their time",
            ),
            (
                self.jbof.is_none() || !self.all().flat_map(|plan| &plan.faults).any(Fault::is_not_of_a_box),
                "in a box (jbof) there are no power cycles, members that are unplugged, and failures of flash",
            ),
            (
                self.jbof.as_ref().is_none_or(|spec| {
                    spec.period_us >= 10
                        && spec.timeout_us >= 1000
                        && (4..=1024).contains(&spec.entries)
                        && self.all().all(|plan| plan.host.queues <= 4)
                }),
                "a box (jbof) has a period_us of at least 10, a timeout_us of at least 1000, entries from 4 to 1024, and hosts with at \
                 most 4 queues",
            ),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, wrong)| Err(wrong))?;
        self.neighbours.iter().try_for_each(|plan| plan.check_neighbour(self))
    }

    /// Whether it can be a neighbour of `first`.
    fn check_neighbour(&self, first: &Plan) -> Result<(), &'static str> {
        let ends_power = |fault: &Fault| matches!(fault, Fault::Cut { .. } | Fault::Cycle { .. });
        let checks = [
            (self.neighbours.is_empty(), "a neighbour drive has no neighbours"),
            (self.jbof.is_none(), "a neighbour drive has no box (jbof)"),
            (!self.faults.iter().any(ends_power), "the power is cut by faults of the first drive's plan"),
            (self.drive.untimed == first.drive.untimed, "drive.untimed must be the same of all drives"),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, wrong)| Err(wrong))?;
        self.check()
    }

    /// It, and its neighbours.
    pub fn all(&self) -> impl Iterator<Item = &Plan> {
        std::iter::once(self).chain(&self.neighbours)
    }

    /// All keys that it names have numbers below this.
    pub fn keys(&self) -> u32 {
        self.ops.iter().filter_map(Op::key).max().map_or(0, |key| key.saturating_add(1))
    }

    /// As TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a plan has no maps with keys that TOML hasn't")
    }

    /// Without the operations in `range`; faults keep their place among the others.
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

    // A neighbour that cut the power would cut it for whoever doesn't expect it.
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
            "has no neighbours",
        );
        refused(&|plan| plan.neighbours[0].drive.untimed ^= true, "drive.untimed");
        refused(&|plan| plan.neighbours = vec![plan.neighbours[0].clone(); 3], "at most 2");
        let at = Anchor { op: None, later: 1 };
        refused(
            &|plan| plan.neighbours[0].faults = vec![Fault::Cycle { at }],
            "faults of the first drive's plan",
        );
    }

    // A plan is a file that somebody edits: a mistake must be named.
    #[test]
    fn an_impossible_host_is_named() {
        let mut plan = Plan {
            seed: 1,
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

    // Dropping operations must leave a cut where it was among the others, or nothing can be made smaller.
    #[test]
    fn faults_keep_their_place_when_operations_go() {
        let ops = (0..10).map(Op::Pause).collect();
        let fault =
            |op| Fault::Cut { at: Anchor { op, later: 1 }, again: Vec::new(), blind: false, ends: false };
        let faults = [None, Some(2), Some(5), Some(9)].map(fault).to_vec();
        let plan =
            Plan { seed: 1, ops, faults, host: host(), drive: drive(), neighbours: Vec::new(), jbof: None };
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
            collect_start: 2,
            collect_reserve: 1,
            map_cache_pages: None,
            host_buffer_pages: None,
            wide_map: false,
            suspends: false,
            cache_read: false,
            data_out_first: false,
            checkpoint_units: 0,
            canary: None,
            files: false,
            untimed: false,
            endpoints: 0,
            extents: None,
            absorbs_parts: None,
            read_cache_units: 0,
            partial: PartialSpec::default(),
            array: None,
            upkeep: UpkeepSpec::default(),
            kv: KvSpec::default(),
            namespaces: vec![NamespaceSpec { units: 32, block: 4096, pairs: false }],
        }
    }
}
