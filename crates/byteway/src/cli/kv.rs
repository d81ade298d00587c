//! `byteway kv`.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::Context;
use byteway_host::StoreIf;
use byteway_wire::nvme::kv::Key;
use clap::Subcommand;

use super::flags::{OutputFormat, Tables, method, size};
use super::show::show;
use crate::interrupt::raised_by_signal;
use crate::terminal::Terminal;
use byteway_console::error::InputError;
use byteway_console::progress::Progress;
use byteway_console::units::Bytes;
use byteway_lab::error::AttachedError;
use byteway_lab::pairs::bench::PairsBench;
use byteway_lab::pairs::{Answer, Place, Request, ask, key, shown};
use byteway_lab::run::{Session, run};
use byteway_measure::output::{Output, print};
use byteway_scenario::{Options, Scenario};
use byteway_study::report::run_report;
use byteway_transfer::Method;
use byteway_workload::kv::{Preset, ValueSizes};

pub(super) const EXAMPLES: &str = "\
A drive that keeps its pairs in a directory, which nobody serves meanwhile; drive.toml is a device file with
`personality = \"kv\"` in [drive], or with `kv_capacity = \"1 GiB\"` for pairs beside blocks:
  byteway kv put name 'a value' --drive drive.toml --data pairs.data
  byteway kv get name --drive drive.toml --data pairs.data
  byteway kv list --from n --drive drive.toml --data pairs.data

A drive that another process serves (`byteway serve drive.toml --vfio-user /tmp/drive`):
  byteway kv put 0x0001 --file picture.png --vfio-user /tmp/drive
  byteway kv get 0x0001 --vfio-user /tmp/drive > picture.png

A drive in simulation, with the figures of `byteway run`:
  byteway kv bench --workload w-m --count 100000
  byteway kv bench --workload fillrandom --value 1k --count 20000 --iodepth 32 --profile modern-gen5
  byteway kv bench --workload w-m --count 100000 --bulk-pairs 64

The same on a drive that is served, in real time, or on one in a directory, in virtual time; --erase deletes all pairs:
  byteway kv bench --workload w-m --count 100000 --vfio-user /tmp/drive --erase
  byteway kv bench --workload w-m --count 100000 --drive drive.toml --data pairs.data --erase

A key is text, or hexadecimal digits behind 0x: 1 to 16 bytes. Exit code 1 if there is no such key, or, with
--if-absent, if there is one.";

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
        /// The value; left out, what --file names, or standard input.
        value: Option<String>,
        /// The file that holds the value.
        #[arg(long, conflicts_with = "value")]
        file: Option<PathBuf>,
        /// Only if there is such a key.
        #[arg(long, conflicts_with = "if_absent")]
        if_exists: bool,
        /// Only if there is no such key.
        #[arg(long)]
        if_absent: bool,
        #[command(flatten)]
        drive: Drive,
    },
    /// Print a value, byte by byte as it was stored.
    Get {
        /// The key.
        #[arg(value_parser = key)]
        key: Key,
        #[command(flatten)]
        drive: Drive,
    },
    /// Print keys in order, one a line.
    List {
        /// The first key, or what it would lie behind; left out, the first of all.
        #[arg(long, value_parser = key)]
        from: Option<Key>,
        /// So many at most.
        #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
        count: u64,
        #[command(flatten)]
        drive: Drive,
    },
    /// Delete a pair.
    Del {
        /// The key.
        #[arg(value_parser = key)]
        key: Key,
        #[command(flatten)]
        drive: Drive,
    },
    /// Ask whether there is a pair.
    Exist {
        /// The key.
        #[arg(value_parser = key)]
        key: Key,
        #[command(flatten)]
        drive: Drive,
    },
    /// Run a workload, and measure it: on a simulated drive, unless another is named.
    Bench(Box<Bench>),
}

/// Where the drive is.
#[derive(clap::Args)]
#[group(required = true, multiple = true)]
struct Drive {
    /// The device file of a drive whose pairs are in --data.
    #[arg(long, value_name = "FILE", requires = "data")]
    drive: Option<PathBuf>,
    /// The directory that holds the pairs; it is made if it is not there.
    #[arg(long, value_name = "DIR", requires = "drive")]
    data: Option<PathBuf>,
    /// The folder of a served drive's socket, as `byteway serve` names it.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["drive", "data"])]
    vfio_user: Option<PathBuf>,
    /// The namespace; left out, the first that holds pairs.
    #[arg(long, value_name = "NSID")]
    namespace: Option<u32>,
}

/// Where the drive of a benchmark is, if it is not simulated.
#[derive(clap::Args)]
struct Real {
    /// The device file of a drive whose pairs are in --data.
    #[arg(long, value_name = "FILE", requires = "data")]
    drive: Option<PathBuf>,
    /// The directory that holds the pairs; it is made if it is not there.
    #[arg(long, value_name = "DIR", requires = "drive")]
    data: Option<PathBuf>,
    /// The folder of a served drive's socket, as `byteway serve` names it.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["drive", "data"])]
    vfio_user: Option<PathBuf>,
    /// The namespace; left out, the first that holds pairs.
    #[arg(long, value_name = "NSID")]
    namespace: Option<u32>,
    /// Delete all pairs first. What is there otherwise can't be verified.
    #[arg(long)]
    erase: bool,
    /// Check nothing of what is read.
    #[arg(long)]
    no_verify: bool,
}

