//! `byteway serve`.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use byteway_serve::drive::Stop;
use byteway_serve::tls::{KeyLineError, Keys};
use tracing_subscriber::EnvFilter;

use super::control;
use super::flags::{OutputFormat, Tables, address};
use crate::interrupt::{end_within, on_hangup, on_signal};
use byteway_auth::Credentials;
use byteway_console::error::{InputError, with_causes};
use byteway_console::file::read_secret_file;
use byteway_lab::serve::{HostControl, Place, Service, served_json, served_tables};
use byteway_measure::output::print;
use byteway_scenario::Options;
use byteway_scenario::secrets::load_secrets;

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

Over NVMe/TCP any number of hosts use a drive at once:
  byteway serve drive.toml --tcp 127.0.0.1:4420
  nvme connect -t tcp -a 127.0.0.1 -s 4420 -n NQN     (the line that is printed)
Both at once: each drive then has two ports over the same data, as a dual-ported drive has, one for the client of its socket and
one for all hosts over NVMe/TCP. What one writes the others read; they agree among themselves who writes what:
  byteway serve drive.toml --vfio-user /tmp/drive --tcp 127.0.0.1:4420
Hosts of a file of secrets have to authenticate (DH-HMAC-CHAP), on every queue, before anything else; only its owner
may read it (chmod 600). Secrets are those that `nvme gen-dhchap-key` makes:
  byteway serve drive.toml --tcp 0.0.0.0:4420 --secrets secrets.toml
  hashes = [\"sha-512\", \"sha-256\"]  # taken, the preferred one first; left out, all
  groups = [\"ffdhe3072\"]            # likewise; \"null\" is without a Diffie-Hellman exchange
  tls = \"offered\"                  # by keys that authentication generates; \"required\", \"never\"
  [[host]]
  nqn = \"nqn.2014-08.org.nvmexpress:uuid:...\"    # /etc/nvme/hostnqn of the host
  secret = \"DHHC-1:00:...:\"         # nvme connect --dhchap-secret
  controller_secret = \"DHHC-1:00:...:\"           # --dhchap-ctrl-secret: by which the drive authenticates, too
Authentication alone encrypts nothing; a host that asks for it (nvme connect --concat) has a key generated, and connects
again with TLS. With tls = \"required\" all hosts with secrets have to. The list of drives (discovery) is told without any
of it. An exchange in ffdhe8192 takes 20 ms of a processor, in ffdhe3072 2 ms, in a thread of each drive's.
Each port also answers as a Discovery Service, which tells a host of all drives here that it may use:
  nvme discover -t tcp -a 127.0.0.1 -s 4420
  nvme connect-all -t tcp -a 127.0.0.1 -s 4420
With several --tcp each drive has several ports, which are paths to it; which of them hosts are to use may
change while they are connected (optimized, non-optimized, inaccessible, persistent-loss, change):
  byteway serve drive.toml --tcp 127.0.0.1:4420 --tcp 127.0.0.1:5420 --control
  ana drive 2 inaccessible                            (a line of its standard input)
With TLS 1.3 and pre-shared keys, of a file with a line for each host, its NQN and what `nvme gen-tls-key` prints:
  byteway serve drive.toml --tcp 127.0.0.1:4420 --tls-keys hosts.keys
  nvme check-tls-key --insert --subsysnqn NQN --keydata NVMeTLSkey-1:01:...:     (on the host, where tlshd runs)
  nvme connect -t tcp -a 127.0.0.1 -s 4420 -n NQN --tls
At SIGHUP the files of --secrets and --tls-keys are read again. They hold for connections that come; if one is wrong, both
stay as they were, and the error stream says why. Without these files SIGHUP ends the program as SIGTERM does.

What happens is said on the error stream; BYTEWAY_LOG=debug says more, BYTEWAY_LOG=warn less.

Ctrl-C and SIGTERM detach the client, flush and shut the drives down; a second one ends the program
at once. It ends within 2 s in any case. Exit status:
  0  in order: everything that was written is in the data directory, if there is one
  1  a drive could not be served, or its data directory failed
  2  wrong input
  3  a drive stood still while its host waited: a defect of Byteway
  4  the orderly end took longer than 1.5 s and was cut off, as by kill -9: what was flushed is safe,
     what was written since the last Flush may be lost
  130  a second signal; the same holds";

/// A drive stood still.
const EXIT_STALLED: u8 = 3;
/// The orderly end took too long.
const EXIT_CUT_OFF: u8 = 4;
/// How long detaching, flushing and shutting down may take after a signal. With what a loaded machine may add it ends within
/// 2 s.
const END_LIMIT: Duration = Duration::from_millis(1500);
const CUT_OFF: &str = "the orderly end has taken longer than 1.5 s, so the server ends at once, as by kill -9: what was \
     flushed is safe where a drive is kept in files (--data), what was written since the last Flush may be lost";

#[derive(Clone, clap::Args)]
pub(super) struct Arguments {
    /// The device files; one that is named twice is two drives.
    #[arg(required = true)]
    devices: Vec<PathBuf>,
    /// The folder for the sockets of vfio-user, which is made if need be.
    /// With --tcp, too, each drive has two ports over the same data: for one client here, and for hosts there.
    #[arg(long, value_name = "DIR", required_unless_present = "tcp")]
    vfio_user: Option<PathBuf>,
    /// Serve over NVMe/TCP at this address, each further drive at the next port; may be repeated, for several paths to
    /// each drive. Without --tls-keys nothing is encrypted; without it and --secrets, any host that reaches the address reads and
    /// writes the drives.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    tcp: Vec<SocketAddr>,
    /// With --tcp: a host that may connect, by its NQN; may be repeated. Without one, all may, or those of --secrets.
    #[arg(long, value_name = "NQN", requires = "tcp")]
    host: Vec<String>,
    /// With --tcp: a file of the hosts that authenticate, and their secrets. Others may connect only by --host, which then proves
    /// nothing.
    #[arg(long, value_name = "FILE", requires = "tcp")]
    secrets: Option<PathBuf>,
    /// With --tcp: require TLS 1.3 of hosts, by pre-shared keys. The file has a line for each host that may connect, with
    /// its NQN and its key (`NVMeTLSkey-1:...`), and only its owner may read it.
    #[arg(long, value_name = "FILE", requires = "tcp")]
    tls_keys: Option<PathBuf>,
    /// With --tcp: another Discovery Service that hosts are told of; may be repeated.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "tcp", value_parser = address)]
    referral: Vec<SocketAddr>,
    /// With --tcp: the address that hosts are told of when they ask for drives, if they reach this machine by another
    /// than its own, as behind network address translation. Ports stay as they are.
    #[arg(long, value_name = "ADDRESS", requires = "tcp")]
    advertise: Option<IpAddr>,
    /// With --tcp: let hosts create, attach, detach and delete namespaces, for all hosts of a drive.
    #[arg(long, requires = "tcp")]
    manage: bool,
    /// With --tcp: take commands on the standard input while serving. `ana DRIVE PORT STATE` sets what a path is good for.
    #[arg(long, requires = "tcp")]
    control: bool,
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
    #[command(flatten)]
    tables: Tables,
}

impl Arguments {
    /// Whether files are read again at SIGHUP.
    pub(super) fn reads_again(&self) -> bool {
        self.secrets.is_some() || self.tls_keys.is_some()
    }

    /// The files of hosts that authenticate and of TLS keys, as they are now.
    fn host_files(&self) -> Result<(Option<Credentials>, Option<Keys>), InputError> {
        let credentials = self.secrets.as_deref().map(load_secrets).transpose()?;
        Ok((credentials, self.tls_keys.as_deref().map(tls_keys).transpose()?))
    }
}

/// Reads the files of hosts again. What is wrong leaves all as it was, and is said.
fn read_again(arguments: &Arguments, control: &HostControl) {
    let said = match arguments.host_files() {
        Ok((credentials, keys)) => {
            control.replace(credentials.as_ref(), keys.as_ref());
            "the files of hosts were read again: they hold for connections that come".to_owned()
        }
        Err(error) => format!("error: the files of hosts were not read again, and hold as before: {error}"),
    };
    let _ = writeln!(std::io::stderr(), "{said}");
}

/// Serves until it is told to stop.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (credentials, keys) = arguments.host_files()?;
    let options = Options { sets: arguments.sets.clone(), ..Options::default() };
    log_to_stderr()?;
    let mut places: Vec<Place> = arguments.vfio_user.iter().cloned().map(Place::VfioUser).collect();
    if !arguments.tcp.is_empty() {
        places.push(Place::Tcp {
            addresses: arguments.tcp.clone(),
            hosts: arguments.host.clone(),
            credentials,
            referrals: arguments.referral.clone(),
            advertised: arguments.advertise,
            may_manage: arguments.manage,
            tls_keys: keys,
        });
    }
    let service = Service::load(&arguments.devices, &places, arguments.data.as_deref(), &options)?;
    if arguments.control {
        control::listen(service.path_controls())?;
    }
    if arguments.reads_again() {
        let (arguments, control) = (arguments.clone(), service.host_control());
        on_hangup(move || read_again(&arguments, &control))?;
    }
    let stop = Stop::new()?;
    let said = stop.clone();
    on_signal(move || {
        end_within(END_LIMIT, EXIT_CUT_OFF, CUT_OFF);
        said.stop();
    });
    let mut announced = Ok(());
    let served = service.run(&stop, |starts| {
        // Commands to copy begin with spaces, and stay in one line.
        let lines = service.drives().iter().map(|drive| match arguments.format {
            OutputFormat::Table => arguments.tables.wrapped(&drive.ready_text(starts)),
            OutputFormat::Json => drive.ready_json(starts),
        });
        announced = print(lines.collect::<String>());
        // The process that started it waits for that line.
        if announced.is_err() {
            stop.stop();
        }
    });
    let reports = match served {
        Ok(reports) => reports,
        Err(error) if error.is_stalled() => {
            let _ = writeln!(std::io::stderr(), "error: {}", with_causes(&error));
            return Ok(ExitCode::from(EXIT_STALLED));
        }
        Err(error) => return Err(error.into()),
    };
    announced?;
    let reported = print(match arguments.format {
        OutputFormat::Table => arguments.tables.wrapped(&served_tables(&reports, arguments.tables.width())),
        OutputFormat::Json => served_json(&reports),
    });
    // A program that has read that the drives are ready, and closed the pipe, has what it wanted: they were served.
    reported.or_else(|error| error.quiet_exit().map(drop).ok_or(error))?;
    Ok(ExitCode::SUCCESS)
}

/// The keys of a file.
fn tls_keys(path: &Path) -> Result<Keys, InputError> {
    const WHAT: &str = "file of TLS keys";
    read_secret_file(path, WHAT)?.parse().map_err(|error: KeyLineError| {
        let what = format!("the {WHAT} `{}`: {error}", path.display());
        InputError::new(
            what,
            "write a line for each host: its NQN, a space, and what `nvme gen-tls-key` prints",
        )
    })
}

/// What is logged, and how: see `tracing_subscriber`'s directives.
const LOG: &str = "BYTEWAY_LOG";

fn log_to_stderr() -> Result<(), InputError> {
    let text = std::env::var(LOG).unwrap_or_default();
    let text = if text.trim().is_empty() { "info" } else { text.trim() };
    let filter = EnvFilter::builder().parse(text).map_err(|error| {
        let what = format!("`{LOG}` = {}: {error}", byteway_console::units::excerpt(text));
        InputError::new(what, "write error, warn, info, debug or trace")
    })?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Only a second logger in one process can fail here, and the first one stays.
    let _ = log.without_time().with_target(false).with_ansi(false).try_init();
    Ok(())
}
