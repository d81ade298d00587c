//! Data directories of served drives, looked at from outside: what is in them, and whether all of it is right.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, anyhow};
use byteway_firmware::Space;
use byteway_flash::file::{Check, Directory, DirectoryError, Format, Opened, Summary, VERSION, check, look};
use serde::Serialize;

use crate::error::InputError;
use crate::progress::Progress;
use crate::summary::grouped;
use crate::units::Bytes;

/// What is in a data directory. The order of the fields is that of the JSON.
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
    /// Since the last checkpoint.
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

/// The directory, locked against a drive that is served from it.
fn directory(path: &Path) -> Result<Directory, InputError> {
    Directory::look(path).map_err(|error| {
        let cure = match &error {
            DirectoryError::InUse { .. } => "end `byteway serve` first (Ctrl-C or SIGTERM)",
            DirectoryError::Missing { .. } => {
                "name the directory that `byteway serve --data` was given, or of several drives one below it"
            }
            DirectoryError::System { .. } => "see to its permissions",
        };
        let what = match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        InputError::new(what, cure)
    })
}

/// The host's units, as the format says.
fn user_units(format: &Format) -> Option<u64> {
    quality(format, "units")?.parse().ok()
}

fn quality<'a>(format: &'a Format, name: &str) -> Option<&'a str> {
    format.traits.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

fn end(opened: &Opened) -> &'static str {
    if opened.clean { "clean" } else { "not clean" }
}

impl Info {
    /// Of the directory at `path`, which is left as it is.
    pub fn of(path: &Path) -> anyhow::Result<Info> {
        let summary = look(&directory(path)?).with_context(|| path.display().to_string())?;
        let Summary { format, opened, erases, stripes, blocks_free, blocks_unstable, disk_bytes } = summary;
        let units = user_units(&format).ok_or_else(|| anyhow!("{}: no capacity", path.display()))?;
        let geometry = &format.geometry;
        Ok(Info {
            format: VERSION,
            capacity_bytes: units * 4096,
            precondition: quality(&format, "precondition").unwrap_or_default().to_owned(),
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

    /// For scripts.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("only string keys");
        json.push('\n');
        json
    }

    /// For the eye.
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
        line("began as", self.precondition.clone());
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

/// What a check of a data directory has found.
#[derive(Serialize)]
pub struct Verdict {
    good: bool,
    units: u64,
    units_with_bytes: u64,
    last_end: &'static str,
    findings_total: u64,
    findings: Vec<String>,
}

impl Verdict {
    /// Checks all that is in the directory at `path`, which is left as it is.
    pub fn of(path: &Path, quiet: bool) -> anyhow::Result<Verdict> {
        let directory = directory(path)?;
        let mut bar: Option<Progress> = None;
        let logical = |format: &Format| user_units(format).map_or(0, |units| Space::new(units).units());
        let checked = check(&directory, logical, |done, all| {
            let bar = bar.get_or_insert_with(|| Progress::parts("superblocks ", all, quiet));
            bar.part(done);
        });
        if let Some(bar) = &bar {
            bar.finish();
        }
        let checked: Check = checked.with_context(|| path.display().to_string())?;
        Ok(Verdict {
            good: checked.findings_total == 0,
            units: checked.units,
            units_with_bytes: checked.units_with_bytes,
            last_end: end(&checked.opened),
            findings_total: checked.findings_total,
            findings: checked.findings.iter().map(ToString::to_string).collect(),
        })
    }

    /// Whether nothing is wrong.
    pub fn is_good(&self) -> bool {
        self.good
    }

    /// For scripts.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("only string keys");
        json.push('\n');
        json
    }

    /// For the eye.
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
        let _ = match self.good {
            true => writeln!(
                out,
                "all {units} units are as they were written; the last end was {}",
                self.last_end
            ),
            false => writeln!(out, "{} of {units} units or stripes are wrong", grouped(self.findings_total)),
        };
        out
    }
}
