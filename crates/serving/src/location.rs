//! Location of a drive that a command accesses: a data directory, a server's socket, or memory.

use crate::error::{AttachedError, DataError};
use byteway_clock::{Clock, Executor};
use byteway_device::Drive;
use byteway_flash::file::{Directory, Files, Overlay};
use byteway_host::{Method, Port};
use byteway_run::build;
use byteway_scenario::{Device, Options, Store};
use byteway_text::error::InputError;
use byteway_text::units::Bytes;
use byteway_world::PoweredDrive;
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// Location of a drive.
#[derive(Clone, Debug)]
pub enum DriveLocation {
    /// A data directory that no server uses.
    Directory {
        /// Device file.
        device: PathBuf,
        /// Directory; created for a new drive.
        data: PathBuf,
    },
    /// Folder of the socket of a served drive.
    Served(PathBuf),
}

/// A drive: an existing one, or one in memory.
#[derive(Clone, Debug)]
pub enum DriveSource {
    /// It exists.
    At(DriveLocation),
    /// It is simulated, new and empty, and gone afterwards.
    Simulated {
        /// Its profile: built in, or a path.
        profile: String,
        /// Its capacity.
        capacity: Bytes,
        /// Whether it runs programs even if its profile has none.
        programs: bool,
    },
}

/// Kind of access to a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read-only: writes at the drive's start and end are dropped, so that drives on full or read-only disks can be read.
    Read,
    /// Deletes data.
    Change,
    /// Adds this number of bytes.
    Grow(u64),
}

/// Free space that must remain after a store, so that the drive can still start, delete and shut down.
const RESERVE_BYTES: u64 = 1 << 20;

/// Content that a request requires of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Key-value pairs.
    Pairs,
    /// Tables.
    Tables,
}

impl Holds {
    /// The personality of a drive that holds it.
    fn personality(self) -> &'static str {
        match self {
            Holds::Pairs => "kv",
            Holds::Tables => "tables",
        }
    }

    fn check(self, device: &Device) -> Result<(), InputError> {
        let (is_there, what, help) = match self {
            Holds::Pairs => (
                !device.drive.pairs_nsids().is_empty(),
                "pairs",
                "write `personality = \"kv\"` in [drive], or `kv_capacity`",
            ),
            Holds::Tables => (
                !device.drive.tables_nsids().is_empty(),
                "tables",
                "write `personality = \"tables\"` in [drive]",
            ),
        };
        if is_there && device.drive.store == Store::File {
            return Ok(());
        }
        let what = format!("the device file describes no drive with {what} in files");
        Err(InputError::new(what, format!("{help}, and `store = \"file\"` or no `store`")))
    }
}

impl Access {
    /// Opens the files of the directory.
    fn open(self, data: &Path) -> Result<Arc<dyn Files>, DataError> {
        if self == Access::Read && data.exists() {
            return Ok(Arc::new(Overlay::new(Arc::new(Directory::look(data)?))));
        }
        let directory = Directory::take(data)?;
        if let Access::Grow(bytes) = self {
            let (free, wanted) = (directory.bytes_free()?, bytes.saturating_add(RESERVE_BYTES));
            if free < wanted {
                let needed = Bytes(wanted.next_multiple_of(1024));
                return Err(DataError::NoSpace { free: Bytes(free), needed });
            }
        }
        Ok(Arc::new(directory))
    }
}

/// Runs `work`, unless the drive's files fail meanwhile.
async fn unless_failed<T>(
    drive: &Drive,
    work: impl Future<Output = Result<T, AttachedError>>,
) -> Result<T, AttachedError> {
    let flash = drive.controller.ftl().flash();
    let (mut failed, mut work) = (pin!(flash.failed()), pin!(work));
    poll_fn(|context| match failed.as_mut().poll(context) {
        Poll::Ready(why) => Poll::Ready(Err(DataError::Failed { what: why.to_string() }.into())),
        Poll::Pending => work.as_mut().poll(context),
    })
    .await
}

/// Powers on a new drive in memory, runs `work` in virtual time, and drops the drive.
pub(crate) fn simulated<T: 'static, W: Future<Output = Result<T, AttachedError>> + 'static>(
    (profile, capacity, programs): (&str, Bytes, bool),
    (holds, method): (Holds, Method),
    work: impl FnOnce(&Clock, Port, &Device, &PoweredDrive) -> W,
) -> Result<T, AttachedError> {
    let programs = if programs { "[drive.override.programs]\n" } else { "" };
    let text = format!(
        "[drive]\nprofile = {}\npersonality = \"{}\"\ncapacity = \"{capacity}\"\nstore = \"ram\"\n{programs}",
        serde_json::to_string(profile).expect("a text is JSON"),
        holds.personality(),
    );
    let device = Device::from_text("drive", Path::new("."), &text, &Options::default())?;
    device.drive.check_method(method)?;
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let bay = build::bay(&clock, &device.drive.profile);
    let powered = bay.power_on(build::served(&device, &device.name), None).map_err(DataError::from)?;
    let work = work(&clock, Port::Link(powered.host.clone()), &device, &powered);
    executor.run(work).map_err(AttachedError::Stalled)?
}

/// Powers on the drive in the directory, runs `work` in virtual time, and shuts it down.
pub(crate) fn in_directory<T: 'static, W: Future<Output = Result<T, AttachedError>> + 'static>(
    device: &Path,
    data: &Path,
    (holds, access): (Holds, Access),
    work: impl FnOnce(&Clock, Port) -> W,
) -> Result<T, AttachedError> {
    let device = Device::load(device, &Options { in_files: true, ..Options::default() })?;
    holds.check(&device)?;
    let config = build::served(&device, &device.name);
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let bay = build::bay(&clock, &device.drive.profile);
    let refused = |error: DataError| AttachedError::from(error).in_directory(data);
    let files = access.open(data).map_err(refused)?;
    let (medium, _) = Drive::open_medium(&config, files).map_err(|error| refused(error.into()))?;
    let powered = bay.power_on(config, Some(medium)).map_err(|error| refused(error.into()))?;
    let drive = powered.drive.clone();
    let work = work(&clock, Port::Link(powered.host.clone()));
    let answer = executor
        .run(async move {
            unless_failed(&drive, async {
                drive.controller.ready().await;
                let answer = work.await;
                // At the flash's end of life no checkpoint can be written; the next start then recovers the drive.
                let _ = drive.controller.shut_down().await;
                answer
            })
            .await
        })
        .map_err(AttachedError::Stalled)?;
    let closed = powered.power_off().close();
    let answer = answer.map_err(|error: AttachedError| error.in_directory(data))?;
    closed.map_err(|why| refused(DataError::NotClosed { what: why.to_string() }))?;
    Ok(answer)
}
