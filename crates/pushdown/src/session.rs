//! A session with a drive with tables: its driver is attached, and has clients for its tables and programs.

use crate::drive_model::DriveModel;
use crate::error::SessionError;
use byteway_clock::{Clock, Delay, SpanRecord, Station};
use byteway_host::{Driver, QueueConfig};
use byteway_host::{IoBuffer, Method, Port, ProgramsClient, Rules, TablesClient, TablesConfig};
use byteway_link::Direction;
use byteway_query::{Form, Schema};
use byteway_text::error::InputError;
use byteway_wire::nvme::programs;
use byteway_wire::nvme::vendor::csd::{self, Problem, TableRecord};
use std::cell::RefCell;
use std::rc::Rc;

/// Options of a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionOptions {
    /// Namespace; `None` selects the first one with tables.
    pub nsid: Option<u32>,
    /// Transfer method of tasks.
    pub method: Method,
    /// Modelled frequency of the host's processor, in Hz.
    pub hertz: u64,
    /// Whether to open a client for the drive's programs.
    pub programs: bool,
}

/// Maximum payload of a command in bytes, unless the drive's limit is lower.
const PAYLOAD_BYTES: u32 = 1 << 20;

/// Returns the total busy time of a simulated drive's cores.
pub type CoresBusy = Rc<dyn Fn() -> Delay>;

/// A connection to a drive with tables: an attached driver and its clients.
pub struct Session {
    pub(crate) clock: Clock,
    pub(crate) client: TablesClient,
    /// Buffers not in use.
    pub(crate) buffers: Rc<RefCell<Vec<IoBuffer>>>,
    /// The host's processor, and its frequency in Hz.
    pub(crate) cpu: Rc<Station>,
    pub(crate) hertz: u64,
    /// Client of the drive's programs, and their namespace.
    pub(crate) programs: Option<(u32, ProgramsClient)>,
    /// Performance model of the drive, for planning.
    pub(crate) model: Rc<DriveModel>,
    /// Total busy time of the drive's cores, if it is simulated.
    pub(crate) busy: Option<CoresBusy>,
    port: Port,
}

/// A table of a drive.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// Record of the table from Table List.
    pub record: TableRecord,
    /// Decoded schema.
    pub schema: Schema,
}

/// Namespace `nsid`, or the first one with tables.
fn namespace(there: &[u32], nsid: Option<u32>) -> Result<u32, InputError> {
    if let Some(found) = there.iter().find(|own| nsid.is_none_or(|nsid| **own == nsid)) {
        return Ok(*found);
    }
    let what = match nsid {
        Some(nsid) => format!("the drive has no tables namespace {nsid}"),
        None => "the drive has no tables namespace".to_owned(),
    };
    let list: Vec<String> = there.iter().map(u32::to_string).collect();
    let help = match list.is_empty() {
        true => "serve one with `personality = \"tables\"`".to_owned(),
        false => format!("choose one of {}", list.join(", ")),
    };
    Err(InputError::new(what, help))
}

impl Session {
    /// Opens a session on a queue pair of its own, whose processor is the driver's. `busy` is given for a simulated drive.
    ///
    /// # Errors
    /// [`SessionError`] if there is no such namespace, or the drive refuses a queue pair or the transfer method.
    pub async fn open(
        driver: &Driver,
        options: SessionOptions,
        model: DriveModel,
        busy: Option<CoresBusy>,
    ) -> Result<Session, SessionError> {
        let nsid = namespace(&driver.namespaces_of(csd::CSI).await?, options.nsid)?;
        let most =
            driver.transfer_bytes_max().and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(u32::MAX);
        let config = TablesConfig::new(Rules::only(options.method), PAYLOAD_BYTES.min(most));
        let queue = driver.create_queue_pair(QueueConfig::new(64)).await?;
        driver.enable_methods(&queue, config.methods()).await?;
        let (cpu, port) = (queue.cpu().clone(), driver.port().clone());
        let client = TablesClient::new(queue, nsid, &config);
        let session = Session::new(driver.clock(), client, cpu, options.hertz, port, Rc::new(model))?;
        let mut session = Session { busy, ..session };
        if options.programs {
            let namespaces = driver.namespaces_of(programs::CSI).await?;
            session.programs = namespaces.first().map(|nsid| {
                let queue = session.client.queue().clone();
                let rules = Rules::only(Method::Prp);
                let client = ProgramsClient::new(driver, queue, *nsid, rules, config.bytes_max);
                (*nsid, client)
            });
        }
        Ok(session)
    }

