//! The cells of settled blocks: one 32-bit cell per block, in closed form for untouched blocks.

use byteway_content::Words;
use rustc_hash::FxHashMap;

/// Number of blocks up to which cells are an array (256 MiB, of which only touched pages take memory).
pub(super) const DENSE_BLOCKS_MAX: u64 = 64 << 20;
/// Above that, cells become an array once more than one block in this many differs from the base.
const SPARSE_SHARE: u64 = 6;

pub(super) enum Cells {
    Dense(Words),
    Sparse { cells: FxHashMap<u64, u32>, blocks: u64 },
}

impl Cells {
    pub(super) fn new(blocks: u64) -> Self {
        match usize::try_from(blocks) {
            Ok(count) if blocks <= DENSE_BLOCKS_MAX => Cells::Dense(Words::zeroes(count)),
            _ => Cells::Sparse { cells: FxHashMap::default(), blocks },
        }
    }

    pub(super) fn get(&self, lba: u64) -> u32 {
        match self {
            Cells::Dense(cells) => cells.get(lba as usize).copied().unwrap_or(0),
            Cells::Sparse { cells, .. } => cells.get(&lba).copied().unwrap_or(0),
        }
    }

    pub(super) fn set(&mut self, lba: u64, cell: u32) {
        match self {
            Cells::Dense(cells) => cells[lba as usize] = cell,
            Cells::Sparse { cells, .. } if cell == 0 => drop(cells.remove(&lba)),
            Cells::Sparse { cells, blocks } => {
                cells.insert(lba, cell);
                if cells.len() as u64 > *blocks / SPARSE_SHARE {
                    let mut dense = Words::zeroes(*blocks as usize);
                    cells.iter().for_each(|(lba, cell)| dense[*lba as usize] = *cell);
                    *self = Cells::Dense(dense);
                }
            }
        }
    }
}
