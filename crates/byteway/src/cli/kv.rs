//! `byteway kv`: access to key-value drives, and benchmarks of them.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::Context;
use byteway_host::StoreIf;
use byteway_wire::nvme::kv::Key;
use clap::Subcommand;

use super::flags::{OutputFormat, Tables, method, size};
use super::show::{Shown, show};
use crate::interrupt::raised_by_signal;
use crate::terminal::Terminal;
use byteway_report::run_report;
use byteway_results::output::{Output, print};
use byteway_run::run::{Session, run};
use byteway_scenario::{Options, Scenario};
use byteway_serving::error::AttachedError;
use byteway_serving::location::DriveLocation;
use byteway_serving::pairs::bench::PairsBench;
use byteway_serving::pairs::{Answer, Request, ask, key, shown};
use byteway_text::error::InputError;
use byteway_text::progress::Progress;
use byteway_text::units::Bytes;
use byteway_transfer::Method;
use byteway_workload::kv::{Preset, ValueSizes};

pub(super) const EXAMPLES: &str = "\
A drive in a directory that is not in use by a server; drive.toml is a device file with `personality = \"kv\"` in
[drive], or with `kv_capacity = \"1 GiB\"` for a KV namespace next to block namespaces:
  byteway kv put name 'a value' --drive drive.toml --data pairs.data
  byteway kv get name --drive drive.toml --data pairs.data
  byteway kv list --from n --drive drive.toml --data pairs.data

A drive served by another process (`byteway serve drive.toml --vfio-user /tmp/drive`):
  byteway kv put 0x0001 --file picture.png --vfio-user /tmp/drive
  byteway kv get 0x0001 --vfio-user /tmp/drive > picture.png

A simulated drive, with the figures of `byteway run`:
  byteway kv bench --workload w-m --count 100000
  byteway kv bench --workload fillrandom --value 1k --count 20000 --iodepth 32 --profile modern-gen5
  byteway kv bench --workload w-m --count 100000 --bulk-pairs 64

The same on a served drive in real time, or on a drive in a directory in virtual time; --erase deletes all pairs:
  byteway kv bench --workload w-m --count 100000 --vfio-user /tmp/drive --erase
  byteway kv bench --workload w-m --count 100000 --drive drive.toml --data pairs.data --erase

A key has 1 to 16 bytes: text, or hexadecimal digits after 0x. The exit code is 1 if the key does not exist, or, with
--if-absent, if it exists.";

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Store a value.
    Put {
        /// The key.
        #[arg(value_parser = key)]
        key: Key,
        /// Value. Default: the content of --file, or the standard input.
        value: Option<String>,
        /// File with the value.
        #[arg(long, conflicts_with = "value")]
        file: Option<PathBuf>,
        /// Store only if the key exists.
        #[arg(long, conflicts_with = "if_absent")]
        if_exists: bool,
        /// Store only if the key does not exist.
        #[arg(long)]
        if_absent: bool,
        #[command(flatten)]
        drive: Drive,
    },
    /// Print a value, byte for byte as stored.
    Get {
        /// The key.
        #[arg(value_parser = key)]
        key: Key,
        #[command(flatten)]
        drive: Drive,
    },
    /// Print keys in order, one per line.
    List {
        /// First key, or where it would be in the order. Default: the first of all.
        #[arg(long, value_parser = key)]
        from: Option<Key>,
        /// Maximum number of keys.
        #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
        count: u64,
        #[command(flatten)]
        drive: Drive,
    },
    /// Delete a key-value pair.
    Del {
        /// The key.
        #[arg(value_parser = key)]
        key: Key,
        #[command(flatten)]
        drive: Drive,
    },
    /// Check whether a key exists.
    Exist {
        /// The key.
        #[arg(value_parser = key)]
        key: Key,
        #[command(flatten)]
        drive: Drive,
    },
    /// Run and measure a workload: on a simulated drive, unless another is named.
    Bench(Box<Bench>),
}