    /// A session over a client whose queue pair is enabled for its methods.
    ///
    /// # Errors
    /// [`SessionError`] if there is no host memory for a buffer.
    pub fn new(
        clock: &Clock,
        client: TablesClient,
        cpu: Rc<Station>,
        hertz: u64,
        port: Port,
        model: Rc<DriveModel>,
    ) -> Result<Session, SessionError> {
        let clock = clock.clone();
        let buffers = Rc::new(RefCell::new(vec![client.buffer()?]));
        Ok(Session { clock, client, buffers, cpu, hertz, model, busy: None, programs: None, port })
    }

    /// Makes the drive check a task. Returns the problem, if any, and the span of the I/O.
    ///
    /// # Errors
    /// [`SessionError`] if the command failed.
    pub async fn check(
        &self,
        form: Form,
        payload: &[u8],
    ) -> Result<(Option<Problem>, SpanRecord), SessionError> {
        let mut buffer = self.take_buffer()?;
        let checked = self.client.check(&mut buffer, form.code(), payload).await;
        self.give_back(buffer);
        Ok(checked?)
    }

    /// Lists all tables.
    ///
    /// # Errors
    /// [`SessionError`] if the command failed, or a record or schema is malformed.
    pub async fn tables(&self) -> Result<Vec<TableInfo>, SessionError> {
        let mut buffer = self.take_buffer()?;
        let records = self.client.list(&mut buffer).await;
        self.give_back(buffer);
        let records = records?;
        let info = |record: TableRecord| match Schema::from_bytes(&record.schema) {
            Ok(schema) => Ok(TableInfo { record, schema }),
            Err(error) => {
                let what = format!("the drive's table {:?} has an invalid schema: {error}", record.name);
                Err(InputError::new(what, "drop it, and load it again").into())
            }
        };
        records.into_iter().map(info).collect()
    }

    /// Finds a table by name.
    ///
    /// # Errors
    /// [`SessionError`] if there is none.
    pub async fn table(&self, name: &str) -> Result<TableInfo, SessionError> {
        let all = self.tables().await?;
        let names: Vec<&str> = all.iter().map(|table| table.record.name.as_str()).collect();
        let help = match names.is_empty() {
            true => "load one first: `byteway csd load NAME FILE.parquet`".to_owned(),
            false => format!("the drive has {}", names.join(", ")),
        };
        let found = all.iter().find(|table| table.record.name == name).cloned();
        Ok(found.ok_or_else(|| InputError::new(format!("the drive has no table {name:?}"), help))?)
    }

    /// Drops a table.
    ///
    /// # Errors
    /// [`SessionError`] if there is no such table, or the command failed.
    pub async fn drop_table(&self, name: &str) -> Result<(), SessionError> {
        let table = self.table(name).await?;
        Ok(self.client.drop_table(table.record.table).await?)
    }

    /// Takes a free buffer, or allocates one.
    pub(crate) fn take_buffer(&self) -> Result<IoBuffer, SessionError> {
        let free = self.buffers.borrow_mut().pop();
        free.map_or_else(|| Ok(self.client.buffer()?), Ok)
    }

    /// Returns a buffer for reuse.
    pub(crate) fn give_back(&self, buffer: IoBuffer) {
        self.buffers.borrow_mut().push(buffer);
    }

    /// Bytes on the link so far, to and from the drive; `None` unless it is simulated.
    pub(crate) fn crossed(&self) -> Option<(u64, u64)> {
        let Port::Link(host) = &self.port else { return None };
        let wire = |direction| host.ledger().total(direction).wire;
        Some((wire(Direction::Down), wire(Direction::Up)))
    }
}
