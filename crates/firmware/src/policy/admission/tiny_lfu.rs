use super::sketch::{Counts, Filter};
use super::view::{Admission, AdmissionView};

/// Keeps a unit that was read more often of late than the one that would make place for it (Einziger, Friedman and Manes, "TinyLFU: A Highly
/// Efficient Cache Admission Policy", ACM Transactions on Storage 13, 2017).
///
/// Reads are counted in a count-min sketch of 4 bits, in which only the lowest counters of a unit grow, behind a Bloom filter that takes the
/// first read of each (the doorkeeper). After ten times as many reads as the cache has units, all counts are halved and the doorkeeper is
/// cleared, so that what was popular once is forgotten.
#[derive(Clone, Debug, Default)]
pub struct TinyLfu {
    /// None before the first read.
    sample: Option<Sample>,
}

#[derive(Clone, Debug)]
struct Sample {
    counts: Counts,
    doorkeeper: Filter,
    reads: u64,
}

/// Reads of a sample for each unit of the cache.
const SAMPLE: u64 = 10;

impl Sample {
    fn of(&self, unit: u64) -> u8 {
        self.counts.of(unit) + u8::from(self.doorkeeper.has(unit))
    }
}

impl TinyLfu {
    /// The sample, with a read of a unit counted.
    fn record(&mut self, unit: u64, capacity: u32) -> &Sample {
        let most = SAMPLE * u64::from(capacity);
        let new = || Sample {
            counts: Counts::new(4 * u64::from(capacity)),
            doorkeeper: Filter::new(most),
            reads: 0,
        };
        let sample = self.sample.get_or_insert_with(new);
        match sample.doorkeeper.has(unit) {
            true => sample.counts.add(unit),
            false => sample.doorkeeper.add(unit),
        }
        sample.reads += 1;
        if sample.reads >= most {
            sample.reads /= 2;
            sample.counts.halve();
            sample.doorkeeper.clear();
        }
        sample
    }
}

impl Admission for TinyLfu {
    fn admits(&mut self, view: &mut AdmissionView<'_>) -> bool {
        let sample = self.record(view.unit(), view.capacity());
        view.victim().is_none_or(|victim| sample.of(view.unit()) > sample.of(victim))
    }

    fn found(&mut self, unit: u64, capacity: u32) {
        self.record(unit, capacity);
    }
}