/// The drive to access.
#[derive(clap::Args)]
#[group(required = true, multiple = true)]
struct Drive {
    /// Device file of a drive with its data in --data.
    #[arg(long, value_name = "FILE", requires = "data")]
    drive: Option<PathBuf>,
    /// Directory of the drive's data, created if necessary.
    #[arg(long, value_name = "DIR", requires = "drive")]
    data: Option<PathBuf>,
    /// Folder of a served drive's socket, as passed to `byteway serve`.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["drive", "data"])]
    vfio_user: Option<PathBuf>,
    /// Namespace. Default: the first KV namespace.
    #[arg(long, value_name = "NSID")]
    namespace: Option<u32>,
}

/// The drive to benchmark, if it is not simulated.
#[derive(clap::Args)]
struct Real {
    /// Device file of a drive with its data in --data.
    #[arg(long, value_name = "FILE", requires = "data")]
    drive: Option<PathBuf>,
    /// Directory of the drive's data, created if necessary.
    #[arg(long, value_name = "DIR", requires = "drive")]
    data: Option<PathBuf>,
    /// Folder of a served drive's socket, as passed to `byteway serve`.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["drive", "data"])]
    vfio_user: Option<PathBuf>,
    /// Namespace. Default: the first KV namespace.
    #[arg(long, value_name = "NSID")]
    namespace: Option<u32>,
    /// Delete all pairs first. Existing pairs cannot be verified.
    #[arg(long)]
    erase: bool,
    /// Do not verify reads.
    #[arg(long)]
    no_verify: bool,
}

#[derive(clap::Args)]
struct Bench {
    /// Workload.
    #[arg(long, value_enum)]
    workload: Preset,
    /// Number of operations. Default: one pass over the keys, for workloads that access them in order.
    #[arg(long, value_name = "N", required_unless_present = "keys")]
    count: Option<u64>,
    /// Number of different keys. Default: --count.
    #[arg(long, value_name = "N")]
    keys: Option<u64>,
    /// Key length in bytes, 1 to 16.
    #[arg(long, value_name = "BYTES")]
    key_bytes: Option<u32>,
    /// Value length: 128, 4k, "8 B..2 KiB", "8 B/90:2 KiB/10", mixgraph.
    #[arg(long, value_name = "SIZE")]
    value: Option<String>,
    /// Load all pairs before the benchmark, in random order, with values of this length. Loading is measured separately.
    #[arg(long, value_name = "SIZE")]
    load: Option<String>,
    /// Outstanding operations per worker.
    #[arg(long, value_name = "N", default_value_t = 1)]
    iodepth: u32,
    /// Bulk PUT: collect N stores and send them as one command. Collected stores are lost if the host crashes.
    #[arg(long, value_name = "N")]
    bulk_pairs: Option<u32>,
    /// Bulk PUT, with this limit for the size of a command.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bulk_bytes: Option<Bytes>,
    /// Number of workers, each with its own queue pair.
    #[arg(long, value_name = "N", default_value_t = 1)]
    numjobs: u32,
    /// Drive: a built-in profile, or the path of a profile.
    #[arg(long, default_value = "cosmos-plus")]
    profile: String,
    /// Host: a built-in profile, or the path of a profile.
    #[arg(long, default_value = "cosmos")]
    host: String,
    /// Capacity of the drive.
    #[arg(long, value_parser = size, default_value = "4 GiB")]
    capacity: Bytes,
    /// Transfer method of values.
    #[arg(long, value_parser = method(), default_value = "prp")]
    method: Method,
    /// Replace or add a key of the resulting scenario, such as drive.override.kv.packing=all. Repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print the scenario instead of running it.
    #[arg(long)]
    scenario: bool,
    /// Write summary.json, results.parquet, latency.parquet and report.html to DIR, which is created if necessary.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
    #[command(flatten)]
    tables: Tables,
    /// Do not show a progress bar.
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    real: Real,
}

impl Real {
    fn is_named(&self) -> bool {
        self.vfio_user.is_some() || self.drive.is_some()
    }
}

