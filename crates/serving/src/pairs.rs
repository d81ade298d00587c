//! Requests to a key-value drive: in a directory, served, or simulated. Jobs are in [`mod@bench`].

pub mod bench;

use byteway_clock::Delay;
use byteway_host::{Driver, DriverConfig, QueueConfig};
use byteway_host::{IoBuffer, IoError};
use byteway_host::{KvClient, KvConfig, KvNamespace, Method, Port, Rules, StoreIf};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::kv::Key;

use crate::attach::attached;
use crate::error::AttachedError;
use crate::location::{Access, DriveLocation, DriveSource, Holds, in_directory, simulated};
use byteway_text::error::InputError;

/// A request.
#[derive(Clone, Debug)]
pub enum Request {
    /// Store a value, with a condition.
    Put {
        /// Key.
        key: Key,
        /// Value.
        value: Vec<u8>,
        /// Condition.
        when: StoreIf,
    },
    /// Retrieve a value.
    Get(Key),
    /// Delete a key-value pair.
    Delete(Key),
    /// Check whether a key exists.
    Exist(Key),
    /// List keys in order.
    List {
        /// First key; `None`: the first of all.
        from: Option<Key>,
        /// Maximum number of keys.
        count: u64,
    },
}

/// The drive's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Success, or the key exists.
    Done,
    /// The value.
    Value(Vec<u8>),
    /// The key does not exist.
    Missing,
    /// The key exists, although it had to be absent.
    Exists,
    /// Keys, in order.
    Keys(Vec<Key>),
}

/// Parses a key: text, or hexadecimal digits after `0x`.
///
/// # Errors
/// Empty, longer than 16 bytes, or not an even number of hexadecimal digits after `0x`.
pub fn key(text: &str) -> Result<Key, String> {
    let bytes = match text.strip_prefix("0x") {
        None => text.as_bytes().to_vec(),
        Some(digits) => {
            let digit = |c: u8| (c as char).to_digit(16).map(|digit| digit as u8);
            let pairs = digits.as_bytes().chunks(2);
            let bytes: Option<Vec<u8>> =
                pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect();
            bytes.ok_or_else(|| {
                "an even number of hexadecimal digits must follow 0x, such as 0x0a1b".to_owned()
            })?
        }
    };
    Key::new(&bytes).ok_or_else(|| format!("a key must have 1 to 16 bytes; this one has {}", bytes.len()))
}

/// Formats a key: as text if it is printable, else as hexadecimal digits after `0x`.
pub fn shown(key: Key) -> String {
    let bytes = key.as_bytes();
    let is_text = bytes.iter().all(u8::is_ascii_graphic) && !bytes.starts_with(b"0x");
    match is_text {
        true => bytes.iter().map(|byte| char::from(*byte)).collect(),
        false => bytes.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}")),
    }
}

/// Host memory for queues and buffers of a served drive.
const MEMORY_BYTES: u64 = 256 << 20;

/// Buffer of a List command in bytes.
const LIST_BYTES: u32 = 64 << 10;

/// Options of a session.
#[derive(Clone, Copy, Debug)]
pub struct PairsOptions {
    /// Namespace; `None`: the first KV namespace.
    pub nsid: Option<u32>,
    /// Transfer method of values.
    pub method: Method,
    /// Whether nothing is changed: a data directory can then be on a full or read-only disk.
    pub is_read_only: bool,
}

/// A client that is attached to a key-value drive.
pub struct PairsSession {
    client: KvClient,
    buffer: IoBuffer,
    bytes_max: u32,
    is_read_only: bool,
}

/// Executes a request on the namespace `nsid` of the drive at `place`. Default: the first KV namespace.
///
/// # Errors
/// No such drive or namespace, or the request fails.
pub fn ask(place: &DriveLocation, nsid: Option<u32>, request: Request) -> Result<Answer, AttachedError> {
    let access = request.access();
    let source = DriveSource::At(place.clone());
    let work = async move |mut session: PairsSession| session.ask(request).await;
    opened(&source, (nsid, Method::Prp), access, work)
}

/// Attaches to the drive, runs `work`, and shuts down, which makes stored pairs durable.
///
/// # Errors
/// No such drive or namespace, the error of the work, or the drive cannot be shut down.
pub fn with_drive<T: 'static, W: Future<Output = Result<T, AttachedError>> + 'static>(
    source: &DriveSource,
    options: PairsOptions,
    work: impl FnOnce(PairsSession) -> W + 'static,
) -> Result<T, AttachedError> {
    let access = if options.is_read_only { Access::Read } else { Access::Change };
    let is_read_only = options.is_read_only;
    let work = move |session: PairsSession| work(PairsSession { is_read_only, ..session });
    opened(source, (options.nsid, options.method), access, work)
}

