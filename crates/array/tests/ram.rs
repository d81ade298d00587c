//! Simulated drives in memory: random times, a volatile cache, faults, and power cuts.

use byteway_array::{Array, ArrayConfig, ArrayError, Initial, Level};
use byteway_clock::Rate;
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay, SpanId};
use byteway_content::{BlockSize, Content, Keep, Stamp, UNIT_BYTES};
use byteway_firmware::{Cycles, Placement, Site, WorkKind};
use byteway_member::{Member, MemberError, MemberLost, MemberShape};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// State that outlives an executor.
pub struct Disk {
    pub units: u64,
    pub command_units: u32,
    durable: RefCell<BTreeMap<u64, Content>>,
    /// Writes that a power cut may lose, oldest first.
    cached: RefCell<Vec<(u64, Content)>>,
    pub unreadable: RefCell<BTreeSet<u64>>,
    pub is_gone: Cell<bool>,
    /// Flushes do not end until it is reset.
    pub holds_flushes: Cell<bool>,
    pub reads: Cell<u64>,
    pub writes: Cell<u64>,
}

impl Disk {
    pub fn new(units: u64) -> Rc<Disk> {
        Rc::new(Disk {
            units,
            command_units: 24,
            durable: RefCell::default(),
            cached: RefCell::default(),
            unreadable: RefCell::default(),
            is_gone: Cell::default(),
            holds_flushes: Cell::default(),
            reads: Cell::default(),
            writes: Cell::default(),
        })
    }

    /// Content of a unit while powered.
    pub fn peek(&self, unit: u64) -> Content {
        let cached = self.cached.borrow();
        let cached = cached.iter().rfind(|(cached, _)| *cached == unit).map(|(_, content)| content.clone());
        cached.or_else(|| self.durable.borrow().get(&unit).cloned()).unwrap_or_default()
    }

    fn store(&self, unit: u64, content: Content, durable: bool) {
        self.unreadable.borrow_mut().remove(&unit);
        match durable {
            // A durable write must not be undone by an earlier cached one.
            true => {
                self.cached.borrow_mut().retain(|(cached, _)| *cached != unit);
                self.durable.borrow_mut().insert(unit, content);
            }
            false => self.cached.borrow_mut().push((unit, content)),
        }
    }

    fn flush(&self) {
        self.durable.borrow_mut().extend(self.cached.borrow_mut().drain(..));
    }

    /// A power cut: of the cached writes any part may survive, for each unit up to some write.
    pub fn cut(&self, chance: &mut Stream) {
        let share = chance.unit();
        for (unit, content) in self.cached.take() {
            if chance.chance(share) {
                self.durable.borrow_mut().insert(unit, content);
            }
        }
    }
}

/// A powered drive.
pub struct RamMember {
    pub disk: Rc<Disk>,
    clock: Clock,
    chance: RefCell<Stream>,
}

impl RamMember {
    pub fn new(clock: &Clock, disk: &Rc<Disk>, seed: u64, number: usize) -> Self {
        let chance = RefCell::new(Rng::new(seed).stream(&format!("member-{number}")));
        RamMember { disk: disk.clone(), clock: clock.clone(), chance }
    }

    async fn take_time(&self) -> Result<(), MemberError> {
        let ns = self.chance.borrow_mut().range(1_000..=20_000);
        self.clock.sleep(Delay::from_ns(ns)).await;
        self.check()
    }

    fn check(&self) -> Result<(), MemberError> {
        if self.disk.is_gone.get() { Err(MemberLost::because("it was unplugged").into()) } else { Ok(()) }
    }
}

impl Member for RamMember {
    fn lanes(&self) -> usize {
        8
    }

    async fn describe(&self) -> Result<MemberShape, MemberLost> {
        if self.disk.is_gone.get() {
            return Err(MemberLost::because("it was unplugged"));
        }
        let Disk { units, command_units, .. } = *self.disk;
        Ok(MemberShape { units, command_units, block_bytes: 512, identity: "RAM".into() })
    }

