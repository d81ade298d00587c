//! Whether two comparisons of the same points, whose drives differ in a constant, agree in a finding.

use super::fact::{Change, Fact};
use crate::assumption::{AGREE, sizes_agree};
use crate::compare::reach::Reach;
use byteway_results::figures::equal;
use std::collections::BTreeSet;

fn reaches_agree(one: Reach, other: Reach) -> bool {
    match (one, other) {
        (Reach::UpTo(a), Reach::UpTo(b)) | (Reach::From(a), Reach::From(b)) => sizes_agree(a, b),
        _ => one == other,
    }
}

/// The points that are best, or equal to the best.
fn best(point: usize, ties: &[usize]) -> BTreeSet<usize> {
    ties.iter().copied().chain([point]).collect()
}

/// Whether no figure changes in another direction then, and none that changes by more than a tenth does not change at all.
fn directions_agree(changes: &[Change], then: &[Change]) -> bool {
    changes.iter().all(|own| match then.iter().find(|then| then.metric == own.metric) {
        Some(then) => (own.to > own.from) == (then.to > then.from),
        None => (own.to - own.from).abs() <= AGREE * own.from.abs().max(own.to.abs()),
    })
}

impl Fact {
    /// What it is about; findings of two comparisons on the same subject can be held against each other. `None` for what is no conclusion.
    pub(in crate::compare) fn subject(&self) -> Option<String> {
        let sorted = |a: &str, b: &str| if a < b { format!("{a} {b}") } else { format!("{b} {a}") };
        Some(match self {
            Fact::Knee { key, others, .. } => format!("knee {key} {others}"),
            Fact::Crossover { key, others, metric, leader, behind, .. } => {
                format!("crossover {key} {others} {} {}", metric.key(), sorted(leader, behind))
            }
            Fact::NoCrossover { key, others, values: (a, b), .. } => {
                format!("no crossover {key} {others} {}", sorted(a, b))
            }
            Fact::Reach { method, against, others, .. } => format!("reach {method} {against} {others}"),
            Fact::Gain { bytes, others, .. } => format!("gain {bytes} {others}"),
            Fact::Best { metric, .. } => format!("best {}", metric.key()),
            Fact::Effect { key, others, values: (a, b), .. } => format!("effect {key} {others} {a} {b}"),
            Fact::Fallback { .. } | Fact::Omitted { .. } => return None,
        })
    }

    /// The two values, in order, of which one may lead, and the other keys.
    pub(in crate::compare) fn rivals(&self) -> Option<[&str; 3]> {
        let (others, a, b) = match self {
            Fact::Crossover { others, leader, behind, .. } => (others, leader, behind),
            Fact::NoCrossover { others, values: (a, b), .. } => (others, a, b),
            _ => return None,
        };
        Some([others, a.min(b), a.max(b)])
    }

    /// Whether two findings on one subject come to the same conclusion, whatever the figures.
    pub(in crate::compare) fn agrees(&self, other: &Fact) -> bool {
        match (self, other) {
            (Fact::Knee { plateau, knee, .. }, Fact::Knee { plateau: plateau_then, knee: knee_then, .. }) => {
                plateau == plateau_then && knee == knee_then
            }
            (
                Fact::Crossover { leader, between, .. },
                Fact::Crossover { leader: leader_then, between: between_then, .. },
            ) => leader == leader_then && between == between_then,
            (Fact::NoCrossover { ahead, .. }, Fact::NoCrossover { ahead: ahead_then, .. }) => {
                ahead == ahead_then
            }
            (
                Fact::Reach { latency, wire, payload, .. },
                Fact::Reach { latency: latency_then, wire: wire_then, payload: payload_then, .. },
            ) => {
                reaches_agree(*latency, *latency_then)
                    && reaches_agree(*wire, *wire_then)
                    && reaches_agree(*payload, *payload_then)
            }
            (
                Fact::Gain { prp_ns, sgl_ns, inline_ns, .. },
                Fact::Gain { prp_ns: prp_then, sgl_ns: sgl_then, inline_ns: inline_then, .. },
            ) => {
                let order = |a: f64, b: f64| if equal(a, b) { 0 } else { a.total_cmp(&b) as i32 };
                order(*prp_ns, *sgl_ns) == order(*prp_then, *sgl_then)
                    && order(*sgl_ns, *inline_ns) == order(*sgl_then, *inline_then)
            }
            (
                Fact::Best { point, equal: ties, .. },
                Fact::Best { point: point_then, equal: ties_then, .. },
            ) => best(*point, ties) == best(*point_then, ties_then),
            (Fact::Effect { changes, .. }, Fact::Effect { changes: changes_then, .. }) => {
                changes.is_empty() == changes_then.is_empty()
                    && directions_agree(changes, changes_then)
                    && directions_agree(changes_then, changes)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_results::figures::Metric;

    // "All points are equal" and "one is best" are two conclusions, and so are an effect and none.
    #[test]
    fn what_says_something_else_does_not_agree() {
        let best =
            |point: usize, equal: &[usize]| Fact::Best { metric: Metric::Iops, point, equal: equal.to_vec() };
        assert!(best(0, &[1]).agrees(&best(1, &[0])));
        assert!(!best(0, &[1]).agrees(&best(0, &[])) && !best(0, &[]).agrees(&best(1, &[])));
        let effect = |changes: &[(Metric, f64, f64)]| {
            let change = |&(metric, from, to): &(Metric, f64, f64)| Change { metric, from, to };
            let text = String::new;
            let changes = changes.iter().map(change).collect();
            Fact::Effect { key: text(), others: text(), values: (text(), text()), changes }
        };
        let (iops, p99) = (Metric::Iops, Metric::P99Ns);
        let base = effect(&[(iops, 100.0, 200.0), (p99, 100.0, 98.0)]);
        assert!(base.agrees(&effect(&[(iops, 100.0, 150.0)])), "a figure within 10 % may come and go");
        for other in [&[][..], &[(p99, 100.0, 98.0)], &[(iops, 200.0, 100.0), (p99, 100.0, 98.0)]] {
            assert!(!base.agrees(&effect(other)) && !effect(other).agrees(&base), "{other:?}");
        }
    }
}