fn opened<T: 'static, W: Future<Output = Result<T, AttachedError>> + 'static>(
    source: &DriveSource,
    how: (Option<u32>, Method),
    access: Access,
    work: impl FnOnce(PairsSession) -> W + 'static,
) -> Result<T, AttachedError> {
    match source {
        DriveSource::At(DriveLocation::Directory { device, data }) => {
            in_directory(device, data, (Holds::Pairs, access), |_, port| exchange(port, how, work))
        }
        DriveSource::At(DriveLocation::Served(folder)) => {
            attached(folder, MEMORY_BYTES, None, |_, port| exchange(port, how, work))
        }
        DriveSource::Simulated { profile, capacity, programs } => {
            simulated((profile, *capacity, *programs), (Holds::Pairs, how.1), |_, port, _, _| {
                exchange(port, how, work)
            })
        }
    }
}

impl Request {
    fn access(&self) -> Access {
        match self {
            Request::Get(_) | Request::Exist(_) | Request::List { .. } => Access::Read,
            Request::Delete(_) => Access::Change,
            Request::Put { value, .. } => Access::Grow(value.len() as u64),
        }
    }
}

/// The namespace with this identifier, or the first KV namespace.
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
    let help = match list.is_empty() {
        true => "serve one with `personality = \"kv\"`, or with `kv_capacity`".to_owned(),
        false => format!("choose one of {}", list.join(", ")),
    };
    Err(InputError::new(what, help))
}

/// Attaches, runs the work, flushes and shuts down.
async fn exchange<T, W: Future<Output = Result<T, AttachedError>>>(
    port: Port,
    (nsid, method): (Option<u32>, Method),
    work: impl FnOnce(PairsSession) -> W,
) -> Result<T, AttachedError> {
    let timeout = Some(Delay::from_s(30));
    let config = DriverConfig { queues_wanted: 1, timeout, ..DriverConfig::default() };
    let driver = Driver::attach(port, config).await.map_err(AttachedError::NotDriven)?;
    let namespace = namespace(&driver, nsid)?;
    let transfer_bytes_max = driver.transfer_bytes_max().and_then(|bytes| u32::try_from(bytes).ok());
    let transfer_bytes_max = transfer_bytes_max.unwrap_or(u32::MAX);
    let bytes_max = namespace.value_bytes_max.max(LIST_BYTES).min(transfer_bytes_max);
    let queue = driver.create_queue_pair(QueueConfig::new(32)).await?;
    let config = KvConfig::new(Rules::only(method), bytes_max);
    driver.enable_methods(&queue, config.methods()).await?;
    let client = KvClient::new(queue, namespace.nsid, config);
    let buffer = client.buffer()?;
    let flusher = client.clone();
    let done = work(PairsSession { client, buffer, bytes_max, is_read_only: false }).await;
    let flushed = flusher.flush().await;
    let ended = driver.shutdown().await;
    let done = done?;
    flushed.map_err(|error| AttachedError::NotDurable(error.into()))?;
    ended.map_err(AttachedError::NotShutDown)?;
    Ok(done)
}

impl PairsSession {
    /// Executes a request.
    ///
    /// # Errors
    /// The value is too long for the drive, or the drive refuses.
    pub async fn ask(&mut self, request: Request) -> Result<Answer, AttachedError> {
        if self.is_read_only && request.access() != Access::Read {
            let what = "the drive was opened for reading only";
            return Err(InputError::new(what, "open it without read_only to store and delete").into());
        }
        asked(&self.client, &mut self.buffer, self.bytes_max, request).await
    }

    /// Makes everything stored so far durable.
    ///
    /// # Errors
    /// The drive could not write it.
    pub async fn flush(&self) -> Result<(), AttachedError> {
        self.client.flush().await.map(drop).map_err(|error| AttachedError::NotDurable(error.into()))
    }
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
                    format!("the value has {} bytes; the drive supports at most {bytes_max}", value.len());
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

/// Lists up to `count` keys from `from` on. Each List command starts with the last key of the previous one.
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

    // A printed key must be usable as input.
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
