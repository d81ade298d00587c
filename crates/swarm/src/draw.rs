//! Draws random plans. Each run has some of the features, none or all, so that no feature masks the effect of another.

use super::drive;
use super::plan::{
    Anchor, ArraySpec, BaseSpec, BridgeSpec, DriveSpec, Extent, Fault, FlashVerb, HostSpec, IdleSpec,
    JBOF_NEIGHBOURS_MAX, JbofSpec, KvSpec, LevelSpec, MemoryVerb, NEIGHBOURS_MAX, NamespaceSpec, Op,
    PartialSpec, Plan, PoliciesSpec, ProgramVerb, ProgramsSpec, RefreshSpec, StoreWhen, TableVerb,
    UpkeepSpec,
};
use super::programs_oracle::{KINDS, SLOTS};
use byteway_clock::random::{Rng, Stream};
use byteway_defect::Planted;
use byteway_firmware::policy::{self, DriveKind, Policies, Schedule, Suspend, Victim};
use byteway_kv::Packing;

/// The plan of run `index` of the swarm with this seed.
pub fn draw(seed: u64, index: u64) -> Plan {
    let (rng, name) = (Rng::new(seed), format!("run-{index}"));
    if one_in(&mut rng.stream(&format!("{name}/box?")), 6) {
        return in_jbof(&rng, &name);
    }
    let mut plan = one(&rng, &name, Shape::Any);
    plan.neighbours = neighbours(&rng, &name, &plan);
    plan
}

/// A JBOF of two to four drives, each with its own host workload.
fn in_jbof(rng: &Rng, name: &str) -> Plan {
    let mut random = rng.stream(&format!("{name}/box"));
    let count = 1 + random.below(JBOF_NEIGHBOURS_MAX as u64);
    // A separate stream, so that other draws do not change.
    let dram = one_in(&mut rng.stream(&format!("{name}/dram")), 3);
    let submit_ns = pick(&mut rng.stream(&format!("{name}/submit")), &[0, 0, 2_000, 30_000]);
    let shape = if dram { Shape::InJbofWithDram } else { Shape::InJbof };
    let mut plan = one(rng, &format!("{name}/box-0"), shape);
    let spec = JbofSpec {
        period_us: pick(&mut random, &[50, 100, 300]),
        watermark: pick(&mut random, &[10, 30, 75]),
        loans: pick(&mut random, &[1, 2, 4]),
        entries: pick(&mut random, &[4, 4, 16, 64]),
        weighted: one_in(&mut random, 3),
        timeout_us: pick(&mut random, &[20_000, 50_000]),
        translate_ns: pick(&mut random, &[1_000, 5_000, 20_000]),
        submit_ns,
        dram,
    };
    plan.neighbours = (1..=count).map(|number| one(rng, &format!("{name}/box-{number}"), shape)).collect();
    for other in &mut plan.neighbours {
        other.faults.retain(|fault| !matches!(fault, Fault::Cut { .. }));
    }
    let ops: Vec<u64> = plan.all().map(|plan| plan.ops.len() as u64).collect();
    for (number, plan) in std::iter::once(&mut plan.faults)
        .chain(plan.neighbours.iter_mut().map(|plan| &mut plan.faults))
        .enumerate()
    {
        plan.retain(|fault| !fault.is_not_of_a_jbof());
        plan.extend(jbof_faults(&mut random, ops[number]));
        plan.sort_by_key(Fault::anchor);
    }
    plan.host.interrupts = false;
    plan.neighbours.iter_mut().for_each(|plan| plan.host.interrupts = false);
    plan.jbof = Some(spec);
    plan
}

/// Faults of a drive in a JBOF: it leaves and returns, loses its link to the fabric, or its host restarts.
fn jbof_faults(random: &mut Stream, ops: u64) -> Vec<Fault> {
    let one = |random: &mut Stream| {
        let op = Some(random.below(ops.max(1)) as usize);
        let (at, during) = (Anchor { op, later: magnitude(random, 10) - 1 }, magnitude(random, 12));
        match random.below(8) {
            0 | 1 => Fault::Leave { at, is_seen: true, during },
            2 | 3 => Fault::Leave { at, is_seen: false, during },
            4 | 5 => Fault::Link { at, during },
            _ => Fault::Host { at },
        }
    };
    (0..pick(random, &[0, 0, 1, 1, 2, 3])).map(|_| one(random)).collect()
}

/// Neighbor drives, in some runs.
fn neighbours(rng: &Rng, name: &str, first: &Plan) -> Vec<Plan> {
    let mut random = rng.stream(&format!("{name}/beside"));
    if !one_in(&mut random, 4) {
        return Vec::new();
    }
    let count = 1 + random.below(NEIGHBOURS_MAX as u64);
    let plan = |number| {
        let mut plan = one(rng, &format!("{name}/beside-{number}"), Shape::Any);
        plan.faults.retain(|fault| !matches!(fault, Fault::Cut { .. } | Fault::Cycle { .. }));
        plan.drive.untimed = first.drive.untimed;
        plan
    };
    (0..count).map(plan).collect()
}

/// Constraints on a drive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Any,
    /// A drive that can be in a JBOF.
    InJbof,
    /// The same, with a few pages of its map in DRAM, some of which it lends and borrows.
    InJbofWithDram,
}

