//! The errors of profiles as `byteway validate all` gave them: simulating all points takes minutes, listing profiles must not.

use super::validation::{Measure, Validation};
use crate::fit::Role;
use std::fmt::Write as _;

/// What `byteway validate all --format csv` printed.
const TEXT: &str = include_str!("../../../../measured/errors.csv");

const HEADER: &str = "profile,judging,throughput,mean,p99,far_off";

/// The errors of a profile over points that judge.
#[derive(Clone, Debug, PartialEq)]
pub struct Errors {
    /// The profile.
    pub profile: String,
    /// Points that judge.
    pub judging: usize,
    /// Mean absolute errors in percent, in the order of [`Measure::ALL`]; `None`: not published.
    pub percent: [Option<f64>; 3],
    /// Points that judge and are off by more than any should be.
    pub far_off: usize,
}

/// A figure as it is recorded: to a tenth of a percent.
fn rounded(share: f64) -> f64 {
    libm::round(share * 1000.0) / 10.0
}

impl Errors {
    /// Those of a validation.
    pub fn of(found: &Validation) -> Errors {
        let percent = Measure::ALL
            .map(|measure| found.spread(Role::Judge, None, measure).map(|spread| rounded(spread.mean)));
        Errors {
            profile: found.profile.clone(),
            judging: found.points.iter().filter(|point| point.role == Role::Judge).count(),
            percent,
            far_off: found.far_off(),
        }
    }

    /// In words: `throughput 5.1 %, mean latency 6.0 %`.
    pub fn words(&self) -> String {
        let each = Measure::ALL.iter().zip(self.percent);
        let each =
            each.filter_map(|(measure, percent)| Some(format!("{} {:.1} %", measure.name(), percent?)));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// The table of several.
pub fn csv(all: &[Errors]) -> String {
    let mut out = format!("{HEADER}\n");
    for errors in all {
        let _ = write!(out, "{},{}", errors.profile, errors.judging);
        for percent in errors.percent {
            let _ = write!(out, ",{}", percent.map_or(String::new(), |percent| format!("{percent:.1}")));
        }
        let _ = writeln!(out, ",{}", errors.far_off);
    }
    out
}

/// The recorded errors of a profile; `None`: nothing is published to hold it against.
pub fn recorded(profile: &str) -> Option<Errors> {
    TEXT.lines().skip(1).filter_map(read).find(|errors| errors.profile == profile)
}

fn read(line: &str) -> Option<Errors> {
    let mut cells = line.split(',');
    let (profile, judging) = (cells.next()?.to_owned(), cells.next()?.parse().ok()?);
    let percent = [cells.next()?, cells.next()?, cells.next()?].map(|cell| cell.parse().ok());
    Some(Errors { profile, judging, percent, far_off: cells.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::{DATASETS, profiles};

    // A profile without a line would be listed as one that nothing is published of.
    #[test]
    fn each_measured_profile_is_recorded_once() {
        let lines: Vec<Errors> = TEXT.lines().skip(1).map(|line| read(line).unwrap()).collect();
        assert_eq!(csv(&lines), TEXT, "it is what `byteway validate all --format csv` prints");
        assert_eq!(lines.iter().map(|errors| &errors.profile[..]).collect::<Vec<_>>(), profiles());
        for errors in &lines {
            let own = DATASETS.iter().filter(|dataset| dataset.profile == errors.profile);
            let judging = own.flat_map(|dataset| dataset.measurements().unwrap().points);
            assert_eq!(errors.judging, judging.filter(|point| point.role == Some(Role::Judge)).count());
        }
        assert_eq!(recorded("tlc-generic"), None);
    }
}
