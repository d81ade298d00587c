//! The drives of a scenario, or that of a device file: its profile with the overrides laid on, checked against the section.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use toml::Spanned;
use toml::de::DeValue;

use super::array_section::ArraySection;
use super::drive_names::DriveNames;
use super::file::{DriveSection, DriveSections, Precondition, Store};
use super::personality::Personality;
use super::transfer::no_sink;
use crate::profile::{CAPACITY_BYTES, DRIVES, Fault, Geometry, Profile, fault, load, within};
use crate::source::{Index, Sources, Tree};
use byteway_console::error::{InputError, nearest};
use byteway_console::units::{Age, Bytes, Percent, excerpt};

/// A century: whoever writes more means another unit.
const AGE_MAX: Age = Age(100 * 365 * 86_400);

/// A drive that can be built.
#[derive(Clone, Debug)]
pub struct DrivePlan {
    /// What the scenario calls it; a drive that is the only one needs no name.
    pub name: Option<String>,
    /// Name of its profile, without folder.
    pub profile_name: String,
    /// Its constants, overrides laid on.
    pub profile: Profile,
    /// What the host asks it for.
    pub personality: Personality,
    /// Its flash array.
    pub geometry: Geometry,
    /// Bytes of a logical block: 512 or 4096.
    pub lba_bytes: u32,
    /// How data is kept.
    pub store: Store,
    /// What is on it at the beginning.
    pub precondition: Precondition,
    /// How long ago what is on it was written.
    pub age: Age,
    /// How worn its blocks are at the beginning.
    pub worn: Percent,
    /// Namespaces of what the personality says, from 1.
    pub namespaces: u32,
    /// Bytes of a namespace of pairs behind those of blocks; 0: there is none.
    pub kv_bytes: u64,
    /// Logical blocks of each namespace.
    pub namespace_blocks: u64,
    /// What it is made of, if it is an array on the host: then profile and geometry are those of a drive of it.
    pub array: Option<Box<ArrayPlan>>,
}

/// An array that can be built.
#[derive(Clone, Debug)]
pub struct ArrayPlan {
    /// What the section says, checked.
    pub section: ArraySection,
    /// Its drives, of one kind, with the spares behind the others.
    pub members: Vec<DrivePlan>,
}

impl ArrayPlan {
    /// Drives that are no spares.
    pub fn active(&self) -> usize {
        self.members.len() - usize::from(self.section.spares)
    }
}

impl DrivePlan {
    /// What the host sees, over all namespaces.
    pub fn capacity_bytes(&self) -> u64 {
        match self.array {
            Some(_) => self.geometry.capacity_bytes,
            None => self.geometry.capacity_bytes * u64::from(self.profile.members()),
        }
    }

    /// Whether software of the host's stands in front of it, which applications call.
    pub fn is_called(&self) -> bool {
        self.array.is_some() || self.profile.is_hosted()
    }

    /// The namespaces that hold pairs; there may be none.
    pub fn pairs_nsids(&self) -> RangeInclusive<u32> {
        match self.personality.has_pairs() {
            true => 1..=self.namespaces,
            false => self.namespaces + 1..=self.namespaces + u32::from(self.kv_bytes > 0),
        }
    }

    /// The namespaces of blocks.
    pub fn blocks_nsids(&self) -> RangeInclusive<u32> {
        let count = if self.personality.has_blocks() { self.namespaces } else { 0 };
        1..=count
    }

    /// What jobs address: bytes of a unit (a logical block; of a sink, a byte), and how many there are.
    pub fn address_space(&self) -> (u32, u64) {
        match self.personality.has_sink() {
            false => (self.lba_bytes, self.namespace_blocks),
            true => (1, self.profile.transfer.sink.0),
        }
    }

    /// From a section that is written at `path`: `drive`, or `drive.0` and so on. `index` has the places, and `over` is its table
    /// of overrides.
    pub(super) fn load<'t>(
        sources: &mut Sources<'t>,
        section: &DriveSection,
        (path, index): (&str, &Index),
        over: Option<Tree<'t>>,
    ) -> Result<DrivePlan, InputError> {
        let span = index.span(&format!("{path}.profile"));
        let (profile, profile_index): (Profile, Index) =
            load(sources, &DRIVES, &section.profile, span, over, "profile")?;
        profile.check().map_err(|fault| placed(sources, &profile_index, fault))?;
        let said = |key: &str| index.has(&format!("{path}.{key}"));
        let draft = DriveDraft { section, path, said: &said };
        draft.plan(profile).map_err(|fault| {
            // The capacity and what contradicts it may stand in either text.
            let in_section = index.has(&fault.path) || !profile_index.has(&fault.path);
            placed(sources, if in_section { index } else { &profile_index }, fault)
        })
    }
}

/// Bytes of a map of extents, at most: 2^32 units of 4 KiB.
const EXTENTS_BYTES_MAX: u64 = 16 << 40;

