//! `byteway reproduce`.

use std::path::PathBuf;
use std::process::ExitCode;

use super::{EXIT_INTERRUPTED, OutputFormat, print};
use crate::error::InputError;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress;
use crate::reproduce::{Manner, PAPERS, PAYLOADS_FULL, Reproduction, paper, report, specs, work};

pub(super) const EXAMPLES: &str = "\
What a paper says, measured again: claim, paper, measured, difference, tolerance, basis, verdict.
  byteway reproduce --list                          the papers
  byteway reproduce byteexpress --list              its claims, without running anything
  byteway reproduce byteexpress                     10,000 payloads a point
  byteway reproduce byteexpress --full              a million
  byteway reproduce bandslim                        20,000 PUTs a point
  byteway reproduce byteexpress --out results       ... and results/reproduce.json, report.html: its figures anew

A claim is reproduced, of the right direction only, not reproduced, or only reported; what came out
is computed, and held against the verdict that is recorded with the claim. Claims that need a drive
that is not there yet say so and are counted apart.

Exit codes: 0 nothing regressed, and every required claim holds; 1 something did, or a point failed
that a claim rests on; 2 wrong input, nothing run; 130 interrupted, what was done is shown.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The paper.
    #[arg(required_unless_present = "list")]
    paper: Option<String>,
    /// A million payloads a point, instead of ten or twenty thousand.
    #[arg(long)]
    full: bool,
    /// So many payloads a point.
    #[arg(long, value_name = "N", conflicts_with = "full", value_parser = clap::value_parser!(u64).range(1..=PAYLOADS_FULL))]
    payloads: Option<u64>,
    /// List its claims, or the papers, and run nothing.
    #[arg(long)]
    list: bool,
    /// Read the claims from this file instead of those that are part of the program.
    #[arg(long, value_name = "FILE", requires = "paper")]
    claims: Option<PathBuf>,
    /// Write reproduce.json and report.html to this folder, which is made if need be.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Points that run at once; left out, one a processor. The results are the same.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// What is printed.
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
    /// No progress bar.
    #[arg(long)]
    quiet: bool,
}

/// Measures a paper's claims.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Some(name) = &arguments.paper else {
        PAPERS.iter().for_each(|paper| print(&format!("{}: {}\n", paper.name, paper.about)));
        return Ok(ExitCode::SUCCESS);
    };
    let paper = paper(name)?;
    let file = paper.read_claims(arguments.claims.as_deref())?;
    if arguments.list {
        print(&Reproduction::list(&file.paper, &file.claims));
        return Ok(ExitCode::SUCCESS);
    }
    if file.claims.is_empty() {
        return Err(InputError::new("there are no claims", "add `[[claim]]` to the claims file").into());
    }
    let output = arguments.out.as_deref().map(Output::check).transpose()?;
    let interrupt = Interrupt::on_signal();
    let specs = specs(paper, &file.claims, output.is_some());
    let bar = progress::points(specs.len() + 1, arguments.quiet)?;
    let payloads = if arguments.full { PAYLOADS_FULL } else { arguments.payloads.unwrap_or(paper.payloads) };
    // One point with many more payloads, or fewer: it is to be seen that their number changes nothing.
    let other = if payloads == PAYLOADS_FULL { paper.payloads } else { (payloads * 100).min(PAYLOADS_FULL) };
    let threads = match arguments.jobs {
        Some(jobs) => usize::from(jobs),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let manner = Manner { payloads, payloads_other: Some(other), threads, interrupt: &interrupt, bar: &bar };
    let (points, agreement) = work(paper, &specs, &manner);
    bar.finish_and_clear();
    let reproduction = Reproduction::new(paper, file, payloads, points, agreement);
    if let Some(output) = output {
        output.write("reproduce.json", reproduction.to_json().as_bytes())?;
        output.write("report.html", report(paper, &reproduction).render().as_bytes())?;
    }
    print(&match arguments.format {
        OutputFormat::Table => reproduction.to_table(),
        OutputFormat::Json => reproduction.to_json(),
    });
    Ok(match () {
        () if reproduction.is_partial() => ExitCode::from(EXIT_INTERRUPTED),
        () if !reproduction.holds() => ExitCode::FAILURE,
        () => ExitCode::SUCCESS,
    })
}
