//! Row filter programs: a program runs once per row of a table, in slices, as in Execute Program.
//!
//! [`ProgramFilter`] keeps the program in use, so it can be neither deactivated nor unloaded. It does not
//! hold the namespace, which may be formatted or deleted meanwhile; filtering then continues to its end.
//!
//! One core filters the rows of a table, in order. Filters occupy no command slot and do not count for
//! `runs_max`: the number of cursors limits them.

use crate::config::{CommandSet, Defect, ProgramsPolicy};
use crate::controller::command_set::programs::execute::{SLICE, spend};
use crate::controller::command_set::programs::table::Run;
use crate::controller::command_set::programs::table_of;
use crate::controller::core::Core;
use byteway_program::rows::RowsError;
use byteway_program::{Filter, FilterTrap, Fuel, Rows};
use byteway_wire::nvme::Status;

/// Reason for which rows cannot be filtered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilterError {
    /// No such program is executable.
    #[error("program {program} of namespace {nsid}: {status}")]
    Program {
        /// Namespace, 0 for the first that holds programs.
        nsid: u32,
        /// Program index.
        program: u16,
        /// Status that an Execute Program would return.
        status: Status,
    },
    /// The program was stopped.
    #[error(transparent)]
    Stopped(#[from] FilterTrap),
    /// The columns cannot be laid out as rows.
    #[error(transparent)]
    Rows(#[from] RowsError),
}

/// A row filter program in use.
pub(crate) struct ProgramFilter {
    run: Run,
    filter: Filter,
    parameters: Vec<u8>,
}

impl ProgramFilter {
    /// Starts using an activated program. Namespace 0 selects the first namespace of programs.
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

    /// Indexes of the batch's rows for which the program returns 1. `first` is the number in the table of the
    /// batch's first row.
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
                let skips =
                    core.config.programs.as_ref().is_some_and(|policy| policy.defect.has(Defect::SkipRow));
                if skips && selected.last().is_some_and(|last| last + 1 == rows.count()) {
                    selected.pop();
                }
                return Ok(selected);
            }
        }
    }
}
