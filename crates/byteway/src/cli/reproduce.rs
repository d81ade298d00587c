//! `byteway reproduce`: measures the claims of a paper.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use super::flags::{OutputFormat, Tables};
use crate::interrupt::{EXIT_INTERRUPTED, raised_by_signal};
use crate::terminal::PointsBar;
use byteway_console::error::InputError;
use byteway_measure::output::{Output, print};
use byteway_study::reproduce::{
    Lengths, PAPERS, PAYLOADS_FULL, ReproduceOptions, Reproduction, paper, report, specs, twice, work,
};

pub(super) const EXAMPLES: &str = "\
Measures the claims of a paper again: claim, paper, measured, difference, tolerance, basis, verdict.
  byteway reproduce --list                          list the papers
  byteway reproduce byteexpress --list              list its claims without running anything
  byteway reproduce byteexpress                     run 10,000 payloads, or 200,000 PUTs, per point
  byteway reproduce bandslim --full                 run 10,000 payloads, or a million PUTs, as in the paper
  byteway reproduce nvmeof                          run 100 ms of virtual time per point
  byteway reproduce pcie-ssd                        run 500 ms of virtual time per point, after a warm-up
  byteway reproduce byteexpress --out results       ... and write results/reproduce.json and report.html with its figures

The verdict of a claim is: reproduced, right direction only, not reproduced, or reported only. It is computed and
compared with the verdict recorded with the claim. Claims that need a drive that is not modeled yet are marked and
counted separately.

Exit codes: 0 no regression, and every required claim holds; 1 a regression, or a failed point that a claim depends
on; 2 invalid input, nothing run; 130 interrupted, completed points are shown.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Name of the paper.
    #[arg(required_unless_present = "list")]
    paper: Option<String>,
    /// Run a million PUTs per point of a key-value drive, as in the papers, instead of 200,000. Payload sinks, whose state does not change
    /// from one payload to the next, still get 10,000.
    #[arg(long)]
    full: bool,
    /// Run N payloads or PUTs per point; points of fixed duration run 10 us for each, or the time of the paper's points if shorter.
    #[arg(long, value_name = "N", conflicts_with = "full", value_parser = clap::value_parser!(u64).range(1..=PAYLOADS_FULL))]
    payloads: Option<u64>,
    /// List the claims of the paper, or the papers, and run nothing.
    #[arg(long)]
    list: bool,
    /// Read the claims from FILE instead of the built-in ones.
    #[arg(long, value_name = "FILE", requires = "paper")]
    claims: Option<PathBuf>,
    /// Write reproduce.json and report.html to DIR, which is created if necessary.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Number of points run in parallel. Default: one per processor. The results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
    #[command(flatten)]
    tables: Tables,
    /// Do not show a progress bar.
    #[arg(long)]
    quiet: bool,
}

/// Measures a paper's claims.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Some(name) = &arguments.paper else {
        let tables = arguments.tables;
        let about = PAPERS.iter().map(|paper| format!("{}: {}\n", paper.name, paper.about));
        print(about.map(|line| tables.wrapped(&line)).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    };
    let paper = paper(name)?;
    let file = paper.read_claims(arguments.claims.as_deref())?;
    if arguments.list {
        let list = Reproduction::list(&file.paper, &file.claims, arguments.tables.width());
        print(arguments.tables.wrapped(&list))?;
        return Ok(ExitCode::SUCCESS);
    }
    if file.claims.is_empty() {
        return Err(
            InputError::new("the claims file has no claims", "add `[[claim]]` to the claims file").into()
        );
    }
    let output = arguments.out.as_deref().map(Output::check).transpose()?;
    let output = output.map(Output::claim).transpose()?;
    let interrupt = raised_by_signal();
    let specs = specs(paper, &file.claims, output.is_some());
    let pairs = twice(paper, &specs).len();
    let bar = PointsBar::new(specs.len() + pairs, arguments.quiet);
    let lengths = match arguments.payloads {
        _ if arguments.full => Lengths { puts: PAYLOADS_FULL, ..paper.lengths },
        Some(payloads) => Lengths::all(payloads),
        None => paper.lengths,
    };
    // Some points also run with many more payloads, or fewer, to check that their number does not matter.
    let more = |payloads: u64| (payloads * 100).min(PAYLOADS_FULL);
    let others = match arguments.full {
        true => Lengths { payloads: PAYLOADS_FULL, puts: paper.lengths.puts },
        false => Lengths { payloads: more(lengths.payloads), puts: more(lengths.puts) },
    };
    let threads = match arguments.jobs {
        Some(jobs) => usize::from(jobs),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let options = ReproduceOptions { lengths, others, threads, interrupt: &interrupt, bar: &bar };
    let (points, agreements) = work(paper, &specs, &options);
    bar.finish();
    let reproduction = Reproduction::new(paper, file, lengths, points, agreements);
    let written = output.map_or(Ok(()), |output| {
        output.replace([
            output.made("reproduce.json", reproduction.to_json().as_bytes()),
            output.made("report.html", report(paper, &reproduction).render().as_bytes()),
        ])
    });
    let printed = print(match arguments.format {
        OutputFormat::Table => arguments.tables.wrapped(&reproduction.printed(arguments.tables.width())),
        OutputFormat::Json => reproduction.to_json(),
    });
    written?;
    printed?;
    // The points that run twice belong to no claim, and may be the only ones missing.
    let unpaired = reproduction.agreements.len() < pairs && interrupt.is_raised();
    if unpaired {
        let _ = writeln!(std::io::stderr(), "interrupted: short and long runs were not compared");
    }
    Ok(match () {
        () if reproduction.is_partial() || unpaired => ExitCode::from(EXIT_INTERRUPTED),
        () if !reproduction.holds() => ExitCode::FAILURE,
        () => ExitCode::SUCCESS,
    })
}
