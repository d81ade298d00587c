//! The drives of a scenario or a device file: profile and overrides merged, and checked against the section.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use toml::Spanned;
use toml::de::DeValue;

use super::array_section::ArraySection;
use super::drive_names::DriveNames;
use super::file::{DriveSection, DriveSections, Store};
use super::personality::Personality;
use super::policy::{self, DrivePolicies};
use super::table;
use super::transfer::no_sink;
use crate::profile::{
    CAPACITY_BYTES, CELSIUS, DRIVES, Folding, Geometry, KeyError, Profile, Programs, fault, load, within,
};
use crate::source::{Index, Sources, Tree};
use byteway_clock::{Delay, Time};
use byteway_firmware::ftl::greedy_write_amplification;
use byteway_firmware::{Base, SteadyLoad};
use byteway_text::error::{InputError, nearest};
use byteway_text::units::{Age, Bytes, Celsius, Percent, Picos, excerpt};
use byteway_workload::query::TableRows;

/// A century; a larger value is a mistaken unit.
const AGE_MAX: Age = Age(100 * 365 * 86_400);

/// A drive that can be built.
#[derive(Clone, Debug)]
pub struct DrivePlan {
    /// Name in the scenario; a single drive needs none.
    pub name: Option<String>,
    /// Name of its profile, without the directory.
    pub profile_name: String,
    /// Profile of the drive, including overrides.
    pub profile: Profile,
    /// The policies that the profile names.
    pub policies: DrivePolicies,
    /// Personality of the drive.
    pub personality: Personality,
    /// Geometry of the flash array.
    pub geometry: Geometry,
    /// Bytes of a logical block: 512 or 4096.
    pub lba_bytes: u32,
    /// Kind of store.
    pub store: Store,
    /// Initial contents.
    pub precondition: Base,
    /// The load that left [`Base::Steady`]: saturating, until a runner knows what the jobs ask.
    pub steady_load: SteadyLoad,
    /// Age of the initial contents.
    pub age: Age,
    /// Initial wear of its blocks.
    pub worn: Percent,
    /// Steps of its temperature, ascending.
    pub temperature: Vec<(Picos, Celsius)>,
    /// Number of namespaces of the personality's kind, numbered from 1.
    pub namespaces: u32,
    /// Bytes of the KV namespace behind the block namespaces; 0: none.
    pub kv_bytes: u64,
    /// Logical blocks of each namespace.
    pub namespace_blocks: u64,
    /// Tables that exist when the jobs begin.
    pub tables: Vec<TableRows>,
    /// Composition, if it is an array on the host: profile and geometry are then those of one member.
    pub array: Option<Box<ArrayPlan>>,
}

/// An array that can be built.
#[derive(Clone, Debug)]
pub struct ArrayPlan {
    /// The validated section.
    pub section: ArraySection,
    /// Members, all alike; spares are last.
    pub members: Vec<DrivePlan>,
}

impl ArrayPlan {
    /// Number of members that are not spares.
    pub fn active(&self) -> usize {
        self.members.len() - usize::from(self.section.spares)
    }
}

/// Overprovisioning in per cent up to which one that a small drive can have is looked for.
const OP_SEARCHED: u32 = 1000;

/// Temperature of a drive before the first step of its schedule, and of one without a schedule.
const USUAL: Celsius = Celsius(40);

impl DrivePlan {
    /// When its dies rest because it is hot; `None`: never.
    pub fn throttle(&self) -> Option<byteway_flash::Throttle> {
        let throttle = self.profile.firmware.throttle.as_ref()?;
        let delay = |picos: Picos| Delay::from_ps(picos.0);
        let first = (self.temperature.first().is_none_or(|(at, _)| at.0 > 0)).then_some((Picos(0), USUAL));
        let mut steps: Vec<(Time, Delay)> = Vec::new();
        for (at, temperature) in first.iter().chain(&self.temperature) {
            let rest = delay(throttle.rest(*temperature));
            if steps.last().map_or(Delay::ZERO, |(_, before)| *before) != rest {
                steps.push((Time::ZERO + delay(*at), rest));
            }
        }
        (!steps.is_empty()).then(|| byteway_flash::Throttle { period: delay(throttle.period), steps })
    }
}

