//! `byteway fit`: finds constants of a profile from measurements of a real drive.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;

use super::exit::EXIT_INPUT;
use super::flags::{Tables, size, threads};
use crate::interrupt::{EXIT_INTERRUPTED, raised_by_signal};
use crate::terminal::PointsBar;
use byteway_explore::fit::{HoldOut, JobSet, Request, Setup, check_folder, fit, read_measurements, runs};
use byteway_results::output::{Output, print};
use byteway_scenario::fio;
use byteway_text::error::InputError;
use byteway_text::units::{Bytes, Picos};

pub(super) const EXAMPLES: &str = "\
A profile of a drive of one's own, from what fio measures of it:
  byteway fit --jobs > fit.fio                          the jobs; THEY DESTROY THE DATA ON THE DRIVE
  DRIVE=/dev/nvme0n1 fio --output-format=json --output=results.json fit.fio
  byteway fit results.json --base p4500 --out fitted    ... and write fitted/my-drive.toml, fit.json and report.html
  byteway run s.toml --set 'drive.profile=\"fitted/my-drive.toml\"'
  byteway fit results.json --base p4500 --format profile > my-drive.toml

The same from published figures, or with the constants of a drive that is simulated:
  byteway fit points.csv --base mqsim-mlc --host linux-polled
  byteway fit --jobs --runtime 20ms --ramp 10ms --size 256m > fit.fio
  byteway run fit.fio --define DRIVE=any --set host.profile=linux-interrupt --format fio > results.json

A table (CSV) begins with rw,bs,iodepth,numjobs,metric,value,unit,source; metric is mean, p50, iops or bandwidth; further
columns are name, state (filled, unwritten, steady), rwmixread and rate.

Constants are searched within physical bounds by simulating every point, beginning with the base. A constant that the
points don't identify keeps the base's value, or has one near it that cuts residuals; both is said and marked `assumed`. Of
each kind of points the third, and every fourth after it, is held out: it has no part in the fit, and its residuals say what
the profile predicts. A single point that is wrong decides about nothing, and is named.

A fit FAILED if more than a tenth of all figures are off by more than 25 %, or one is that does not stand out from the
others: no constants of this base give what was measured.

Exit codes: 0 success; 1 a run failed; 2 invalid input, nothing written; or the fit FAILED, which all that is written says;
130 interrupted, the best constants so far are written and marked as partial.";

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["measurements", "jobs"])))]
pub(super) struct Arguments {
    /// Measurements: the output of fio --output-format=json, or a table that ends in .csv.
    measurements: Option<PathBuf>,
    /// Print the fio job file whose results identify the constants, and fit nothing.
    #[arg(long)]
    jobs: bool,
    /// With --jobs: time of each job.
    #[arg(long, value_name = "TIME", requires = "jobs", default_value = "5 s")]
    runtime: Picos,
    /// With --jobs: time of each job before it is measured.
    #[arg(long, value_name = "TIME", requires = "jobs", default_value = "1 s")]
    ramp: Picos,
    /// With --jobs: part of the drive that is written and read; as much is trimmed behind it.
    #[arg(long, value_name = "SIZE", requires = "jobs", value_parser = size, default_value = "32g")]
    size: Bytes,
    /// With --jobs: measure random writes in steady state, too, which takes an hour or more.
    #[arg(long, requires = "jobs")]
    steady: bool,
    /// Profile to begin with: a built-in one, or the path of one. What is not fitted stays as it is there.
    #[arg(long, value_name = "PROFILE", default_value = fio::PROFILE)]
    base: String,
    /// Host profile of the machine that measured.
    #[arg(long, value_name = "PROFILE", default_value = "linux-interrupt")]
    host: String,
    /// Replace or add a key of the scenarios, such as drive.override.link.lanes=2. Repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Find numbers of channels and dies, and the link's generation, too.
    #[arg(long)]
    structure: bool,
    /// Points that are not fitted, by name, separated by commas; or `none`. Default: the third and every fourth after it, of each kind.
    #[arg(long, value_name = "NAME,...")]
    hold_out: Option<String>,
    /// Write the profile my-drive.toml, fit.json and report.html to DIR, which is created if necessary.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Number of points simulated in parallel. Default: one per processor. The results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    tables: Tables,
    /// Do not show a progress bar.
    #[arg(long)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Constants, what is not identified, and residuals point by point.
    Table,
    /// Content of fit.json.
    Json,
    /// Content of my-drive.toml.
    Profile,
}

/// Prints the jobs, or fits.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Some(path) = &arguments.measurements else {
        print(job_set(arguments)?.text())?;
        return Ok(ExitCode::SUCCESS);
    };
    let measurements = read_measurements(path)?;
    if let Some(folder) = &arguments.out {
        check_folder(&arguments.base, folder)?;
    }
    let output = arguments.out.as_deref().map(Output::check).transpose()?;
    let output = output.map(Output::claim).transpose()?;
    let interrupt = raised_by_signal();
    let bar = PointsBar::new(runs(measurements.points.len()), arguments.quiet);
    let threads = threads(arguments.threads);
    let request = Request {
        file: path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        measurements,
        setup: Setup {
            base: arguments.base.clone(),
            host: arguments.host.clone(),
            sets: arguments.sets.clone(),
        },
        hold_out: hold_out(arguments.hold_out.as_deref()),
        structure: arguments.structure,
        threads,
        interrupt: &interrupt,
        bar: &bar,
    };
    let found = fit(request);
    bar.finish();
    let found = match found {
        Err(error) if error.is_interrupted() => {
            let _ = writeln!(std::io::stderr(), "{error}");
            return Ok(ExitCode::from(EXIT_INTERRUPTED));
        }
        found => found?,
    };
    let written = arguments.out.as_deref().zip(output).map_or(Ok(()), |(folder, output)| {
        output.replace(found.files(folder).map(|(name, text)| output.made(name, text.as_bytes())))
    });
    let printed = print(match arguments.format {
        Format::Table => arguments.tables.wrapped(&found.printed(arguments.tables.width())),
        Format::Json => found.to_json(),
        Format::Profile => found.to_profile(None),
    });
    written?;
    printed?;
    let failure = found.failure();
    // The table has said it.
    if let Some(failure) = failure.as_ref().filter(|_| !matches!(arguments.format, Format::Table)) {
        let _ = writeln!(std::io::stderr(), "{failure}");
    }
    Ok(match failure {
        _ if found.partial => ExitCode::from(EXIT_INTERRUPTED),
        Some(_) => ExitCode::from(EXIT_INPUT),
        None => ExitCode::SUCCESS,
    })
}

fn job_set(arguments: &Arguments) -> Result<JobSet, InputError> {
    let Arguments { runtime, ramp, size, steady, .. } = *arguments;
    JobSet { runtime, ramp, size, steady }.checked()
}

fn hold_out(given: Option<&str>) -> HoldOut {
    match given {
        None => HoldOut::AsTheyAre,
        Some("none") => HoldOut::Named(Vec::new()),
        Some(names) => HoldOut::Named(names.split(',').map(|name| name.trim().to_owned()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // `none` is no point's name.
    #[test]
    fn points_to_hold_out_are_named() {
        assert_eq!(hold_out(None), HoldOut::AsTheyAre);
        assert_eq!(hold_out(Some("none")), HoldOut::Named(Vec::new()));
        assert_eq!(hold_out(Some("a, b")), HoldOut::Named(vec!["a".to_owned(), "b".to_owned()]));
    }
}
