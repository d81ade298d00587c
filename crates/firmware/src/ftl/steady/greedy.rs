//! What greedy garbage collection gains under uniform random writes.

/// x: the fraction of a victim that garbage collection gains.
pub(in crate::ftl) fn reclaimed_share(op: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if 1.0 - middle > libm::exp(-(1.0 + op) * middle) { low = middle } else { high = middle }
    }
    low
}
