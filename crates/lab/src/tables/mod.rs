//! Requests to a drive with tables from the command line: to one that is simulated for this, to one whose data is in a directory, or to
//! one that another process serves.
//!
//! | file | what |
//! |---|---|
//! | `tables/mod.rs` | where the drive is, and a [`Session`] with it |
//! | [`load`] | Parquet files to tables |
//! | [`plan`] | where a query is executed, and why |
//! | [`program`] | a query whose rows a program filters, of the drive and of this host |
//! | `sample` | how many rows pass, by some row groups |
//! | `reading` | columns that this host reads, several commands at once |
//! | [`query`] | a query that the drive executes, and one that this host does |
//! | [`split`] | a query that the drive refuses: what of it is pushed, and the rest |

pub mod load;
pub mod plan;
pub mod program;
pub mod query;
pub(crate) mod reading;
mod sample;
pub mod split;

use crate::attach::attached;
use crate::drive_model::DriveModel;
use crate::error::AttachedError;
use crate::location::{Access, DriveLocation, Holds, in_directory, simulated};

pub use crate::location::DriveSource;
use byteway_clock::{Clock, Delay, SpanRecord, Station};
use byteway_console::error::InputError;
use byteway_firmware::Site;
use byteway_host::driver::{Driver, DriverConfig, QueueConfig};
use byteway_host::{Arbitration, IoBuffer, Method, Port, ProgramsClient, Rules, TablesClient, TablesConfig};
use byteway_link::Direction;
use byteway_query::{Form, Schema};
use byteway_scenario::{Device, Options};
use byteway_wire::nvme::csi;
use byteway_wire::nvme::vendor::csd::{Problem, TableRecord};
use std::cell::RefCell;
use std::rc::Rc;

/// How it is asked.
#[derive(Clone, Copy, Debug)]
pub struct SessionOptions {
    /// Its namespace; left out, the first that holds tables.
    pub nsid: Option<u32>,
    /// How tasks cross.
    pub method: Method,
    /// Cycles a second of this host's processor, for what is modelled of it.
    pub hertz: u64,
    /// Programs of the drive are used.
    pub programs: bool,
}

/// What becomes of what the drive holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// Tables come or go.
    Tables,
}

/// Host memory of a served drive's queues and buffers.
const MEMORY_BYTES: u64 = 512 << 20;

/// The longest payload of a command, if the drive transfers as much.
const PAYLOAD_BYTES: u32 = 1 << 20;

/// Says how long a simulated drive's cores were busy, in all.
type CoresBusy = Rc<dyn Fn() -> Delay>;

/// A driver that is attached to a drive with tables.
pub struct Session {
    pub(crate) clock: Clock,
    pub(crate) client: TablesClient,
    /// Buffers that no command uses.
    pub(crate) buffers: Rc<RefCell<Vec<IoBuffer>>>,
    /// This host's processor, and what its work on queries takes.
    pub(crate) cpu: Rc<Station>,
    pub(crate) hertz: u64,
    /// Programs of the drive, and the namespace that they are in.
    programs: Option<(u32, ProgramsClient)>,
    /// What the drive is able to do.
    pub(crate) model: Rc<DriveModel>,
    /// How long the drive's cores were busy, in all, if it is simulated.
    pub(crate) busy: Option<CoresBusy>,
    port: Port,
}

/// A table of a drive.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// What the drive says of it.
    pub record: TableRecord,
    /// Its columns.
    pub schema: Schema,
}

/// Does `work` with the drive.
///
/// # Errors
/// There is no such drive or namespace, or it can't do what is asked.
pub fn with_drive<T: 'static, W: Future<Output = Result<T, AttachedError>> + 'static>(
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
            in_directory(device, data, (Holds::Tables, access), |clock, port| {
                exchange(clock.clone(), port, (options, model, None), change, work)
            })
        }
        DriveSource::At(DriveLocation::Served(folder)) => {
            attached(folder, MEMORY_BYTES, None, |clock, port| {
                exchange(clock.clone(), port, (options, DriveModel::assumed(), None), change, work)
            })
        }
        DriveSource::Simulated { profile, capacity, programs } => {
            simulated((profile, *capacity, *programs), Holds::Tables, |clock, port, device, powered| {
                let model = DriveModel::of(&device.drive.profile);
                let sites: Vec<Site> = powered.sites().into_iter().cloned().collect();
                let busy: CoresBusy = Rc::new(move || Delay(sites.iter().map(|site| site.busy().0).sum()));
                exchange(clock.clone(), port, (options, model, Some(busy)), Change::None, work)
            })
        }
    }
}

