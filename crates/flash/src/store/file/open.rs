//! Opening a data directory: a new one is made, an old one is found as it was left.

use super::bytes::{COUNT_32_MAX, COUNT_MAX};
use super::disk::{CHECKPOINT, DATA, DATA_PART_BYTES, Disk, FORMAT, Runner, SPARE, data_parts, journal_name};
use super::files::{ASIDE, File, Files, read_all, write_aside};
use super::format::{Format, FormatError, Said};
use super::image::{Entry, Image, dump_of};
use super::journal::{self, Change};
use super::parts::{Parts, is_part, names};
use super::record::{Origin, RECORD_BYTES, Record};
use super::{Cache, FileContents, Table};
use crate::geometry::{BlockId, Geometry, Ppa};
use crate::store::content::Dump;
use byteway_wire::content::UNIT_BYTES;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use zerocopy::{FromZeros, IntoBytes};

/// Why a directory can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It isn't this drive's.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// There are other things in it.
    #[error("it holds `{name}`, and no drive: choose a directory that is empty, or not there yet")]
    NotEmpty {
        /// One of them.
        name: String,
    },
    /// There is no drive in it.
    #[error("there is no drive in it")]
    Missing,
    /// A file isn't what it was.
    #[error("its file `{name}` is {what}: restore the directory from a copy, or begin with an empty one")]
    Damaged {
        /// Which.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The system said no.
    #[error("the system refuses to read or write it")]
    System(#[from] io::Error),
}

/// How a directory was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// It was made: there was nothing.
    pub created: bool,
    /// The drive was ended in order before.
    pub clean: bool,
    /// How often it was opened, this time included.
    pub starts: u32,
    /// Bytes of the journal that were there since the last checkpoint.
    pub journal_bytes: u64,
    /// Stripes that were programmed since then.
    pub stripes_found: u64,
    /// Stripes that were left out: one that had been programmed before them is missing.
    pub stripes_torn: u64,
}

/// When checkpoints are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// After so many units programmed: they are looked at when the directory is opened.
    pub image_units: u32,
    /// After so many bytes of journal.
    pub journal_bytes: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning { image_units: 1 << 16, journal_bytes: 8 << 20 }
    }
}

/// What is in a directory, without a change to it.
#[derive(Clone, Debug)]
pub struct Summary {
    /// What it is.
    pub format: Format,
    /// Of its files.
    pub version: u32,
    /// How it would be found.
    pub opened: Opened,
    /// Erases of each superblock.
    pub erases: Vec<u32>,
    /// Stripes programmed in all.
    pub stripes: u64,
    /// Superblocks that hold nothing.
    pub blocks_free: u64,
    /// Superblocks whose erase was cut off.
    pub blocks_unstable: u64,
    /// Bytes that its files take up on the disk.
    pub disk_bytes: u64,
}

/// What was found.
pub(in crate::store) struct Found {
    pub(in crate::store) contents: FileContents,
    pub(in crate::store) blocks: Vec<FoundBlock>,
    pub(in crate::store) torn: BTreeSet<(u32, u32)>,
    pub(in crate::store) dump: Option<Dump>,
    pub(in crate::store) opened: Opened,
}

/// A superblock as it was found.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct FoundBlock {
    pub(in crate::store) programmed: u32,
    pub(in crate::store) erases: u32,
    pub(in crate::store) generation: u32,
    pub(in crate::store) reads: u32,
    pub(in crate::store) programmed_at_ns: u64,
    pub(in crate::store) is_erasing: bool,
    pub(in crate::store) is_one_bit: bool,
    pub(in crate::store) is_bad: bool,
}

