//! Iterators over the key-value pairs of a KV namespace ([`byteway_wire::nvme::vendor::kv`]). Their number is
//! limited, and unused ones time out, because each keeps the space of its snapshot in use.

use crate::config::KvPolicy;
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::send::send;
use crate::controller::command::workspace::Workspace;
use crate::controller::command_set::kv::pairs::{key_or_first, pairs_of, status_of};
use byteway_clock::{Clock, Delay, Notify, Time};
use byteway_kv::{Cursor, Key};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::kv::KeyField;
use byteway_wire::nvme::vendor::kv::{Close, Next, pair_bytes, push};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// State of an iterator.
struct IteratorState {
    cursor: Cursor,
    /// Key of a pair that did not fit in the last transfer; `value` holds its value.
    pending: Option<Key>,
    value: Vec<u8>,
    /// Status of a failed look-up of the next key-value pair.
    failed: Option<Status>,
}

struct Entry {
    /// Unique identifier of the namespace.
    uid: u64,
    /// Timeout.
    until: Time,
    /// `None`: a command is using it.
    place: Option<Box<IteratorState>>,
}

/// All iterators of a controller.
pub struct Iterators {
    table: RefCell<BTreeMap<u32, Entry>>,
    most: usize,
    timeout: Delay,
    /// Identifier of the next iterator; identifiers repeat after 2^32.
    next: Cell<u32>,
    begun: Notify,
}

impl Iterators {
    /// No iterators yet.
    pub fn new(clock: &Clock, policy: Option<&KvPolicy>) -> Self {
        Iterators {
            table: RefCell::default(),
            most: policy.map_or(0, |policy| policy.iterators_max as usize),
            timeout: policy.map_or(Delay::ZERO, |policy| policy.iterator_timeout),
            next: Cell::new(1),
            begun: Notify::new(clock),
        }
    }

    /// Ends all.
    pub fn clear(&self) {
        self.table.borrow_mut().clear();
    }

    /// Ends the iterators of a namespace.
    pub fn end_of(&self, uid: u64) {
        self.table.borrow_mut().retain(|_, entry| entry.uid != uid);
    }

    fn end_late(&self, now: Time) {
        self.table.borrow_mut().retain(|_, entry| entry.until > now);
    }

    fn until(&self) -> Option<Time> {
        self.table.borrow().values().map(|entry| entry.until).min()
    }

    /// Takes an iterator of a namespace, for a command.
    fn take(&self, id: u32, uid: u64) -> Result<Box<IteratorState>, Status> {
        let mut table = self.table.borrow_mut();
        let entry = table.get_mut(&id).filter(|entry| entry.uid == uid);
        let entry = entry.ok_or(Status::INVALID_FIELD.with_dnr())?;
        // While a command uses it, only a reset or the end of its namespace removes it.
        let place = entry.place.take().ok_or(Status::COMMAND_SEQUENCE_ERROR.with_dnr())?;
        entry.until = Time(u64::MAX);
        Ok(place)
    }

    /// Returns an iterator, unless it was ended meanwhile.
    fn give_back(&self, id: u32, place: Box<IteratorState>, now: Time) {
        if let Some(entry) = self.table.borrow_mut().get_mut(&id) {
            entry.place = Some(place);
            entry.until = now + self.timeout;
            self.begun.notify_one();
        }
    }

    /// Ends iterators that were unused for too long.
    pub(crate) async fn run(&self, clock: &Clock) {
        loop {
            self.end_late(clock.now());
            match self.until() {
                Some(until) if until < Time(u64::MAX) => clock.timer(until.since(clock.now())).await,
                _ => self.begun.notified().await,
            }
        }
    }

    /// KV Seek.
    pub(crate) async fn seek(&self, context: &Context<'_>) -> Result<Reply, Status> {
        let (namespace, pairs) = pairs_of(context.core, context.sqe.nsid)?;
        let from = key_or_first(&KeyField::parse(context.sqe))?;
        pairs.ready().await; // the iterator shows the pairs as of this command's completion
        context.check()?;
        let now = context.core.clock.now();
        self.end_late(now);
        if self.table.borrow().len() >= self.most {
            return Err(Status::COMMAND_SEQUENCE_ERROR);
        }
        let place =
            IteratorState { cursor: pairs.seek(Some(from)), pending: None, value: Vec::new(), failed: None };
        let mut id = self.next.get();
        while self.table.borrow().contains_key(&id) {
            id = id.wrapping_add(1);
        }
        self.next.set(id.wrapping_add(1));
        let entry = Entry { uid: namespace.uid, until: now + self.timeout, place: Some(Box::new(place)) };
        self.table.borrow_mut().insert(id, entry);
        self.begun.notify_one();
        Ok(Reply::Done([id, 0]))
    }

    /// KV Next. A failed read ends the iterator, because the key-value pairs already taken are lost.
    pub(crate) async fn next(
        &self,
        context: &Context<'_>,
        workspace: &mut Workspace,
    ) -> Result<Reply, Status> {
        let core = context.core;
        let command = Next::parse(context.sqe);
        let (namespace, _) = pairs_of(context.core, context.sqe.nsid)?;
        if command.buffer_bytes > core.config.controller.transfer_bytes_max {
            return Err(Status::INVALID_FIELD.with_dnr());
        }
        context.resolve(workspace, command.buffer_bytes.into(), true).await?;
        let mut place = self.take(command.iterator, namespace.uid)?;
        workspace.bytes.clear();
        let told =
            match gather(context, &mut place, command.buffer_bytes as usize, &mut workspace.bytes).await {
                Ok(told) => send(context, workspace).await.map(|()| told),
                Err(status) => Err(status),
            };
        match told {
            Ok(told) => {
                self.give_back(command.iterator, place, core.clock.now());
                core.count_read(context.span, workspace.bytes.len() as u64);
                Ok(Reply::Done(told))
            }
            Err(status) => {
                self.table.borrow_mut().remove(&command.iterator);
                Err(status)
            }
        }
    }

    /// KV Close.
    pub(crate) fn close(&self, context: &Context<'_>) -> Result<Reply, Status> {
        let id = Close::parse(context.sqe).iterator;
        let (namespace, _) = pairs_of(context.core, context.sqe.nsid)?;
        drop(self.take(id, namespace.uid)?);
        self.table.borrow_mut().remove(&id);
        Ok(Reply::Done([0; 2]))
    }
}

/// Appends the next key-value pairs to `into`, up to `bytes` bytes; returns the dwords of the completion.
async fn gather(
    context: &Context<'_>,
    place: &mut IteratorState,
    bytes: usize,
    into: &mut Vec<u8>,
) -> Result<[u32; 2], Status> {
    let core = context.core;
    loop {
        if place.pending.is_none() && place.failed.is_none() {
            let spans = core.port.spans();
            match place.cursor.next(context.span, spans, &mut place.value).await {
                Ok(key) => place.pending = key,
                Err(error) => place.failed = Some(status_of(core, error)),
            }
            context.check()?;
        }
        if let Some(status) = place.failed {
            // Pairs before the failed one are returned.
            return if into.is_empty() { Err(status) } else { Ok([into.len() as u32, 0]) };
        }
        let Some(key) = place.pending else { return Ok([into.len() as u32, Next::END]) };
        let takes = pair_bytes(key.len(), place.value.len());
        if into.len() + takes > bytes {
            let is_too_small = into.is_empty();
            return Ok(if is_too_small { [takes as u32, Next::TOO_SMALL] } else { [into.len() as u32, 0] });
        }
        push(into, key.as_bytes(), &place.value);
        place.pending = None;
    }
}
