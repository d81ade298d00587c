//! Byteway with a workload of one's own, `database:PAGES`, and a trace format, `requests`.
//!
//! A database in small, which no mix of reads and writes is: a transaction reads a page and appends to a log, and every so often a checkpoint
//! writes the pages that were changed, in the order of their addresses.

mod requests;

use byteway::{Extensions, Kind, MadeSource, Operation, WorkloadSource, WorkloadView, WrongArgument};
use requests::Requests;
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Blocks of a page.
const PAGE: u32 = 2;

struct Database {
    /// Pages that are changed between two checkpoints.
    most: usize,
    changed: BTreeSet<u64>,
    is_checkpoint: bool,
    /// Next block of the log, and whether it is its turn.
    log: u64,
    appends: bool,
}

impl WorkloadSource for Database {
    fn next(&mut self, view: &mut WorkloadView<'_>) -> Option<Operation> {
        let page = |page: u64, kind| Operation { kind, first: page * u64::from(PAGE), blocks: PAGE };
        // An eighth of the worker's range is its log, and the rest are pages.
        let pages = view.blocks() / u64::from(PAGE) * 7 / 8;
        let log = view.blocks() - pages * u64::from(PAGE);
        if pages == 0 {
            return None;
        }
        self.is_checkpoint |= self.changed.len() >= self.most.min(pages as usize);
        if self.is_checkpoint {
            let next = self.changed.pop_first();
            self.is_checkpoint = !self.changed.is_empty();
            return next.map(|number| page(number, Kind::Write));
        }
        self.appends = !self.appends;
        if self.appends {
            let first = pages * u64::from(PAGE) + self.log % log;
            self.log += 1;
            return Some(Operation { kind: Kind::Write, first, blocks: 1 });
        }
        let number = view.random_below(pages);
        self.changed.insert(number);
        Some(page(number, Kind::Read))
    }
}

/// The workload of `database:100`; a checkpoint every 1000 pages without an argument.
fn database(argument: Option<&str>) -> MadeSource {
    let most =
        argument.unwrap_or("1000").parse().ok().filter(|most| *most > 0).ok_or_else(|| WrongArgument {
            what: "needs a number of pages, at least 1".into(),
            help: "write it behind a colon, such as `database:100`".into(),
        })?;
    let (changed, is_checkpoint) = (BTreeSet::new(), false);
    Ok(Box::new(Database { most, changed, is_checkpoint, log: 0, appends: false }))
}

fn main() -> ExitCode {
    let about = "Transactions that read a page and append to a log; every 1000 changed pages, or `database:PAGES`, a checkpoint writes them.";
    let version = env!("CARGO_PKG_VERSION");
    let lines = "Lines such as `at=1.5us write 0x2000+4096`; others are passed over.";
    let own = Extensions::default().source("database", about, version, database);
    byteway::main_with(own.trace_format("requests", lines, version, || Box::new(Requests)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_number_is_refused() {
        assert!(database(Some("5")).is_ok() && database(None).is_ok());
        assert!(database(Some("0")).is_err() && database(Some("many")).is_err());
    }
}
