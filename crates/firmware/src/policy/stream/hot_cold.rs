use super::view::{Stream, StreamCounts, StreamView};
use crate::policy::hash::hash;

/// Hot and cold data of the host, told apart by several Bloom filters of recent writes (Park and Du, "Hot Data Identification for
/// Flash-based Storage Systems Using Multiple Bloom Filters", MSST 2011).
///
/// A write is recorded in one of four filters in turn, or, if that one has it already, in the next one that has not. After each interval of
/// writes the filter that was cleared longest ago is cleared. Filters weigh 2, 1.5, 1 and 0.5, the last cleared one most, and a unit in
/// filters of a weight of 4 or more is hot. The paper has intervals of 512 writes, and filters of 4 bits for each write of an interval.
///
/// Here the interval is as many writes as the drive has units, unless another one is given: what comes again within some 512 writes is a few
/// hundred units, and a drive is to be divided into parts.
///
/// Streams 0 and 1 of the host are hot and cold data; the collector has one.
#[derive(Clone, Debug)]
pub struct HotCold {
    interval: Option<u64>,
    filters: [Vec<u64>; FILTERS],
    /// The last filter that was cleared, and the one that the next write is recorded in.
    cleared: usize,
    turn: usize,
    /// Writes since a filter was cleared.
    writes: u64,
}

const FILTERS: usize = 4;

/// Weights of filters, in halves, from the last cleared one on.
const WEIGHTS: [u32; FILTERS] = [4, 3, 2, 1];

/// Weight from which on a unit is hot, in halves.
const HOT: u32 = 8;

/// Bits of a filter for each write of an interval, and most bits: 128 MiB for the four.
const BITS_PER_WRITE: u64 = 4;
const BITS_MAX: u64 = 1 << 28;

impl HotCold {
    /// With this number of writes between two clearings of a filter; by default, as many as the drive has units.
    pub fn new(interval: Option<u64>) -> Self {
        let filters = Default::default();
        HotCold { interval, filters, cleared: 0, turn: 0, writes: 0 }
    }

    fn interval(&self, units: u64) -> u64 {
        self.interval.unwrap_or(units).max(1)
    }

    /// The filters' bits. A filter never holds more than all units.
    fn allocate(&mut self, units: u64) {
        let bits = BITS_PER_WRITE.saturating_mul(self.interval(units).min(units));
        let bits = bits.clamp(64, BITS_MAX).next_power_of_two();
        self.filters.fill(vec![0; (bits / 64) as usize]);
    }

    fn record(&mut self, unit: u64) {
        let first = self.turn;
        self.turn = (first + 1) % FILTERS;
        for filter in first..first + FILTERS {
            let filter = &mut self.filters[filter % FILTERS];
            if !has(filter, unit) {
                bits(filter.len(), unit).into_iter().for_each(|(word, bit)| filter[word] |= bit);
                return;
            }
        }
    }

    /// Weight of the filters that hold a unit, in halves.
    pub(super) fn weight(&self, unit: u64) -> u32 {
        let weigh = |(age, weight): (usize, u32)| {
            let filter = &self.filters[(self.cleared + FILTERS - age) % FILTERS];
            if has(filter, unit) { weight } else { 0 }
        };
        (0..).zip(WEIGHTS).map(weigh).sum()
    }
}

/// The two bits of a unit: word and bit.
fn bits(words: usize, unit: u64) -> [(usize, u64); 2] {
    let hash = hash(unit);
    [hash, hash >> 32].map(|hash| {
        let at = (hash as u32 as usize) & (words * 64 - 1);
        (at / 64, 1 << (at % 64))
    })
}

fn has(filter: &[u64], unit: u64) -> bool {
    bits(filter.len(), unit).into_iter().all(|(word, bit)| filter[word] & bit != 0)
}

impl Stream for HotCold {
    fn counts(&self) -> StreamCounts {
        StreamCounts { host: 2, collector: 1 }
    }

    fn place(&mut self, view: &mut StreamView<'_>) -> u32 {
        if view.source().is_some() {
            return 0;
        }
        if self.filters[0].is_empty() {
            self.allocate(view.units());
        }
        if self.writes == self.interval(view.units()) {
            self.writes = 0;
            self.cleared = (self.cleared + 1) % FILTERS;
            self.filters[self.cleared].fill(0);
        }
        self.writes += 1;
        self.record(view.unit());
        u32::from(self.weight(view.unit()) < HOT)
    }
}