fn place(vfio_user: Option<&Path>, device: Option<&Path>, data: Option<&Path>) -> Option<DriveLocation> {
    match (vfio_user, device, data) {
        (Some(folder), ..) => Some(DriveLocation::Served(folder.to_path_buf())),
        (None, Some(device), Some(data)) => {
            Some(DriveLocation::Directory { device: device.to_path_buf(), data: data.to_path_buf() })
        }
        _ => None,
    }
}

impl Drive {
    fn place(&self) -> Result<DriveLocation, InputError> {
        place(self.vfio_user.as_deref(), self.drive.as_deref(), self.data.as_deref()).ok_or_else(|| {
            let help = "name a device file with --drive and a directory with --data, or a served drive with --vfio-user";
            InputError::new("no drive is named", help)
        })
    }

    fn ask(&self, request: Request) -> Result<Answer, AttachedError> {
        ask(&self.place()?, self.namespace, request)
    }
}

/// Executes the action.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (drive, request) = match &arguments.action {
        Action::Bench(bench) => return bench.execute(),
        Action::Put { key, value, file, if_exists, if_absent, drive } => {
            let when = match (if_exists, if_absent) {
                (true, _) => StoreIf::Exists,
                (_, true) => StoreIf::Absent,
                _ => StoreIf::Any,
            };
            let value = read_value(value.as_deref(), file.as_deref())?;
            (drive, Request::Put { key: *key, value, when })
        }
        Action::Get { key, drive } => (drive, Request::Get(*key)),
        Action::Del { key, drive } => (drive, Request::Delete(*key)),
        Action::Exist { key, drive } => (drive, Request::Exist(*key)),
        Action::List { from, count, drive } => (drive, Request::List { from: *from, count: *count }),
    };
    Ok(match drive.ask(request)? {
        Answer::Done => ExitCode::SUCCESS,
        Answer::Value(value) => {
            print(value)?;
            ExitCode::SUCCESS
        }
        Answer::Keys(keys) => {
            print(keys.into_iter().map(|key| shown(key) + "\n").collect::<String>())?;
            ExitCode::SUCCESS
        }
        Answer::Missing => {
            let _ = writeln!(std::io::stderr(), "no such key");
            ExitCode::FAILURE
        }
        Answer::Exists => {
            let _ = writeln!(std::io::stderr(), "the key already exists");
            ExitCode::FAILURE
        }
    })
}

/// Upper limit of all drives.
const VALUE_BYTES_MAX: u64 = byteway_workload::kv::VALUE_BYTES_MAX as u64;

fn read_value(value: Option<&str>, file: Option<&Path>) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match (value, file) {
        (Some(value), _) => bytes.extend_from_slice(value.as_bytes()),
        (None, Some(path)) => {
            let shown = path.display();
            let wrong = |error| InputError::new(format!("cannot read `{shown}`: {error}"), "check the path");
            let file = std::fs::File::open(path).map_err(wrong)?;
            file.take(VALUE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(wrong)?;
        }
        (None, None) => {
            let input = std::io::stdin().take(VALUE_BYTES_MAX + 1);
            { input }.read_to_end(&mut bytes).context("standard input")?;
        }
    }
    if bytes.len() as u64 > VALUE_BYTES_MAX {
        let what = format!("the value has more than {}", Bytes(VALUE_BYTES_MAX));
        return Err(InputError::new(what, "split it into several values: no drive supports it").into());
    }
    Ok(bytes)
}