/// A plan of one drive with these constraints, from streams of this name.
fn one(rng: &Rng, name: &str, shape: Shape) -> Plan {
    let is_in_jbof = shape != Shape::Any;
    let mut random = rng.stream(name);
    let mut plan = Plan {
        seed: random.next_u64() >> 12, // TOML integers have 63 bits
        defect: Planted::none(),
        ops: Vec::new(),
        faults: Vec::new(),
        host: host(&mut random),
        drive: spec(&mut random),
        neighbours: Vec::new(),
        jbof: None,
    };
    // A separate stream, so that other draws do not change.
    let failures = flash_failures(&mut rng.stream(&format!("{name}/flash")), &plan);
    upkeep(&mut rng.stream(&format!("{name}/upkeep")), &mut plan.drive);
    policies(&mut rng.stream(&format!("{name}/policies")), &mut plan.drive);
    if shape == Shape::InJbofWithDram {
        if plan.drive.map_cache_pages.is_none() {
            // Several translation pages, so that a few in DRAM are not all of them.
            plan.drive.blocks *= 4;
            plan.drive.namespaces.iter_mut().for_each(|namespace| namespace.units *= 4);
        }
        plan.drive.map_cache_pages = Some(pick(&mut rng.stream(&format!("{name}/dram")), &[2, 2, 3, 4]));
    }
    let mut with_pairs = rng.stream(&format!("{name}/pairs"));
    pairs(&mut with_pairs, &mut plan.drive);
    plan.drive.data_out_first = one_in(&mut rng.stream(&format!("{name}/channel")), 4);
    plan.drive.wide_map = one_in(&mut rng.stream(&format!("{name}/map")), 4);
    plan.drive.untimed = one_in(&mut rng.stream(&format!("{name}/timing")), 4);
    placement(&mut rng.stream(&format!("{name}/placement")), &mut plan.drive);
    extents(&mut rng.stream(&format!("{name}/extents")), &mut plan.drive);
    let mut of_parts = rng.stream(&format!("{name}/parts"));
    plan.drive.absorbs_parts = one_in(&mut of_parts, 3).then(|| pick(&mut of_parts, &[1, 2, 8, 64]));
    let mut of_cache = rng.stream(&format!("{name}/read-cache"));
    plan.drive.read_cache_units =
        if one_in(&mut of_cache, 4) { pick(&mut of_cache, &[1, 8, 100]) } else { 0 };
    plan.drive.in_turn = one_in(&mut rng.stream(&format!("{name}/striping")), 5);
    let mut of_chores = rng.stream(&format!("{name}/housekeeping"));
    plan.drive.housekeeping_units =
        if one_in(&mut of_chores, 5) { pick(&mut of_chores, &[1, 30, 300]) } else { 0 };
    let mut of_slc = rng.stream(&format!("{name}/dynamic-cache"));
    if one_in(&mut of_slc, 4) && plan.drive.policies.streams.is_none() {
        plan.drive.upkeep.slc_dynamic = 1 + of_slc.below(plan.drive.blocks.into()) as u32;
    }
    plan.drive.upkeep.slc_folds_idle = plan.drive.upkeep.has_cache() && one_in(&mut of_slc, 3);
    let mut of_heat = rng.stream(&format!("{name}/heat"));
    plan.drive.rest_us = if one_in(&mut of_heat, 5) { pick(&mut of_heat, &[20, 300, 2000]) } else { 0 };
    let cache_streams = [rng.stream(&format!("{name}/admission")), rng.stream(&format!("{name}/prefetch"))];
    cache_policies(cache_streams, &mut plan.drive);
    partial(&mut rng.stream(&format!("{name}/partial")), &mut plan.drive);
    array(&mut rng.stream(&format!("{name}/array")), &mut plan.drive);
    let mut with_tables = rng.stream(&format!("{name}/tables"));
    if is_in_jbof {
        plan.drive.fit_a_jbof();
    } else if plan.drive.endpoints == 0 && plan.drive.array.is_none() {
        tables(&mut with_tables, &mut plan.drive);
    }
    let mut with_programs = rng.stream(&format!("{name}/programs"));
    if !is_in_jbof && plan.drive.endpoints == 0 && plan.drive.array.is_none() {
        programs(&mut with_programs, &mut plan.drive);
    }
    // A drive whose flash may fail needs more spare space.
    plan.faults = if plan.drive.array.is_some() { Vec::new() } else { failures };
    shrink_to_fit(&mut plan);
    plan.ops = ops(&mut random, &plan);
    if plan.drive.has_pairs() {
        plan.ops = among_pairs(&mut with_pairs, &plan);
    }
    if plan.drive.has_tables() {
        plan.ops = among_tables(&mut with_tables, &plan);
    }
    if plan.drive.programs.is_some() {
        plan.ops = among_programs(&mut with_programs, &plan);
    }
    exchanges(&mut rng.stream(&format!("{name}/exchanges")), &mut plan.ops);
    if plan.drive.array.is_some() {
        plan.ops.retain(|op| !op.needs_own_flash());
        plan.ops.push(Op::Read { namespace: 1, extent: Extent { lba: 0, blocks: 1 } });
    }
    let failures = std::mem::take(&mut plan.faults);
    plan.faults = faults(&mut random, &plan);
    plan.faults.extend(failures);
    plan.faults.extend(unplugs(&mut rng.stream(&format!("{name}/unplug")), &plan));
    plan
}

/// Firmware placement: on the host, in some runs of the drives that support it.
fn placement(random: &mut Stream, drive: &mut DriveSpec) {
    let (is_hosted, endpoints) = (one_in(random, 4), pick(random, &[1, 2, 4]));
    if is_hosted && !drive.has_pairs() {
        drive.base = BaseSpec::Empty;
        (drive.protected, drive.files, drive.host_buffer_pages) = (false, false, None);
        drive.channels = drive.channels.next_multiple_of(endpoints);
        drive.endpoints = endpoints;
    }
}

