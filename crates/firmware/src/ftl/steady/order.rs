//! Arrangement of the valid units within a superblock in the steady state.

use byteway_clock::permutation::Permutation;

/// Maximum units of a superblock whose permutations are tables: 2 MiB for all shared permutations.
const TABLE_UNITS_MAX: u64 = 1 << 15;

/// A permutation of a superblock's positions.
pub(super) enum Positions {
    /// Image of each position, and the reverse.
    Table { images: Box<[u16]>, positions: Box<[u16]> },
    /// Computed on demand, for superblocks so large that building a table would take too long.
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

/// The valid units of a superblock: from index to position, and back.
pub(super) struct Order<'a> {
    pub(super) valid: u32,
    pub(super) spread: Spread<'a>,
}

pub(super) enum Spread<'a> {
    /// Evenly over a range: behind the emptied part of a victim, in the cache, in open superblocks, and where
    /// all units are valid.
    Evenly { first: u32, span: u32 },
    /// A shared permutation between two rotations of the superblock's own.
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

    /// The position within `span` of the valid unit with index `number`, for an even arrangement.
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
