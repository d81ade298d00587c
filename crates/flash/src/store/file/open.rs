//! Opening a data directory: creates a new one, or recovers the state of an existing one.

use super::bytes::{COUNT_32_MAX, COUNT_MAX};
use super::disk::{CHECKPOINT, DATA, DATA_PART_BYTES, Disk, FORMAT, Runner, SPARE, data_parts, journal_name};
use super::files::{ASIDE, File, Files, read_all, write_aside};
use super::format::{Format, FormatError, ParsedFormat};
use super::image::{Entry, Image, dump_of};
use super::journal::{self, Change};
use super::mark::{MARK, Mark};
use super::parts::{Parts, is_part, names};
use super::record::{Origin, RECORD_BYTES, Record};
use super::tuning::Tuning;
use super::{Cache, FileContents, Table};
use crate::geometry::{BlockId, Geometry, Ppa};
use crate::store::content::Dump;
use byteway_content::UNIT_BYTES;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use zerocopy::{FromZeros, IntoBytes};

/// Error of opening a data directory.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory belongs to another drive.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The directory holds other files.
    #[error("the directory holds `{name}` but no drive: choose one that is empty or does not exist yet")]
    NotEmpty {
        /// One of the other files.
        name: String,
    },
    /// The directory holds no drive.
    #[error("the directory holds no drive")]
    Missing,
    /// A file is damaged.
    #[error("the file `{name}` is {what}: restore the directory from a copy, or begin with an empty one")]
    Damaged {
        /// Name of the file.
        name: String,
        /// Problem with the file.
        what: &'static str,
    },
    /// A system error.
    #[error("the system cannot read or write the directory")]
    System(#[from] io::Error),
}

/// State in which a directory was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Whether the directory was created now.
    pub created: bool,
    /// The drive had been closed cleanly.
    pub clean: bool,
    /// Number of starts, this one included.
    pub starts: u32,
    /// Intact journal bytes since the last checkpoint.
    pub journal_bytes: u64,
    /// Stripes found that were programmed since the checkpoint.
    pub stripes_found: u64,
    /// Stripes left out, because an earlier one is missing.
    pub stripes_torn: u64,
}

/// Contents of a directory, read without changing it.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Identity of the drive.
    pub format: Format,
    /// Version of the files.
    pub version: u32,
    /// State in which it would open.
    pub opened: OpenReport,
    /// Program/erase cycles of each superblock.
    pub erases: Vec<u32>,
    /// Total programmed stripes.
    pub stripes: u64,
    /// Empty superblocks.
    pub blocks_free: u64,
    /// Superblocks whose erase was cut off.
    pub blocks_unstable: u64,
    /// Bytes that the files use on the disk.
    pub disk_bytes: u64,
}

/// Recovered state of a directory.
pub(in crate::store) struct RecoveredContents {
    pub(in crate::store) contents: FileContents,
    pub(in crate::store) blocks: Vec<RecoveredBlock>,
    pub(in crate::store) torn: BTreeSet<(u32, u32)>,
    pub(in crate::store) dump: Option<Dump>,
    pub(in crate::store) opened: OpenReport,
}

/// Recovered state of a superblock.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct RecoveredBlock {
    pub(in crate::store) programmed: u32,
    pub(in crate::store) erases: u32,
    pub(in crate::store) generation: u32,
    pub(in crate::store) reads: u32,
    pub(in crate::store) programmed_at_ns: u64,
    pub(in crate::store) is_erasing: bool,
    pub(in crate::store) is_one_bit: bool,
    pub(in crate::store) is_bad: bool,
}

/// Opens a directory for a drive of this format. An empty directory becomes that of a new drive, with `base`
/// stripes of each superblock in closed form.
pub(in crate::store) fn open(
    files: Arc<dyn Files>,
    wanted: &Format,
    tuning: Tuning,
    base: impl Fn(BlockId) -> u32,
) -> Result<RecoveredContents, OpenError> {
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
    let dump = match image.system.dump.as_deref() {
        Some(bytes) => Some(dump_of(bytes).ok_or_else(|| damaged(CHECKPOINT, "damaged"))?),
        None => None,
    };
    let mark = match files.open(MARK)? {
        Some(mark) if mark.bytes()? <= Mark::BYTES => mark,
        _ => files.create(MARK)?,
    };
    let disk = Disk { files, data: data.clone(), spare: spare.clone(), journal, mark, number: image.number };
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
        is_dirty: true, // recovered data may not be durable yet
        order: 0,
        programmed: 0,
        unrecorded: vec![0; image.blocks.len()],
        unrecorded_total: 0,
        submitted: 0,
        done: 0,
        requested: 0,
        reported: 0,
        erasing: BTreeMap::new(),
        runner: Runner::Here(disk),
        before_thread: 0,
        error: RefCell::default(),
        records: Vec::with_capacity(geometry.units_per_stripe() as usize),
        bytes: vec![0; geometry.units_per_stripe() as usize * UNIT_BYTES],
    };
    // A new checkpoint fixes the recovered state: later programs cannot change which stripes were found.
    let table = Table { blocks: image.blocks.clone(), torn: image.torn.clone() };
    contents.submit_job(Some((table, false)));
    if let Some(error) = contents.error() {
        return Err(OpenError::System(io::Error::other(error.to_string())));
    }
    let blocks = image.blocks.iter().map(|entry| RecoveredBlock {
        programmed: entry.programmed,
        erases: entry.erases,
        generation: entry.generation,
        reads: entry.reads,
        programmed_at_ns: entry.programmed_at_ns,
        is_erasing: entry.is_erasing,
        is_one_bit: entry.is_one_bit,
        is_bad: entry.is_bad,
    });
    Ok(RecoveredContents {
        blocks: blocks.collect(),
        torn: image.torn.into_iter().collect(),
        dump,
        opened: OpenReport { starts: epoch, ..opened },
        contents,
    })
}