/// A map that is a tree of extents, in some runs of drives without a map cache. Nodes are small, so that they split and merge. Firmware on
/// the host, for which it is made, has one more often.
fn extents(random: &mut Stream, drive: &mut DriveSpec) {
    let one_in_runs = if drive.endpoints > 0 { 2 } else { 3 };
    let (has_tree, entries) = (one_in(random, one_in_runs), pick(random, &[4, 4, 8, 64]));
    if has_tree && drive.map_cache_pages.is_none() {
        drive.base = BaseSpec::Empty;
        drive.extents = Some(entries);
    }
}

/// Part of the firmware on the host, in some runs of drives with their own firmware.
fn partial(random: &mut Stream, drive: &mut DriveSpec) {
    let (is_partial, (map, collection)) =
        (one_in(random, 4), pick(random, &[(true, false), (false, true), (true, true)]));
    if is_partial && drive.endpoints == 0 {
        let map = map && drive.map_cache_pages.is_none();
        drive.partial = PartialSpec { map, collection: collection || !map };
    }
}

/// An array of several such drives, in some runs of the drives that support it: on the host, or behind a bridge. Superblocks are added for
/// the array's own metadata.
fn array(random: &mut Stream, drive: &mut DriveSpec) {
    let (is_array, is_bridge) = (one_in(random, 3), one_in(random, 3));
    let (level, members) = match is_bridge {
        true => (LevelSpec::Raid0, pick(random, &[2, 3])),
        false => pick(
            random,
            &[
                (LevelSpec::Raid0, 2),
                (LevelSpec::Raid1, 2),
                (LevelSpec::Raid1, 3),
                (LevelSpec::Raid5, 3),
                (LevelSpec::Raid5, 3),
                (LevelSpec::Raid5, 4),
                (LevelSpec::Raid10, 4),
            ],
        ),
    };
    let spares = if one_in(random, 2) && level.is_redundant() { 1 } else { 0 };
    let bridge = BridgeSpec {
        bytes: pick(random, &[64 << 10, 128 << 10, 1 << 20]),
        small_bytes: pick(random, &[512, 4096, 16_384]),
        stream_window: pick(random, &[0, 4096, 65_536]),
        drain_depth: pick(random, &[1, 2, 8]),
        is_through: one_in(random, 2),
        row_units: pick(random, &[1, 2, 8]),
    };
    let spec = ArraySpec {
        level,
        members,
        spares,
        chunk_units: pick(random, &[1, 2, 4, 16]),
        clean_us: pick(random, &[100, 1000, 10_000, 1_000_000]),
        bridge: is_bridge.then_some(bridge),
        collects_together: one_in(random, 3),
    };
    if !is_array || drive.endpoints > 0 || drive.has_pairs() {
        return;
    }
    drive.base = BaseSpec::Empty;
    (drive.files, drive.host_buffer_pages) = (false, None);
    if is_bridge {
        drive.partial = PartialSpec::default();
    }
    let geometry = drive::geometry(drive);
    let of_superblocks = u64::from(geometry.units_per_block()) * u64::from(geometry.dies());
    drive.blocks += (drive::array_overhead(&spec) * 4 / 3).div_ceil(of_superblocks.max(1)) as u32;
    drive.array = Some(spec);
}

/// Unplugged members, in some runs of redundant arrays.
fn unplugs(random: &mut Stream, plan: &Plan) -> Vec<Fault> {
    let Some(array) = plan.drive.array.as_ref().filter(|array| array.level.is_redundant()) else {
        return Vec::new();
    };
    let drives = array.drives() as u64;
    let one = |random: &mut Stream| Fault::Unplug {
        at: Anchor {
            op: Some(random.below(plan.ops.len() as u64) as usize),
            later: magnitude(random, 10) - 1,
        },
        member: random.below(drives) as u32,
        returns: one_in(random, 2),
        with_power: one_in(random, 3),
    };
    (0..pick(random, &[0, 1, 1, 2, 3])).map(|_| one(random)).collect()
}

/// Background work on flash, and placement of map and media: each in some runs. The superblocks that this needs are added.
fn upkeep(random: &mut Stream, drive: &mut DriveSpec) {
    let spare_blocks = pick(random, &[0, 0, 0, 1, 2, 4]);
    drive.upkeep = UpkeepSpec {
        spare_blocks,
        factory_bad_blocks: if one_in(random, 3) {
            random.below(u64::from(spare_blocks) + 1) as u32
        } else {
            0
        },
        slc_dynamic: 0,
        slc_folds_idle: false,
        slc_blocks: if one_in(random, 4) { 1 + random.below(3) as u32 } else { 0 },
        static_spread: one_in(random, 3).then(|| pick(random, &[1, 2, 4, 8])),
        refresh: one_in(random, 3).then(|| RefreshSpec {
            reads: pick(random, &[5, 20, 100, 1000]),
            age_us: pick(random, &[1000, 10_000, 100_000, 1_000_000_000]),
        }),
        idle: one_in(random, 3).then(|| IdleSpec {
            after_us: pick(random, &[20, 200, 2000]),
            free_blocks: drive.collect_start + 1 + random.below(4) as u32,
        }),
    };
    let has_cold = drive.upkeep.static_spread.is_some() || drive.upkeep.refresh.is_some();
    drive.blocks += drive.upkeep.spare_blocks + drive.upkeep.slc_blocks + u32::from(has_cold);
    if one_in(random, 5) {
        // Several translation pages, so that a few in DRAM are not all of them.
        drive.map_cache_pages = Some(pick(random, &[1, 2, 4]));
        drive.blocks *= 4;
        drive.namespaces.iter_mut().for_each(|namespace| namespace.units *= 4);
    }
    if one_in(random, 5) {
        drive.files = true;
        drive.protected = false; // a process has no power-loss protection
    }
    if drive.map_cache_pages.is_some() && one_in(random, 2) {
        drive.host_buffer_pages = Some(pick(random, &[1, 2, 6]));
    }
}