    async fn read(
        &self,
        _: usize,
        _: SpanId,
        first: u64,
        count: u32,
        out: &mut Vec<Content>,
    ) -> Result<(), MemberError> {
        self.check()?;
        assert!(count <= self.disk.command_units && first + u64::from(count) <= self.disk.units);
        self.take_time().await?;
        self.disk.reads.set(self.disk.reads.get() + 1);
        let units = first..first + u64::from(count);
        if self.disk.unreadable.borrow().range(units.clone()).next().is_some() {
            return Err(MemberError::Unreadable);
        }
        out.clear();
        out.extend(units.map(|unit| self.disk.peek(unit)));
        Ok(())
    }

    async fn write(
        &self,
        _: usize,
        _: SpanId,
        first: u64,
        contents: &[Content],
        durable: bool,
    ) -> Result<(), MemberError> {
        self.check()?;
        assert!(contents.len() <= self.disk.command_units as usize);
        assert!(first + contents.len() as u64 <= self.disk.units);
        self.disk.writes.set(self.disk.writes.get() + 1);
        // Unit after unit: the power may be cut in between.
        for (unit, content) in (first..).zip(contents) {
            if self.chance.borrow_mut().chance(0.3) {
                self.take_time().await?;
            }
            self.disk.store(unit, content.clone(), durable);
        }
        self.take_time().await
    }

    async fn write_part(
        &self,
        _: usize,
        _: SpanId,
        unit: u64,
        offset: u32,
        bytes: u32,
        content: &Content,
        durable: bool,
    ) -> Result<(), MemberError> {
        self.take_time().await?;
        let range = offset as usize..(offset + bytes) as usize;
        let mut whole = [0; UNIT_BYTES];
        content.write_to(&mut whole);
        let new = self.disk.peek(unit).edited(Keep::Stamps, |unit, _| {
            unit[range.clone()].copy_from_slice(&whole[range.clone()]);
        });
        self.disk.store(unit, new, durable);
        self.take_time().await
    }

    async fn deallocate(&self, _: usize, _: SpanId, first: u64, count: u64) -> Result<(), MemberError> {
        assert!(first + count <= self.disk.units);
        self.take_time().await?;
        (first..first + count).for_each(|unit| self.disk.store(unit, Content::Zero, false));
        self.take_time().await
    }

    async fn flush(&self, _: usize, _: SpanId) -> Result<(), MemberError> {
        // Writes cached at the end become durable, which is more than required.
        self.take_time().await?;
        while self.disk.holds_flushes.get() {
            self.take_time().await?;
        }
        self.disk.flush();
        Ok(())
    }
}

/// One core with a cost for work.
pub fn placement(clock: &Clock) -> Placement {
    let site = Site::new(clock, 1, 1_000_000_000, Delay::ZERO, Rate::per_second(1 << 34));
    Placement::all_at(&site, Cycles::FREE.with(WorkKind::Stripe, 300).with(WorkKind::Parity, 700))
}

pub fn config(level: Level) -> ArrayConfig {
    let config = ArrayConfig::new(level, 4, *b"an array's name.", Keep::Stamps);
    ArrayConfig { clean_after: Delay::from_ms(1), ..config }
}

pub fn members(clock: &Clock, disks: &[Rc<Disk>], seed: u64) -> Vec<RamMember> {
    disks.iter().enumerate().map(|(number, disk)| RamMember::new(clock, disk, seed, number)).collect()
}

pub async fn create(clock: &Clock, config: ArrayConfig, disks: &[Rc<Disk>]) -> Array {
    let members = members(clock, disks, 1);
    Array::create(clock, placement(clock), config, members, Initial::Zeroed).await.expect("an array")
}

pub async fn assemble(
    clock: &Clock,
    config: ArrayConfig,
    disks: &[Rc<Disk>],
    seed: u64,
) -> Result<Array, ArrayError> {
    Array::assemble(clock, placement(clock), config, members(clock, disks, seed)).await
}

pub fn stamp(unit: u64, version: u32) -> Content {
    Content::Stamp(Stamp { lba: unit, version, tag: 7, block: BlockSize::B4096 })
}

pub fn same(one: &Content, other: &Content) -> bool {
    let (mut left, mut right) = ([0; UNIT_BYTES], [0; UNIT_BYTES]);
    one.write_to(&mut left);
    other.write_to(&mut right);
    left == right && one.marred() == other.marred()
}

impl Disk {
    /// Writes a content durably.
    pub fn put(&self, unit: u64, content: Content) {
        self.durable.borrow_mut().insert(unit, content);
    }
}