/// Reads a directory without changing it.
///
/// # Errors
/// [`OpenError`] if the directory holds no drive, or is damaged.
pub fn look(files: &dyn Files) -> Result<Summary, OpenError> {
    let ParsedFormat { format, version } = read_format(files)?.ok_or(OpenError::Missing)?;
    let mut loaded = Loaded::of(files, format.geometry)?;
    loaded.find()?;
    let blocks = &loaded.image.blocks;
    let mut disk_bytes = 0;
    for name in files.names()?.into_iter().filter(|name| is_own(name)) {
        disk_bytes += files.open(&name)?.map_or(Ok(0), |file| file.bytes_used())?;
    }
    Ok(Summary {
        erases: blocks.iter().map(|entry| entry.erases).collect(),
        stripes: blocks.iter().map(|entry| u64::from(entry.programmed)).sum(),
        blocks_free: blocks.iter().filter(|entry| entry.programmed == 0 && !entry.is_erasing).count() as u64,
        blocks_unstable: blocks.iter().filter(|entry| entry.is_erasing).count() as u64,
        opened: OpenReport { starts: loaded.image.epoch, ..loaded.opened },
        disk_bytes,
        format,
        version,
    })
}

/// The format of a directory; None if it is empty, or holds only an interrupted creation.
pub(super) fn read_format(files: &dyn Files) -> Result<Option<ParsedFormat>, OpenError> {
    if let Some(file) = files.open(FORMAT)? {
        let text = String::from_utf8(read_all(&*file, 1 << 20).unwrap_or_default());
        return Ok(Some(ParsedFormat::of(&text.map_err(|_| FormatError::Damaged)?)?));
    }
    for name in files.names()? {
        if !is_own(&name) {
            return Err(OpenError::NotEmpty { name });
        }
        // An interrupted creation, with nothing written to it yet.
        if (name == SPARE || is_part(&name, DATA))
            && let Some(file) = files.open(&name)?
            && file.bytes()? > 0
        {
            return Err(OpenError::Damaged { name: FORMAT.to_owned(), what: "missing" });
        }
    }
    Ok(None)
}

/// Whether a file of this name belongs to a drive.
fn is_own(name: &str) -> bool {
    [SPARE, MARK, CHECKPOINT, FORMAT].contains(&name.trim_end_matches(ASIDE))
        || is_part(name, DATA)
        || name.starts_with("journal-")
}

fn damaged(name: &str, what: &'static str) -> OpenError {
    OpenError::Damaged { name: name.to_owned(), what }
}

/// Creates a drive. The file `format` is written last, because it makes the directory a drive.
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
    let mark = files.create(MARK)?;
    mark.write_at(&Mark { number: 1, ..Mark::default() }.to_bytes(), 0)?;
    mark.sync()?;
    files.sync()?;
    write_format(files, format)
}

fn write_format(files: &dyn Files, format: &Format) -> Result<(), OpenError> {
    write_aside(files, FORMAT, format.to_text().as_bytes())?;
    Ok(files.sync()?)
}

/// Removes files of interrupted writes, and old journals.
fn remove_leftovers(files: &dyn Files, number: u64) -> io::Result<()> {
    for name in files.names()? {
        let is_over = name.starts_with("journal-") && name != journal_name(number);
        if is_over || name == format!("{CHECKPOINT}{ASIDE}") || name == format!("{FORMAT}{ASIDE}") {
            files.remove(&name)?;
        }
    }
    Ok(())
}

/// State according to checkpoint and journal.
pub(super) struct Loaded {
    pub(super) geometry: Geometry,
    pub(super) image: Image,
    pub(super) data: Arc<dyn File>,
    pub(super) spare: Arc<dyn File>,
    journal: Arc<dyn File>,
    /// None if there is none that is intact.
    pub(super) mark: Option<Mark>,
    pub(super) opened: OpenReport,
}

