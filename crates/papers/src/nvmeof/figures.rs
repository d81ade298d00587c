//! The figures of light-weight NVMe-oF, redrawn.

use super::points::{JOBS, MOST, System};
use crate::point::{PointResult, Points, Spec};
use crate::sketch::{change, difference, line, stages};
use byteway_report::{Axis, Chart, Figure, Ink, Section, Table, Unit};
use byteway_results::summary::NetworkSummary;
use byteway_text::table::{grouped, time};

/// Points for the figures; all of them are recipes' points, too.
pub(super) fn drawn() -> Vec<Spec> {
    System::ALL.into_iter().flat_map(System::sweep).collect()
}

/// All sections.
pub(super) fn figures(points: &Points) -> Vec<Section> {
    vec![network(points), bypass(points), where_it_goes(points), consistency()]
}

/// A line for each system over numbers of jobs.
fn over_jobs(points: &Points, systems: &[System], y: Axis, figure: fn(PointResult<'_>) -> f64) -> Chart {
    let x = Axis::log_at_points("jobs", Unit::Count);
    let jobs = || JOBS.into_iter().map(u64::from);
    systems.iter().fold(Chart::new(x, y), |chart, system| {
        // The number of jobs is converted from a u32.
        let points = line(points, jobs(), |jobs| system.reads(jobs as u32), figure);
        chart.marked(system.name(), Ink::nth(*system as usize), points)
    })
}

fn latency() -> Axis {
    Axis::linear("mean latency", Unit::Nanoseconds)
}

fn throughput() -> Axis {
    Axis::linear("IOPS", Unit::Iops)
}

/// Fig. 3.
fn network(points: &Points) -> Section {
    const SYSTEMS: [System; 2] = [System::Local, System::Block];
    Section::new("Fig. 3: a local drive, and one over a network")
        .text(
            "Random reads of 4 KiB, one in flight per job, on a drive that was never written: it replies without \
             accessing flash. The paper states ranges, but not the numbers of jobs at their ends.",
        )
        .figure(Figure::new(
            "Fig. 3(a): mean latency over jobs",
            "Calibrated: the costs of network and drivers were fitted to the saving of the bypass. The paper: the network adds 11 to 27 us.",
            over_jobs(points, &SYSTEMS, latency(), |seen| seen.latency()),
        ))
        .figure(Figure::new(
            "Fig. 3(b): IOPS over jobs",
            "Predicted. The paper: a loss of 13 to 56 %.",
            over_jobs(points, &SYSTEMS, throughput(), |seen| seen.throughput()),
        ))
}

/// Fig. 5.
fn bypass(points: &Points) -> Section {
    const SYSTEMS: [System; 2] = [System::Block, System::Bypass];
    let busy = |seen: PointResult<'_>| seen.network().map_or(f64::NAN, NetworkSummary::processors_busy);
    let mut table = Table::new(
        ["jobs", "latency", "IOPS", "target's time per I/O", "processors busy, block layer", "bypass"],
        1,
    )
    .caption("With and without the bypass of the block layer.");
    for jobs in JOBS {
        let at = |system: System| points.at(&system.reads(jobs)).ok();
        let (Some(block), Some(past)) = (at(System::Block), at(System::Bypass)) else { continue };
        let (Some(block_network), Some(past_network)) = (block.network(), past.network()) else { continue };
        let saved = block.latency() - past.latency();
        table.row([
            jobs.to_string(),
            format!("{} ({:+.1} %)", difference(-saved), change(past.latency(), block.latency())),
            format!(
                "{} ({:+.1} %)",
                grouped(libm::round(past.throughput()) as u64),
                change(past.throughput(), block.throughput())
            ),
            format!(
                "{} ({:+.1} %)",
                time(past_network.target_ns_per_io),
                change(past_network.target_ns_per_io, block_network.target_ns_per_io)
            ),
            format!("{:.2}", busy(block)),
            format!("{:.2}", busy(past)),
        ]);
    }
    Section::new("Fig. 5: with and without the target's block layer")
        .figure(Figure::new(
            "Fig. 5(a): mean latency over jobs",
            "Calibrated: fitted to a single sentence of the paper: up to about 4 us, 22 % of the latency that the target adds.",
            over_jobs(points, &SYSTEMS, latency(), |seen| seen.latency()),
        ))
        .figure(Figure::new(
            "Fig. 5(b): IOPS over jobs",
            "Predicted. The paper: up to 18 % more.",
            over_jobs(points, &SYSTEMS, throughput(), |seen| seen.throughput()),
        ))
        .figure(
            Figure::new(
                "Fig. 5(c): busy processors of the target",
                "Predicted. The paper: up to 24 % less for the same work; here they execute more I/Os, so the time per I/O is in \
                 the table.",
                over_jobs(points, &SYSTEMS, Axis::linear("processors busy", Unit::Count), |seen| {
                    seen.network().map_or(f64::NAN, NetworkSummary::processors_busy)
                }),
            )
            .wide(),
        )
        .table(table)
}

/// Time by resource, which the paper does not show.
fn where_it_goes(points: &Points) -> Section {
    let at = |jobs: u32| System::ALL.map(|system| (system.name(), system.reads(jobs)));
    let few = stages(points, at(1));
    let many = stages(points, at(MOST));
    Section::new("Latency breakdown")
        .text(
            "The paper does not show it. `fabric` is network and adapters, `target` the target's processors with their drivers and \
             block layer, `host` the host's; the parts add up to the mean latency.",
        )
        .figure(Figure::new("1 job", "Mean.", few))
        .figure(Figure::new("32 jobs", "Mean: reads wait for the drive's link (`link`), which hides the saving.", many))
}

/// Consistency of the paper's own figures.
fn consistency() -> Section {
    Section::new("Consistency of the paper's figures")
        .text(
            "With one read in flight per job, the loss of IOPS determines the local latency: L = a (1 - d) / d, where a is the latency \
             added and d the loss. 27 us and 56 % give 21 us, 11 us and 13 % give 74 us: no single drive has both at small \
             numbers of jobs. 4 us that are 22 % of the added latency imply that 18 us are added.",
        )
        .text(
            "One configuration is used for all claims here, with the constants of network and target fitted to the last of these \
             three alone. It loses as many IOPS as the paper at both ends; the latency that it adds is 18 us at most, and shrinks to \
             less than the paper's 11 us where the drive's link is full: a local read then waits for the link as long as a remote \
             one spends in the network.",
        )
}