/// The name of a built-in policy, in one of so many runs: with an argument, if it takes one.
fn policy<P: DriveKind + ?Sized>(random: &mut Stream, all: &Policies, runs: u64) -> Option<String> {
    let is_drawn = one_in(random, runs);
    let texts = |name: &str| ["", ":1", ":4", ":60", ":1000"].map(|argument| format!("{name}{argument}"));
    let fitting =
        |name: &str| texts(name).into_iter().filter(|text| all.find::<P>(text).is_ok()).collect::<Vec<_>>();
    // Each as often as others, whatever arguments it takes.
    let names = all.each::<P>().map(|(name, _)| fitting(name));
    let every: Vec<Vec<String>> = names.filter(|texts| !texts.is_empty()).collect();
    let texts = &every[random.below(every.len() as u64) as usize];
    let text = &texts[random.below(texts.len() as u64) as usize];
    is_drawn.then(|| text.clone())
}

/// Policies, each in some runs, of all that are built in. The superblocks that streams take are added.
fn policies(random: &mut Stream, drive: &mut DriveSpec) {
    let all = Policies::default();
    drive.policies = PoliciesSpec {
        victim: policy::<dyn Victim>(random, &all, 4),
        streams: policy::<dyn policy::Stream>(random, &all, 4),
        schedule: policy::<dyn Schedule>(random, &all, 4),
        suspend: policy::<dyn Suspend>(random, &all, 4),
        ..PoliciesSpec::default()
    };
    if drive.upkeep.slc_blocks > 0 || drive.base == BaseSpec::Steady {
        drive.policies.streams = None;
    }
    if let Ok(found) = drive.policies.found() {
        drive.blocks += found.streams.make().counts().further_blocks();
    }
}

/// Policies of the read cache, each in half of the drives that have one.
fn cache_policies([mut admission, mut prefetch]: [Stream; 2], drive: &mut DriveSpec) {
    if drive.read_cache_units > 0 {
        let all = Policies::default();
        drive.policies.admission = policy::<dyn policy::Admission>(&mut admission, &all, 2);
        drive.policies.prefetch = policy::<dyn policy::Prefetch>(&mut prefetch, &all, 2);
    }
}

/// Replaces some writes and comparisons by Compare and Write, in some runs.
fn exchanges(random: &mut Stream, ops: &mut [Op]) {
    if !one_in(random, 3) {
        return;
    }
    let share = pick(random, &[1, 3, 10]);
    for op in ops {
        let (namespace, extent) = match op {
            Op::Write { namespace, extent, .. } if one_in(random, share) => (*namespace, *extent),
            Op::Compare { namespace, extent } => (*namespace, *extent),
            _ => continue,
        };
        *op = Op::Exchange { namespace, extent, wrong: one_in(random, 4) };
    }
}

/// KV namespaces, in some runs: in addition to block namespaces, or instead of them. The superblocks that they need are added.
fn pairs(random: &mut Stream, drive: &mut DriveSpec) {
    if !one_in(random, 4) {
        return;
    }
    let page_units = drive.page_bytes / 4096;
    let segment_units = pick(random, &[4, 8, 8, 16, 32]).max(page_units);
    drive.base = BaseSpec::Empty;
    drive.kv = KvSpec {
        segment_units,
        packing: pick(random, &Packing::ALL),
        log_table: pick(random, &[1, 4, 64]),
        buffer_pages: pick(random, &[1, 2, 4, 16]),
        memtable_bytes: pick(random, &[200, 1000, 4000]),
        filter_bits: pick(random, &[0, 4, 10]),
        filter_bytes: pick(random, &[0, 100, 1 << 20]),
        cache_units: pick(random, &[1, 4, 100]),
        l0_runs: pick(random, &[1, 2, 4]),
        level_ratio: pick(random, &[2, 4, 10]),
        value_bytes_max: pick(random, &[1000, 6000, 20_000, 40_000]),
    };
    if one_in(random, 3) {
        drive.namespaces.clear();
    }
    let least = drive::pairs_units_min(drive);
    let mut units = 0;
    for _ in 0..if one_in(random, 4) { 2 } else { 1 } {
        let own = least + random.below(least * 2 / 3 + 1);
        drive.namespaces.push(NamespaceSpec { units: own, block: 4096, pairs: true, tables: false });
        units += own;
    }
    if one_in(random, 2) {
        drive.namespaces.rotate_right(1);
    }
    let geometry = drive::geometry(drive);
    let of_superblocks = u64::from(geometry.units_per_block()) * u64::from(geometry.dies());
    drive.blocks += (units * 5 / 4).div_ceil(of_superblocks.max(1)) as u32;
}

/// A table namespace, in some runs.
fn tables(random: &mut Stream, drive: &mut DriveSpec) {
    if !one_in(random, 6) {
        return;
    }
    drive.base = BaseSpec::Empty;
    if one_in(random, 3) {
        drive.namespaces.retain(|namespace| namespace.pairs);
    }
    let units = 64 + random.below(300);
    drive.namespaces.push(NamespaceSpec { units, block: 4096, pairs: false, tables: true });
    let geometry = drive::geometry(drive);
    let of_superblocks = u64::from(geometry.units_per_block()) * u64::from(geometry.dies());
    drive.blocks += (units * 5 / 4).div_ceil(of_superblocks.max(1)) as u32;
}

