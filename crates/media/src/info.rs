//! Content of a data directory.

use crate::directory::{directory, end, unreadable};
use crate::error::MediaError;
use byteway_firmware::space_of;
use byteway_flash::file::{Summary, look};
use byteway_text::table::grouped;
use byteway_text::units::Bytes;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

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
