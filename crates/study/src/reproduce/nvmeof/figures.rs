//! The figures of light-weight NVMe-oF, drawn anew.

use super::points::{JOBS, MOST, System};
use crate::report::{Axis, Chart, Figure, Ink, Section, Table, Unit};
use crate::reproduce::point::{Points, Seen, Spec};
use crate::reproduce::sketch::{change, difference, line, stages};
use byteway_console::table::{grouped, time};
use byteway_measure::summary::NetworkSummary;

/// What the figures show: all of it is some recipe's, too.
pub(super) fn drawn() -> Vec<Spec> {
    System::ALL.into_iter().flat_map(System::sweep).collect()
}

/// All sections.
pub(super) fn figures(points: &Points) -> Vec<Section> {
    vec![network(points), bypass(points), where_it_goes(points), consistency()]
}

/// A line for each system over numbers of jobs.
fn over_jobs(points: &Points, systems: &[System], y: Axis, figure: fn(Seen<'_>) -> f64) -> Chart {
    let x = Axis::log_at_points("jobs", Unit::Count);
    let jobs = || JOBS.into_iter().map(u64::from);
    systems.iter().fold(Chart::new(x, y), |chart, system| {
        // The number of jobs came from a u32.
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
            "Random reads of 4 KiB, one in flight for each job, of a drive on which nothing was ever written: it answers without \
             flash. The paper's text states ranges, and not at how many jobs its ends are.",
        )
        .figure(Figure::new(
            "Fig. 3(a): mean latency over jobs",
            "Calibrated: what network and drivers cost was fitted to what the bypass saves. The paper: the network adds 11 to 27 us.",
            over_jobs(points, &SYSTEMS, latency(), |seen| seen.latency()),
        ))
        .figure(Figure::new(
            "Fig. 3(b): IOPS over jobs",
            "Predicted. The paper: 13 to 56 % are lost.",
            over_jobs(points, &SYSTEMS, throughput(), |seen| seen.throughput()),
        ))
}

/// Fig. 5.
fn bypass(points: &Points) -> Section {
    const SYSTEMS: [System; 2] = [System::Block, System::Bypass];
    let busy = |seen: Seen<'_>| seen.network().map_or(f64::NAN, NetworkSummary::processors_busy);
    let mut table = Table::new(
        ["jobs", "latency", "IOPS", "target's time for an I/O", "processors busy, block layer", "bypass"],
        1,
    )
    .caption("Past the block layer against through it.");
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
    Section::new("Fig. 5: through the target's block layer, and past it")
        .figure(Figure::new(
            "Fig. 5(a): mean latency over jobs",
            "Calibrated: fitted to the paper's one sentence, up to about 4 us, which are 22 % of what the target adds.",
            over_jobs(points, &SYSTEMS, latency(), |seen| seen.latency()),
        ))
        .figure(Figure::new(
            "Fig. 5(b): IOPS over jobs",
            "Predicted. The paper: up to 18 % more.",
            over_jobs(points, &SYSTEMS, throughput(), |seen| seen.throughput()),
        ))
        .figure(
            Figure::new(
                "Fig. 5(c): processors of the target that are busy",
                "Predicted. The paper: up to 24 % less at the same work; here more I/Os are done with them, so what one takes is in \
                 the table.",
                over_jobs(points, &SYSTEMS, Axis::linear("processors busy", Unit::Count), |seen| {
                    seen.network().map_or(f64::NAN, NetworkSummary::processors_busy)
                }),
            )
            .wide(),
        )
        .table(table)
}

/// Where the time goes, which the paper does not show.
fn where_it_goes(points: &Points) -> Section {
    let at = |jobs: u32| System::ALL.map(|system| (system.name(), system.reads(jobs)));
    let few = stages(points, at(1));
    let many = stages(points, at(MOST));
    Section::new("Where the time goes")
        .text(
            "The paper does not show it. `fabric` is network and adapters, `target` the target's processors with their drivers and \
             block layer, `host` the host's; the parts add up to the mean latency.",
        )
        .figure(Figure::new("1 job", "Mean.", few))
        .figure(Figure::new("32 jobs", "Mean: reads wait for the drive's link (`link`), which hides what is saved.", many))
}

/// What the paper's own figures say together.
fn consistency() -> Section {
    Section::new("What the paper's figures say together")
        .text(
            "With one read in flight for each job, the IOPS lost give the local latency: L = a (1 - d) / d, where a is the latency \
             added and d the share lost. 27 us and 56 % give 21 us, 11 us and 13 % give 74 us: no one drive has both at small \
             numbers of jobs. 4 us that are 22 % of what is added say that 18 us are added.",
        )
        .text(
            "One configuration is used for all claims here, with the constants of network and target fitted to the last of these \
             three alone. It loses as many IOPS as the paper at both ends; the latency that it adds is 18 us at most, and shrinks to \
             less than the paper's 11 us where the drive's link is full: a local read then waits for the link as long as a remote \
             one spends in the network.",
        )
}