/// Attaches, does the work, and shuts the drive down. An answer that changed nothing stands, whether or not the drive shuts down after it.
async fn exchange<T, W: Future<Output = Result<T, AttachedError>>>(
    clock: Clock,
    port: Port,
    (options, model, busy): (SessionOptions, DriveModel, Option<CoresBusy>),
    change: Change,
    work: impl FnOnce(Session) -> W,
) -> Result<T, AttachedError> {
    let timeout = Some(Delay::from_s(60));
    let cpu = Rc::new(Station::new(&clock, 1));
    let config = DriverConfig {
        queues_wanted: 1,
        timeout,
        arbitration: Arbitration::RoundRobin,
        cpu: Some(cpu.clone()),
        ..DriverConfig::default()
    };
    let driver = Driver::attach(port.clone(), config).await.map_err(AttachedError::NotDriven)?;
    let nsid = namespace(&driver.namespaces_of(csi::TABLES).await?, options.nsid)?;
    let most = driver.transfer_bytes_max().and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(u32::MAX);
    let config = TablesConfig::new(Rules::only(options.method), PAYLOAD_BYTES.min(most));
    let queue = driver.create_queue_pair(QueueConfig::new(64)).await?;
    driver.enable_methods(&queue, config.methods()).await?;
    let client = TablesClient::new(queue, nsid, &config);
    let session = Session::new(&clock, client, cpu, options.hertz, port, Rc::new(model))?;
    let mut session = Session { busy, ..session };
    if options.programs {
        let namespaces = driver.namespaces_of(csi::COMPUTATIONAL_PROGRAMS).await?;
        session.programs = namespaces.first().map(|nsid| {
            let queue = session.client.queue().clone();
            let rules = Rules::only(Method::Prp);
            let client = ProgramsClient::new(&driver, queue, *nsid, rules, config.bytes_max);
            (*nsid, client)
        });
    }
    let done = work(session).await;
    let ended = driver.shutdown().await;
    let done = done?;
    match (ended, change) {
        (Err(error), Change::Tables) => Err(AttachedError::NotShutDown(error)),
        _ => Ok(done),
    }
}

/// The namespace with this identifier, or the first that holds tables.
fn namespace(there: &[u32], nsid: Option<u32>) -> Result<u32, InputError> {
    if let Some(found) = there.iter().find(|own| nsid.is_none_or(|nsid| **own == nsid)) {
        return Ok(*found);
    }
    let what = match nsid {
        Some(nsid) => format!("the drive has no namespace {nsid} of tables"),
        None => "the drive has no namespace of tables".to_owned(),
    };
    let list: Vec<String> = there.iter().map(u32::to_string).collect();
    let cure = match list.is_empty() {
        true => "serve one with `personality = \"tables\"`".to_owned(),
        false => format!("choose one of {}", list.join(", ")),
    };
    Err(InputError::new(what, cure))
}

impl Session {
    /// Of a client whose queue pair is enabled for its methods. `cpu` is this host's processor, of `hertz` cycles a second; `model` is of
    /// the drive.
    ///
    /// # Errors
    /// The host has no memory for a buffer.
    pub(crate) fn new(
        clock: &Clock,
        client: TablesClient,
        cpu: Rc<Station>,
        hertz: u64,
        port: Port,
        model: Rc<DriveModel>,
    ) -> Result<Session, AttachedError> {
        let clock = clock.clone();
        let buffers = Rc::new(RefCell::new(vec![client.buffer()?]));
        Ok(Session { clock, client, buffers, cpu, hertz, model, busy: None, programs: None, port })
    }

    /// Has the drive hold a task against its table: what is wrong with it, if anything is, and where the time went.
    pub(crate) async fn check(
        &self,
        form: Form,
        payload: &[u8],
    ) -> Result<(Option<Problem>, SpanRecord), AttachedError> {
        let mut buffer = self.take_buffer()?;
        let checked = self.client.check(&mut buffer, form.code(), payload).await;
        self.give_back(buffer);
        Ok(checked?)
    }

    /// All tables.
    ///
    /// # Errors
    /// The drive does not say, or says what no table is.
    pub async fn tables(&self) -> Result<Vec<TableInfo>, AttachedError> {
        let mut buffer = self.take_buffer()?;
        let records = self.client.list(&mut buffer).await;
        self.give_back(buffer);
        let records = records?;
        let info = |record: TableRecord| match Schema::from_bytes(&record.schema) {
            Ok(schema) => Ok(TableInfo { record, schema }),
            Err(error) => {
                let what = format!("the drive's table {:?} has a schema that is none: {error}", record.name);
                Err(InputError::new(what, "drop it, and load it again").into())
            }
        };
        records.into_iter().map(info).collect()
    }

    /// The table of that name.
    ///
    /// # Errors
    /// There is none.
    pub async fn table(&self, name: &str) -> Result<TableInfo, AttachedError> {
        let all = self.tables().await?;
        let names: Vec<&str> = all.iter().map(|table| table.record.name.as_str()).collect();
        let cure = match names.is_empty() {
            true => "load one first: `byteway csd load NAME FILE.parquet`".to_owned(),
            false => format!("the drive has {}", names.join(", ")),
        };
        let found = all.iter().find(|table| table.record.name == name).cloned();
        Ok(found.ok_or_else(|| InputError::new(format!("the drive has no table {name:?}"), cure))?)
    }

    /// Ends a table.
    ///
    /// # Errors
    /// There is no such table, or the drive refuses.
    pub async fn drop_table(&self, name: &str) -> Result<(), AttachedError> {
        let table = self.table(name).await?;
        Ok(self.client.drop_table(table.record.table).await?)
    }

    /// A buffer for commands.
    pub(crate) fn take_buffer(&self) -> Result<IoBuffer, AttachedError> {
        let free = self.buffers.borrow_mut().pop();
        free.map_or_else(|| Ok(self.client.buffer()?), Ok)
    }

    /// A buffer is used no more.
    pub(crate) fn give_back(&self, buffer: IoBuffer) {
        self.buffers.borrow_mut().push(buffer);
    }

    /// Bytes that have crossed the link to the drive and from it, if it is simulated.
    pub(crate) fn crossed(&self) -> Option<(u64, u64)> {
        let Port::Link(host) = &self.port else { return None };
        let wire = |direction| host.ledger().total(direction).wire;
        Some((wire(Direction::Down), wire(Direction::Up)))
    }
}