impl DrivePlan {
    /// The drives that it consists of: the members of an array, or itself.
    pub fn members(&self) -> impl Iterator<Item = &DrivePlan> {
        let members = self.array.as_ref().map_or(&[][..], |array| &array.members);
        members.iter().chain(members.is_empty().then_some(self))
    }

    /// Capacity visible to the host, over all namespaces.
    pub fn capacity_bytes(&self) -> u64 {
        match self.array {
            Some(_) => self.geometry.capacity_bytes,
            None => self.geometry.capacity_bytes * u64::from(self.profile.members()),
        }
    }

    /// Whether applications reach it through software on the host.
    pub fn is_called(&self) -> bool {
        self.array.is_some() || self.profile.is_hosted()
    }

    /// The KV namespaces, possibly none.
    pub fn pairs_nsids(&self) -> RangeInclusive<u32> {
        match self.personality.has_pairs() {
            true => 1..=self.namespaces,
            false => self.namespaces + 1..=self.namespaces + u32::from(self.kv_bytes > 0),
        }
    }

    /// The namespaces with tables, possibly none.
    pub fn tables_nsids(&self) -> RangeInclusive<u32> {
        match self.personality.has_tables() {
            true => 1..=self.namespaces,
            false => RangeInclusive::new(1, 0),
        }
    }

    /// The block namespaces.
    pub fn blocks_nsids(&self) -> RangeInclusive<u32> {
        let count = if self.personality.has_blocks() { self.namespaces } else { 0 };
        1..=count
    }

    /// The address space of jobs: bytes of a unit (a logical block; for a sink, a byte), and number of units.
    pub fn address_space(&self) -> (u32, u64) {
        match self.personality.has_sink() {
            false => (self.lba_bytes, self.namespace_blocks),
            true => (1, self.profile.transfer.sink.0),
        }
    }

    /// Loads a drive from the section at `path`: `drive`, or `drive.0` and so on. `index` has the positions
    /// of keys, and `over` is the section's table of overrides.
    pub(super) fn load<'t>(
        sources: &mut Sources<'t>,
        section: &DriveSection,
        (path, index): (&str, &Index),
        over: Option<Tree<'t>>,
    ) -> Result<DrivePlan, InputError> {
        let span = index.span(&format!("{path}.profile"));
        let (profile, profile_index): (Profile, Index) =
            load(sources, &DRIVES, &section.profile, span, over, (path, "profile"))?;
        profile.check().map_err(|fault| placed(sources, &profile_index, fault))?;
        let folder_of = |key: &str| sources.folder(profile_index.span(key).start);
        let policies = DrivePolicies::of(&sources.policies, &profile, folder_of)
            .map_err(|fault| placed(sources, &profile_index, fault))?;
        if sources.is_served {
            policies.check_served().map_err(|fault| placed(sources, &profile_index, fault))?;
        }
        let said = |key: &str| index.has(&format!("{path}.{key}"));
        let draft = DriveDraft { section, path, said: &said };
        let mut plan = draft.plan(profile).map_err(|fault| {
            // The capacity and what contradicts it may be in either text.
            let in_section = index.has(&fault.path) || !profile_index.has(&fault.path);
            placed(sources, if in_section { index } else { &profile_index }, fault)
        })?;
        let folder = sources.folder(index.span(path).start).to_owned();
        plan.policies = policies;
        let is_steady = plan.precondition == Base::Steady;
        policy::check_streams(&plan.policies.streams, &plan.profile, &plan.geometry, is_steady)
            .map_err(|fault| placed(sources, &profile_index, fault))?;
        let tables = table::tables(&section.table, path, &folder, plan.tables_nsids());
        plan.tables = tables.map_err(|wrong| match wrong.unplaced() {
            Ok(fault) => placed(sources, index, fault),
            Err((key, error)) => error.at(sources.place(&index.span(&key))),
        })?;
        Ok(plan)
    }
}

/// Largest capacity with an extent map, in bytes: 2^32 units of 4 KiB.
const EXTENTS_BYTES_MAX: u64 = 16 << 40;