#[derive(clap::Args)]
struct Bench {
    /// What is done with which pairs.
    #[arg(long, value_enum)]
    workload: Preset,
    /// How many operations; left out, what goes through keys in order does so once.
    #[arg(long, value_name = "N", required_unless_present = "keys")]
    count: Option<u64>,
    /// Pairs that there are to choose from; left out, as many as --count.
    #[arg(long, value_name = "N")]
    keys: Option<u64>,
    /// Bytes of a key, 1 to 16.
    #[arg(long, value_name = "BYTES")]
    key_bytes: Option<u32>,
    /// How long values are: 128, 4k, "8 B..2 KiB", "8 B/90:2 KiB/10", mixgraph.
    #[arg(long, value_name = "SIZE")]
    value: Option<String>,
    /// Loads all pairs before, in random order, with values of this length; that is not measured with the rest.
    #[arg(long, value_name = "SIZE")]
    load: Option<String>,
    /// Operations of a worker that are outstanding.
    #[arg(long, value_name = "N", default_value_t = 1)]
    iodepth: u32,
    /// Bulk PUT: stores are gathered, and so many sent as one command. What is gathered is lost if the host crashes.
    #[arg(long, value_name = "N")]
    bulk_pairs: Option<u32>,
    /// The same by the bytes of a command.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bulk_bytes: Option<Bytes>,
    /// Workers, each with a queue pair of its own.
    #[arg(long, value_name = "N", default_value_t = 1)]
    numjobs: u32,
    /// The drive: a built-in profile, or the path of one.
    #[arg(long, default_value = "cosmos-plus")]
    profile: String,
    /// The host: a built-in profile, or the path of one.
    #[arg(long, default_value = "cosmos")]
    host: String,
    /// What the drive has room for.
    #[arg(long, value_parser = size, default_value = "4 GiB")]
    capacity: Bytes,
    /// How values cross.
    #[arg(long, value_parser = method(), default_value = "prp")]
    method: Method,
    /// Replace or add a key of the scenario that this comes to, such as drive.override.kv.packing=all; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Everything random follows from it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print the scenario instead of running it.
    #[arg(long)]
    scenario: bool,
    /// Write summary.json, results.parquet and report.html to this folder, which is made if need be.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What is printed.
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
    #[command(flatten)]
    tables: Tables,
    /// No progress bar.
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

fn place(vfio_user: Option<&Path>, device: Option<&Path>, data: Option<&Path>) -> Option<Place> {
    match (vfio_user, device, data) {
        (Some(folder), ..) => Some(Place::Served(folder.to_path_buf())),
        (None, Some(device), Some(data)) => {
            Some(Place::Directory { device: device.to_path_buf(), data: data.to_path_buf() })
        }
        _ => None,
    }
}

impl Drive {
    fn place(&self) -> Result<Place, InputError> {
        place(self.vfio_user.as_deref(), self.drive.as_deref(), self.data.as_deref()).ok_or_else(|| {
            let cure = "name a device file with --drive and a directory with --data, or a served drive with --vfio-user";
            InputError::new("no drive is named", cure)
        })
    }

    fn ask(&self, request: Request) -> Result<Answer, AttachedError> {
        ask(&self.place()?, self.namespace, request)
    }
}

/// Does what is asked of the drive.
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
            let _ = writeln!(std::io::stderr(), "there is no such key");
            ExitCode::FAILURE
        }
        Answer::Exists => {
            let _ = writeln!(std::io::stderr(), "there is such a key");
            ExitCode::FAILURE
        }
    })
}

/// No drive takes more.
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
        return Err(InputError::new(what, "no drive takes it: store it in parts").into());
    }
    Ok(bytes)
}

impl Bench {
    fn execute(&self) -> anyhow::Result<ExitCode> {
        let text = self.scenario_text()?;
        let mut sets = self.sets.clone();
        if self.real.is_named() {
            // What a drive that is there can do it says itself.
            let limits = ["max_io_queues=1024", "max_queue_entries=65536", "mdts=\"16 MiB\""];
            sets.extend(limits.map(|limit| format!("drive.override.controller.{limit}")));
            sets.push("drive.override.kv.value_max=\"16 MiB\"".to_owned());
        }
        let options = Options { sets, ..Options::default() };
        if self.scenario {
            print(&text)?;
            return Ok(ExitCode::SUCCESS);
        }
        let scenario = Scenario::from_text("bench", Path::new("."), &text, &options)?;
        let output = self.out.as_deref().map(Output::check).transpose()?;
        let real = &self.real;
        let place = place(real.vfio_user.as_deref(), real.drive.as_deref(), real.data.as_deref());
        if place.is_none() && (real.namespace.is_some() || real.erase || real.no_verify) {
            let what = "`--namespace`, `--erase` and `--no-verify` are of drives that are there already";
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
            return show(&results, None, output, Vec::new(), self.format, self.tables);
        }
        if real.namespace.is_some() || real.erase || real.no_verify {
            let what = "`--namespace`, `--erase` and `--no-verify` are of drives that are there already";
            return Err(InputError::new(what, "name one with --vfio-user, or with --drive and --data").into());
        }
        let mut progress =
            Progress::new(&Terminal { quiet: self.quiet }, "", scenario.command_count(), scenario.runtime());
        let found = run(&scenario, Session { progress: &mut progress, interrupt: &interrupt });
        progress.finish();
        let results = found?;
        let page = output.is_some().then(|| run_report(&scenario, &results));
        show(&results, page.as_ref(), output, Vec::new(), self.format, self.tables)
    }

    /// The scenario that the flags come to.
    fn scenario_text(&self) -> Result<String, InputError> {
        use std::fmt::Write as _;
        let sizes = |flag: &str, text: &str| {
            // As people who come from fio write it, too.
            let plain =
                size(text).ok().and_then(|Bytes(bytes)| u32::try_from(bytes).ok()).map(ValueSizes::Fixed);
            let sizes = plain.map_or_else(|| text.parse(), Ok);
            sizes.map_err(|error: byteway_console::units::UnitError| {
                InputError::new(format!("`{flag}`: {}", error.what), error.cure)
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
