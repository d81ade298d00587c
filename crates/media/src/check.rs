//! Verification of a data directory: checksums, and the map against the spare areas.

use crate::directory::{directory, end, unreadable};
use crate::error::MediaError;
use byteway_clock::Executor;
use byteway_firmware::{Audit, Ftl, MediumError, space_of};
use byteway_flash::file::{Check, Files, Format, check};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::{Bars, Progress};
use byteway_text::table::grouped;
use serde::Serialize;
use std::fmt::Write as _;
use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

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
    /// Units whose location is lost: the drive is served only with `--accept-losses`.
    lost_units: u64,
}

impl MapVerdict {
    fn not_checked(why: String) -> MapVerdict {
        MapVerdict { not_checked: Some(why), translation_pages: 0, logical_units: 0, lost_units: 0 }
    }
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
                let Audit { pages: translation_pages, units: logical_units, lost_units, .. } = audit;
                MapVerdict { not_checked: None, translation_pages, logical_units, lost_units }
            }
            Recovered::Damaged(what) => {
                findings_total += 1;
                findings.push(format!(
                    "{what}; no drive can be served from the directory: restore it from a copy"
                ));
                MapVerdict::not_checked(what)
            }
            Recovered::Untold(why) => MapVerdict::not_checked(why),
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
        let MapVerdict { not_checked, translation_pages, logical_units, lost_units } = &self.map;
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
        if *lost_units > 0 {
            let lost = grouped(*lost_units);
            let _ = writeln!(
                out,
                "{lost} logical units are lost: the drive is refused, or served with `byteway serve --accept-losses`, \
                 and they read as errors"
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
            match ftl.started().await {
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
