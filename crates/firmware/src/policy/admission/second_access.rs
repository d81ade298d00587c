use super::sketch::Filter;
use super::view::{Admission, AdmissionView};

/// Keeps what missed before, and not long ago: most data of many loads are read once, and would only make others leave (the rule of caching on
/// the second hit, of Maggs and Sitaraman, "Algorithmic Nuggets in Content Delivery", 2015).
///
/// Misses are remembered in two Bloom filters in turn: when one has recorded twice as many as the cache has units, the older one is cleared and
/// is next.
#[derive(Clone, Debug, Default)]
pub struct SecondAccess {
    /// The filter that records, and the one before it; none before the first question.
    filters: Option<[Filter; 2]>,
    recorded: u64,
}

impl Admission for SecondAccess {
    fn admits(&mut self, view: &mut AdmissionView<'_>) -> bool {
        let most = 2 * u64::from(view.capacity());
        let filters = self.filters.get_or_insert_with(|| [Filter::new(most), Filter::new(most)]);
        if filters.iter().any(|filter| filter.has(view.unit())) {
            return true;
        }
        if self.recorded == most {
            self.recorded = 0;
            filters.swap(0, 1);
            filters[0].clear();
        }
        self.recorded += 1;
        filters[0].add(view.unit());
        false
    }
}
