//! `byteway serve`: serves drives to hosts in other processes.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use byteway_serve::drive::Stop;
use byteway_serve::tls::{KeyLineError, Keys};

use super::control;
use super::flags::{OutputFormat, Tables, address, http_address};
use super::log::log_to_stderr;
use super::watcher::{Watcher, Watching};
use crate::interrupt::{EXIT_INTERRUPTED, end_soon, on_hangup, on_signal};
use byteway_auth::Credentials;
use byteway_results::output::print;
use byteway_scenario::Options;
use byteway_scenario::secrets::load_secrets;
use byteway_serving::serve::{HostControl, ServeAddress, Service, WatchPlace, served_json, served_tables};
use byteway_text::error::{InputError, with_causes};
use byteway_text::file::read_secret_file;
use byteway_text::interrupt::Interrupted;

pub(super) const EXAMPLES: &str = "\
A device file is a TOML file. A minimal one:
  [drive]
  profile = \"samsung-970-pro\"      # and any other key of a scenario's [drive]

Optional keys, with their defaults:
  name = \"...\"                     # the name of the file
  seed = 1
  [drive]
  store = \"ram\"                    # keep every byte in memory; \"file\" (with --data): in files
  precondition = \"empty\"
  [serve]
  timing = \"model\"                 # modeled latencies; \"none\": as fast as this machine can
  doorbells = \"mapped\"             # in shared memory; \"trapped\": by messages, without CPU time when idle
  shadow_doorbells = true          # offer Doorbell Buffer Config
  rest = \"200 us\"                  # interval of polls of mapped doorbells while idle: latency against CPU time

One drive listens at DIR/cntrl, several at DIR/NAME/cntrl, each for one client at a time. A drive keeps its data
from one client to the next until the program ends; with --data it also keeps flushed data beyond that, however
the program ends. `byteway media` inspects such a directory.
  byteway serve drive.toml --vfio-user /tmp/drive --data drive.data

A Linux guest sees an NVMe drive. QEMU 10.1 or newer, with shared memory:
  byteway serve drive.toml --vfio-user /tmp/drive --set drive.capacity=\"8 GiB\"
  qemu-system-x86_64 -M q35,memory-backend=mem -m 1G \\
    -object memory-backend-memfd,id=mem,size=1G,share=on -device \\
    '{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"/tmp/drive/cntrl\"}}' ...
Without a guest:
  byteway bench --vfio-user /tmp/drive

Over NVMe/TCP any number of hosts can use a drive concurrently:
  byteway serve drive.toml --tcp 127.0.0.1:4420
  nvme connect -t tcp -a 127.0.0.1 -s 4420 -n NQN     (the command is printed)
With both, each drive is dual-ported: one port for the client of its socket, the other for all hosts over NVMe/TCP.
Both access the same data; the hosts must coordinate their writes:
  byteway serve drive.toml --vfio-user /tmp/drive --tcp 127.0.0.1:4420
