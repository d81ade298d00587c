//! Options for reading a trace.

use super::format::{Action, Columns, Format, Unit};
use byteway_text::error::InputError;

/// Options for reading a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Format of the trace.
    pub format: Format,
    /// Device to select; `None` for all.
    pub device: Option<u32>,
    /// Skip and count lines that are not records, instead of ending with an error.
    pub skip_bad_lines: bool,
    /// In a format with numeric operations: the number that means read, if it differs from the format's.
    pub reads_are: Option<u8>,
    /// In a format that records several steps of an I/O: the step to use. `None`: the first of Q, D and C in
    /// the beginning of the file.
    pub action: Option<Action>,
    /// Unit of offsets and lengths, if it differs from the format's.
    pub unit: Option<Unit>,
    /// Columns of the file, instead of a format.
    pub columns: Option<Columns>,
}

impl ReadOptions {
    /// Defaults for this format.
    pub fn of(format: Format) -> Self {
        ReadOptions { format, ..ReadOptions::default() }
    }

    /// Assumptions about a trace that is read with these options, for the notes of a result.
    pub fn assumption(&self) -> String {
        let mut text = match &self.columns {
            Some(columns) => format!("columns {columns}"),
            None if self.format == Format::Columns => "columns named by its first line".to_owned(),
            None => self.format.assumption().to_owned(),
        };
        if let Some(unit) = self.unit.filter(|unit| self.format.spec().unit() != Some(*unit)) {
            let noun = if unit == Unit::Bytes { "bytes" } else { "sectors of 512 B" };
            text.push_str(&format!(", but as asked for: offsets and sizes in {noun}"));
        }
        if let Some(read) = self.reads_are.filter(|_| self.reads_are != self.format.spec().reads_are) {
            text.push_str(&format!(", but as asked for: {read} = read and {} = write", 1 - read.min(1)));
        }
        if self.format.has_actions() {
            let action = self.action.unwrap_or_default();
            text.push_str(&format!(", action {} ({})", action.letter(), action.noun()));
        }
        text
    }

    /// Refuses options that contradict the format.
    pub(super) fn check(&self) -> Result<(), InputError> {
        let name = self.format.name();
        if let Some(number) = self.reads_are {
            if self.format.spec().reads_are.is_none() && self.format != Format::Columns {
                let what = format!("the format {name} names its operations, so `reads_are` has no effect");
                return Err(InputError::new(what, "leave `reads_are` (--reads-are) out"));
            }
            if number > 1 {
                let what = format!("`reads_are` = {number} is neither 0 nor 1");
                return Err(InputError::new(what, "write 0 or 1"));
            }
        }
        if self.unit.is_some() && self.format == Format::Columns {
            let what = "the names of columns determine their units, so `unit` has no effect";
            return Err(InputError::new(
                what,
                "leave `unit` (--unit) out, and name lba and sectors, or offset and bytes",
            ));
        }
        if self.unit.is_some() && self.format.spec().unit().is_none() {
            let what = format!(
                "the format {name} has different units for offsets and sizes, so `unit` has no effect"
            );
            let help =
                "leave `unit` (--unit) out; in a text format, `columns` (--columns) says each by itself";
            return Err(InputError::new(what, help));
        }
        if self.action.is_some() && !self.format.has_actions() {
            let what = format!("the format {name} has one line per I/O, so `action` has no effect");
            return Err(InputError::new(what, "leave `action` (--action) out"));
        }
        Ok(())
    }
}
