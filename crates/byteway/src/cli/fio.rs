//! `byteway fio`: translates a fio job file to a scenario.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use byteway_results::output::print;
use byteway_scenario::fio::{self, JobFile};
use byteway_scenario::{Options, Scenario};
use byteway_text::file::read_small_file;

pub(super) const EXAMPLES: &str = "\
Examples:
  byteway run job.fio                             run it unchanged, on a samsung-970-pro
  byteway run job.fio --set drive.profile=mqsim-mlc --define BS=16k
  byteway fio job.fio > job.toml                  translate it to a scenario, as a starting point

Supported keys are rw, bs, bsrange, bssplit, blockalign, rwmixread, rwmixwrite, iodepth, numjobs, random_distribution,
norandommap, offset, offset_increment, size, filesize, fill_device, io_size, loops, number_ios, runtime, time_based,
ramp_time, startdelay, stonewall, wait_for, rate, rate_iops, rate_process and io_submit_mode (an open loop), thinktime,
thinktime_blocks, verify, randseed, include FILE, and ${NAME} with --define NAME=VALUE (the environment is not read).
Keys that only concern fio's own host side are ignored and listed; a key that would change the load and is not
supported is an error.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// fio job file.
    job: PathBuf,
    /// Drive: a built-in profile, or the path of a profile.
    #[arg(long, value_name = "NAME", default_value = fio::PROFILE)]
    profile: String,
    /// Value of ${NAME} in the job file. Repeatable.
    #[arg(long = "define", value_name = "NAME=VALUE")]
    defines: Vec<String>,
}

/// Prints the scenario.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let text = read_small_file(&arguments.job, "fio job file")?;
    let name = arguments.job.display().to_string();
    let folder = arguments.job.parent().unwrap_or(Path::new(""));
    let file = JobFile { name: &name, folder, text: &text, defines: &arguments.defines };
    let made = fio::translate(&file, &arguments.profile)?;
    // Errors of the scenario are reported here already, at their position in the job file.
    let profile = format!("drive.profile={}", arguments.profile);
    let options =
        Options { sets: vec![profile], defines: arguments.defines.clone(), ..crate::extensions::options() };
    Scenario::from_text("job.fio", folder, &text, &options).map_err(|mut error| {
        if let Some(place) = error.place.as_mut().filter(|place| place.source == "job.fio") {
            place.source = name;
        }
        error
    })?;
    print(&made.text)?;
    Ok(ExitCode::SUCCESS)
}
