//! Measurements of the claims of light-weight NVMe-oF.

use super::points::{JOBS, LOCAL, MOST, REMOTE, System};
use crate::error::{ClaimError, Measured};
use crate::judgement::Measurement;
use crate::paper::Recipe;
use crate::point::{PointResult, Points, Spec};
use crate::sketch::{change, difference};
use byteway_results::summary::NetworkSummary;
use byteway_text::table::{grouped, time};

pub(super) const RECIPES: [Recipe; 7] = [
    Recipe { id: "NF01", points: || sweeps(&[System::Local, System::Block]), measure: latency_added },
    Recipe { id: "NF02", points: || sweeps(&[System::Local, System::Block]), measure: iops_lost },
    Recipe { id: "NF03", points: || sweeps(&System::ALL), measure: latency_saved },
    Recipe { id: "NF04", points: || sweeps(&[System::Block, System::Bypass]), measure: diluted },
    Recipe { id: "NF05", points: || sweeps(&[System::Block, System::Bypass]), measure: iops_gained },
    Recipe { id: "NF06", points: || sweeps(&[System::Block, System::Bypass]), measure: processor_time },
    Recipe {
        id: "NF08",
        points: || vec![System::Block.shared(), System::Bypass.shared()],
        measure: kept_apart,
    },
];

fn sweeps(systems: &[System]) -> Vec<Spec> {
    systems.iter().flat_map(|system| system.sweep()).collect()
}

/// A figure of two systems for each number of jobs: jobs, first system, second system.
struct Both(Vec<(u32, f64, f64)>);