/// Subsystem local memory and programs, in some runs.
fn programs(random: &mut Stream, drive: &mut DriveSpec) {
    let (has_programs, memory_units) = (one_in(random, 6), pick(random, &[1, 2, 8]));
    if !has_programs {
        return;
    }
    drive.programs = Some(ProgramsSpec { memory_units });
    let geometry = drive::geometry(drive);
    let of_superblocks = u64::from(geometry.units_per_block()) * u64::from(geometry.dies());
    drive.blocks += ((memory_units + 1) * 5 / 4).div_ceil(of_superblocks.max(1)) as u32;
}

/// The plan's operations, mixed with operations on local memory and programs.
fn among_programs(random: &mut Stream, plan: &Plan) -> Vec<Op> {
    let words = plan.drive.programs.map_or(1, |programs| programs.memory_units * 1024);
    let longest = pick(random, &[4, 64, 1024]);
    let op = |random: &mut Stream| {
        let slot = random.below(u64::from(SLOTS)) as u16;
        let extent = Extent { lba: random.below(words), blocks: 1 + random.below(longest.min(words)) as u32 };
        let number = random.below(100_000) as u32;
        let memory = |verb| Op::Memory { extent, verb };
        match random.below(16) {
            0..3 => memory(MemoryVerb::Write(number)),
            3..5 => memory(MemoryVerb::Read),
            5 => memory(MemoryVerb::Fill),
            6..9 => Op::Program { slot, verb: ProgramVerb::Load(random.below(u64::from(KINDS)) as u8) },
            9 => Op::Program { slot, verb: ProgramVerb::Unload },
            10..14 if plan.drive.has_tables() && one_in(random, 2) => {
                let table = random.below(4) as u32;
                Op::Table { namespace: 1, table, verb: TableVerb::Filter(slot) }
            }
            _ => Op::Program { slot, verb: ProgramVerb::Execute { extent, number } },
        }
    };
    let share = pick(random, &[1, 3]);
    let mut mixed = Vec::new();
    for other in &plan.ops {
        (0..random.below(2 * share + 1)).for_each(|_| mixed.push(op(random)));
        mixed.push(other.clone());
    }
    mixed.push(op(random));
    mixed
}

/// The plan's operations, mixed with operations on tables.
fn among_tables(random: &mut Stream, plan: &Plan) -> Vec<Op> {
    let tables = pick(random, &[1, 2, 4]);
    let rows_max = pick(random, &[10, 100, 1000, 4000]);
    let op = |random: &mut Stream| {
        let table = random.below(tables) as u32;
        let verb = match random.below(10) {
            0 => TableVerb::Drop,
            1..5 => TableVerb::Query(random.below(2) as u8),
            _ => TableVerb::Append(1 + random.below(rows_max) as u32),
        };
        Op::Table { namespace: 1, table, verb }
    };
    let share = pick(random, &[1, 3]);
    let mut mixed = Vec::new();
    for other in &plan.ops {
        (0..random.below(2 * share + 1)).for_each(|_| mixed.push(op(random)));
        mixed.push(other.clone());
    }
    mixed.push(op(random));
    mixed
}

/// The plan's operations, mixed with operations on key-value pairs.
fn among_pairs(random: &mut Stream, plan: &Plan) -> Vec<Op> {
    let kv = &plan.drive.kv;
    let keys = pick(random, &[2, 10, 40, 200]);
    let bytes_max = pick(random, &[40, 600, 5000, 40_000]).min(kv.value_bytes_max);
    // Stores always occur; each other operation in two thirds of the runs.
    let mut weights = [60, 20, 15, 8, 5, 3, 3, 4, 2];
    weights[1..].iter_mut().for_each(|weight| *weight *= random.below(3).min(1) * (1 + random.below(2)));
    let op = |random: &mut Stream| {
        let total: u64 = weights.iter().sum();
        let mut at = random.below(total);
        let verb = weights.iter().position(|weight| {
            let is_here = at < *weight;
            at = at.saturating_sub(*weight);
            is_here
        });
        let namespace = 1 + random.below(2) as u32;
        let key = random.below(keys) as u32;
        let bytes = match random.below(4) {
            0 => bytes_max - random.below(u64::from(bytes_max / 8) + 1) as u32,
            _ => random.below(u64::from(bytes_max / 4) + 1) as u32,
        };
        let store = |when| Op::Store { namespace, key, bytes, when };
        match verb.unwrap_or(0) {
            0 => store(StoreWhen::Always),
            1 => Op::Retrieve { namespace, key },
            2 => Op::Remove { namespace, key },
            3 => Op::Exist { namespace, key },
            4 => Op::List { namespace, key },
            5 => Op::Scan { namespace, key },
            6 => Op::Flush { namespace: 1 + random.below(4) as u32 },
            7 => store(StoreWhen::Exists),
            _ => store(StoreWhen::Absent),
        }
    };
    let share = pick(random, &[1, 3, 20]);
    let rare = |op: &Op| matches!(op, Op::Create { .. });
    let mut mixed = Vec::new();
    for other in &plan.ops {
        (0..random.below(2 * share + 1)).for_each(|_| mixed.push(op(random)));
        let is_other = rare(other) && one_in(random, 2);
        mixed.push(match other {
            Op::Create { .. } if is_other => {
                let least = drive::pairs_units_min(&plan.drive);
                Op::Create { units: least * 3 / 4 + random.below(least), block: 4096, pairs: true }
            }
            other => other.clone(),
        });
    }
    mixed.push(op(random));
    mixed
}

