//! Whether two comparisons of the same points, whose drives differ in a constant, agree in a finding.

use super::{Change, Fact};
use crate::compare::sizes::Reach;
use byteway_results::figures::equal;

/// Sizes that differ by no more than this part of the larger one are the same conclusion.
const SIZES_AGREE: f64 = 0.1;

fn sizes_agree(one: Reach, other: Reach) -> bool {
    let close = |a: u64, b: u64| a.abs_diff(b) as f64 <= SIZES_AGREE * a.max(b) as f64;
    match (one, other) {
        (Reach::UpTo(a), Reach::UpTo(b)) | (Reach::From(a), Reach::From(b)) => close(a, b),
        _ => one == other,
    }
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
                sizes_agree(*latency, *latency_then)
                    && sizes_agree(*wire, *wire_then)
                    && sizes_agree(*payload, *payload_then)
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
            ) => point == point_then || ties.contains(point_then) || ties_then.contains(point),
            (Fact::Effect { changes, .. }, Fact::Effect { changes: changes_then, .. }) => {
                // A figure that is about the same for both values has no direction.
                let turned = |own: &Change| {
                    let then = changes_then.iter().find(|then| then.metric == own.metric);
                    then.is_some_and(|then| (own.to > own.from) != (then.to > then.from))
                };
                !changes.iter().any(turned)
            }
            _ => false,
        }
    }
}
