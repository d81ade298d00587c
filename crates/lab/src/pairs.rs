//! Requests to a key-value drive from the command line: to one whose data is in a directory, or to one that another process
//! serves. One request is here, jobs are in [`mod@bench`].

pub mod bench;

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use byteway_clock::{Clock, Delay, Executor};
use byteway_device::Drive;
use byteway_flash::file::{Directory, Files, Overlay};
use byteway_host::driver::{Driver, DriverConfig, QueueConfig};
use byteway_host::{IoBuffer, IoError};
use byteway_host::{KvClient, KvConfig, KvNamespace, Method, Port, Rules, StoreIf};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::kv::Key;

use crate::bench::attached;
use crate::build;
use crate::error::{AttachedError, DataError};
use byteway_console::error::InputError;
use byteway_console::units::Bytes;
use byteway_scenario::{Device, Options, Store};

/// Where the drive is.
#[derive(Clone, Debug)]
pub enum Place {
    /// Its data is in a directory, in which no process serves it now.
    Directory {
        /// The device file.
        device: PathBuf,
        /// The directory; of a drive that is not there yet it is made.
        data: PathBuf,
    },
    /// Another process serves it: the folder of its socket.
    Served(PathBuf),
}

/// What is asked of it.
#[derive(Clone, Debug)]
pub enum Request {
    /// Store a value, under a condition.
    Put {
        /// The key.
        key: Key,
        /// The value.
        value: Vec<u8>,
        /// When it is stored.
        when: StoreIf,
    },
    /// Retrieve a value.
    Get(Key),
    /// Delete a pair.
    Delete(Key),
    /// Ask whether there is a pair.
    Exist(Key),
    /// List keys in order.
    List {
        /// From which on; left out, from the first.
        from: Option<Key>,
        /// So many at most.
        count: u64,
    },
}

/// What the drive answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done, or there is such a key.
    Done,
    /// The value.
    Value(Vec<u8>),
    /// There is no such key.
    Missing,
    /// There is such a key, and it was to be stored only where there is none.
    Exists,
    /// Keys, in order.
    Keys(Vec<Key>),
}

/// A key as the command line has it: text, or hexadecimal digits behind `0x`.
///
/// # Errors
/// It has no byte, or more than 16, or what is behind `0x` are no pairs of hexadecimal digits.
pub fn key(text: &str) -> Result<Key, String> {
    let bytes = match text.strip_prefix("0x") {
        None => text.as_bytes().to_vec(),
        Some(digits) => {
            let digit = |c: u8| (c as char).to_digit(16).map(|digit| digit as u8);
            let pairs = digits.as_bytes().chunks(2);
            let bytes: Option<Vec<u8>> =
                pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect();
            bytes.ok_or_else(|| "behind 0x stand pairs of hexadecimal digits, such as 0x0a1b".to_owned())?
        }
    };
    Key::new(&bytes).ok_or_else(|| format!("a key has 1 to 16 bytes, and this has {}", bytes.len()))
}

/// A key as it is printed: as text where it is some, else as hexadecimal digits behind `0x`.
pub fn shown(key: Key) -> String {
    let bytes = key.as_bytes();
    let is_text = bytes.iter().all(u8::is_ascii_graphic) && !bytes.starts_with(b"0x");
    match is_text {
        true => bytes.iter().map(|byte| char::from(*byte)).collect(),
        false => bytes.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}")),
    }
}

/// Host memory of a served drive's queues and buffers.
const MEMORY_BYTES: u64 = 256 << 20;

/// The longest list that is asked for at once.
const LIST_BYTES: u32 = 64 << 10;

/// Asks the namespace `nsid` of the drive at `place`; left out, the first that holds pairs.
///
/// # Errors
/// There is no such drive or namespace, or it can't do what is asked.
pub fn ask(place: &Place, nsid: Option<u32>, request: Request) -> Result<Answer, AttachedError> {
    match place {
        Place::Directory { device, data } => {
            in_directory(device, data, request.access(), |_, port| exchange(port, nsid, request))
        }
        Place::Served(folder) => {
            attached(folder, MEMORY_BYTES, None, |_, port| exchange(port, nsid, request))
        }
    }
}

/// What becomes of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Nothing: what the drive writes at its start and end is dropped. So a full disk, or one that is read-only, can be
    /// read.
    Read,
    /// Something is deleted.
    Change,
    /// This many bytes are added.
    Grow(u64),
}

/// Free space that a store leaves: with it a drive can start, delete, and end.
const RESERVE_BYTES: u64 = 1 << 20;

impl Request {
    fn access(&self) -> Access {
        match self {
            Request::Get(_) | Request::Exist(_) | Request::List { .. } => Access::Read,
            Request::Delete(_) => Access::Change,
            Request::Put { value, .. } => Access::Grow(value.len() as u64),
        }
    }
}