impl Loaded {
    pub(super) fn of(files: &dyn Files, geometry: Geometry) -> Result<Loaded, OpenError> {
        let needed = |name: &str| files.open(name)?.ok_or_else(|| damaged(name, "missing"));
        let data = Parts::open(files, DATA, data_parts(&geometry), DATA_PART_BYTES)?
            .map_err(|name| damaged(&name, "missing"))?;
        let spare = needed(SPARE)?;
        let image = read_all(&*needed(CHECKPOINT)?, Image::BYTES_MAX)?;
        let image = Image::of(&image).filter(|image| fits(image, &geometry));
        let mut image = image.ok_or_else(|| damaged(CHECKPOINT, "damaged"))?;
        let mark = Mark::read(files)?;
        if let Some(mark) = &mark {
            if mark.number > image.number {
                return Err(damaged(CHECKPOINT, "older than the other files"));
            }
            for (name, file, bytes) in [(DATA, &data, mark.data_bytes), (SPARE, &spare, mark.spare_bytes)] {
                if file.bytes()? < bytes {
                    return Err(damaged(name, "shorter than it was"));
                }
            }
        }
        let name = journal_name(image.number);
        let journal = needed(&name)?;
        let said = read_all(&*journal, journal::BYTES_MAX)?;
        let mut fit = true;
        let journal_bytes =
            journal::read(&said, image.number, |change| fit &= apply(change, &mut image, &geometry));
        if !fit {
            return Err(damaged(&name, "of another drive"));
        }
        let own = mark.filter(|mark| mark.number == image.number);
        if own.is_some_and(|mark| journal_bytes < mark.journal_bytes) {
            return Err(damaged(&name, "damaged"));
        }
        let opened = OpenReport {
            clean: image.is_clean && journal_bytes == 0,
            journal_bytes,
            ..OpenReport::default()
        };
        Ok(Loaded { geometry, image, data, spare, journal, mark, opened })
    }

    /// Finds the stripes that were programmed since the checkpoint.
    ///
    /// # Errors
    /// [`OpenError::Damaged`] if stripes are missing that were durable: what was in them is unknown, so older
    /// versions would take its place.
    pub(super) fn find(&mut self) -> Result<(), OpenError> {
        if self.opened.clean {
            return Ok(());
        }
        let own = self.mark.filter(|mark| mark.number == self.image.number).unwrap_or_default();
        // Bytes of a stripe that was durable may have rotted since: they read as errors.
        let durable = own.order.max(self.image.order);
        let mut found = Vec::new();
        for block in 0..self.geometry.total_blocks() {
            let entry = self.image.blocks[block as usize];
            if entry.programmed >= self.geometry.pages || entry.is_erasing {
                continue;
            }
            let mut from = entry.programmed;
            while let Some(stripe) = self.next_written(BlockId(block), from)? {
                from = stripe + 1;
                let origin = self.origin(BlockId(block), stripe, entry.generation, durable)?;
                // Stripes of earlier starts were left out before.
                found.extend(
                    origin
                        .filter(|origin| origin.epoch == self.image.epoch)
                        .map(|origin| (origin.order, block, stripe, origin.begun_at_ns)),
                );
            }
        }
        found.sort_unstable();
        let mut expected = self.image.order;
        let mut marked = 0;
        for (order, block, stripe, begun_at_ns) in found {
            let entry = &mut self.image.blocks[block as usize];
            // A gap in the order means that a program is missing: later stripes must not count.
            if order > expected || stripe != entry.programmed {
                self.opened.stripes_torn += 1;
                continue;
            }
            expected = expected.max(order + 1);
            (entry.programmed, entry.programmed_at_ns) = (stripe + 1, begun_at_ns);
            self.image.calendar_ns = self.image.calendar_ns.max(begun_at_ns);
            self.opened.stripes_found += 1;
            marked += u64::from(order < own.order);
        }
        // Later changes may have counted or erased some of these.
        if self.opened.journal_bytes == own.journal_bytes && marked < own.stripes {
            return Err(damaged(SPARE, "without stripes that were in it"));
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

    /// Origin of a stripe, if all of it is present and of one program in this generation of the superblock.
    /// The contents of one before `durable` need not be intact.
    fn origin(
        &self,
        block: BlockId,
        stripe: u32,
        generation: u32,
        durable: u64,
    ) -> io::Result<Option<Origin>> {
        let mut records = [Record::new_zeroed(); Geometry::STRIPE_UNITS_MAX as usize];
        let records = &mut records[..self.geometry.units_per_stripe() as usize];
        let first = self.geometry.ppa(block, stripe, 0);
        self.spare.read_at(records.as_mut_bytes(), first.0 * RECORD_BYTES as u64)?;
        let origin = records[0].origin();
        if origin.generation != generation {
            return Ok(None);
        }
        for (ppa, record) in (first.0..).map(Ppa).zip(&*records) {
            let is_there = match origin.epoch == self.image.epoch && origin.order < durable {
                true => record.is_whole(ppa) && record.origin() == origin,
                false => self.is_there(ppa, record, origin)?,
            };
            if !is_there {
                return Ok(None);
            }
        }
        Ok(Some(origin))
    }

    /// Whether a unit is present, intact and of this origin.
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

/// Applies a change. False if it is out of range.
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
