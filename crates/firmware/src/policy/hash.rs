//! Hashes of units.

/// A hash of a unit: the finalizer of SplitMix64. Its two halves are as good as two hash functions.
pub(super) fn hash(unit: u64) -> u64 {
    let mut hash = unit.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