/// Opens a directory for a drive of this format; one that is empty becomes such a drive's, of whose superblocks so
/// many stripes are there in closed form.
pub(in crate::store) fn open(
    files: Arc<dyn Files>,
    wanted: &Format,
    tuning: Tuning,
    base: impl Fn(BlockId) -> u32,
) -> Result<Found, OpenError> {
    let created = match read_format(&*files)? {
        Some(said) => {
            said.check(wanted)?;
            if said.version < wanted.version() {
                write_format(&*files, wanted)?;
            }
            false
        }
        None => {
            create(&*files, wanted, &base)?;
            true
        }
    };
    let mut loaded = Loaded::of(&*files, wanted.geometry)?;
    loaded.find()?;
    loaded.opened.created = created;
    loaded.opened.clean |= created;
    let Loaded { image, data, spare, journal, opened, .. } = loaded;
    let epoch = image.epoch.checked_add(1).ok_or(OpenError::Damaged {
        name: CHECKPOINT.to_owned(),
        what: "of a drive that was started four billion times",
    })?;
    remove_leftovers(&*files, image.number)?;
    let dump = image.system.dump.as_deref().and_then(dump_of);
    let disk = Disk { files, data: data.clone(), spare: spare.clone(), journal, number: image.number };
    let geometry = wanted.geometry;
    let mut contents = FileContents {
        geometry,
        data,
        spare,
        epoch,
        tuning,
        cache: RefCell::new(Cache::new()),
        system: image.system,
        calendar_ns: image.calendar_ns,
        number: image.number,
        offset: 0,
        pending: Vec::new(),
        clear: Vec::new(),
        is_dirty: true, // what was found may not be durable yet
        order: 0,
        programmed: 0,
        given: 0,
        done: 0,
        wanted: 0,
        told: 0,
        erasing: BTreeMap::new(),
        runner: Runner::Here(disk),
        before_thread: 0,
        error: RefCell::default(),
        records: Vec::with_capacity(geometry.units_per_stripe() as usize),
        bytes: vec![0; geometry.units_per_stripe() as usize * UNIT_BYTES],
    };
    // What was found stays so: nothing that is done from now on can change it.
    let table = Table { blocks: image.blocks.clone(), torn: image.torn.clone() };
    contents.give(Some((table, false)));
    if let Some(error) = contents.error() {
        return Err(OpenError::System(io::Error::other(error.to_string())));
    }
    let blocks = image.blocks.iter().map(|entry| FoundBlock {
        programmed: entry.programmed,
        erases: entry.erases,
        generation: entry.generation,
        reads: entry.reads,
        programmed_at_ns: entry.programmed_at_ns,
        is_erasing: entry.is_erasing,
        is_one_bit: entry.is_one_bit,
        is_bad: entry.is_bad,
    });
    Ok(Found {
        blocks: blocks.collect(),
        torn: image.torn.into_iter().collect(),
        dump,
        opened: Opened { starts: epoch, ..opened },
        contents,
    })
}

/// Looks at a directory, and changes nothing.
///
/// # Errors
/// It isn't a drive's, or it is damaged.
pub fn look(files: &dyn Files) -> Result<Summary, OpenError> {
    let Said { format, version } = read_format(files)?.ok_or(OpenError::Missing)?;
    let mut loaded = Loaded::of(files, format.geometry)?;
    loaded.find()?;
    let blocks = &loaded.image.blocks;
    let mut disk_bytes = 0;
    for name in files.names()? {
        disk_bytes += files.open(&name)?.map_or(Ok(0), |file| file.bytes_used())?;
    }
    Ok(Summary {
        erases: blocks.iter().map(|entry| entry.erases).collect(),
        stripes: blocks.iter().map(|entry| u64::from(entry.programmed)).sum(),
        blocks_free: blocks.iter().filter(|entry| entry.programmed == 0 && !entry.is_erasing).count() as u64,
        blocks_unstable: blocks.iter().filter(|entry| entry.is_erasing).count() as u64,
        opened: Opened { starts: loaded.image.epoch, ..loaded.opened },
        disk_bytes,
        format,
        version,
    })
}

/// What the directory says that it is; none if there is nothing in it, or no more than the beginnings of a drive.
pub(super) fn read_format(files: &dyn Files) -> Result<Option<Said>, OpenError> {
    if let Some(file) = files.open(FORMAT)? {
        let text = String::from_utf8(read_all(&*file, 1 << 20).unwrap_or_default());
        return Ok(Some(Said::of(&text.map_err(|_| FormatError::Damaged)?)?));
    }
    for name in files.names()? {
        let is_own = [SPARE, CHECKPOINT].contains(&name.trim_end_matches(ASIDE))
            || is_part(&name, DATA)
            || name == format!("{FORMAT}{ASIDE}")
            || name.starts_with("journal-");
        if !is_own {
            return Err(OpenError::NotEmpty { name });
        }
        // The making of a drive was cut off, and then nothing was written to it.
        if (name == SPARE || is_part(&name, DATA))
            && let Some(file) = files.open(&name)?
            && file.bytes()? > 0
        {
            return Err(OpenError::Damaged { name: FORMAT.to_owned(), what: "missing" });
        }
    }
    Ok(None)
}

