//! A program as a filter of a table's rows: it is run once for each row, in slices, as an Execute Program is.
//!
//! Who filters holds the program in use until this is dropped, so it can be neither deactivated nor unloaded meanwhile. It does not hold the
//! namespace: that one can be formatted or deleted while rows are filtered, and they are filtered to their end all the same.
//!
//! One core filters the rows of a table at a time, in their order. Runs of this kind take no command slot, so `runs_max` does not count them:
//! there are as many at most as who asks has cursors.

use crate::config::{CommandSet, ProgramsCanary, ProgramsPolicy};
use crate::controller::command_set::programs::execute::{SLICE, spend};
use crate::controller::command_set::programs::table::Run;
use crate::controller::command_set::programs::table_of;
use crate::controller::core::Core;
use byteway_program::rows::RowsError;
use byteway_program::{Filter, FilterTrap, Fuel, Rows};
use byteway_wire::nvme::Status;

/// Why rows are not filtered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilterError {
    /// There is no such program to be executed.
    #[error("program {program} of namespace {nsid}: {status}")]
    Program {
        /// Namespace, 0 for the first that holds programs.
        nsid: u32,
        /// Program index.
        program: u16,
        /// What an Execute Program of it would end with.
        status: Status,
    },
    /// It was stopped.
    #[error(transparent)]
    Stopped(#[from] FilterTrap),
    /// Its columns make no rows.
    #[error(transparent)]
    Rows(#[from] RowsError),
}

/// A filter that is in use.
pub(crate) struct ProgramFilter {
    run: Run,
    filter: Filter,
    parameters: Vec<u8>,
}

impl ProgramFilter {
    /// Takes a program in use, which must be activated. Of namespace 0 it is that of the first namespace of programs.
    pub(crate) fn begin(
        core: &Core,
        (nsid, program): (u32, u16),
        parameters: &[u8],
    ) -> Result<ProgramFilter, FilterError> {
        let failed = |status: Status| FilterError::Program { nsid, program, status };
        let policy = core.config.programs.as_ref().ok_or(failed(Status::INVALID_FIELD))?;
        let first = || core.inventory.nsids_of(true, CommandSet::Programs).first().copied();
        let own = if nsid == 0 { first().unwrap_or(0) } else { nsid };
        let namespace = core.namespace(own).map_err(failed)?;
        if namespace.set != CommandSet::Programs {
            return Err(failed(Status::INVALID_NAMESPACE));
        }
        let run = table_of(&namespace).and_then(|table| table.begin(program, 0)).map_err(failed)?;
        let fuel = Fuel { row: policy.row_fuel, all: policy.filter_fuel };
        Ok(ProgramFilter { run, filter: Filter::new(fuel), parameters: parameters.to_vec() })
    }

    /// The rows of a batch that the program wants, counted from its first, which has the number `first` in the table.
    pub(crate) async fn select(
        &mut self,
        core: &Core,
        rows: &Rows<'_>,
        first: u64,
    ) -> Result<Vec<u32>, FilterError> {
        let weights = core
            .config
            .programs
            .as_ref()
            .map_or_else(|| ProgramsPolicy::default().weights, |policy| policy.weights);
        let mut selected = Vec::new();
        loop {
            let before = self.filter.counts();
            let went =
                self.filter.proceed(&self.run.code, rows, &self.parameters, (first, SLICE), &mut selected);
            let weight = weights.of(&self.filter.counts().since(&before));
            spend(core, &self.run, weight).await;
            if went? {
                let skips = core.config.programs.as_ref().and_then(|policy| policy.canary)
                    == Some(ProgramsCanary::SkipRow);
                if skips && selected.last().is_some_and(|last| last + 1 == rows.count()) {
                    selected.pop();
                }
                return Ok(selected);
            }
        }
    }
}