/// The usable capacity of drives behind a bridge with `own` bytes each: they reserve space for the array.
fn whole_bytes(profile: &Profile, own: u64) -> u64 {
    match profile.members() {
        _ if profile.bridge.is_none() => own,
        members => ((u64::from(members) * (own - own / 256 - (4 << 20))) >> 20) << 20,
    }
}

/// Smallest KV namespace: a few segments.
const KV_BYTES_MIN: u64 = 16 << 20;

/// A section being turned into a plan.
struct DriveDraft<'a> {
    section: &'a DriveSection,
    /// Path of the section.
    path: &'a str,
    /// Whether the section contains a key.
    said: &'a dyn Fn(&str) -> bool,
}

impl DriveDraft<'_> {
    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    fn fault(&self, key: &str, what: &str, help: &str) -> KeyError {
        fault(self.key(key), format!("`{}`{what}", self.key(key)), help)
    }

    /// Moves a fault to the section: the profile also has a capacity, at the same path as a lone section's.
    fn of_section(&self, wrong: KeyError) -> KeyError {
        let (of_profile, key) = ("drive.capacity", self.key("capacity"));
        if wrong.path != of_profile || !(self.said)("capacity") {
            return wrong;
        }
        fault(key.clone(), wrong.what.replace(&format!("`{of_profile}`"), &format!("`{key}`")), wrong.help)
    }

    fn plan(&self, profile: Profile) -> Result<DrivePlan, KeyError> {
        let section = self.section;
        let lba = section.lba_size;
        if lba != Bytes(512) && lba != Bytes(4096) {
            let what = format!(" = {lba} is not a format of the drive");
            return Err(self.fault("lba_size", &what, "choose \"512 B\" or \"4 KiB\""));
        }
        within(&self.key("namespaces"), section.namespaces, 1, 128)?;
        within(&self.key("age"), section.age, Age(0), AGE_MAX)?;
        within(&self.key("worn"), section.worn, Percent(0.0), Percent(200.0))?;
        self.check_temperature()?;
        if section.personality.has_sink() && profile.transfer.sink.0 == 0 {
            return Err(no_sink(&self.key("personality"), &profile_stem(&section.profile)));
        }
        let only_pairs = section.personality.has_pairs() || section.personality.has_tables();
        let begins_written = section.precondition != Base::Empty;
        for (key, is_wrong) in [("precondition", begins_written), ("lba_size", true)] {
            if only_pairs && (self.said)(key) && is_wrong {
                let what = ": a drive with key-value pairs or tables has no blocks, and begins empty";
                return Err(self.fault(key, what, "leave it out; jobs can fill the drive"));
            }
        }
        let has_pairs = only_pairs || section.kv_capacity.is_some();
        if profile.is_hosted() || profile.bridge.is_some() {
            self.check_apart(&profile, begins_written, has_pairs)?;
        }
        if has_pairs && (self.said)("precondition") && begins_written {
            let what = ": a drive with a KV namespace begins empty";
            return Err(self.fault("precondition", what, "leave it out; jobs can fill the drive"));
        }
        let capacity = section.capacity.unwrap_or(profile.drive.capacity);
        let members = u64::from(profile.members());
        if profile.bridge.is_some() {
            // Each of them has at least the minimum capacity of a drive.
            let (least, most) = (CAPACITY_BYTES.start() * members, *CAPACITY_BYTES.end());
            within(&self.key("capacity"), capacity, Bytes(least), Bytes(most))?;
        }
        if members > 1 && !capacity.0.is_multiple_of(members << 20) {
            let what = format!(" = {capacity} doesn't divide among {members} drives behind a bridge");
            return Err(self.fault("capacity", &what, "choose a multiple of so many MiB"));
        }
        let own = Bytes(capacity.0 / members);
        let geometry = profile.geometry(own).map_err(|fault| self.of_section(fault))?;
        if profile.firmware.extents.is_some() && capacity.0 > EXTENTS_BYTES_MAX {
            let what = format!(
                " = {capacity}: at most 16 TiB are possible with a map of extents (`firmware.extents`)"
            );
            return Err(self.fault(
                "capacity",
                &what,
                "choose less, or set `override.firmware.extents = false`",
            ));
        }
        let whole = whole_bytes(&profile, geometry.capacity_bytes);
        let programs_bytes = self.programs_bytes(&profile, whole)?;
        let whole = whole - programs_bytes;
        let kv_bytes = self.kv_bytes(whole)?;
        // Whole MiB, so that no namespace begins within a page.
        let namespace_bytes = ((whole - kv_bytes) / u64::from(section.namespaces)) >> 20 << 20;
        let precondition = match has_pairs || profile.is_hosted() || profile.bridge.is_some() {
            true => Base::Empty,
            false => section.precondition,
        };
        if precondition == Base::Steady
            && profile.flash.slc.as_ref().is_some_and(|slc| slc.fold == Folding::Idle)
        {
            return Err(fault(
                "flash.slc.fold",
                "`flash.slc.fold` = \"idle\": the steady state is constructed for a cache that is folded when it is full",
                "set `precondition = \"filled\"`, and `warmup` to several times the capacity; a small `capacity` makes that short",
            ));
        }
        if precondition == Base::Steady && !profile.has_its_spare(&geometry) {
            return Err(self.other_spare(&profile, &geometry));
        }
        Ok(DrivePlan {
            name: section.name.clone(),
            profile_name: profile_stem(&section.profile),
            policies: DrivePolicies::default(),
            personality: section.personality,
            geometry,
            lba_bytes: lba.0 as u32,
            store: section.store,
            precondition,
            steady_load: SteadyLoad::Saturating,
            age: section.age,
            worn: section.worn,
            temperature: section.temperature.clone(),
            namespaces: section.namespaces,
            kv_bytes,
            namespace_blocks: namespace_bytes / lba.0,
            tables: Vec::new(),
            array: None,
            profile,
        })
    }

    /// A small drive in the steady state that would amplify writes as another `op` does.
    fn other_spare(&self, profile: &Profile, geometry: &Geometry) -> KeyError {
        let capacity = Bytes(geometry.capacity_bytes);
        let block = u64::from(geometry.planes) * u64::from(geometry.pages) * u64::from(geometry.page_bytes);
        let what = format!(
            " = \"steady\": flash comes in superblocks of {} for each of {} dies, so {capacity} have a spare of {:.3} % and not \
             firmware.op = {}, and writes would be amplified {:.3} times instead of {:.3}",
            Bytes(block),
            geometry.die_count(),
            100.0 * profile.spare(geometry),
            profile.firmware.op,
            greedy_write_amplification(profile.spare(geometry)),
            greedy_write_amplification(profile.firmware.op.0 / 100.0),
        );
        let fits = profile
            .capacity_with_its_spare(capacity)
            .map(|fits| format!("choose capacity = \"{fits}\", or "));
        // More spare makes more blocks, of which a whole one may be another spare again.
        let has_it = |percent: &u32| {
            let mut other = profile.clone();
            other.firmware.op = Percent((*percent).into());
            other.geometry(capacity).is_ok_and(|geometry| other.has_its_spare(&geometry))
        };
        let least = (profile.firmware.op.0 as u32).max(1);
        let help = match (least..=OP_SEARCHED).find(has_it) {
            Some(percent) => {
                format!("{}set override.firmware.op = \"{percent} %\"", fits.unwrap_or_default())
            }
            None => format!("{}choose smaller superblocks, or fewer dies", fits.unwrap_or_default()),
        };
        self.fault("precondition", &what, &help)
    }

    fn check_temperature(&self) -> Result<(), KeyError> {
        let (key, steps) = (self.key("temperature"), &self.section.temperature);
        if steps.len() > TEMPERATURE_STEPS_MAX {
            let what = format!(" has {} steps, at most {TEMPERATURE_STEPS_MAX} are possible", steps.len());
            return Err(self.fault("temperature", &what, "leave some out"));
        }
        let [coldest, hottest] = CELSIUS;
        for (at, temperature) in steps {
            within(&key, *at, Picos(0), TEMPERATURE_END)?;
            within(&key, *temperature, coldest, hottest)?;
        }
        if let Some(pair) = steps.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            let what = format!(": {} comes after {}", pair[1].0, pair[0].0);
            return Err(self.fault("temperature", &what, "let each step be later than the one before"));
        }
        Ok(())
    }

    /// Whether the section fits a drive whose firmware runs on the host, or on drives behind a bridge.
    fn check_apart(&self, profile: &Profile, begins_written: bool, has_pairs: bool) -> Result<(), KeyError> {
        let who = match profile.is_hosted() {
            true => "a drive whose firmware runs on the host",
            false => "a drive that is several behind a bridge",
        };
        if (self.said)("precondition") && begins_written {
            let what = format!(": {who} begins empty");
            return Err(self.fault("precondition", &what, "leave it out; jobs can fill the drive"));
        }
        if has_pairs {
            let key = if self.section.kv_capacity.is_some() { "kv_capacity" } else { "personality" };
            return Err(self.fault(key, &format!(": {who} has blocks only"), "leave it out"));
        }
        let is_worn = self.section.worn != Percent(0.0);
        if is_worn || self.section.age != Age(0) {
            let key = if is_worn { "worn" } else { "age" };
            return Err(self.fault(key, &format!(": {who} is new"), "leave it out"));
        }
        Ok(())
    }

    /// Bytes of the namespaces for local memory and programs behind the others, of `capacity` bytes in total.
    fn programs_bytes(&self, profile: &Profile, capacity: u64) -> Result<u64, KeyError> {
        let bytes = profile.programs.as_ref().map_or(0, Programs::capacity_bytes);
        let others = u64::from(self.section.namespaces) << 20;
        if bytes > capacity.saturating_sub(others) {
            let what =
                format!("`programs.memory` takes {} of a capacity of {}", Bytes(bytes), Bytes(capacity));
            let help = "choose less, or a larger `capacity`: each other namespace has a MiB at least";
            return Err(fault("programs.memory", what, help));
        }
        Ok(bytes)
    }

    /// Bytes of the KV namespace in addition to the block namespaces, of `capacity` bytes in total.
    fn kv_bytes(&self, capacity: u64) -> Result<u64, KeyError> {
        let section = self.section;
        let Some(Bytes(wanted)) = section.kv_capacity else { return Ok(0) };
        if !section.personality.has_blocks() {
            let what = ": only a block device can have a KV namespace in addition";
            return Err(self.fault("kv_capacity", what, "leave it out, or set `personality = \"block\"`"));
        }
        let blocks_min = u64::from(section.namespaces) << 20;
        let most = capacity.saturating_sub(blocks_min) >> 20 << 20;
        let key = self.key("kv_capacity");
        within(&key, Bytes(wanted), Bytes(KV_BYTES_MIN), Bytes(most.max(KV_BYTES_MIN)))?;
        Ok(wanted >> 20 << 20)
    }
}

