//! Alternation between tree and simulation. The tree runs in a separate thread because its I/O blocks, but only one of the two runs at a
//! time: the simulation stands still from an order to the tree's next request to the drive, and the tree from the request to the reply.
//! Thread scheduling therefore cannot influence the result.

use super::UNIT_BYTES;
use super::files::{Files, Units};
use byteway_clock::{Clock, SpanRecord};
use byteway_host::Client;
use byteway_host::{AnyIoError, BlockIoError, IoBuffer, IoError};
use byteway_wire::nvme::Range;
use rusty_leveldb::{DB, LdbIterator, Options, WriteBatch};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Why an operation on the tree failed.
#[derive(Debug, thiserror::Error)]
pub enum LsmError {
    /// An error of the tree.
    #[error("the LSM tree on the host: {0}")]
    Tree(String),
    /// An error of the drive.
    #[error(transparent)]
    Io(AnyIoError),
}

impl<E> From<IoError<E>> for LsmError
where
    AnyIoError: From<IoError<E>>,
{
    fn from(error: IoError<E>) -> Self {
        LsmError::Io(error.into())
    }
}

/// Keys with their values.
pub type KeyValues = Vec<(Vec<u8>, Vec<u8>)>;

/// An order to the tree.
enum Order {
    Store(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Retrieve(Vec<u8>),
    Scan(Vec<u8>, u32),
}

/// A request of the tree.
enum Request {
    Read {
        first: u32,
        units: u32,
    },
    Write {
        first: u32,
        bytes: Vec<u8>,
    },
    Flush,
    Discard {
        first: u32,
        count: u32,
    },
    /// The result of the order; no further request follows.
    Answer(Result<KeyValues, String>),
}

/// Reply of the drive: the bytes read, if any.
type Reply = Result<Vec<u8>, String>;

/// An LSM tree on a drive's namespace. It executes one operation at a time.
pub struct Lsm {
    client: Client,
    clock: Clock,
    buffer: Cell<Option<IoBuffer>>,
    orders: Option<Sender<Order>>,
    requests: Receiver<Request>,
    replies: Option<Sender<Reply>>,
    thread: Option<JoinHandle<()>>,
}

impl Lsm {
    /// An empty tree on a whole namespace. With `sync`, stores and deletions are durable when they complete, by the drive's Flush.
    ///
    /// # Errors
    /// No memory for its buffer, or the drive fails.
    pub async fn new(client: Client, clock: Clock, sync: bool) -> Result<Lsm, LsmError> {
        let namespace = client.namespace();
        let units = namespace.blocks * u64::from(namespace.block_bytes) / UNIT_BYTES as u64;
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let (orders, to_do) = channel();
        let (asks, requests) = channel();
        let (replies, answers) = channel();
        let thread = std::thread::Builder::new().name("tree".into());
        #[expect(
            clippy::disallowed_methods,
            reason = "the tree blocks on I/O; it and the simulation alternate"
        )]
        let thread = thread.spawn(move || run(to_do, asks, answers, units, sync));
        let thread = thread.map_err(|error| LsmError::Tree(error.to_string()))?;
        let lsm = Lsm {
            buffer: Cell::new(Some(client.buffer()?)),
            client,
            clock,
            orders: Some(orders),
            requests,
            replies: Some(replies),
            thread: Some(thread),
        };
        lsm.answer(&mut Vec::new()).await?; // the tree is created
        Ok(lsm)
    }

    /// The client of its namespace.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Stores a key-value pair.
    ///
    /// # Errors
    /// The tree or the drive failed; whether the pair was stored is then unknown.
    pub async fn store(&self, key: &[u8], value: Vec<u8>) -> Result<SpanRecord, LsmError> {
        Ok(self.perform(Order::Store(key.to_vec(), value)).await?.0)
    }

    /// Deletes a key, if it exists.
    ///
    /// # Errors
    /// Same as [`Lsm::store`].
    pub async fn delete(&self, key: &[u8]) -> Result<SpanRecord, LsmError> {
        Ok(self.perform(Order::Delete(key.to_vec())).await?.0)
    }

    /// The value of a key, if it exists.
    ///
    /// # Errors
    /// The tree or the drive failed.
    pub async fn retrieve(&self, key: &[u8]) -> Result<(SpanRecord, Option<Vec<u8>>), LsmError> {
        let (record, mut found) = self.perform(Order::Retrieve(key.to_vec())).await?;
        Ok((record, found.pop().map(|(_, value)| value)))
    }

    /// Reads up to `count` key-value pairs from `first` on, in key order.
    ///
    /// # Errors
    /// The tree or the drive failed.
    pub async fn scan(&self, first: &[u8], count: u32) -> Result<(SpanRecord, KeyValues), LsmError> {
        self.perform(Order::Scan(first.to_vec(), count)).await
    }

    async fn perform(&self, order: Order) -> Result<(SpanRecord, KeyValues), LsmError> {
        let begin = self.clock.now();
        let sent = self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok());
        if !sent {
            return Err(LsmError::Tree("the tree has ended".into()));
        }
        let mut records = Vec::new();
        let found = self.answer(&mut records).await?;
        let none = SpanRecord { begin, last: begin, ..SpanRecord::default() };
        let together = records.iter().fold(none, |all, io| all.joined(*io));
        Ok((SpanRecord { last: self.clock.now(), ..together }, found))
    }

    /// Serves the tree's requests until it returns a result.
    async fn answer(&self, records: &mut Vec<SpanRecord>) -> Result<KeyValues, LsmError> {
        loop {
            let Ok(request) = self.requests.recv() else {
                return Err(LsmError::Tree("the tree panicked".into()));
            };
            let request = match request {
                Request::Answer(answer) => return answer.map_err(LsmError::Tree),
                request => request,
            };
            let done = self.serve(request, records).await;
            let reply = match &done {
                Ok(bytes) => Ok(bytes.clone()),
                Err(error) => Err(error.to_string()),
            };
            let taken = self.replies.as_ref().is_some_and(|replies| replies.send(reply).is_ok());
            match done {
                // The tree handles an error status; after any other error the drive is gone.
                Err(IoError::Status(_)) | Ok(_) if taken => {}
                Err(error) => return Err(error.into()),
                Ok(_) => return Err(LsmError::Tree("the tree panicked".into())),
            }
        }
    }

    async fn serve(&self, request: Request, records: &mut Vec<SpanRecord>) -> Result<Vec<u8>, BlockIoError> {
        let client = &self.client;
        let blocks_a_unit = UNIT_BYTES as u32 / client.namespace().block_bytes;
        let lba = |unit: u32| u64::from(unit) * u64::from(blocks_a_unit);
        let mut buffer = match self.buffer.take() {
            Some(buffer) => buffer,
            None => client.buffer()?,
        };
        let mut read = Vec::new();
        let done = match request {
            Request::Read { first, units } => {
                let done = client.read(&mut buffer, lba(first), units * blocks_a_unit).await;
                read.resize(units as usize * UNIT_BYTES, 0);
                match done {
                    Ok(record) => client.get(&buffer, &mut read).map(|()| record).map_err(IoError::of_client),
                    Err(error) => Err(error),
                }
            }
            Request::Write { first, bytes } => match client.put(&mut buffer, &bytes) {
                Ok(()) => {
                    let units = (bytes.len() / UNIT_BYTES) as u32;
                    client.write(&mut buffer, lba(first), units * blocks_a_unit).await
                }
                Err(error) => Err(error.into()),
            },
            Request::Flush => client.flush().await,
            Request::Discard { first, count } => {
                client.trim(&mut buffer, &[Range::new(lba(first), count * blocks_a_unit)]).await
            }
            Request::Answer(_) => unreachable!("an answer is not a request to the drive"),
        };
        self.buffer.set(Some(buffer));
        records.push(done?);
        Ok(read)
    }
}

