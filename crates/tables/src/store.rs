//! The store's interface: create, drop, append, read.

use crate::catalog::{Catalog, Group, NewGroup, Table, TableId};
use crate::config::{TablesConfig, TablesConfigError, TablesError, TablesUsage, slot_units, units_of};
use crate::core::{Answer, Change, Core, Request, State};
use crate::range::Range;
use crate::space::Space;
use crate::writer;
use byteway_clock::{Clock, Notify, SpanId, Spans, Stage};
use byteway_content::UNIT_BYTES;
use byteway_firmware::{Ftl, MediaError};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Handle to a store of tables. Cheap to clone.
#[derive(Clone)]
pub struct Tables(pub(crate) Rc<Core>);

impl Tables {
    /// Opens the store on its units. Recovery runs in a task of its own; every operation waits for it.
    ///
    /// # Errors
    /// The configuration is not supported: see [`TablesConfig::check`].
    pub fn power_on(clock: &Clock, ftl: Ftl, config: TablesConfig) -> Result<Tables, TablesConfigError> {
        config.check()?;
        let units = config.units();
        let slot_units = slot_units(units);
        let state = State {
            catalog: Catalog::default(),
            space: Space::new(2 * slot_units, units - 2 * slot_units),
            retired: Vec::new(),
            requests: VecDeque::new(),
            unknown: None,
            failed: None,
        };
        let core = Rc::new(Core {
            clock: clock.clone(),
            range: Range::new(ftl, config.extents.clone()),
            config,
            slot_units,
            state: RefCell::new(state),
            is_ready: Cell::new(false),
            is_stopped: Cell::new(false),
            changed: Notify::new(clock),
            asked: Notify::new(clock),
            task: Cell::new(None),
        });
        core.task.set(Some(clock.spawn("tables", writer::run(core.clone()))));
        Ok(Tables(core))
    }

    /// Waits for the end of recovery.
    ///
    /// # Errors
    /// The store has stopped, or flash could not return the catalog.
    pub async fn ready(&self) -> Result<(), TablesError> {
        while !self.0.is_ready.get() && !self.0.is_stopped.get() {
            self.0.changed.notified().await;
        }
        self.check()?;
        let unknown = self.0.state.borrow().unknown;
        unknown.map_or(Ok(()), |error| Err(error.into()))
    }

    fn check(&self) -> Result<(), TablesError> {
        if self.0.is_stopped.get() { Err(TablesError::Stopped) } else { Ok(()) }
    }

    /// Creates an empty table. Durable on return.
    ///
    /// # Errors
    /// [`TablesError::Exists`], [`TablesError::Name`], [`TablesError::TooMany`], [`TablesError::CatalogFull`], or flash failed.
    pub async fn create(
        &self,
        span: SpanId,
        spans: &Spans,
        name: &str,
        schema: &[u8],
    ) -> Result<TableId, TablesError> {
        let change = Change::Create { name: name.into(), schema: schema.into() };
        Ok(TableId(self.change(span, spans, change).await? as u32))
    }

    /// Drops a table. Readers that hold it finish undisturbed. Durable on return.
    ///
    /// # Errors
    /// [`TablesError::NotFound`], or flash failed.
    pub async fn drop_table(&self, span: SpanId, spans: &Spans, id: TableId) -> Result<(), TablesError> {
        self.change(span, spans, Change::Drop { id }).await.map(drop)
    }

    /// Appends row groups atomically and returns the table's new number of rows. Durable on return.
    ///
    /// # Errors
    /// [`TablesError::NotFound`], [`TablesError::NoSpace`], [`TablesError::CatalogFull`], or flash failed.
    pub async fn append(
        &self,
        span: SpanId,
        spans: &Spans,
        id: TableId,
        groups: Vec<NewGroup>,
    ) -> Result<u64, TablesError> {
        self.change(span, spans, Change::Append { id, groups }).await
    }

    /// Drops all tables.
    ///
    /// # Errors
    /// Flash failed.
    pub async fn format(&self) -> Result<(), TablesError> {
        self.change(SpanId::NONE, &Spans::default(), Change::Format).await.map(drop)
    }

    /// Queues a change and waits for it. The writer makes it even if this future is dropped.
    async fn change(&self, span: SpanId, spans: &Spans, change: Change) -> Result<u64, TablesError> {
        let core = &*self.0;
        self.check()?;
        let answer: Answer = Rc::default();
        core.state.borrow_mut().requests.push_back(Request { change, answer: answer.clone() });
        core.asked.notify_one();
        loop {
            if let Some(answer) = answer.take() {
                spans.charge(span, core.clock.now(), Stage::Flash);
                return answer;
            }
            self.check()?;
            core.changed.notified().await;
        }
    }

    /// The table named `name`.
    pub fn find(&self, name: &str) -> Option<Table> {
        self.0.state.borrow().catalog.find(name).cloned()
    }

    /// The table with this identifier.
    pub fn table(&self, id: TableId) -> Option<Table> {
        self.0.state.borrow().catalog.tables.get(&id).cloned()
    }

    /// All tables, in order of creation.
    pub fn tables(&self) -> Vec<Table> {
        self.0.state.borrow().catalog.tables.values().cloned().collect()
    }

    /// Current usage figures.
    pub fn usage(&self) -> TablesUsage {
        let state = self.0.state.borrow();
        let tables = state.catalog.tables.values();
        let capacity = self.0.config.units() - 2 * self.0.slot_units;
        TablesUsage {
            capacity_bytes: capacity * UNIT_BYTES as u64,
            used_bytes: (capacity - state.space.units()) * UNIT_BYTES as u64,
            tables: tables.len() as u64,
            groups: tables.clone().map(|table| table.groups.len() as u64).sum(),
            rows: tables.map(Table::rows).sum(),
        }
    }

    /// A row group's description. The first call reads it from flash and checks its CRC-32C.
    ///
    /// # Errors
    /// Flash could not return it, or the checksum is wrong.
    pub async fn meta(&self, span: SpanId, spans: &Spans, group: &Group) -> Result<Rc<[u8]>, TablesError> {
        if let Some(meta) = group.meta.borrow().clone() {
            return Ok(meta);
        }
        let mut bytes = Vec::new();
        self.0.read(span, spans, group, 0, group.meta_bytes.into(), &mut bytes).await?;
        if crc32c::crc32c(&bytes) != group.meta_crc {
            return Err(TablesError::Media(MediaError::Unreadable));
        }
        let meta: Rc<[u8]> = bytes.into();
        group.meta.replace(Some(meta.clone()));
        Ok(meta)
    }

    /// Appends `bytes` bytes of a row group's columns, from `offset` on, to the buffer.
    ///
    /// # Errors
    /// The range exceeds the columns, or flash could not return it.
    pub async fn read(
        &self,
        span: SpanId,
        spans: &Spans,
        group: &Group,
        offset: u64,
        bytes: u64,
        into: &mut Vec<u8>,
    ) -> Result<(), TablesError> {
        let is_there = offset.checked_add(bytes).is_some_and(|end| end <= group.data_bytes);
        if !is_there {
            return Err(TablesError::Media(MediaError::OutOfRange));
        }
        let columns = units_of(group.meta_bytes.into()) * UNIT_BYTES as u64;
        Ok(self.0.read(span, spans, group, columns + offset, bytes, into).await?)
    }

    /// Stops the store: its task ends, and waiting operations fail with [`TablesError::Stopped`].
    pub fn stop(&self) {
        self.0.is_stopped.set(true);
        if let Some(task) = self.0.task.take() {
            self.0.clock.kill(task);
        }
        self.0.changed.notify_all();
    }
}