Hosts listed in a file of secrets must authenticate (DH-HMAC-CHAP) on every queue before any other command. Only the
owner may have access to the file (chmod 600). `nvme gen-dhchap-key` generates secrets:
  byteway serve drive.toml --tcp 0.0.0.0:4420 --secrets secrets.toml
  hashes = [\"sha-512\", \"sha-256\"]  # accepted hashes in order of preference; default: all
  groups = [\"ffdhe3072\"]            # likewise; \"null\" is without a Diffie-Hellman exchange
  tls = \"offered\"                  # with keys that authentication generates; \"required\", \"never\"
  [[host]]
  nqn = \"nqn.2014-08.org.nvmexpress:uuid:...\"    # /etc/nvme/hostnqn of the host
  secret = \"DHHC-1:00:...:\"         # nvme connect --dhchap-secret
  controller_secret = \"DHHC-1:00:...:\"           # --dhchap-ctrl-secret: the drive authenticates as well
Authentication alone encrypts nothing. A host that requests it (nvme connect --concat) generates a key and reconnects
with TLS; with tls = \"required\" all hosts with secrets must do so. Discovery needs neither. A key exchange takes 20 ms
of a processor in ffdhe8192 and 2 ms in ffdhe3072, in a thread of each drive.
Each port is also a Discovery Service, which lists all drives of this program that the host may use:
  nvme discover -t tcp -a 127.0.0.1 -s 4420
  nvme connect-all -t tcp -a 127.0.0.1 -s 4420
With several --tcp each drive has several ports, which are paths to it. The ANA state of a port can change while hosts
are connected (optimized, non-optimized, inaccessible, persistent-loss, change):
  byteway serve drive.toml --tcp 127.0.0.1:4420 --tcp 127.0.0.1:5420 --control
  ana drive 2 inaccessible                            (a line on its standard input)
With TLS 1.3 and pre-shared keys: each line of the file has a host's NQN and the output of `nvme gen-tls-key`:
  byteway serve drive.toml --tcp 127.0.0.1:4420 --tls-keys hosts.keys
  nvme check-tls-key --insert --subsysnqn NQN --keydata NVMeTLSkey-1:01:...:     (on the host, where tlshd runs)
  nvme connect -t tcp -a 127.0.0.1 -s 4420 -n NQN --tls
SIGHUP reloads the files of --secrets and --tls-keys for new connections. If a file is invalid, both stay unchanged and
an error is printed. Without these files SIGHUP ends the program like SIGTERM.

With --http drives are watched while they are served: a page with live charts, /metrics for Prometheus, /health (200 or
503), /api/state as JSON. dist/grafana has a dashboard. No figure is taken while nobody asks, and one a second at most:
  byteway serve drive.toml --vfio-user /tmp/drive --http 9100
  curl http://127.0.0.1:9100/metrics

Events are logged to the standard error; BYTEWAY_LOG=debug logs more, BYTEWAY_LOG=warn less.

Ctrl-C and SIGTERM detach the client, flush, and shut the drives down; a second one ends the program immediately. The
shutdown takes at most 2 s. Exit codes:
  0  success: all written data is in the data directory, if there is one
  1  a drive could not be served, or its data directory failed
  2  invalid input
  3  a drive made no progress while its host waited: a defect of Byteway
  4  the shutdown took longer than 1.5 s and was aborted, as by kill -9: flushed data is safe, data written since the
     last Flush may be lost
  130  a second signal, with the same effect, or a signal before the drives are ready";

/// Exit code: a drive made no progress.
const EXIT_STALLED: u8 = 3;
/// Exit code: the shutdown timed out.
const EXIT_CUT_OFF: u8 = 4;
const CUT_OFF: &str = "the shutdown took longer than 1.5 s and is aborted, as by kill -9: flushed data is \
     safe if the drive is kept in files (--data), data written since the last Flush may be lost";

#[derive(Clone, clap::Args)]
pub(super) struct Arguments {
    /// Device files. A file given twice makes two drives.
    #[arg(required = true)]
    devices: Vec<PathBuf>,
    /// Folder for the sockets of vfio-user, created if necessary. With --tcp as well, each drive has two ports to the same data: one for a
    /// vfio-user client, and one for NVMe/TCP hosts.
    #[arg(long, value_name = "DIR", required_unless_present = "tcp")]
    vfio_user: Option<PathBuf>,
    /// Serve over NVMe/TCP at this address, with each further drive at the next port. Repeatable, for several paths to each drive. Without
    /// --tls-keys nothing is encrypted; without --tls-keys and --secrets any host that reaches the address can read and write the drives.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    tcp: Vec<SocketAddr>,
    /// With --tcp: NQN of a host that may connect. Repeatable. Default: all hosts, or those in --secrets.
    #[arg(long, value_name = "NQN", requires = "tcp")]
    host: Vec<String>,
    /// With --tcp: file of the hosts that must authenticate, with their secrets. Other hosts may connect only if --host names them, which
    /// is no authentication.
    #[arg(long, value_name = "FILE", requires = "tcp")]
    secrets: Option<PathBuf>,
    /// With --tcp: require TLS 1.3 with pre-shared keys. The file has a line for each host that may connect, with its NQN and its key
    /// (`NVMeTLSkey-1:...`); only its owner may have access.
    #[arg(long, value_name = "FILE", requires = "tcp")]
    tls_keys: Option<PathBuf>,
    /// With --tcp: report this Discovery Service to hosts as a referral. Repeatable.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "tcp", value_parser = address)]
    referral: Vec<SocketAddr>,
    /// With --tcp: address that discovery reports to hosts, if they reach this machine by another address than its own, as with network
    /// address translation. Ports stay unchanged.
    #[arg(long, value_name = "ADDRESS", requires = "tcp")]
    advertise: Option<IpAddr>,
    /// With --tcp: allow hosts to create, attach, detach and delete namespaces, for all hosts of a drive.
    #[arg(long, requires = "tcp")]
    manage: bool,
    /// With --tcp: accept commands on the standard input while serving. `ana DRIVE PORT STATE` sets the ANA state of a path.
    #[arg(long, requires = "tcp")]
    control: bool,
    /// Answer watchers over HTTP at this address: a live page, metrics for Prometheus (/metrics), health (/health). A port alone (9100)
    /// is one of 127.0.0.1. There is no authentication: another address than loopback has to be named in full.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = http_address)]
    http: Option<SocketAddr>,
    /// Folder for the drives' data, created if necessary. Several drives have a subfolder each, with the drive's name.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Start also if damage of the data directory has lost data: what is lost reads as errors until it is written or deallocated.
    /// Otherwise such a start is refused.
    #[arg(long, requires = "data")]
    accept_losses: bool,
    /// Replace or add a key of every device file. Repeatable; the last value counts.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Format of the output: once the drives are ready, and at the end the statistics.
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    format: OutputFormat,
    #[command(flatten)]
    tables: Tables,
}

impl Arguments {
    /// Whether SIGHUP reloads files.
    pub(super) fn reads_again(&self) -> bool {
        self.secrets.is_some() || self.tls_keys.is_some()
    }

    /// Reads the files of secrets and TLS keys.
    fn host_files(&self) -> Result<(Option<Credentials>, Option<Keys>), InputError> {
        let credentials = self.secrets.as_deref().map(load_secrets).transpose()?;
        Ok((credentials, self.tls_keys.as_deref().map(tls_keys).transpose()?))
    }
}

/// Reloads the files of hosts. An error is printed, and leaves everything unchanged.
fn read_again(arguments: &Arguments, control: &HostControl) {
    let said = match arguments.host_files() {
        Ok((credentials, keys)) => {
            control.replace(credentials.as_ref(), keys.as_ref());
            "the files of hosts were reloaded for new connections".to_owned()
        }
        Err(error) => format!("error: the files of hosts were not reloaded and stay in effect: {error}"),
    };
    let _ = writeln!(std::io::stderr(), "{said}");
}

/// Serves until a stop is requested.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (credentials, keys) = arguments.host_files()?;
    let options = Options { sets: arguments.sets.clone(), ..crate::extensions::options() };
    log_to_stderr()?;
    let mut places: Vec<ServeAddress> =
        arguments.vfio_user.iter().cloned().map(ServeAddress::VfioUser).collect();
    if !arguments.tcp.is_empty() {
        places.push(ServeAddress::Tcp {
            addresses: arguments.tcp.clone(),
            hosts: arguments.host.clone(),
            credentials,
            referrals: arguments.referral.clone(),
            advertised: arguments.advertise,
            may_manage: arguments.manage,
            tls_keys: keys,
        });
    }
    let watcher = arguments.http.map(Watcher::bind).transpose()?;
    let mut service = Service::load(&arguments.devices, &places, arguments.data.as_deref(), &options)?;
    if arguments.accept_losses {
        service.accept_losses();
    }
    let watching = watcher.map(|watcher| watch(watcher, &mut service)).transpose()?;
    if arguments.control {
        control::listen(service.path_controls())?;
    }
    if arguments.reads_again() {
        let (arguments, control) = (arguments.clone(), service.host_control());
        on_hangup(move || read_again(&arguments, &control))?;
    }
    let stop = Stop::new()?;
    let said = stop.clone();
    let is_ready = Arc::new(AtomicBool::default());
    let was_ready = is_ready.clone();
    on_signal(move || {
        let was_ready = was_ready.load(Ordering::Relaxed);
        end_soon(move || {
            Some(match was_ready {
                true => (EXIT_CUT_OFF, format!("error: {CUT_OFF}")),
                // A drive that is being made has no data of a host.
                false => (EXIT_INTERRUPTED, Interrupted.to_string()),
            })
        });
        said.stop();
    });
    let mut announced = Ok(());
    let served = service.run(&stop, |starts| {
        is_ready.store(true, Ordering::Relaxed);
        // Commands to copy start with spaces, and are not wrapped.
        let lines = service.drives().iter().map(|drive| match arguments.format {
            OutputFormat::Table => arguments.tables.wrapped(&drive.ready_text(starts)),
            OutputFormat::Json => drive.ready_json(starts),
        });
        announced = print(lines.collect::<String>());
        // The parent process waits for this line.
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
    // Open pages are told the last figures. They are told last, as some may be slow.
    drop(watching);
    // A parent process may close the pipe after it has read that the drives are ready: this is not an error.
    reported.or_else(|error| error.quiet_exit().map(drop).ok_or(error))?;
    Ok(ExitCode::SUCCESS)
}

/// Starts to answer watchers of the drives.
fn watch(mut watcher: Watcher, service: &mut Service) -> std::io::Result<Watching> {
    let place = WatchPlace { url: watcher.url(), any_host: watcher.is_exposed() };
    service.watch_at(&place, |name| watcher.watch(name))?;
    watcher.start()
}

/// Reads a file of TLS keys.
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