/// Failures of flash: of reads in some runs, of programs and erases in others.
fn flash_failures(random: &mut Stream, plan: &Plan) -> Vec<Fault> {
    let dies = u64::from(plan.drive.channels * plan.drive.ways);
    let verbs: &[(FlashVerb, u64)] = match random.below(6) {
        0 => &[(FlashVerb::Read, 7)],
        1 => &[(FlashVerb::Program, 6), (FlashVerb::Erase, 3)],
        2 => &[(FlashVerb::Read, 7), (FlashVerb::Program, 6), (FlashVerb::Erase, 3)],
        _ => &[],
    };
    let mut failures = Vec::new();
    for (verb, bits) in verbs {
        for _ in 0..random.below(5) {
            let (die, life) = (random.below(dies) as u32, random.below(3) as usize);
            failures.push(Fault::Flash { verb: *verb, die, nth: magnitude(random, *bits), life });
        }
    }
    failures
}

fn one_in(random: &mut Stream, n: u64) -> bool {
    random.below(n) == 0
}

fn pick<T: Copy>(random: &mut Stream, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}

/// Draws a number from 1 to about `2^bits`, with a uniform distribution of the logarithm.
fn magnitude(random: &mut Stream, bits: u64) -> u64 {
    let top = 1 << random.below(bits + 1);
    top + random.below(top)
}

fn host(random: &mut Stream) -> HostSpec {
    HostSpec {
        depth: pick(random, &[1, 1, 2, 4, 8, 16, 32]),
        queues: pick(random, &[1, 1, 2, 3]),
        entries: pick(random, &[4, 16, 64]),
        interrupts: one_in(random, 3),
    }
}

fn spec(random: &mut Stream) -> DriveSpec {
    let bits = pick(random, &[1, 2, 3]);
    let collect_reserve = pick(random, &[1, 1, 2]);
    let mut spec = DriveSpec {
        channels: pick(random, &[1, 2]),
        ways: pick(random, &[1, 2]),
        planes: pick(random, &[1, 1, 2]),
        blocks: pick(random, &[8, 10, 12, 16, 20]),
        pages: bits * pick(random, &[2, 3, 4, 6]),
        page_bytes: pick(random, &[4096, 8192, 16384]),
        bits,
        base: pick(random, &[BaseSpec::Empty, BaseSpec::Empty, BaseSpec::Filled, BaseSpec::Steady]),
        buffer_units: pick(random, &[1, 8, 32, 100]),
        protected: one_in(random, 3),
        cost_benefit: one_in(random, 3),
        policies: PoliciesSpec::default(),
        collect_start: collect_reserve + random.below(3) as u32,
        collect_reserve,
        map_cache_pages: one_in(random, 4).then_some(1),
        host_buffer_pages: None,
        wide_map: false,
        suspends: one_in(random, 3),
        cache_read: one_in(random, 3),
        data_out_first: false,
        checkpoint_units: pick(random, &[0, 16, 64, 200]),
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
        namespaces: Vec::new(),
    };
    let raw = raw_units(&spec);
    let user = (raw * random.range(30..=85) / 100).min(1500);
    let block = |random: &mut Stream| pick(random, &[512, 4096, 4096]);
    spec.namespaces.push(NamespaceSpec { units: user, block: block(random), pairs: false, tables: false });
    while one_in(random, 3) && spec.namespaces.len() < 4 {
        let parts = spec.namespaces.len() as u64 + 1;
        spec.namespaces.iter_mut().for_each(|namespace| namespace.units = (user / parts).max(1));
        let units = (user / parts).max(1);
        spec.namespaces.push(NamespaceSpec { units, block: block(random), pairs: false, tables: false });
    }
    spec
}

fn raw_units(spec: &DriveSpec) -> u64 {
    let geometry = drive::geometry(spec);
    u64::from(geometry.units_per_block()) * u64::from(geometry.dies()) * u64::from(spec.blocks)
}

/// Operations of every kind, mostly writes all over the drive.
pub(super) fn busy_ops(seed: u64, plan: &Plan, count: usize) -> Vec<Op> {
    let mut random = Rng::new(seed).stream("busy");
    let mix =
        Mix { weights: [50, 8, 5, 6, 4, 3, 2, 0, 1, 1, 1, 0, 0, 0], hot: 100, aligned: false, blocks_max: 6 };
    (0..count).map(|_| op(&mut random, plan, &mix)).collect()
}

/// Shrinks the namespaces until the drive can be built.
pub(super) fn shrink_to_fit(plan: &mut Plan) {
    while !drive::is_possible(plan) {
        // KV and table namespaces need their size.
        let has_blocks = |namespace: &NamespaceSpec| !namespace.pairs && !namespace.tables;
        if plan.drive.namespaces.iter().all(|namespace| namespace.units <= 8 || !has_blocks(namespace)) {
            plan.drive.blocks += 2; // the flash array is too small
        }
        for namespace in plan.drive.namespaces.iter_mut().filter(|namespace| has_blocks(namespace)) {
            namespace.units = (namespace.units * 9 / 10).max(1);
        }
    }
}

/// Probability of each operation, and distribution of its addresses.
struct Mix {
    weights: [u64; 14],
    /// Share of the blocks, in percent, to which most operations go.
    hot: u64,
    /// Whether operations cover whole units.
    aligned: bool,
    blocks_max: u64,
}