impl Bench {
    fn execute(&self) -> anyhow::Result<ExitCode> {
        let text = self.scenario_text()?;
        let mut sets = self.sets.clone();
        if self.real.is_named() {
            // An existing drive reports its own limits.
            let limits = ["max_io_queues=1024", "max_queue_entries=65536", "mdts=\"16 MiB\""];
            sets.extend(limits.map(|limit| format!("drive.override.controller.{limit}")));
            sets.push("drive.override.kv.value_max=\"16 MiB\"".to_owned());
        }
        let options = Options { sets, ..crate::extensions::options() };
        if self.scenario {
            print(&text)?;
            return Ok(ExitCode::SUCCESS);
        }
        let scenario = Scenario::from_text("bench", Path::new("."), &text, &options)?;
        let output = self.out.as_deref().map(Output::check).transpose()?;
        let real = &self.real;
        let place = place(real.vfio_user.as_deref(), real.drive.as_deref(), real.data.as_deref());
        if place.is_none() && (real.namespace.is_some() || real.erase || real.no_verify) {
            let what = "`--namespace`, `--erase` and `--no-verify` apply to existing drives only";
            return Err(InputError::new(what, "name one with --vfio-user, or with --drive and --data").into());
        }
        let output = output.map(Output::claim).transpose()?;
        let interrupt = raised_by_signal();
        if let Some(place) = place {
            let bench = PairsBench {
                place,
                nsid: real.namespace,
                jobs: scenario.jobs.clone(),
                transfer: scenario.drives[0].transfer,
                erase: real.erase,
                seed: self.seed,
                bars: Rc::new(Terminal { quiet: self.quiet }),
            };
            let results = bench.run(&interrupt)?;
            return show(&results, None, output, Vec::new(), Shown::of(self.format, self.tables));
        }
        if real.namespace.is_some() || real.erase || real.no_verify {
            let what = "`--namespace`, `--erase` and `--no-verify` apply to existing drives only";
            return Err(InputError::new(what, "name one with --vfio-user, or with --drive and --data").into());
        }
        let mut progress =
            Progress::new(&Terminal { quiet: self.quiet }, "", scenario.command_count(), scenario.runtime());
        let found = run(&scenario, Session { progress: &mut progress, interrupt: &interrupt });
        progress.finish();
        let results = found?;
        let page = output.is_some().then(|| run_report(&scenario, &results));
        show(&results, page.as_ref(), output, Vec::new(), Shown::of(self.format, self.tables))
    }

    /// The scenario that the flags describe.
    fn scenario_text(&self) -> Result<String, InputError> {
        use std::fmt::Write as _;
        let sizes = |flag: &str, text: &str| {
            // Also accepts fio's forms.
            let plain =
                size(text).ok().and_then(|Bytes(bytes)| u32::try_from(bytes).ok()).map(ValueSizes::Fixed);
            let sizes = plain.map_or_else(|| text.parse(), Ok);
            sizes.map_err(|error: byteway_text::units::UnitError| {
                InputError::new(format!("`{flag}`: {}", error.what), error.help)
            })
        };
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let mut out = format!(
            "name = \"kv-bench\"\nseed = {}\n\n[drive]\nprofile = {}\npersonality = \"kv\"\ncapacity = \"{}\"\n\n[host]\nprofile = {}\n\
             verify = {}\n\n[transfer]\nmethod = \"{}\"\n",
            self.seed,
            quoted(&self.profile),
            self.capacity,
            quoted(&self.host),
            !self.real.no_verify,
            self.method.name()
        );
        let keys = self.keys.or(self.count);
        if let (Some(load), Some(keys)) = (&self.load, keys) {
            let _ = writeln!(
                out,
                "\n[[kv]]\nname = \"load\"\nworkload = \"filluniquerandom\"\nkeys = {keys}\nvalue = \"{}\"\niodepth = 32",
                sizes("--load", load)?
            );
        }
        let _ = writeln!(out, "\n[[kv]]\nname = \"bench\"\nworkload = \"{}\"", self.workload.name());
        if self.load.is_some() {
            out.push_str("stonewall = true\n");
        }
        if let Some(value) = &self.value {
            let _ = writeln!(out, "value = \"{}\"", sizes("--value", value)?);
        }
        for (key, number) in [
            ("keys", self.keys),
            ("count", self.count),
            ("key_bytes", self.key_bytes.map(u64::from)),
            ("bulk_pairs", self.bulk_pairs.map(u64::from)),
            ("iodepth", Some(self.iodepth.into())),
            ("numjobs", Some(self.numjobs.into())),
        ] {
            if let Some(number) = number {
                let _ = writeln!(out, "{key} = {number}");
            }
        }
        if let Some(bytes) = self.bulk_bytes {
            let _ = writeln!(out, "bulk_bytes = \"{bytes}\"");
        }
        Ok(out)
    }
}
