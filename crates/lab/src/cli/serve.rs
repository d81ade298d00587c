//! `byteway serve`.

use std::path::PathBuf;
use std::process::ExitCode;

use byteway_serve::drive::Stop;
use tracing_subscriber::EnvFilter;

use super::{OutputFormat, print};
use crate::error::InputError;
use crate::interrupt::on_signal;
use crate::scenario::Options;
use crate::serve::{Service, served_json, served_tables};

pub(super) const EXAMPLES: &str = "\
A device file is a TOML file. The least of them:
  [drive]
  profile = \"samsung-970-pro\"      # and any other key of a scenario's [drive]

What it may say besides, with what holds when it is left out:
  name = \"...\"                     # the name of the file
  seed = 1
  [drive]
  store = \"ram\"                    # every byte is kept, in memory; \"file\" (with --data): in files
  precondition = \"empty\"
  [serve]
  timing = \"model\"                 # latencies as modelled; \"none\": as fast as this machine can
  doorbells = \"mapped\"             # in shared memory; \"trapped\": messages, no CPU time when idle
  shadow_doorbells = true          # offer Doorbell Buffer Config
  rest = \"200 us\"                  # between looks at mapped doorbells while idle: latency against CPU time

One drive listens at DIR/cntrl, several at DIR/NAME/cntrl, each for one client at a time. A drive
keeps its data from one client to the next, until the program ends; with --data beyond that, however it
ends: what was flushed is there again. `byteway media` looks into such a directory.
  byteway serve drive.toml --vfio-user /tmp/drive --data drive.data

To a Linux guest it is an NVMe drive. QEMU 10.1 or newer, with memory that it shares:
  byteway serve drive.toml --vfio-user /tmp/drive --set drive.capacity=\"8 GiB\"
  qemu-system-x86_64 -M q35,memory-backend=mem -m 1G \\
    -object memory-backend-memfd,id=mem,size=1G,share=on -device \\
    '{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"/tmp/drive/cntrl\"}}' ...
Without a guest:
  byteway bench --vfio-user /tmp/drive

What happens is said on the error stream; BYTEWAY_LOG=debug says more, BYTEWAY_LOG=warn less.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The device files; one that is named twice is two drives.
    #[arg(required = true)]
    devices: Vec<PathBuf>,
    /// The folder for the sockets, which is made if need be.
    #[arg(long, value_name = "DIR")]
    vfio_user: PathBuf,
    /// The folder that the drives' data is kept in, which is made if need be: of one drive, or of several, each in one by
    /// its name.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Replace or add a key of every device file; may be repeated, the last one counts.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// What is printed: when the drives are ready, and at the end what was served.
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
}

/// Serves until it is told to stop.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let options = Options { sets: arguments.sets.clone(), ..Options::default() };
    log_to_stderr()?;
    let service =
        Service::load(&arguments.devices, &arguments.vfio_user, arguments.data.as_deref(), &options)?;
    let stop = Stop::new()?;
    let said = stop.clone();
    on_signal(move || said.stop());
    let reports = service.run(&stop, |starts| {
        let lines = service.drives().iter().map(|drive| match arguments.format {
            OutputFormat::Table => drive.ready_text(starts),
            OutputFormat::Json => drive.ready_json(starts),
        });
        print(&lines.collect::<String>());
    })?;
    print(&match arguments.format {
        OutputFormat::Table => served_tables(&reports),
        OutputFormat::Json => served_json(&reports),
    });
    Ok(ExitCode::SUCCESS)
}

/// What is logged, and how: see `tracing_subscriber`'s directives.
const LOG: &str = "BYTEWAY_LOG";

fn log_to_stderr() -> Result<(), InputError> {
    let text = std::env::var(LOG).unwrap_or_default();
    let text = if text.trim().is_empty() { "info" } else { text.trim() };
    let filter = EnvFilter::builder().parse(text).map_err(|error| {
        let what = format!("`{LOG}` = {}: {error}", crate::units::excerpt(text));
        InputError::new(what, "write error, warn, info, debug or trace")
    })?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Only a second logger in one process can fail here, and the first one stays.
    let _ = log.without_time().with_target(false).with_ansi(false).try_init();
    Ok(())
}