fn ops(random: &mut Stream, plan: &Plan) -> Vec<Op> {
    // Writes always occur; each other operation in half of the runs.
    let mut weights = [80, 30, 12, 12, 12, 12, 8, 2, 4, 2, 4, 1, 3, 1];
    weights[1..].iter_mut().for_each(|weight| *weight *= random.below(2) * (1 + random.below(2)));
    let mix = Mix {
        weights,
        hot: pick(random, &[5, 20, 50, 100]),
        aligned: one_in(random, 2),
        blocks_max: pick(random, &[1, 4, 16, 64]),
    };
    let count = 20 + magnitude(random, 8);
    (0..count).map(|_| op(random, plan, &mix)).collect()
}

fn op(random: &mut Stream, plan: &Plan, mix: &Mix) -> Op {
    let total: u64 = mix.weights.iter().sum();
    let mut at = random.below(total);
    let verb = mix.weights.iter().position(|weight| {
        let is_here = at < *weight;
        at = at.saturating_sub(*weight);
        is_here
    });
    let namespaces = plan.drive.namespaces.len() as u64;
    let namespace = 1 + random.below(namespaces) as u32;
    let spec = plan.drive.namespaces[namespace as usize - 1];
    let extent = extent(random, spec, mix);
    match verb.unwrap_or(0) {
        0 => Op::Write { namespace, extent, fua: false },
        1 => Op::Read { namespace, extent },
        2 => Op::Write { namespace, extent, fua: true },
        3 => {
            let count = if one_in(random, 3) { 1 + random.below(6) } else { 0 };
            let more = (0..count).map(|_| self::extent(random, spec, mix));
            let extents = std::iter::once(extent).chain(more).collect();
            Op::Trim { namespace, extents }
        }
        4 => Op::Zeroes { namespace, extent, deallocate: one_in(random, 2) },
        5 => Op::Compare { namespace, extent },
        6 => Op::Flush { namespace },
        7 => Op::Pause(magnitude(random, 11)),
        8 => Op::Verify { namespace, extent },
        9 => Op::Mar { namespace, extent },
        10 => {
            let count = 1 + random.below(3);
            let extents = (0..count).map(|_| self::extent(random, spec, mix)).collect();
            Op::Copy { namespace, to: extent.lba, extents }
        }
        11 => Op::Format { namespace, block: pick(random, &[512, 4096]) },
        12 if one_in(random, 2) => Op::Delete { namespace },
        12 => {
            let units = 1 + random.below(spec.units);
            Op::Create { units, block: pick(random, &[512, 4096]), pairs: false }
        }
        _ => Op::Sanitize,
    }
}

fn extent(random: &mut Stream, spec: NamespaceSpec, mix: &Mix) -> Extent {
    let per_unit = u64::from(4096 / spec.block);
    let blocks = spec.units * per_unit;
    let range = if one_in(random, 10) { blocks } else { (blocks * mix.hot / 100).max(1) };
    let (mut lba, mut count) = (random.below(range), 1 + random.below(mix.blocks_max));
    if mix.aligned {
        lba -= lba % per_unit;
        count = count.next_multiple_of(per_unit);
    }
    Extent { lba, blocks: count.min(blocks - lba) as u32 }
}