impl Access {
    /// The files of the directory.
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

/// Does `work`, unless the drive's files fail meanwhile.
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

/// Powers on the drive whose data is there, does `work` in virtual time, and shuts it down.
fn in_directory<T: 'static, W: Future<Output = Result<T, AttachedError>> + 'static>(
    device: &Path,
    data: &Path,
    access: Access,
    work: impl FnOnce(&Clock, Port) -> W,
) -> Result<T, AttachedError> {
    let device = Device::load(device, &Options { in_files: true, ..Options::default() })?;
    if device.drive.pairs_nsids().is_empty() || device.drive.store != Store::File {
        let what = "the device file describes no drive with pairs that is kept in files";
        let cure =
            "write `personality = \"kv\"` in [drive], or `kv_capacity`, and `store = \"file\"` or no `store`";
        return Err(InputError::new(what, cure).into());
    }
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
                // Without a checkpoint, at the end of the flash's life, the drive is found by recovery.
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

/// The namespace with this identifier, or the first that holds pairs.
fn namespace(driver: &Driver, nsid: Option<u32>) -> Result<KvNamespace, InputError> {
    let namespaces = driver.kv_namespaces();
    let is_wanted = |namespace: &&KvNamespace| nsid.is_none_or(|nsid| namespace.nsid == nsid);
    if let Some(namespace) = namespaces.iter().find(is_wanted) {
        return Ok(*namespace);
    }
    let what = match nsid {
        Some(nsid) => format!("the drive has no key-value namespace {nsid}"),
        None => "the drive has no key-value namespace".to_owned(),
    };
    let list: Vec<String> = namespaces.iter().map(|namespace| namespace.nsid.to_string()).collect();
    let cure = match list.is_empty() {
        true => "serve one with `personality = \"kv\"`, or with `kv_capacity`".to_owned(),
        false => format!("choose one of {}", list.join(", ")),
    };
    Err(InputError::new(what, cure))
}

/// Attaches, asks, and shuts down, after which what was stored is durable.
async fn exchange(port: Port, nsid: Option<u32>, request: Request) -> Result<Answer, AttachedError> {
    let timeout = Some(Delay::from_s(30));
    let config = DriverConfig { queues_wanted: 1, timeout, ..DriverConfig::default() };
    let driver = Driver::attach(port, config).await.map_err(AttachedError::NotDriven)?;
    let namespace = namespace(&driver, nsid)?;
    let transfer_bytes_max = driver.transfer_bytes_max().and_then(|bytes| u32::try_from(bytes).ok());
    let transfer_bytes_max = transfer_bytes_max.unwrap_or(u32::MAX);
    let bytes_max = namespace.value_bytes_max.max(LIST_BYTES).min(transfer_bytes_max);
    let queue = driver.create_queue_pair(QueueConfig::new(32)).await?;
    let client = KvClient::new(queue, namespace.nsid, KvConfig::new(Rules::only(Method::Prp), bytes_max));
    let mut buffer = client.buffer()?;
    let answer = asked(&client, &mut buffer, bytes_max, request).await;
    let flushed = client.flush().await;
    let ended = driver.shutdown().await;
    let answer = answer?;
    flushed.map_err(|error| AttachedError::NotDurable(error.into()))?;
    ended.map_err(AttachedError::NotShutDown)?;
    Ok(answer)
}

async fn asked(
    client: &KvClient,
    buffer: &mut IoBuffer,
    bytes_max: u32,
    request: Request,
) -> Result<Answer, AttachedError> {
    let found = |found: bool| if found { Answer::Done } else { Answer::Missing };
    Ok(match request {
        Request::Put { key, value, when } => {
            let bytes = u32::try_from(value.len()).unwrap_or(u32::MAX);
            if bytes > bytes_max {
                let what =
                    format!("the value has {} bytes, and the drive takes at most {bytes_max}", value.len());
                return Err(InputError::new(what, "store less").into());
            }
            client.put(buffer, &value)?;
            match client.store(buffer, key, bytes, when).await {
                Ok(_) => Answer::Done,
                Err(IoError::Status(status)) if status.is(Status::KEY_EXISTS) => Answer::Exists,
                Err(IoError::Status(status)) if status.is(Status::KEY_DOES_NOT_EXIST) => Answer::Missing,
                Err(error) => return Err(error.into()),
            }
        }
        Request::Get(key) => {
            let mut value = Vec::new();
            loop {
                let offset = value.len() as u32;
                let answer = client.retrieve(buffer, key, offset, bytes_max).await?;
                if !answer.found {
                    break Answer::Missing;
                }
                let part = answer.value_bytes.saturating_sub(offset).min(bytes_max) as usize;
                value.resize(offset as usize + part, 0);
                client.get(buffer, &mut value[offset as usize..])?;
                if value.len() as u64 >= u64::from(answer.value_bytes) || part == 0 {
                    break Answer::Value(value);
                }
            }
        }
        Request::Delete(key) => found(client.delete(key).await?.found),
        Request::Exist(key) => found(client.exist(key).await?.found),
        Request::List { from, count } => {
            Answer::Keys(list(client, buffer, bytes_max.min(LIST_BYTES), from, count).await?)
        }
    })
}

/// Keys from `from` on, at most `count`: each list begins with the last key of the one before.
async fn list(
    client: &KvClient,
    buffer: &mut IoBuffer,
    bytes: u32,
    from: Option<Key>,
    count: u64,
) -> Result<Vec<Key>, AttachedError> {
    let mut keys: Vec<Key> = Vec::new();
    let mut part = Vec::new();
    let mut first = from;
    loop {
        part.clear();
        let is_whole = client.list(buffer, first, bytes, &mut part).await?;
        let before = keys.len();
        let last = keys.last().copied();
        keys.extend(part.iter().filter(|key| last.is_none_or(|last| **key > last)));
        if is_whole || keys.len() as u64 >= count || keys.len() == before {
            keys.truncate(usize::try_from(count).unwrap_or(usize::MAX));
            return Ok(keys);
        }
        first = keys.last().copied();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A key that is printed must be one that can be typed again.
    #[test]
    fn keys_are_read_as_they_are_shown() {
        for text in ["a", "user-17", "0x00ff", "0x3078", "0123456789abcdef"] {
            assert_eq!(shown(key(text).unwrap()), text);
        }
        assert_eq!(shown(Key::new(b"a b").unwrap()), "0x612062");
        for wrong in ["", "0x", "0x0", "0xzz", "0123456789abcdefg"] {
            assert!(key(wrong).is_err(), "{wrong}");
        }
    }
}
