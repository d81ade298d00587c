//! The drive of a scenario or of a device file: its profile with the overrides laid on, checked against the section.

use std::ops::{Range, RangeInclusive};
use std::path::Path;

use toml::Spanned;
use toml::de::DeValue;

use super::file::{DriveSection, Personality, Precondition, Store};
use super::transfer::no_sink;
use crate::profile::{DRIVES, Fault, Geometry, Profile, fault, load, within};
use crate::source::{Index, Sources, Tree};
use byteway_console::error::InputError;
use byteway_console::units::{Age, Bytes, Percent};

/// A century: whoever writes more means another unit.
const AGE_MAX: Age = Age(100 * 365 * 86_400);

/// A drive that can be built.
#[derive(Clone, Debug)]
pub struct DrivePlan {
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
}

impl DrivePlan {
    /// Whether the host asks for payloads instead of blocks.
    pub fn is_sink(&self) -> bool {
        self.personality == Personality::Sink
    }

    /// Whether the host asks for pairs instead of blocks.
    pub fn is_kv(&self) -> bool {
        self.personality == Personality::Kv
    }

    /// Whether there is a namespace of pairs.
    pub fn has_pairs(&self) -> bool {
        self.is_kv() || self.kv_bytes > 0
    }

    /// The namespaces that hold pairs.
    pub fn pairs_nsids(&self) -> RangeInclusive<u32> {
        match self.is_kv() {
            true => 1..=self.namespaces,
            false => self.namespaces + 1..=self.namespaces + u32::from(self.kv_bytes > 0),
        }
    }

    /// The namespaces of blocks.
    pub fn blocks_nsids(&self) -> RangeInclusive<u32> {
        let count = if self.personality == Personality::Block { self.namespaces } else { 0 };
        1..=count
    }

    /// Whether what crosses are payloads of any length.
    pub fn has_payloads(&self) -> bool {
        self.is_sink() || self.is_kv()
    }

    /// What jobs address: bytes of a unit (a logical block; of a sink, a byte), and how many there are.
    pub fn address_space(&self) -> (u32, u64) {
        match self.personality {
            Personality::Block | Personality::Kv => (self.lba_bytes, self.namespace_blocks),
            Personality::Sink => (1, self.profile.transfer.sink.0),
        }
    }

    /// From the section `[drive]`, of which `index` has the places. `over` is its table of overrides.
    pub(super) fn load<'t>(
        sources: &mut Sources<'t>,
        section: &DriveSection,
        index: &Index,
        over: Option<Tree<'t>>,
    ) -> Result<DrivePlan, InputError> {
        let span = index.span("drive.profile");
        let (profile, profile_index): (Profile, Index) =
            load(sources, &DRIVES, &section.profile, span, over, "profile")?;
        profile.check().map_err(|fault| placed(sources, &profile_index, fault))?;
        let said = |key: &str| index.has(&format!("drive.{key}"));
        plan(section, profile, said).map_err(|fault| {
            // The capacity and what contradicts it may stand in either text.
            let in_section = index.has(&fault.path) || !profile_index.has(&fault.path);
            placed(sources, if in_section { index } else { &profile_index }, fault)
        })
    }
}

/// `said`: whether a key stands in the section.
fn plan(section: &DriveSection, profile: Profile, said: impl Fn(&str) -> bool) -> Result<DrivePlan, Fault> {
    let lba = section.lba_size;
    if lba != Bytes(512) && lba != Bytes(4096) {
        return Err(fault(
            "drive.lba_size",
            format!("`drive.lba_size` = {lba} is not a format of the drive"),
            "choose \"512 B\" or \"4 KiB\"",
        ));
    }
    within("drive.namespaces", section.namespaces, 1, 128)?;
    within("drive.age", section.age, Age(0), AGE_MAX)?;
    within("drive.worn", section.worn, Percent(0.0), Percent(200.0))?;
    if section.personality == Personality::Sink && profile.transfer.sink.0 == 0 {
        return Err(no_sink(&profile_stem(&section.profile)));
    }
    let is_kv = section.personality == Personality::Kv;
    for (key, is_wrong) in [("precondition", section.precondition != Precondition::Empty), ("lba_size", true)]
    {
        if is_kv && said(key) && is_wrong {
            let what = format!("`drive.{key}`: a key-value drive has no blocks, and begins empty");
            return Err(fault(
                format!("drive.{key}"),
                what,
                "leave it out; a `[[kv]]` job can fill the drive",
            ));
        }
    }
    let has_pairs = is_kv || section.kv_capacity.is_some();
    if has_pairs && said("precondition") && section.precondition != Precondition::Empty {
        let what = "`drive.precondition`: a drive with a namespace of pairs begins empty";
        return Err(fault("drive.precondition", what, "leave it out; jobs can fill the drive"));
    }
    let geometry = profile.geometry(section.capacity.unwrap_or(profile.drive.capacity))?;
    let kv_bytes = kv_bytes(section, geometry.capacity_bytes)?;
    // Whole MiB, so that a namespace never begins within a page.
    let namespace_bytes = ((geometry.capacity_bytes - kv_bytes) / u64::from(section.namespaces)) >> 20 << 20;
    Ok(DrivePlan {
        profile_name: profile_stem(&section.profile),
        personality: section.personality,
        geometry,
        lba_bytes: lba.0 as u32,
        store: section.store,
        precondition: if has_pairs { Precondition::Empty } else { section.precondition },
        age: section.age,
        worn: section.worn,
        namespaces: section.namespaces,
        kv_bytes,
        namespace_blocks: namespace_bytes / lba.0,
        profile,
    })
}

/// The least that a store of pairs can work with: some segments.
const KV_BYTES_MIN: u64 = 16 << 20;

/// Bytes of the namespace of pairs beside those of blocks, of so many.
fn kv_bytes(section: &DriveSection, capacity: u64) -> Result<u64, Fault> {
    let Some(Bytes(wanted)) = section.kv_capacity else { return Ok(0) };
    if section.personality != Personality::Block {
        let what = "`drive.kv_capacity`: only a drive of blocks has a namespace of pairs beside them";
        return Err(fault("drive.kv_capacity", what, "leave it out, or set `personality = \"block\"`"));
    }
    let blocks_min = u64::from(section.namespaces) << 20;
    let most = capacity.saturating_sub(blocks_min) >> 20 << 20;
    within("drive.kv_capacity", Bytes(wanted), Bytes(KV_BYTES_MIN), Bytes(most.max(KV_BYTES_MIN)))?;
    Ok(wanted >> 20 << 20)
}

/// An error that says where the value stands.
pub(super) fn placed(sources: &Sources<'_>, index: &Index, fault: Fault) -> InputError {
    let place: Range<usize> = index.span(&fault.path);
    InputError::new(fault.what, fault.cure).at(sources.place(&place))
}

/// The table under `[section.override]`, with its places.
pub(super) fn overrides<'t>(tree: &Spanned<Tree<'t>>, section: &str) -> Option<Tree<'t>> {
    let DeValue::Table(section) = tree.get_ref().get(section)?.get_ref() else { return None };
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