/// What drives behind a bridge have for the host, of which each has so much: they keep a little for the array that they are.
fn whole_bytes(profile: &Profile, own: u64) -> u64 {
    match profile.members() {
        _ if profile.bridge.is_none() => own,
        members => ((u64::from(members) * (own - own / 256 - (4 << 20))) >> 20) << 20,
    }
}

/// The least that a store of pairs can work with: some segments.
const KV_BYTES_MIN: u64 = 16 << 20;

/// A section on its way to a plan.
struct DriveDraft<'a> {
    section: &'a DriveSection,
    /// Where it is written.
    path: &'a str,
    /// Whether a key stands in it.
    said: &'a dyn Fn(&str) -> bool,
}

impl DriveDraft<'_> {
    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    fn fault(&self, key: &str, what: &str, cure: &str) -> Fault {
        fault(self.key(key), format!("`{}`{what}", self.key(key)), cure)
    }

    /// A profile has a capacity, too, and calls it as a lone section does.
    fn of_section(&self, wrong: Fault) -> Fault {
        let (of_profile, key) = ("drive.capacity", self.key("capacity"));
        if wrong.path != of_profile || !(self.said)("capacity") {
            return wrong;
        }
        fault(key.clone(), wrong.what.replace(&format!("`{of_profile}`"), &format!("`{key}`")), wrong.cure)
    }

    fn plan(&self, profile: Profile) -> Result<DrivePlan, Fault> {
        let section = self.section;
        let lba = section.lba_size;
        if lba != Bytes(512) && lba != Bytes(4096) {
            let what = format!(" = {lba} is not a format of the drive");
            return Err(self.fault("lba_size", &what, "choose \"512 B\" or \"4 KiB\""));
        }
        within(&self.key("namespaces"), section.namespaces, 1, 128)?;
        within(&self.key("age"), section.age, Age(0), AGE_MAX)?;
        within(&self.key("worn"), section.worn, Percent(0.0), Percent(200.0))?;
        if section.personality.has_sink() && profile.transfer.sink.0 == 0 {
            return Err(no_sink(&self.key("personality"), &profile_stem(&section.profile)));
        }
        let only_pairs = section.personality.has_pairs();
        let begins_written = section.precondition != Precondition::Empty;
        for (key, is_wrong) in [("precondition", begins_written), ("lba_size", true)] {
            if only_pairs && (self.said)(key) && is_wrong {
                let what = ": a key-value drive has no blocks, and begins empty";
                return Err(self.fault(key, what, "leave it out; a `[[kv]]` job can fill the drive"));
            }
        }
        let has_pairs = only_pairs || section.kv_capacity.is_some();
        if profile.is_hosted() || profile.bridge.is_some() {
            self.check_apart(&profile, begins_written, has_pairs)?;
        }
        if has_pairs && (self.said)("precondition") && begins_written {
            let what = ": a drive with a namespace of pairs begins empty";
            return Err(self.fault("precondition", what, "leave it out; jobs can fill the drive"));
        }
        let capacity = section.capacity.unwrap_or(profile.drive.capacity);
        let members = u64::from(profile.members());
        if profile.bridge.is_some() {
            // Each of them has the least that a drive can have.
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
        let kv_bytes = self.kv_bytes(whole)?;
        // Whole MiB, so that a namespace never begins within a page.
        let namespace_bytes = ((whole - kv_bytes) / u64::from(section.namespaces)) >> 20 << 20;
        Ok(DrivePlan {
            name: section.name.clone(),
            profile_name: profile_stem(&section.profile),
            personality: section.personality,
            geometry,
            lba_bytes: lba.0 as u32,
            store: section.store,
            precondition: match has_pairs || profile.is_hosted() || profile.bridge.is_some() {
                true => Precondition::Empty,
                false => section.precondition,
            },
            age: section.age,
            worn: section.worn,
            namespaces: section.namespaces,
            kv_bytes,
            namespace_blocks: namespace_bytes / lba.0,
            array: None,
            profile,
        })
    }

    /// Whether a drive whose firmware runs on the host, or on drives behind a bridge, can be as the section says.
    fn check_apart(&self, profile: &Profile, begins_written: bool, has_pairs: bool) -> Result<(), Fault> {
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

    /// Bytes of the namespace of pairs beside those of blocks, of so many.
    fn kv_bytes(&self, capacity: u64) -> Result<u64, Fault> {
        let section = self.section;
        let Some(Bytes(wanted)) = section.kv_capacity else { return Ok(0) };
        if !section.personality.has_blocks() {
            let what = ": only a drive of blocks has a namespace of pairs beside them";
            return Err(self.fault("kv_capacity", what, "leave it out, or set `personality = \"block\"`"));
        }
        let blocks_min = u64::from(section.namespaces) << 20;
        let most = capacity.saturating_sub(blocks_min) >> 20 << 20;
        let key = self.key("kv_capacity");
        within(&key, Bytes(wanted), Bytes(KV_BYTES_MIN), Bytes(most.max(KV_BYTES_MIN)))?;
        Ok(wanted >> 20 << 20)
    }
}

/// Drives of a scenario, at most: memory and time follow from what they do, but names and tracks from their number.
const DRIVES_MAX: usize = 256;

/// Drives that a message names, at most.
const LISTED_MAX: usize = 8;

/// The drives of a scenario, each with the path at which it is written. `overs` are their tables of overrides, by section.
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

/// As many drives as the section stands for, each with its name.
fn copies(section: &DriveSection, path: &str, plan: DrivePlan) -> Result<Vec<DrivePlan>, Fault> {
    let key = format!("{path}.name");
    if let Some(name) = &section.name {
        check_drive_name(&key, name)?;
    }
    let Some(copies) = section.copies else { return Ok(vec![plan]) };
    within(&format!("{path}.copies"), copies, 1, DRIVES_MAX as u32)?;
    let Some(name) = &section.name else {
        let what = format!("`{path}` has copies, and no name from which theirs follow");
        return Err(fault(path, what, "add `name = \"ssd\"` for `ssd0`, `ssd1` and so on"));
    };
    Ok((0..copies)
        .map(|number| DrivePlan { name: Some(format!("{name}{number}")), ..plan.clone() })
        .collect())
}

/// Keys of `[drive]`, from which `--set drive.KEY` could not tell a drive of that name.
pub(crate) const SECTION_KEYS: [&str; 13] = [
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
    "namespaces",
    "kv_capacity",
    "override",
];

/// A drive's name is a part of keys, tables and tracks.
fn check_drive_name(key: &str, name: &str) -> Result<(), Fault> {
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
    let cure =
        "write 1 to 32 letters, digits, `-` or `_`, of which one is no digit; `all` stands for all drives";
    Err(fault(key, what, cure))
}

/// Sections are told apart by name, too: `drive.NAME.KEY` is one section's, also where copies have names of their own.
fn check_section_names(sections: &DriveSections) -> Result<(), Fault> {
    let mut names = BTreeSet::new();
    for (path, section) in sections.each() {
        if let Some(name) = section.name.as_ref().filter(|name| !names.insert(*name)) {
            return Err(named_twice(&path, name));
        }
    }
    Ok(())
}

fn named_twice(path: &str, name: &str) -> Fault {
    let what = format!("two drives are called `{name}`");
    fault(format!("{path}.name"), what, "give each a name of its own: its random numbers follow from it")
}

/// Several drives are told apart by name.
fn check_names(drives: &[(String, DrivePlan)]) -> Result<(), Fault> {
    if drives.is_empty() {
        let cure = "add `[drive]` with at least `profile = \"samsung-970-pro\"`";
        return Err(fault("drive", "the scenario has no drive", cure));
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

/// A job's fault, with the drive on which it is one: nothing is added where each of the job's drives has the same.
pub(super) fn on_drive(
    wrong: Fault,
    drive: &DrivePlan,
    mut others: impl Iterator<Item = Option<Fault>>,
) -> Fault {
    let is_everywhere = others.all(|other| other.is_some_and(|other| other.what == wrong.what));
    match &drive.name {
        Some(name) if !is_everywhere => {
            Fault { what: format!("{} (on drive `{name}`)", wrong.what), ..wrong }
        }
        _ => wrong,
    }
}

/// The drives that the section of a job at `path` names: their numbers.
pub(super) fn drives_of(
    names: Option<&DriveNames>,
    path: &str,
    drives: &[&DrivePlan],
) -> Result<Vec<usize>, Fault> {
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
        let cure = match (nearest(name, known()), known().next()) {
            (Some(near), _) => format!("did you mean `{near}`? the drives are {}", list()),
            (None, Some(_)) => format!("the drives are {}", list()),
            (None, None) => "leave it out: the scenario's only drive has no name".to_owned(),
        };
        Err(fault(&key, what, cure))
    };
    match names {
        None if drives.len() == 1 => Ok(vec![0]),
        None => {
            let what = format!("`{path}` names no drive, and the scenario has {}", drives.len());
            let cure = format!("add `drive = \"...\"` with one of {}; or a list of them, or \"all\"", list());
            Err(fault(path, what, cure))
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

/// An error that says where the value stands.
pub(super) fn placed(sources: &Sources<'_>, index: &Index, fault: Fault) -> InputError {
    let place: Range<usize> = index.span(&fault.path);
    InputError::new(fault.what, fault.cure).at(sources.place(&place))
}

/// The table under `[section.override]`, with its places.
pub(super) fn overrides<'t>(tree: &Spanned<Tree<'t>>, section: &str) -> Option<Tree<'t>> {
    overrides_in(tree.get_ref().get(section)?)
}

/// The same of the only drive, or of each of several.
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

/// A profile's name in results, which hold no paths.
pub(super) fn profile_stem(name: &str) -> String {
    let path = Path::new(name);
    path.file_stem().map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into_owned())
}
