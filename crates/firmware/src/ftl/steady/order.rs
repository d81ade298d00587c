//! Where in a superblock its valid units lie, in the steady state.

use byteway_clock::permutation::Permutation;

/// The most units of a superblock whose permutations are kept as tables: of all those that superblocks share, 2 MiB.
const TABLE_UNITS_MAX: u64 = 1 << 15;

/// A permutation of a superblock's positions.
pub(super) enum Positions {
    /// Where each position goes, and what comes to it.
    Table { images: Box<[u16]>, positions: Box<[u16]> },
    /// Of superblocks of so many units that a table would take too long to make.
    Computed(Permutation),
}

impl Positions {
    pub(super) fn new(permutation: Permutation) -> Self {
        let units = permutation.n();
        if units > TABLE_UNITS_MAX {
            return Positions::Computed(permutation);
        }
        let mut positions = vec![0; units as usize].into_boxed_slice();
        let image = |position: u64| {
            let image = permutation.forward(position);
            positions[image as usize] = position as u16;
            image as u16
        };
        let images = (0..units).map(image).collect();
        Positions::Table { images, positions }
    }

    fn units(&self) -> u64 {
        match self {
            Positions::Table { images, .. } => images.len() as u64,
            Positions::Computed(permutation) => permutation.n(),
        }
    }

    #[inline]
    fn image(&self, position: u32) -> u32 {
        match self {
            Positions::Table { images, .. } => images[position as usize].into(),
            Positions::Computed(permutation) => permutation.forward(position.into()) as u32,
        }
    }

    fn position(&self, image: u32) -> u32 {
        match self {
            Positions::Table { positions, .. } => positions[image as usize].into(),
            Positions::Computed(permutation) => permutation.inverse(image.into()) as u32,
        }
    }
}

/// Where the valid units of a superblock lie: by their number there, and back.
pub(super) struct Order<'a> {
    pub(super) valid: u32,
    pub(super) spread: Spread<'a>,
}

pub(super) enum Spread<'a> {
    /// Evenly over so many places: behind what the collector has emptied, in the cache, in superblocks that are open, and
    /// where all are valid.
    Evenly { first: u32, span: u32 },
    /// By a permutation that superblocks share, between two turns of their own.
    Scattered { positions: &'a Positions, turns: [u32; 2] },
}

impl Order<'_> {
    pub(super) fn position(&self, number: u32) -> u32 {
        match &self.spread {
            Spread::Evenly { first, span } => first + self.nth(number, *span),
            Spread::Scattered { positions, turns: [turn, last] } => {
                let units = positions.units();
                back(positions.position(back(number, *last, units)), *turn, units)
            }
        }
    }

    #[inline]
    pub(super) fn number(&self, position: u32) -> Option<u32> {
        let number = match &self.spread {
            Spread::Evenly { first, span } => {
                let offset = position.checked_sub(*first)?;
                let number = u64::from(offset) * u64::from(self.valid);
                let number = number.div_ceil(u64::from((*span).max(1))) as u32;
                if self.nth(number, *span) != offset {
                    return None;
                }
                number
            }
            Spread::Scattered { positions, turns: [turn, last] } => {
                let units = positions.units();
                on(positions.image(on(position, *turn, units)), *last, units)
            }
        };
        (number < self.valid).then_some(number)
    }

    /// Which of `span` places the valid unit of this number has, where they lie evenly.
    fn nth(&self, number: u32, span: u32) -> u32 {
        (u64::from(number) * u64::from(span) / u64::from(self.valid.max(1))) as u32
    }
}

fn on(position: u32, by: u32, n: u64) -> u32 {
    let sum = u64::from(position) + u64::from(by);
    (if sum >= n { sum - n } else { sum }) as u32
}

fn back(position: u32, by: u32, n: u64) -> u32 {
    if position >= by { position - by } else { (u64::from(position) + n - u64::from(by)) as u32 }
}
