//! `byteway reproduce`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use super::flags::{OutputFormat, Tables};
use crate::interrupt::{EXIT_INTERRUPTED, raised_by_signal};
use crate::terminal::PointsBar;
use byteway_console::error::InputError;
use byteway_measure::output::{Output, print};
use byteway_study::reproduce::{
    Lengths, Manner, PAPERS, PAYLOADS_FULL, Reproduction, paper, report, specs, twice, work,
};

pub(super) const EXAMPLES: &str = "\
What a paper says, measured again: claim, paper, measured, difference, tolerance, basis, verdict.
  byteway reproduce --list                          the papers
  byteway reproduce byteexpress --list              its claims, without running anything
  byteway reproduce byteexpress                     10,000 payloads, or 200,000 PUTs, a point
  byteway reproduce bandslim --full                 10,000 payloads, or a million PUTs, as the paper has
  byteway reproduce nvmeof                          100 ms of virtual time a point
  byteway reproduce pcie-ssd                        half a second of virtual time a point, after warming up
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
    /// A million PUTs a point of a key-value drive, as the papers have, instead of 200,000. Payload sinks, which nothing
    /// changes from one payload to the next, keep their 10,000.
    #[arg(long)]
    full: bool,
    /// So many payloads or PUTs a point; of a point that lasts a time, 10 us for each or what the paper's points take instead.
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
    #[command(flatten)]
    tables: Tables,
    /// No progress bar.
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
        return Err(InputError::new("there are no claims", "add `[[claim]]` to the claims file").into());
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
    // Some points run with many more payloads, or fewer: whether their number changes anything is judged.
    let more = |payloads: u64| (payloads * 100).min(PAYLOADS_FULL);
    let others = match arguments.full {
        true => Lengths { payloads: PAYLOADS_FULL, puts: paper.lengths.puts },
        false => Lengths { payloads: more(lengths.payloads), puts: more(lengths.puts) },
    };
    let threads = match arguments.jobs {
        Some(jobs) => usize::from(jobs),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let manner = Manner { lengths, others, threads, interrupt: &interrupt, bar: &bar };
    let (points, agreements) = work(paper, &specs, &manner);
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
    // The points that are run twice are no claim's, and may be all that is missing.
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
