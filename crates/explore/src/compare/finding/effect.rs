//! Effects of a key of the drive: a mechanism that is on or off, a new or an aged drive. Throughput and the
//! best p99 alone would not show a trade-off between them.

use super::fact::{Change, Fact, Finding, FindingInput, RIVALS_MAX, series, throughput_of, with};
use crate::compare::vary::Axis;
use byteway_results::figures::{Figures, Metric, difference};

/// Figures, in the order in which a sentence states them.
const SHOWN: [Metric; 10] = [
    Metric::MeanNs,
    Metric::P99Ns,
    Metric::P999Ns,
    Metric::ReadP999Ns,
    Metric::WriteAmplification,
    Metric::MapMissRatio,
    Metric::WearSpread,
    Metric::RetriesPerRead,
    Metric::LogPages,
    Metric::IndexPages,
];

/// For each key of the drive with names, or with two values: every other value compared with the first.
pub(super) fn effects(axes: &[Axis], points: &[FindingInput]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, axis) in axes.iter().enumerate().filter(|(_, axis)| is_of_drive(axis)) {
        for series in series(axes, points, at) {
            let first = series.points.iter().find(|index| points[**index].choice[at] == 0);
            let Some((first, base)) =
                first.and_then(|index| Some((*index, points[*index].figures.as_ref()?)))
            else {
                continue;
            };
            for index in series.points.iter().filter(|index| **index != first) {
                let Some(figures) = &points[*index].figures else { continue };
                let label = |index: usize| axis.values[points[index].choice[at]].label.clone();
                let values = (label(first), label(*index));
                found.push(effect(&axis.key, series.others(axes), values, base, figures));
            }
        }
    }
    found
}

fn is_of_drive(axis: &Axis) -> bool {
    let own = |path: &String| {
        path.starts_with("drive.override.") || matches!(path.as_str(), "drive.age" | "drive.worn")
    };
    axis.paths.iter().all(own)
        && axis.values.len() <= RIVALS_MAX
        && (!axis.is_numeric() || axis.values.len() == 2)
}

fn effect(key: &str, others: String, values: (String, String), base: &Figures, figures: &Figures) -> Finding {
    let shown = [throughput_of([base, figures].into_iter())].into_iter().chain(SHOWN);
    let changes: Vec<Change> = shown
        .filter(|metric| !base.is_close(figures, *metric))
        .filter_map(|metric| Some(Change { metric, from: base.get(metric)?, to: figures.get(metric)? }))
        .collect();
    let words = |change: &Change| {
        let Change { metric, from, to } = *change;
        let factor = if from == 0.0 { String::new() } else { format!(" ({})", difference(to / from)) };
        format!("{} {} instead of {}{factor}", metric.noun(), metric.show(to), metric.show(from))
    };
    let said = match changes.is_empty() {
        true => format!("no change ({})", base.closeness()),
        false => changes.iter().map(words).collect::<Vec<_>>().join(", "),
    };
    let text = format!("{}{key}={} versus {}: {said}", with(&others), values.1, values.0);
    Finding { fact: Fact::Effect { key: key.to_owned(), others, values, changes }, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(at: usize, p999_ns: f64, iops: f64) -> FindingInput {
        let figures = Figures::from_fn(|metric| match metric {
            Metric::Iops => Some(iops),
            Metric::BytesPerSecond => Some(iops * 4096.0),
            Metric::MeanNs => Some(100_000.0),
            Metric::ReadP999Ns => Some(p999_ns),
            Metric::WearSpread => Some(0.0),
            _ => None,
        });
        FindingInput { choice: vec![at], figures: Some(figures), outstanding: None }
    }

    // A mechanism often affects a single figure; a comparison of throughput alone would show suspension as
    // useless.
    #[test]
    fn what_a_mechanism_changes_is_said() {
        let axis = Axis::parse("flash.suspend.most=0,16", 1).unwrap();
        let found = effects(&[axis], &[seen(0, 4e6, 10_000.0), seen(1, 1e6, 10_050.0)]);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].text,
            "flash.suspend.most=16 versus 0: p99.9 latency of reads 1.00 ms instead of 4.00 ms (1/4.00)"
        );
        let Fact::Effect { changes, .. } = &found[0].fact else { panic!("{found:?}") };
        assert_eq!(changes.len(), 1);
        let axis = Axis::parse("firmware.wear.dynamic=false,true", 1).unwrap();
        let same = effects(&[axis], &[seen(0, 4e6, 10_000.0), seen(1, 4e6, 10_000.0)]);
        assert!(same[0].text.ends_with("versus false: no change (within 1 %)"), "{}", same[0].text);
        // The host's load is no property of the drive.
        let axis = Axis::parse("bs=4 KiB,8 KiB", 1).unwrap();
        assert_eq!(effects(&[axis], &[seen(0, 4e6, 1.0), seen(1, 1e6, 2.0)]), []);
    }
}