impl Both {
    fn of(
        points: &Points,
        systems: [System; 2],
        figure: impl Fn(PointResult<'_>) -> Measured<f64>,
    ) -> Measured<Both> {
        let at = |system: System, jobs| figure(points.at(&system.reads(jobs))?);
        let each = JOBS.iter().map(|jobs| Ok((*jobs, at(systems[0], *jobs)?, at(systems[1], *jobs)?)));
        each.collect::<Measured<Vec<_>>>().map(Both)
    }

    /// The row with the smallest `figure`, and the figure.
    fn least(&self, figure: impl Fn(f64, f64) -> f64) -> (u32, f64) {
        let all = self.0.iter().map(|(jobs, one, other)| (*jobs, figure(*one, *other)));
        all.min_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or((0, f64::NAN))
    }

    /// The row with the largest `figure`, and the figure.
    fn most(&self, figure: impl Fn(f64, f64) -> f64) -> (u32, f64) {
        let (jobs, negated) = self.least(|one, other| -figure(one, other));
        (jobs, -negated)
    }

    /// `figure` of each row, as `1 job: ..., 2 jobs: ...`.
    fn in_words(&self, figure: impl Fn(f64, f64) -> String) -> String {
        let each = self.0.iter().map(|(jobs, one, other)| format!("{}: {}", by(*jobs), figure(*one, *other)));
        each.collect::<Vec<_>>().join(", ")
    }
}

fn by(jobs: u32) -> String {
    format!("{jobs} job{}", if jobs == 1 { "" } else { "s" })
}

fn latencies(points: &Points, systems: [System; 2]) -> Measured<Both> {
    Both::of(points, systems, |seen| Ok(seen.latency()))
}

fn throughputs(points: &Points, systems: [System; 2]) -> Measured<Both> {
    Both::of(points, systems, |seen| Ok(seen.throughput()))
}

fn network(seen: PointResult<'_>) -> Measured<&NetworkSummary> {
    seen.network().ok_or_else(|| ClaimError::NoFigure("a point has no network".to_owned()))
}

fn latency_added(points: &Points) -> Measured<Measurement> {
    let both = latencies(points, [System::Local, System::Block])?;
    let added = |local: f64, remote: f64| remote - local;
    let detail = format!(
        "{}.",
        both.in_words(|local, remote| format!("{} over {}", difference(remote - local), time(local)))
    );
    Ok(Measurement::of([both.least(added).1, both.most(added).1]).detail(detail))
}

fn iops_lost(points: &Points) -> Measured<Measurement> {
    let both = throughputs(points, [System::Local, System::Block])?;
    let lost = |local: f64, remote: f64| change(remote, local);
    let whole = |rate: f64| grouped(libm::round(rate) as u64);
    let detail =
        format!("{}.", both.in_words(|local, remote| format!("{} of {}", whole(remote), whole(local))));
    Ok(Measurement::of([both.most(lost).1, both.least(lost).1]).detail(detail))
}

fn latency_saved(points: &Points) -> Measured<Measurement> {
    let (jobs, saved) = latencies(points, [System::Block, System::Bypass])?.most(|block, past| block - past);
    let of = |system: System| -> Measured<f64> { Ok(points.at(&system.reads(jobs))?.latency()) };
    let added = of(System::Block)? - of(System::Local)?;
    let detail = format!(
        "Maximum with {}: {} of the {} that the target adds; the paper has about 4 us, which are 22 % of 18 us.",
        by(jobs),
        difference(saved),
        difference(added)
    );
    Ok(Measurement::of([-saved / added * 100.0]).detail(detail))
}

/// "Almost no improvement": at most this percentage of the largest gain, and of the latency.
const ALMOST_NONE_OF_GAIN: f64 = 10.0;
const ALMOST_NONE_OF_LATENCY: f64 = 2.0;

fn diluted(points: &Points) -> Measured<Measurement> {
    let both = latencies(points, [System::Block, System::Bypass])?;
    let saved = |block: f64, past: f64| block - past;
    let (jobs_most, most) = both.most(saved);
    let (jobs_least, least) = both.least(saved);
    let of = |system: System, jobs: u32| points.at(&system.reads(jobs));
    let (block, past) = (of(System::Block, MOST)?, of(System::Bypass, MOST)?);
    let here = block.latency() - past.latency();
    let share = here.abs() / block.latency() * 100.0;
    // Waiting for the link is in the link's stage, other waiting in `queueing`.
    let waiting = |seen: PointResult<'_>| seen.stage("link") + seen.stage("queueing");
    let (first, last, last_past) = (waiting(of(System::Block, 1)?), waiting(block), waiting(past));
    let detail = format!(
        "{} of {}, after {} with {}. The drive's link and queues take {} there, {} with the bypass, and {} with 1 job.",
        difference(here),
        time(block.latency()),
        difference(most),
        by(jobs_most),
        time(last),
        time(last_past),
        time(first)
    );
    Ok(Measurement::default()
        .check("the least is gained with 32 jobs", jobs_least == MOST && least < most)
        .check("at most a tenth of the greatest gain", here.abs() / most * 100.0 <= ALMOST_NONE_OF_GAIN)
        .check("at most 2 % of the latency", share <= ALMOST_NONE_OF_LATENCY)
        .check("link and queues take longer than with 1 job", last > first)
        .check("and longer yet past the block layer", last_past > last)
        .detail(detail))
}

fn iops_gained(points: &Points) -> Measured<Measurement> {
    let both = throughputs(points, [System::Block, System::Bypass])?;
    let gained = |block: f64, past: f64| change(past, block);
    let detail = format!("{}.", both.in_words(|block, past| format!("{:+.1} %", gained(block, past))));
    Ok(Measurement::of([both.most(gained).1]).detail(detail))
}

fn processor_time(points: &Points) -> Measured<Measurement> {
    let both = Both::of(points, [System::Block, System::Bypass], |seen| Ok(network(seen)?.target_ns_per_io))?;
    let saved = |block: f64, past: f64| change(past, block);
    let busy =
        |system: System| -> Measured<f64> { Ok(network(points.at(&system.reads(MOST))?)?.processors_busy()) };
    let detail = format!(
        "Per I/O, {}. With 32 jobs {:.1} processors are busy, with the bypass {:.1}.",
        both.in_words(|block, past| format!(
            "{} for {} ({:+.1} %)",
            time(past),
            time(block),
            saved(block, past)
        )),
        busy(System::Block)?,
        busy(System::Bypass)?
    );
    Ok(Measurement::of([both.least(saved).1])
        .check("less with every number of jobs", both.most(saved).1 < 0.0)
        .detail(detail))
}

/// A read that returns another's data fails its point, as does a command that never completes.
fn kept_apart(points: &Points) -> Measured<Measurement> {
    let of = |system: System, job: &str| -> Measured<(u64, u64)> {
        Ok(points.at(&system.shared())?.verified(job))
    };
    let (read, remote) = of(System::Bypass, REMOTE)?;
    let (_, local) = of(System::Bypass, LOCAL)?;
    let (read_block, _) = of(System::Block, REMOTE)?;
    let detail = format!(
        "With the bypass {} remote and {} local I/Os used the same queue pairs; all {} reads returned the data written there. \
         Without it, all {}.",
        grouped(remote),
        grouped(local),
        grouped(read),
        grouped(read_block)
    );
    Ok(Measurement::default()
        .check("both sides have done I/O", remote > 0 && local > 0)
        .check("and read what they had written", read > 0 && read_block > 0)
        .detail(detail))
}
