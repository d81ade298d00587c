//! `byteway reproduce`: measures the claims of a paper.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use super::flags::{OutputFormat, Tables, threads};
use crate::interrupt::{EXIT_INTERRUPTED, raised_by_signal};
use crate::terminal::PointsBar;
use byteway_papers::{PAPERS, PAYLOADS_FULL, ReproducePlan, Reproduction, RunLength, paper, report};
use byteway_results::output::{Output, print};

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
    let length = match arguments.payloads {
        _ if arguments.full => RunLength::Full,
        Some(payloads) => RunLength::Payloads(payloads),
        None => RunLength::Default,
    };
    let plan = ReproducePlan::new(paper, file, length, arguments.out.is_some())?;
    let output = arguments.out.as_deref().map(Output::check).transpose()?;
    let output = output.map(Output::claim).transpose()?;
    let interrupt = raised_by_signal();
    let bar = PointsBar::new(plan.points(), arguments.quiet);
    let threads = threads(arguments.jobs);
    let reproduction = plan.run(threads, &interrupt, &bar);
    bar.finish();
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
    if reproduction.is_unpaired {
        let _ = writeln!(std::io::stderr(), "interrupted: short and long runs were not compared");
    }
    Ok(match () {
        () if reproduction.is_partial() || reproduction.is_unpaired => ExitCode::from(EXIT_INTERRUPTED),
        () if !reproduction.holds() => ExitCode::FAILURE,
        () => ExitCode::SUCCESS,
    })
}
