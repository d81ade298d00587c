//! Inspection of served drives' data directories, and verification of their content.

use std::fmt::Write as _;
use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use byteway_clock::{Executor, Stalled};
use byteway_firmware::{Audit, Ftl, MediumError, space_of};
use byteway_flash::file::{
    Check, Directory, DirectoryError, Files, Format, OpenError, OpenReport, Summary, check, look,
};
use serde::Serialize;

use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::{Bars, Progress};
use byteway_text::table::grouped;
use byteway_text::units::Bytes;

/// Why a data directory could not be inspected, or its map not compared. Damage found is not an error.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// The path is not a data directory, or another process uses it.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The content is not a drive, or unreadable.
    #[error("{path}")]
    Unreadable {
        /// Path of the directory.
        path: PathBuf,
        /// Cause.
        source: OpenError,
    },
    /// The directory has less than the capacity of its drive.
    #[error("{path}: no capacity")]
    NoCapacity {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The configuration is not supported.
    #[error("{path}")]
    NoDrive {
        /// Path of the directory.
        path: PathBuf,
        /// Cause.
        source: MediumError,
    },
    /// The recovery of the map is deadlocked: a defect.
    #[error("{path}: the recovery of the map made no progress; this is a defect of Byteway")]
    Stalled {
        /// Path of the directory.
        path: PathBuf,
        /// The waiting tasks.
        source: Stalled,
    },
}

impl MediaError {
    /// The invalid input, if that is the cause.
    pub fn wrong_input(&self) -> Option<&InputError> {
        if let MediaError::Input(error) = self { Some(error) } else { None }
    }
}

/// Content of a data directory. The order of the fields is that of the JSON.
#[derive(Serialize)]
pub struct Info {
    format: u32,
    capacity_bytes: u64,
    precondition: String,
    geometry: Shape,
    last_end: &'static str,
    starts: u32,
    stripes_programmed: u64,
    stripes: u64,
    blocks_free: u64,
    blocks_unstable: u64,
    blocks: u64,
    erases: Erases,
    /// Bytes since the last checkpoint.
    journal_bytes: u64,
    stripes_found: u64,
    stripes_torn: u64,
    disk_bytes: u64,
}

#[derive(Serialize)]
struct Shape {
    channels: u32,
    ways: u32,
    planes: u32,
    blocks: u32,
    pages: u32,
    page_bytes: u32,
}

#[derive(Serialize)]
struct Erases {
    min: u32,
    mean: f64,
    max: u32,
}

/// Opens the directory, with a lock against its use by a server.
fn directory(path: &Path) -> Result<Directory, InputError> {
    Directory::look(path).map_err(|error| {
        let cure = match &error {
            DirectoryError::InUse { .. } => "end `byteway serve` first (Ctrl-C or SIGTERM)",
            DirectoryError::Missing { .. } => {
                "name the directory passed to `byteway serve --data`, or the subdirectory of one of several drives"
            }
            DirectoryError::System { .. } => "check its permissions",
        };
        let what = match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        InputError::new(what, cure)
    })
}

fn unreadable(path: &Path) -> impl FnOnce(OpenError) -> MediaError + use<'_> {
    move |source| MediaError::Unreadable { path: path.to_owned(), source }
}

fn end(opened: &OpenReport) -> &'static str {
    if opened.clean { "clean" } else { "not clean" }
}

impl Info {
    /// Inspects the directory at `path` without changing it.
    pub fn of(path: &Path) -> Result<Info, MediaError> {
        let summary = look(&directory(path)?).map_err(unreadable(path))?;
        let Summary { format, version, opened, erases, stripes, blocks_free, blocks_unstable, disk_bytes } =
            summary;
        let space = space_of(&format).ok_or_else(|| MediaError::NoCapacity { path: path.to_owned() })?;
        let geometry = &format.geometry;
        Ok(Info {
            format: version,
            capacity_bytes: space.user.saturating_mul(4096),
            precondition: format.quality("precondition").unwrap_or_default().to_owned(),
            geometry: Shape {
                channels: geometry.channels,
                ways: geometry.ways,
                planes: geometry.planes,
                blocks: geometry.blocks,
                pages: geometry.pages,
                page_bytes: geometry.page_bytes,
            },
            last_end: end(&opened),
            starts: opened.starts,
            stripes_programmed: stripes,
            stripes: u64::from(geometry.total_blocks()) * u64::from(geometry.pages),
            blocks_free,
            blocks_unstable,
            blocks: geometry.total_blocks().into(),
            erases: Erases {
                min: erases.iter().copied().min().unwrap_or_default(),
                mean: erases.iter().map(|count| f64::from(*count)).sum::<f64>() / erases.len().max(1) as f64,
                max: erases.iter().copied().max().unwrap_or_default(),
            },
            journal_bytes: opened.journal_bytes,
            stripes_found: opened.stripes_found,
            stripes_torn: opened.stripes_torn,
            disk_bytes,
        })
    }

