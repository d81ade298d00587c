//! Cursors: the key-value pairs of a namespace in key order, as of the cursor's creation
//! ([`byteway_wire::nvme::vendor::kv`]).

use super::oracle::KvRead;
use super::{KvClient, KvOracle};
use crate::client::block::Opened;
use crate::client::kv::{KvError, KvIoError};
use crate::driver::buffer::IoBuffer;
use crate::error::IoError;
use byteway_wire::nvme::kv::{Key, KeyField};
use byteway_wire::nvme::vendor::kv::{Close, Next, pairs, seek};
use std::cell::RefCell;
use std::rc::Rc;

/// The oracle's view of a cursor.
struct View {
    oracle: Rc<RefCell<KvOracle>>,
    read: KvRead,
    /// Moment at which the drive had created it: later stores must not appear.
    until: u64,
    /// The last key returned; `None`: the next key may be the first one.
    after: Option<Key>,
}

impl Drop for View {
    fn drop(&mut self) {
        self.oracle.borrow_mut().end_read(self.read);
    }
}

/// An iterator of the drive. If it is dropped without [`KvCursor::close`], the drive keeps it until its timeout.
pub struct KvCursor {
    client: KvClient,
    iterator: u32,
    is_at_end: bool,
    view: Option<View>,
}

impl KvClient {
    /// Creates a cursor at `first`, or at the first key.
    ///
    /// # Errors
    /// [`KvIoError`] if the command failed or was lost; with Command Sequence Error the drive has too many iterators.
    pub async fn seek(&self, first: Option<Key>) -> Result<KvCursor, KvIoError> {
        let oracle = self.oracle().cloned();
        let mut view = oracle.map(|oracle| {
            let read = oracle.borrow_mut().begin_read();
            View { oracle, read, until: 0, after: first }
        });
        let field = first.map_or_else(KeyField::default, |first| first.field());
        let opened = Opened::open(self.port());
        let completed = self.execute(opened.span, seek(&field, 0, self.nsid())).await;
        opened.close(self.port());
        let iterator = completed?.dw0;
        if let Some(view) = &mut view {
            view.until = view.oracle.borrow_mut().now();
        }
        Ok(KvCursor { client: self.clone(), iterator, is_at_end: false, view })
    }
}

impl KvCursor {
    /// Reads the next key-value pairs into the first `bytes` of `buffer` and passes each to `show`, verified.
    /// Returns false if there are no more.
    ///
    /// # Errors
    /// [`KvIoError`] if the command failed or was lost; [`IoError::BrokenResult`] if the data is malformed,
    /// [`KvError::Mismatch`] if it is wrong, [`KvError::TooSmall`] if the buffer is too small for the next
    /// pair, which is not lost.
    pub async fn next(
        &mut self,
        buffer: &mut IoBuffer,
        bytes: u32,
        mut show: impl FnMut(Key, &[u8]),
    ) -> Result<bool, KvIoError> {
        if self.is_at_end {
            return Ok(false);
        }
        let client = &self.client;
        client.0.carrier.fits(buffer, bytes)?;
        let sqe = Next { iterator: self.iterator, buffer_bytes: bytes }.sqe(0, client.nsid());
        let opened = Opened::open(client.port());
        let received = client.receive_by_pointer(opened.span, sqe, buffer, bytes).await;
        opened.close(client.port());
        let cqe = received?;
        if cqe.dw1 & Next::TOO_SMALL != 0 {
            return Err(IoError::Client(KvError::TooSmall { bytes: cqe.dw0 }));
        }
        if cqe.dw0 > bytes {
            return Err(IoError::BrokenResult);
        }
        self.is_at_end = cqe.dw1 & Next::END != 0;
        let (is_at_end, view) = (self.is_at_end, &mut self.view);
        client.0.carrier.with_payload(&buffer.buffer, cqe.dw0, |part| {
            let mut last = None;
            for (key, value) in pairs(part) {
                let key = Key::new(key).ok_or(KvIoError::BrokenResult)?;
                if last.is_some_and(|last| key <= last) {
                    return Err(IoError::BrokenResult);
                }
                if let Some(view) = view {
                    verify(view, key, value)?;
                }
                last = Some(key);
                show(key, value);
            }
            match (last, view) {
                (None, _) if !is_at_end => Err(IoError::BrokenResult),
                (_, Some(view)) if is_at_end => verify_end(view),
                _ => Ok(()),
            }
        })??;
        Ok(!self.is_at_end)
    }

    /// Ends the iterator.
    ///
    /// # Errors
    /// [`KvIoError`] if the command failed or was lost: the drive has ended the iterator already.
    pub async fn close(self) -> Result<(), KvIoError> {
        let sqe = Close { iterator: self.iterator }.sqe(0, self.client.nsid());
        let opened = Opened::open(self.client.port());
        let completed = self.client.execute(opened.span, sqe).await;
        opened.close(self.client.port());
        completed.map(drop)
    }
}

/// Verifies a key-value pair: it existed, and no key between it and the previous one is missing.
fn verify(view: &mut View, key: Key, value: &[u8]) -> Result<(), KvIoError> {
    let mut oracle = view.oracle.borrow_mut();
    let window = view.read.view(view.until);
    oracle
        .verify_pair(window, key, value.len() as u32, 0, value)
        .map_err(|error| IoError::Client(KvError::Mismatch(error)))?;
    oracle
        .verify_list(window, view.after, &[key], false)
        .map_err(|error| IoError::Client(KvError::Mismatch(error)))?;
    drop(oracle);
    view.after = successor(key);
    Ok(())
}

/// Verifies the end: no key is missing.
fn verify_end(view: &mut View) -> Result<(), KvIoError> {
    let mut oracle = view.oracle.borrow_mut();
    oracle
        .verify_list(view.read.view(view.until), view.after, &[], true)
        .map_err(|error| IoError::Client(KvError::Mismatch(error)))
}

/// The least key greater than `key`; the greatest key itself.
fn successor(key: Key) -> Option<Key> {
    let mut bytes = key.as_bytes().to_vec();
    if bytes.len() < 16 {
        bytes.push(0);
        return Key::new(&bytes);
    }
    while let Some(last) = bytes.pop() {
        if last < u8::MAX {
            bytes.push(last + 1);
            return Key::new(&bytes);
        }
    }
    Some(key)
}