/// Drives of a scenario, at most. Memory and time depend on their activity, but names and tracks on their
/// number.
const DRIVES_MAX: usize = 256;

/// Steps of a drive's temperature, at most: each costs an event of the run.
const TEMPERATURE_STEPS_MAX: usize = 1000;

/// Latest step of a temperature: 100 days, half the range of virtual time.
const TEMPERATURE_END: Picos = Picos(100 * 86_400 * 1_000_000_000_000);

/// Drives named in a message, at most.
const LISTED_MAX: usize = 8;

/// The drives of a scenario, each with the path of its section. `overs` are the sections' tables of
/// overrides.
pub(super) fn load_all<'t>(
    sources: &mut Sources<'t>,
    sections: &DriveSections,
    index: &Index,
    overs: Vec<Option<Tree<'t>>>,
) -> Result<Vec<(String, DrivePlan)>, InputError> {
    let mut drives: Vec<(String, DrivePlan)> = Vec::new();
    for ((path, section), over) in sections.each().zip(overs) {
        let plan = DrivePlan::load(sources, section, (&path, index), over)?;
        let plans = copies(section, &path, plan).map_err(|fault| placed(sources, index, fault))?;
        drives.extend(plans.into_iter().map(|plan| (path.clone(), plan)));
    }
    check_section_names(sections).map_err(|fault| placed(sources, index, fault))?;
    check_names(&drives).map_err(|fault| placed(sources, index, fault))?;
    Ok(drives)
}