    /// JSON for scripts.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("only string keys");
        json.push('\n');
        json
    }

    /// Human-readable text.
    pub fn to_text(&self) -> String {
        let shape = &self.geometry;
        let mut out = String::new();
        let mut line = |name: &str, value: String| _ = writeln!(out, "{name:<12}{value}");
        line("capacity", Bytes(self.capacity_bytes).to_string());
        line(
            "flash",
            format!(
                "{} channels x {} ways x {} planes x {} blocks x {} pages of {}",
                shape.channels,
                shape.ways,
                shape.planes,
                shape.blocks,
                shape.pages,
                Bytes(shape.page_bytes.into())
            ),
        );
        line("initial state", self.precondition.clone());
        line("format", format!("version {}", self.format));
        let starts = format!("{}; served {} times", self.last_end, grouped(self.starts.into()));
        line("last end", starts);
        let share = 100.0 * self.stripes_programmed as f64 / self.stripes.max(1) as f64;
        line(
            "programmed",
            format!(
                "{} of {} stripes ({share:.1} %); {} of {} superblocks free, {} to be erased again",
                grouped(self.stripes_programmed),
                grouped(self.stripes),
                grouped(self.blocks_free),
                grouped(self.blocks),
                grouped(self.blocks_unstable)
            ),
        );
        let Erases { min, mean, max } = &self.erases;
        line("erases", format!("{min} to {max} a superblock, {mean:.1} on average"));
        line("on disk", Bytes(self.disk_bytes).to_string());
        out
    }
}

/// Result of a check.
#[derive(Serialize)]
pub struct Verdict {
    /// `None`: interrupted, with no errors found until then.
    good: Option<bool>,
    /// Whether it was interrupted.
    partial: bool,
    superblocks: u32,
    superblocks_checked: u32,
    units: u64,
    units_with_bytes: u64,
    map: MapVerdict,
    last_end: &'static str,
    findings_total: u64,
    findings: Vec<String>,
}

/// State of the map.
#[derive(Serialize)]
struct MapVerdict {
    /// Why it was not checked; `None` if it was.
    not_checked: Option<String>,
    translation_pages: u64,
    logical_units: u64,
}

impl Verdict {
    /// Checks everything in the directory at `path` without changing it, until interrupted.
    pub fn of(path: &Path, bars: &dyn Bars, interrupt: &Interrupt) -> Result<Verdict, MediaError> {
        let directory = Arc::new(directory(path)?);
        let mut bar: Option<Progress> = None;
        let logical = |format: &Format| space_of(format).map_or(0, |space| space.units());
        let checked = check(&*directory, logical, |done, all| {
            let bar = bar.get_or_insert_with(|| Progress::parts(bars, "superblocks ", all));
            bar.part(done);
            !interrupt.is_raised()
        });
        if let Some(bar) = &bar {
            bar.finish();
        }
        let checked: Check = checked.map_err(unreadable(path))?;
        let mut findings: Vec<String> = checked.findings.iter().map(ToString::to_string).collect();
        let mut findings_total = checked.findings_total;
        let superblocks = checked.format.geometry.total_blocks();
        let interrupted = || Recovered::Untold("interrupted".to_owned());
        let audited = match checked.blocks < superblocks {
            true => Ok(interrupted()),
            false => audit(path, directory, interrupt),
        };
        let map = match audited? {
            Recovered::Audited(audit) => {
                findings_total += audit.findings_total;
                findings.extend(audit.findings.iter().map(ToString::to_string));
                let (translation_pages, logical_units) = (audit.pages, audit.units);
                MapVerdict { not_checked: None, translation_pages, logical_units }
            }
            Recovered::Damaged(what) => {
                findings_total += 1;
                findings.push(format!(
                    "{what}; no drive can be served from the directory: restore it from a copy"
                ));
                MapVerdict { not_checked: Some(what), translation_pages: 0, logical_units: 0 }
            }
            Recovered::Untold(why) => {
                MapVerdict { not_checked: Some(why), translation_pages: 0, logical_units: 0 }
            }
        };
        let partial = interrupt.is_raised();
        Ok(Verdict {
            good: (findings_total > 0 || !partial).then_some(findings_total == 0),
            partial,
            superblocks,
            superblocks_checked: checked.blocks,
            units: checked.units,
            units_with_bytes: checked.units_with_bytes,
            map,
            last_end: end(&checked.opened),
            findings_total,
            findings,
        })
    }

