//! Rows for a program: assembles each row from columns of fixed width, in the layout of a C struct with the columns in order.

use crate::memory::{Denied, Memory, PARAMETERS, range_of};

/// A column of fixed-width values.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    /// Values in row order, little-endian.
    pub bytes: &'a [u8],
    /// Width of a value in bytes: 1, 2, 4, 8 or 16.
    pub width: usize,
}

/// Why columns do not form rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowsError {
    /// Unsupported width.
    #[error("column {column}: a value has {width} bytes, expected 1, 2, 4, 8 or 16")]
    Width {
        /// Index of the column.
        column: usize,
        /// Width in bytes.
        width: usize,
    },
    /// Length that differs from that of the first column.
    #[error("column {column} has {bytes} bytes, expected {width} for each of {rows} rows")]
    Length {
        /// Index of the column.
        column: usize,
        /// Length in bytes.
        bytes: usize,
        /// Width of a value in bytes.
        width: usize,
        /// Rows of the first column.
        rows: usize,
    },
    /// More rows than 32 bits can number.
    #[error("{rows} rows exceed the limit of 2^32")]
    Rows {
        /// Number of rows.
        rows: usize,
    },
}

/// Rows of fixed-width columns.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    columns: Vec<Column<'a>>,
    offsets: Vec<usize>,
    row_bytes: usize,
    count: u32,
}

impl<'a> Rows<'a> {
    /// Rows of these columns.
    ///
    /// # Errors
    /// The columns differ in length, or one has an unsupported width.
    pub fn of(columns: &[Column<'a>]) -> Result<Rows<'a>, RowsError> {
        let rows = columns.first().map_or(0, |first| first.bytes.len() / first.width.max(1));
        let count = u32::try_from(rows).map_err(|_| RowsError::Rows { rows })?;
        let (mut offsets, mut end, mut alignment) = (Vec::new(), 0_usize, 1);
        for (column, Column { bytes, width }) in columns.iter().enumerate() {
            let (bytes, width) = (bytes.len(), *width);
            if !matches!(width, 1 | 2 | 4 | 8 | 16) {
                return Err(RowsError::Width { column, width });
            }
            if bytes != rows.saturating_mul(width) {
                return Err(RowsError::Length { column, bytes, width, rows });
            }
            let offset = end.next_multiple_of(width);
            offsets.push(offset);
            end = offset + width;
            alignment = alignment.max(width);
        }
        let row_bytes = end.next_multiple_of(alignment);
        Ok(Rows { columns: columns.to_vec(), offsets, row_bytes, count })
    }

    /// Number of rows.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Offset of each column in a row, in bytes.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// Size of a row in bytes.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Assembles a row.
    pub(crate) fn put(&self, row: u32, into: &mut [u8]) {
        for (Column { bytes, width }, offset) in self.columns.iter().zip(&self.offsets) {
            let from = row as usize * width;
            into[*offset..offset + width].copy_from_slice(&bytes[from..from + width]);
        }
    }
}

/// Memory of a filter. It is constructed for each row without an allocation.
pub(crate) struct RowMemory<'a> {
    pub(crate) parameters: &'a [u8],
    pub(crate) row: &'a [u8],
}

impl RowMemory<'_> {
    /// The bytes at an address, in the parameters or the row.
    fn part(&self, address: u64, count: usize) -> Result<&[u8], Denied> {
        let there = match range_of(address) {
            Some((0, _)) => self.row,
            None if address >> 32 == PARAMETERS >> 32 => self.parameters,
            _ => return Err(Denied::OutOfRange),
        };
        let from = address as u32 as usize;
        there.get(from..from.saturating_add(count)).ok_or(Denied::OutOfRange)
    }
}

impl Memory for RowMemory<'_> {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), Denied> {
        into.copy_from_slice(self.part(address, into.len())?);
        Ok(())
    }

    fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), Denied> {
        self.part(address, bytes.len()).and(Err(Denied::ReadOnly))
    }

    fn range_bytes(&self, index: u32) -> Option<u64> {
        (index == 0).then_some(self.row.len() as u64)
    }
}