/// The drives that a section with `copies` expands to, each with its name.
fn copies(section: &DriveSection, path: &str, plan: DrivePlan) -> Result<Vec<DrivePlan>, KeyError> {
    let key = format!("{path}.name");
    if let Some(name) = &section.name {
        check_drive_name(&key, name)?;
    }
    let Some(copies) = section.copies else { return Ok(vec![plan]) };
    within(&format!("{path}.copies"), copies, 1, DRIVES_MAX as u32)?;
    let Some(name) = &section.name else {
        let what = format!("`{path}` has copies, but no name from which theirs are derived");
        return Err(fault(path, what, "add `name = \"ssd\"` for `ssd0`, `ssd1` and so on"));
    };
    Ok((0..copies)
        .map(|number| DrivePlan { name: Some(format!("{name}{number}")), ..plan.clone() })
        .collect())
}

/// Keys of `[drive]`, which are refused as names of drives: `--set drive.KEY` would be ambiguous.
pub(crate) const SECTION_KEYS: [&str; 15] = [
    "name",
    "copies",
    "profile",
    "personality",
    "capacity",
    "lba_size",
    "store",
    "precondition",
    "age",
    "worn",
    "temperature",
    "namespaces",
    "kv_capacity",
    "table",
    "override",
];

/// Checks a drive's name, which becomes a part of keys, tables and tracks.
fn check_drive_name(key: &str, name: &str) -> Result<(), KeyError> {
    if SECTION_KEYS.contains(&name) {
        let what = format!("`{name}` cannot be the name of a drive: it is a key of [drive]");
        return Err(fault(key, what, format!("choose another, such as `{name}0`")));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_number = name.chars().all(|c| c.is_ascii_digit());
    if (1..=32).contains(&name.len()) && name.chars().all(fits) && !is_number && name != "all" {
        return Ok(());
    }
    let what = format!("`{}` cannot be the name of a drive", excerpt(name));
    let help = "write 1 to 32 letters, digits, `-` or `_`, not only digits; `all` is reserved for all drives";
    Err(fault(key, what, help))
}

/// Checks that sections have distinct names: `drive.NAME.KEY` selects one section, even if copies have their
/// own names.
fn check_section_names(sections: &DriveSections) -> Result<(), KeyError> {
    let mut names = BTreeSet::new();
    for (path, section) in sections.each() {
        if let Some(name) = section.name.as_ref().filter(|name| !names.insert(*name)) {
            return Err(named_twice(&path, name));
        }
    }
    Ok(())
}

fn named_twice(path: &str, name: &str) -> KeyError {
    let what = format!("two drives are called `{name}`");
    fault(format!("{path}.name"), what, "give each a name of its own: its random numbers follow from it")
}

/// Checks that several drives have distinct names.
fn check_names(drives: &[(String, DrivePlan)]) -> Result<(), KeyError> {
    if drives.is_empty() {
        let help = "add `[drive]` with at least `profile = \"samsung-970-pro\"`";
        return Err(fault("drive", "the scenario has no drive", help));
    }
    if drives.len() > DRIVES_MAX {
        let what = format!("the scenario has {} drives", drives.len());
        return Err(fault("drive", what, format!("at most {DRIVES_MAX} are possible")));
    }
    let mut names = BTreeSet::new();
    for (path, drive) in drives {
        let Some(name) = &drive.name else {
            if drives.len() == 1 {
                return Ok(());
            }
            let what = format!("`{path}` has no name, and the scenario has {} drives", drives.len());
            return Err(fault(path, what, "add `name = \"a\"`: jobs say by it on which drive they work"));
        };
        if !names.insert(name) {
            return Err(named_twice(path, name));
        }
    }
    Ok(())
}

/// Adds the drive to a job's fault, unless all of the job's drives have the same fault.
pub(super) fn on_drive(
    wrong: KeyError,
    drive: &DrivePlan,
    mut others: impl Iterator<Item = Option<KeyError>>,
) -> KeyError {
    let is_everywhere = others.all(|other| other.is_some_and(|other| other.what == wrong.what));
    match &drive.name {
        Some(name) if !is_everywhere => {
            KeyError { what: format!("{} (on drive `{name}`)", wrong.what), ..wrong }
        }
        _ => wrong,
    }
}

/// The indices of the drives that the section of a job at `path` names.
pub(super) fn drives_of(
    names: Option<&DriveNames>,
    path: &str,
    drives: &[&DrivePlan],
) -> Result<Vec<usize>, KeyError> {
    let known = || drives.iter().filter_map(|drive| drive.name.as_deref());
    let list = || {
        let more = if drives.len() > LISTED_MAX { " and so on" } else { "" };
        let names: Vec<String> = known().take(LISTED_MAX).map(|name| format!("`{name}`")).collect();
        format!("{}{more}", names.join(", "))
    };
    let key = format!("{path}.drive");
    let number = |name: &String| {
        if let Some(number) = drives.iter().position(|drive| drive.name.as_ref() == Some(name)) {
            return Ok(number);
        }
        let what = format!("`{key}`: there is no drive `{}`", excerpt(name));
        let help = match (nearest(name, known()), known().next()) {
            (Some(near), _) => format!("did you mean `{near}`? the drives are {}", list()),
            (None, Some(_)) => format!("the drives are {}", list()),
            (None, None) => "leave it out: the scenario's only drive has no name".to_owned(),
        };
        Err(fault(&key, what, help))
    };
    match names {
        None if drives.len() == 1 => Ok(vec![0]),
        None => {
            let what = format!("`{path}` names no drive, and the scenario has {}", drives.len());
            let help = format!("add `drive = \"...\"` with one of {}; or a list of them, or \"all\"", list());
            Err(fault(path, what, help))
        }
        Some(DriveNames::All) => Ok((0..drives.len()).collect()),
        Some(DriveNames::One(name)) => Ok(vec![number(name)?]),
        Some(DriveNames::These(names)) => {
            let numbers = names.iter().map(number).collect::<Result<Vec<_>, _>>()?;
            let is_twice = |(at, number): (usize, &usize)| numbers[..at].contains(number);
            if let Some(at) = numbers.iter().enumerate().position(is_twice) {
                let what = format!("`{key}` names drive `{}` twice", names[at]);
                return Err(fault(
                    &key,
                    what,
                    "leave one of them out; `numjobs = 2` gives a drive two workers",
                ));
            }
            match numbers.is_empty() {
                true => {
                    Err(fault(&key, format!("`{key}` names no drive"), format!("the drives are {}", list())))
                }
                false => Ok(numbers),
            }
        }
    }
}

/// An error with the location of the value.
pub(super) fn placed(sources: &Sources<'_>, index: &Index, fault: KeyError) -> InputError {
    let place: Range<usize> = index.span(&fault.path);
    InputError::new(fault.what, fault.help).at(sources.place(&place))
}

/// The table `[section.override]`, with locations.
pub(super) fn overrides<'t>(tree: &Spanned<Tree<'t>>, section: &str) -> Option<Tree<'t>> {
    overrides_in(tree.get_ref().get(section)?)
}

/// The tables of overrides of all drives.
pub(super) fn all_overrides<'t>(tree: &Spanned<Tree<'t>>) -> Vec<Option<Tree<'t>>> {
    match tree.get_ref().get("drive") {
        Some(drive) => match drive.get_ref() {
            DeValue::Array(drives) => drives.iter().map(overrides_in).collect(),
            _ => vec![overrides_in(drive)],
        },
        None => Vec::new(),
    }
}

fn overrides_in<'t>(section: &Spanned<DeValue<'t>>) -> Option<Tree<'t>> {
    let DeValue::Table(section) = section.get_ref() else { return None };
    match section.get("override")?.get_ref() {
        DeValue::Table(over) => Some(over.clone()),
        _ => None,
    }
}

/// A profile's name in results, which contain no paths.
pub(super) fn profile_stem(name: &str) -> String {
    let path = Path::new(name);
    path.file_stem().map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into_owned())
}
