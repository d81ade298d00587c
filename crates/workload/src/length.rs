//! Lengths of I/Os: fixed, from a range, or several with shares: `bs`, `bsrange`, `bssplit`.

use byteway_clock::random::Stream;

use super::direction::ByKind;
use super::rw::Rw;
use byteway_trace::Kind;

/// Lengths of the I/Os of one kind, in logical blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// Always this length.
    Fixed(u32),
    /// Multiples of `min` up to `max`, with equal probability.
    Range {
        /// Shortest length.
        min: u32,
        /// Longest length.
        max: u32,
    },
    /// Lengths with their shares in percent.
    Split(Vec<(u32, u32)>),
}

impl Lengths {
    /// The shortest length, to which addresses are aligned.
    pub fn min(&self) -> u32 {
        match self {
            Lengths::Fixed(blocks) => *blocks,
            Lengths::Range { min, .. } => *min,
            Lengths::Split(parts) => parts.iter().map(|part| part.0).min().unwrap_or(1),
        }
    }

    /// The longest length.
    pub fn max(&self) -> u32 {
        match self {
            Lengths::Fixed(blocks) => *blocks,
            Lengths::Range { max, .. } => *max,
            Lengths::Split(parts) => parts.iter().map(|part| part.0).max().unwrap_or(1),
        }
    }

    /// Draws a length. Always consumes one draw, so that a change of the mix changes no other I/O's length.
    fn draw(&self, stream: &mut Stream) -> u32 {
        match self {
            Lengths::Fixed(blocks) => {
                stream.next_u64();
                *blocks
            }
            Lengths::Range { min, max } => min * (1 + stream.below(u64::from(max / min)) as u32),
            Lengths::Split(parts) => {
                let mut at = stream.below(100) as u32;
                for (blocks, share) in parts {
                    match at.checked_sub(*share) {
                        Some(rest) => at = rest,
                        None => return *blocks,
                    }
                }
                self.min()
            }
        }
    }
}

impl ByKind<Lengths> {
    /// The shortest length of the kinds that `rw` uses.
    pub fn min_of(&self, rw: Rw) -> u32 {
        rw.kinds().iter().map(|kind| self.get(*kind).min()).min().unwrap_or(1).max(1)
    }

    /// The longest length of the kinds that `rw` uses.
    pub fn max_of(&self, rw: Rw) -> u32 {
        rw.kinds().iter().map(|kind| self.get(*kind).max()).max().unwrap_or(1)
    }

    /// The common length of all I/Os of `rw`, if there is one.
    pub fn fixed(&self, rw: Rw) -> Option<u32> {
        let mut kinds = rw.kinds().iter().map(|kind| match self.get(*kind) {
            Lengths::Fixed(blocks) => Some(*blocks),
            _ => None,
        });
        let first = kinds.next()??;
        kinds.all(|other| other == Some(first)).then_some(first)
    }
}

/// Draws lengths.
pub(super) struct Ruler {
    lengths: ByKind<Lengths>,
    /// `None` if each kind has a fixed length, so that nothing is drawn.
    stream: Option<Stream>,
}

impl Ruler {
    pub(super) fn new(lengths: &ByKind<Lengths>, stream: Stream) -> Self {
        let fixed = |kind| matches!(lengths.get(kind), Lengths::Fixed(_));
        let all = [Kind::Read, Kind::Write, Kind::Trim].into_iter().all(fixed);
        Ruler { lengths: lengths.clone(), stream: (!all).then_some(stream) }
    }

    pub(super) fn draw(&mut self, kind: Kind) -> u32 {
        let lengths = self.lengths.get(kind);
        match &mut self.stream {
            Some(stream) => lengths.draw(stream),
            None => lengths.min(),
        }
    }

    pub(super) fn align(&self, kind: Kind) -> u64 {
        u64::from(self.lengths.get(kind).min().max(1))
    }
}
