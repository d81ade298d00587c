//! Sessions with a drive with tables, for the command line: a drive simulated for this purpose, one in a data directory, or one that another
//! process serves.

use crate::attach::attached;
use crate::error::AttachedError;
use crate::location::{Access, DriveLocation, DriveSource, Holds, in_directory, simulated};
use byteway_clock::Delay;
use byteway_firmware::Site;
use byteway_host::{Arbitration, Port};
use byteway_host::{Driver, DriverConfig};
use byteway_pushdown::drive_model::DriveModel;
use byteway_pushdown::error::SessionError;
use byteway_pushdown::session::{CoresBusy, Session, SessionOptions};
use byteway_scenario::{Device, Options};
use std::rc::Rc;

/// Changes that a request makes on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The request only reads.
    None,
    /// The request creates, changes or drops tables.
    Tables,
}

/// Host memory for queues and buffers of a served drive, in bytes.
const MEMORY_BYTES: u64 = 512 << 20;

/// Attaches to the drive and runs `work`.
///
/// # Errors
/// [`AttachedError`] if there is no such drive or namespace, or `work` fails.
pub fn with_drive<T: 'static, W: Future<Output = Result<T, SessionError>> + 'static>(
    source: &DriveSource,
    options: SessionOptions,
    change: Change,
    work: impl FnOnce(Session) -> W + 'static,
) -> Result<T, AttachedError> {
    match source {
        DriveSource::At(DriveLocation::Directory { device, data }) => {
            let access = if change == Change::None { Access::Read } else { Access::Change };
            let in_files = Options { in_files: true, ..Options::default() };
            let model = DriveModel::of(&Device::load(device, &in_files)?.drive.profile);
            in_directory(device, data, (Holds::Tables, access), |_, port| {
                exchange(port, (options, model, None), change, work)
            })
        }
        DriveSource::At(DriveLocation::Served(folder)) => attached(folder, MEMORY_BYTES, None, |_, port| {
            exchange(port, (options, DriveModel::assumed(), None), change, work)
        }),
        DriveSource::Simulated { profile, capacity, programs } => simulated(
            (profile, *capacity, *programs),
            (Holds::Tables, options.method),
            |_, port, device, powered| {
                let model = DriveModel::of(&device.drive.profile);
                let sites: Vec<Site> = powered.sites().into_iter().cloned().collect();
                let busy: CoresBusy = Rc::new(move || Delay(sites.iter().map(|site| site.busy().0).sum()));
                exchange(port, (options, model, Some(busy)), Change::None, work)
            },
        ),
    }
}

/// Attaches, runs `work`, and shuts the drive down. A failed shutdown is an error only after a change.
async fn exchange<T, W: Future<Output = Result<T, SessionError>>>(
    port: Port,
    (options, model, busy): (SessionOptions, DriveModel, Option<CoresBusy>),
    change: Change,
    work: impl FnOnce(Session) -> W,
) -> Result<T, AttachedError> {
    let config = DriverConfig {
        queues_wanted: 1,
        timeout: Some(Delay::from_s(60)),
        arbitration: Arbitration::RoundRobin,
        ..DriverConfig::default()
    };
    let driver = Driver::attach(port, config).await.map_err(AttachedError::NotDriven)?;
    let session = Session::open(&driver, options, model, busy).await?;
    let done = work(session).await;
    let ended = driver.shutdown().await;
    let done = done?;
    match (ended, change) {
        (Err(error), Change::Tables) => Err(AttachedError::NotShutDown(error)),
        _ => Ok(done),
    }
}