impl Drop for Lsm {
    fn drop(&mut self) {
        // The reply for which the tree waits will never come.
        self.orders.take();
        self.replies.take();
        while self.requests.try_recv().is_ok() {}
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The tree's view of the drive. The first error is remembered, because the tree does not report all reads that failed.
struct Drive {
    asks: Sender<Request>,
    answers: Receiver<Reply>,
    failure: RefCell<Option<String>>,
}

impl Drive {
    fn ask(&self, request: Request) -> io::Result<Vec<u8>> {
        let is_asked = self.asks.send(request).is_ok();
        let reply = match self.answers.recv() {
            Ok(reply) if is_asked => reply,
            _ => Err("the simulation has ended".into()),
        };
        reply.map_err(|what| {
            self.failure.borrow_mut().get_or_insert_with(|| what.clone());
            io::Error::other(what)
        })
    }
}

impl Units for Drive {
    fn read(&self, first: u32, into: &mut [u8]) -> io::Result<()> {
        let read = self.ask(Request::Read { first, units: (into.len() / UNIT_BYTES) as u32 })?;
        into.copy_from_slice(&read);
        Ok(())
    }

    fn write(&self, first: u32, bytes: &[u8]) -> io::Result<()> {
        self.ask(Request::Write { first, bytes: bytes.to_vec() }).map(drop)
    }

    fn flush(&self) -> io::Result<()> {
        self.ask(Request::Flush).map(drop)
    }

    fn discard(&self, first: u32, count: u32) -> io::Result<()> {
        self.ask(Request::Discard { first, count }).map(drop)
    }
}

/// Main function of the tree's thread.
fn run(to_do: Receiver<Order>, asks: Sender<Request>, answers: Receiver<Reply>, units: u32, sync: bool) {
    let drive = Rc::new(Drive { asks, answers, failure: RefCell::default() });
    let files = Files::new(drive.clone(), units);
    let options = Options { env: Rc::new(Box::new(files)), ..Options::default() };
    let mut tree = match DB::open("tree", options) {
        Ok(tree) => tree,
        Err(status) => return drop(drive.asks.send(Request::Answer(Err(status.to_string())))),
    };
    let _ = drive.asks.send(Request::Answer(Ok(Vec::new())));
    while let Ok(order) = to_do.recv() {
        let done = perform(&mut tree, order, sync);
        let done = match drive.failure.borrow_mut().take() {
            Some(failure) => Err(failure),
            None => done.map_err(|status| status.to_string()),
        };
        if drive.asks.send(Request::Answer(done)).is_err() {
            break;
        }
    }
}

fn perform(tree: &mut DB, order: Order, sync: bool) -> Result<KeyValues, rusty_leveldb::Status> {
    let mut batch = WriteBatch::default();
    match order {
        Order::Store(key, value) => batch.put(&key, &value),
        Order::Delete(key) => batch.delete(&key),
        Order::Retrieve(key) => {
            let value = tree.get(&key);
            return Ok(value.map(|value| (key, value.to_vec())).into_iter().collect());
        }
        Order::Scan(first, count) => {
            let mut found = Vec::new();
            let mut cursor = tree.new_iter()?;
            cursor.seek(&first);
            while found.len() < count as usize
                && let Some((key, value)) = cursor.current()
            {
                found.push((key.to_vec(), value.to_vec()));
                if found.len() < count as usize && !cursor.advance() {
                    break;
                }
            }
            return Ok(found);
        }
    }
    tree.write(batch, sync)?;
    Ok(Vec::new())
}