/// Makes a drive. The file `format` comes last: without it there is none.
fn create(files: &dyn Files, format: &Format, base: impl Fn(BlockId) -> u32) -> Result<(), OpenError> {
    let geometry = &format.geometry;
    for name in names(DATA, data_parts(geometry)).chain([SPARE.to_owned(), journal_name(1)]) {
        files.create(&name)?;
    }
    let entry = |block| {
        let stripes = base(BlockId(block)).min(geometry.pages);
        Entry { programmed: stripes, base: stripes, ..Entry::default() }
    };
    let blocks = (0..geometry.total_blocks()).map(entry).collect();
    let image = Image { number: 1, is_clean: true, blocks, ..Image::default() };
    write_aside(files, CHECKPOINT, &image.to_bytes())?;
    files.sync()?;
    write_format(files, format)
}

fn write_format(files: &dyn Files, format: &Format) -> Result<(), OpenError> {
    write_aside(files, FORMAT, format.to_text().as_bytes())?;
    Ok(files.sync()?)
}

/// Files of writes that were cut off, and of journals that are over.
fn remove_leftovers(files: &dyn Files, number: u64) -> io::Result<()> {
    for name in files.names()? {
        let is_over = name.starts_with("journal-") && name != journal_name(number);
        if is_over || name == format!("{CHECKPOINT}{ASIDE}") || name == format!("{FORMAT}{ASIDE}") {
            files.remove(&name)?;
        }
    }
    Ok(())
}

/// What checkpoint and journal say.
pub(super) struct Loaded {
    pub(super) geometry: Geometry,
    pub(super) image: Image,
    pub(super) data: Arc<dyn File>,
    pub(super) spare: Arc<dyn File>,
    journal: Arc<dyn File>,
    pub(super) opened: Opened,
}

impl Loaded {
    pub(super) fn of(files: &dyn Files, geometry: Geometry) -> Result<Loaded, OpenError> {
        let damaged = |name: &str, what| OpenError::Damaged { name: name.to_owned(), what };
        let needed = |name: &str| files.open(name)?.ok_or_else(|| damaged(name, "missing"));
        let data = Parts::open(files, DATA, data_parts(&geometry), DATA_PART_BYTES)?
            .map_err(|name| damaged(&name, "missing"))?;
        let spare = needed(SPARE)?;
        let image = read_all(&*needed(CHECKPOINT)?, Image::BYTES_MAX)?;
        let image = Image::of(&image).filter(|image| fits(image, &geometry));
        let mut image = image.ok_or_else(|| damaged(CHECKPOINT, "damaged"))?;
        let name = journal_name(image.number);
        let journal = needed(&name)?;
        let said = read_all(&*journal, journal::BYTES_MAX)?;
        let mut fit = true;
        let journal_bytes =
            journal::read(&said, image.number, |change| fit &= apply(change, &mut image, &geometry));
        if !fit {
            return Err(damaged(&name, "of another drive"));
        }
        let opened =
            Opened { clean: image.is_clean && journal_bytes == 0, journal_bytes, ..Opened::default() };
        Ok(Loaded { geometry, image, data, spare, journal, opened })
    }

    /// Finds the stripes that were programmed since the checkpoint.
    pub(super) fn find(&mut self) -> io::Result<()> {
        if self.opened.clean {
            return Ok(());
        }
        let mut found = Vec::new();
        for block in 0..self.geometry.total_blocks() {
            let entry = self.image.blocks[block as usize];
            if entry.programmed >= self.geometry.pages || entry.is_erasing {
                continue;
            }
            let mut from = entry.programmed;
            while let Some(stripe) = self.next_written(BlockId(block), from)? {
                from = stripe + 1;
                let origin = self.origin(BlockId(block), stripe, entry.generation)?;
                // Those of earlier starts were left out then.
                found.extend(
                    origin
                        .filter(|origin| origin.epoch == self.image.epoch)
                        .map(|origin| (origin.order, block, stripe, origin.begun_at_ns)),
                );
            }
        }
        found.sort_unstable();
        let mut expected = self.image.order;
        for (order, block, stripe, begun_at_ns) in found {
            let entry = &mut self.image.blocks[block as usize];
            if order > expected || stripe != entry.programmed {
                self.opened.stripes_torn += 1;
                continue;
            }
            expected = expected.max(order + 1);
            (entry.programmed, entry.programmed_at_ns) = (stripe + 1, begun_at_ns);
            self.image.calendar_ns = self.image.calendar_ns.max(begun_at_ns);
            self.opened.stripes_found += 1;
        }
        Ok(())
    }