    /// Whether everything is correct; `None` if interrupted before that was known.
    pub fn is_good(&self) -> Option<bool> {
        self.good
    }

    /// JSON for scripts.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("only string keys");
        json.push('\n');
        json
    }

    /// Human-readable text.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for finding in &self.findings {
            let _ = writeln!(out, "{finding}");
        }
        let more = self.findings_total - self.findings.len() as u64;
        if more > 0 {
            let _ = writeln!(out, "... and {} more", grouped(more));
        }
        let units = grouped(self.units);
        let MapVerdict { not_checked, translation_pages, logical_units } = &self.map;
        let (pages, logical) = (grouped(*translation_pages), grouped(*logical_units));
        let map = match not_checked {
            None => format!("the map: {logical} logical units, {pages} translation pages"),
            Some(why) => format!("the map was not checked: {why}"),
        };
        if self.partial {
            let (checked, all) = (self.superblocks_checked.into(), self.superblocks.into());
            let _ = writeln!(
                out,
                "PARTIAL: interrupted after {} of {} superblocks",
                grouped(checked),
                grouped(all)
            );
        }
        let _ = match self.good {
            None => writeln!(out, "no errors so far in {units} units; {map}"),
            Some(true) => {
                writeln!(out, "all {units} units are correct; {map}; the last end was {}", self.last_end)
            }
            Some(false) => writeln!(out, "{} findings in {units} units; {map}", grouped(self.findings_total)),
        };
        out
    }
}

/// State of the map.
enum Recovered {
    Audited(Audit),
    /// The state cannot be determined.
    Damaged(String),
    /// The directory's format version lacks the necessary data.
    Untold(String),
}

/// Recovers the map like a starting drive, without a change to the directory, and compares it with the spare areas.
fn audit(path: &Path, directory: Arc<dyn Files>, interrupt: &Interrupt) -> Result<Recovered, MediaError> {
    let executor = Executor::new();
    let ftl = match Ftl::look(executor.clock(), directory) {
        Ok(ftl) => ftl,
        Err(why @ MediumError::Untold(_)) => return Ok(Recovered::Untold(why.to_string())),
        Err(source) => return Err(MediaError::NoDrive { path: path.to_owned(), source }),
    };
    let interrupt = interrupt.clone();
    let recovered = executor.run(async move {
        let mut work = pin!(async {
            match ready(&ftl).await {
                Err(why) => Recovered::Damaged(why.to_string()),
                Ok(()) => Recovered::Audited(ftl.audit().await),
            }
        });
        poll_fn(|context| match interrupt.is_raised() {
            true => Poll::Ready(Recovered::Untold("interrupted".to_owned())),
            false => work.as_mut().poll(context),
        })
        .await
    });
    recovered.map_err(|source| MediaError::Stalled { path: path.to_owned(), source })
}

/// Waits until the map is recovered, or returns why it cannot be.
async fn ready(ftl: &Ftl) -> Result<(), Rc<str>> {
    let (mut failed, mut ready) = (pin!(ftl.flash().failed()), pin!(ftl.ready()));
    poll_fn(|context| {
        if let Poll::Ready(why) = failed.as_mut().poll(context) {
            return Poll::Ready(Err(why));
        }
        ready.as_mut().poll(context).map(Ok)
    })
    .await
}