fn faults(random: &mut Stream, plan: &Plan) -> Vec<Fault> {
    let mut faults = Vec::new();
    let ops = plan.ops.len() as u64;
    let anchor = |random: &mut Stream, bits| Anchor {
        op: Some(random.below(ops) as usize),
        later: magnitude(random, bits) - 1,
    };
    let cuts = pick(random, &[0, 1, 1, 2, 3, 5]);
    for _ in 0..cuts {
        let again = if one_in(random, 3) { 1 + random.below(3) } else { 0 };
        let again = (0..again).map(|_| magnitude(random, 11)).collect();
        let (at, blind) = (anchor(random, 9), one_in(random, 4));
        faults.push(Fault::Cut { at, again, blind, ends: false });
    }
    if one_in(random, 4) {
        faults.push(Fault::Cycle { at: anchor(random, 7) });
    }
    if one_in(random, 4) {
        (0..1 + random.below(3)).for_each(|_| faults.push(Fault::Reset { at: anchor(random, 7) }));
    }
    if one_in(random, 4) {
        for _ in 0..1 + random.below(8) {
            let queue = 1 + random.below(u64::from(plan.host.queues)) as u16;
            let command = random.below(u64::from(plan.host.entries)) as u16;
            faults.push(Fault::Abort { at: anchor(random, 7), queue, command });
        }
    }
    if plan.host.interrupts && one_in(random, 2) {
        (0..1 + random.below(3)).for_each(|_| faults.push(Fault::Interrupt { at: anchor(random, 7) }));
    }
    if one_in(random, 4) {
        for _ in 0..1 + random.below(6) {
            faults.push(Fault::Replay { at: anchor(random, 7), bytes: magnitude(random, 17) });
        }
    }
    faults.sort_by_key(Fault::anchor);
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    // A run that cannot be drawn again from its seed cannot be debugged.
    #[test]
    fn a_seed_draws_the_same_plan_and_every_plan_is_possible() {
        for index in 0..200 {
            let plan = draw(3, index);
            assert_eq!(plan, draw(3, index));
            assert_eq!(Plan::from_toml(&plan.to_toml()).unwrap(), plan);
            assert!(plan.all().all(drive::is_possible));
        }
        assert_ne!(draw(3, 0), draw(4, 0));
    }

    // A feature that is never drawn finds no errors, and one that is always drawn masks others.
    #[test]
    fn each_feature_is_in_a_share_of_the_runs() {
        let plans: Vec<Plan> = (0..300).map(|index| draw(3, index)).collect();
        let fails = |plan: &Plan, verb| {
            plan.faults.iter().any(|fault| matches!(fault, Fault::Flash { verb: of, .. } if *of == verb))
        };
        type Has<'a> = &'a dyn Fn(&Plan) -> bool;
        let features: [(&str, Has<'_>); 51] = [
            ("a JBOF", &|plan| plan.jbof.is_some()),
            ("a drive that leaves its JBOF", &|plan| {
                plan.all().flat_map(|plan| &plan.faults).any(|fault| matches!(fault, Fault::Leave { .. }))
            }),
            ("a host of a JBOF that restarts", &|plan| {
                plan.all().flat_map(|plan| &plan.faults).any(|fault| matches!(fault, Fault::Host { .. }))
            }),
            ("Compare and Write", &|plan| plan.ops.iter().any(|op| matches!(op, Op::Exchange { .. }))),
            ("failing reads", &|plan| fails(plan, FlashVerb::Read)),
            ("failing programs", &|plan| fails(plan, FlashVerb::Program)),
            ("failing erases", &|plan| fails(plan, FlashVerb::Erase)),
            ("programs that fail without a spare superblock", &|plan| {
                fails(plan, FlashVerb::Program) && plan.drive.upkeep.spare_blocks == 0
            }),
            ("spare superblocks", &|plan| plan.drive.upkeep.spare_blocks > 0),
            ("superblocks bad from the factory", &|plan| plan.drive.upkeep.factory_bad_blocks > 0),
            ("an SLC cache", &|plan| plan.drive.upkeep.slc_blocks > 0),
            ("a dynamic SLC cache", &|plan| plan.drive.upkeep.slc_dynamic > 0),
            ("an SLC cache folded by an idle drive", &|plan| plan.drive.upkeep.slc_folds_idle),
            ("levelling", &|plan| plan.drive.upkeep.static_spread.is_some()),
            ("refresh", &|plan| plan.drive.upkeep.refresh.is_some()),
            ("idle garbage collection", &|plan| plan.drive.upkeep.idle.is_some()),
            ("a cached map", &|plan| plan.drive.map_cache_pages.is_some()),
            ("a host memory buffer", &|plan| plan.drive.host_buffer_pages.is_some()),
            ("a wide map", &|plan| plan.drive.wide_map),
            ("a victim policy", &|plan| plan.drive.policies.victim.is_some()),
            ("streams", &|plan| plan.drive.policies.streams.is_some()),
            ("a schedule", &|plan| plan.drive.policies.schedule.is_some()),
            ("a policy of suspension", &|plan| plan.drive.policies.suspend.is_some() && plan.drive.suspends),
            ("data before commands", &|plan| plan.drive.data_out_first),
            ("firmware on the host", &|plan| plan.drive.endpoints > 0),
            ("a map of extents", &|plan| plan.drive.extents.is_some()),
            ("a map of extents on the host", &|plan| {
                plan.drive.extents.is_some() && plan.drive.endpoints > 0
            }),
            ("a read cache", &|plan| plan.drive.read_cache_units > 0),
            ("a read cache that does not keep all", &|plan| {
                let admission = plan.drive.policies.admission.as_deref();
                admission.is_some_and(|name| name != "always")
            }),
            ("dies in turn", &|plan| plan.drive.in_turn),
            ("housekeeping", &|plan| plan.drive.housekeeping_units > 0),
            ("rests of a hot drive", &|plan| plan.drive.rest_us > 0),
            ("reading ahead", &|plan| {
                plan.drive.policies.prefetch.as_deref().is_some_and(|name| name != "none")
            }),
            ("members with joint garbage collection", &|plan| {
                plan.drive.array.as_ref().is_some_and(|array| array.collects_together)
            }),
            ("buffered parts of units", &|plan| plan.drive.absorbs_parts.is_some()),
            ("buffered parts of units on the host", &|plan| {
                plan.drive.absorbs_parts.is_some() && plan.drive.endpoints > 0
            }),
            ("the map on the host", &|plan| plan.drive.partial.map),
            ("garbage collection on the host", &|plan| plan.drive.partial.collection),
            ("an array on the host", &|plan| {
                plan.drive.array.as_ref().is_some_and(|array| array.bridge.is_none())
            }),
            ("a bridge", &|plan| plan.drive.array.as_ref().is_some_and(|array| array.bridge.is_some())),
            ("an array with parity", &|plan| {
                plan.drive.array.as_ref().is_some_and(|array| array.level == LevelSpec::Raid5)
            }),
            ("an array with a spare", &|plan| {
                plan.drive.array.as_ref().is_some_and(|array| array.spares > 0)
            }),
            ("an unplugged member", &|plan| {
                plan.faults.iter().any(|fault| matches!(fault, Fault::Unplug { .. }))
            }),
            ("a medium in files", &|plan| plan.drive.files),
            ("no modeled time", &|plan| plan.drive.untimed),
            ("one neighbour drive", &|plan| plan.neighbours.len() == 1),
            ("two neighbour drives", &|plan| plan.neighbours.len() == 2),
            ("pairs", &|plan| plan.drive.has_pairs()),
            ("programs", &|plan| plan.drive.programs.is_some()),
            ("rows filtered by a program", &|plan| {
                let is_filter = |op: &Op| matches!(op, Op::Table { verb: TableVerb::Filter(_), .. });
                plan.all().flat_map(|plan| &plan.ops).any(is_filter)
            }),
            ("KV and block namespaces", &|plan| {
                plan.drive.has_pairs() && plan.drive.namespaces.iter().any(|namespace| !namespace.pairs)
            }),
        ];
        for (name, has) in features {
            let count = plans.iter().filter(|plan| has(plan)).count();
            assert!((5..=180).contains(&count), "{name}: {count} of 300");
        }
    }
}