    /// The first stripe from `from` on that may have records.
    fn next_written(&self, block: BlockId, from: u32) -> io::Result<Option<u32>> {
        if from >= self.geometry.pages {
            return Ok(None);
        }
        let place = |stripe| self.geometry.ppa(block, stripe, 0).0 * RECORD_BYTES as u64;
        let stripe_bytes = u64::from(self.geometry.units_per_stripe()) * RECORD_BYTES as u64;
        let next = self.spare.next_data(place(from))?;
        let stripe = next.map(|at| (at - place(0)) / stripe_bytes);
        Ok(stripe.filter(|stripe| *stripe < u64::from(self.geometry.pages)).map(|stripe| stripe as u32))
    }

    /// Where a stripe comes from, if all of it is there, of one program in this life of the superblock.
    fn origin(&self, block: BlockId, stripe: u32, generation: u32) -> io::Result<Option<Origin>> {
        let mut records = [Record::new_zeroed(); Geometry::STRIPE_UNITS_MAX as usize];
        let records = &mut records[..self.geometry.units_per_stripe() as usize];
        let first = self.geometry.ppa(block, stripe, 0);
        self.spare.read_at(records.as_mut_bytes(), first.0 * RECORD_BYTES as u64)?;
        let origin = records[0].origin();
        if origin.generation != generation {
            return Ok(None);
        }
        for (ppa, record) in (first.0..).map(Ppa).zip(&*records) {
            if !self.is_there(ppa, record, origin)? {
                return Ok(None);
            }
        }
        Ok(Some(origin))
    }

    /// Whether a unit is there, of this origin, as its record says.
    pub(super) fn is_there(&self, ppa: Ppa, record: &Record, origin: Origin) -> io::Result<bool> {
        if !record.is_whole(ppa) || record.origin() != origin {
            return Ok(false);
        }
        if !record.has_bytes() {
            return Ok(record.content().is_some());
        }
        let mut bytes = [0; UNIT_BYTES];
        self.data.read_at(&mut bytes, ppa.0 * UNIT_BYTES as u64)?;
        Ok(record.is_of(&bytes))
    }
}

fn fits(image: &Image, geometry: &Geometry) -> bool {
    let counts = [image.number, image.calendar_ns, image.order];
    image.blocks.len() == geometry.total_blocks() as usize
        && counts.iter().all(|count| *count <= COUNT_MAX)
        && image.epoch <= COUNT_32_MAX
        && image.blocks.iter().all(|entry| entry.fits(geometry))
        && image
            .torn
            .iter()
            .all(|(block, stripe)| *block < geometry.total_blocks() && *stripe < geometry.pages)
}

/// False if the drive has no such place.
fn apply(change: Change, image: &mut Image, geometry: &Geometry) -> bool {
    match change {
        Change::Block(block, entry) => {
            let Some(known) = image.blocks.get_mut(block as usize) else { return false };
            if entry.generation != known.generation {
                image.torn.retain(|(torn, _)| *torn != block);
            }
            let base = if entry.generation == 0 { known.base } else { 0 };
            *known = Entry { base, ..entry };
            entry.fits(geometry)
        }
        Change::Torn(block, first, end) => {
            if block >= geometry.total_blocks() || end > geometry.pages {
                return false;
            }
            image.torn.extend((first..end).map(|stripe| (block, stripe)));
            true
        }
        Change::System(change) => {
            change.apply(&mut image.system);
            true
        }
        Change::Order(order) => {
            image.order = image.order.max(order);
            order <= COUNT_MAX
        }
    }
}
