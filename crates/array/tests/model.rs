//! Model of an array's possible contents: for each unit, everything written since the last durable write.

use crate::ram::{same, stamp};
use byteway_array::{Array, Bridge};
use byteway_clock::random::Stream;
use byteway_clock::{Clock, SpanId};
use byteway_content::{Content, Keep};
use byteway_firmware::MediaError;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The device under test.
#[derive(Clone)]
pub enum Storage {
    Array(Array),
    Bridge(Bridge),
}

impl From<&Array> for Storage {
    fn from(array: &Array) -> Storage {
        Storage::Array(array.clone())
    }
}

impl Storage {
    async fn read(&self, first: u64, count: u32, out: &mut Vec<Content>) -> Result<(), MediaError> {
        match self {
            Storage::Array(array) => array.read(SpanId::NONE, first, count, out).await,
            Storage::Bridge(bridge) => bridge.read(SpanId::NONE, first, count, out).await,
        }
    }

    async fn write(&self, first: u64, contents: &mut Vec<Content>, durable: bool) -> Result<(), MediaError> {
        match self {
            Storage::Array(array) => array.write(SpanId::NONE, first, contents, durable).await,
            Storage::Bridge(bridge) => bridge.write(SpanId::NONE, first, contents, durable).await,
        }
    }

    async fn trim(&self, first: u64, count: u64) -> Result<(), MediaError> {
        match self {
            Storage::Array(array) => array.trim(SpanId::NONE, first, count).await,
            Storage::Bridge(bridge) => bridge.trim(SpanId::NONE, first, count).await,
        }
    }

    async fn flush(&self) -> Result<(), MediaError> {
        match self {
            Storage::Array(array) => array.flush(SpanId::NONE).await,
            Storage::Bridge(bridge) => bridge.flush(SpanId::NONE).await,
        }
    }

    /// Fills 512 bytes of a unit: by a partial write if supported.
    async fn fill(&self, unit: u64, offset: u32, value: u8) -> Result<(), MediaError> {
        let content = Content::of(&[value; 4096], Keep::Stamps);
        let range = offset as usize..offset as usize + 512;
        match self {
            Storage::Array(array) if value.is_multiple_of(2) && array.takes_parts(offset, 512) => {
                array.write_part(SpanId::NONE, unit, offset, 512, &content, false).await
            }
            Storage::Array(array) => {
                array.edit(SpanId::NONE, unit, |bytes, _| bytes[range].fill(value), false).await
            }
            Storage::Bridge(bridge) if !value.is_multiple_of(4) => {
                bridge.write_part(SpanId::NONE, unit, offset, 512, &content, false, 512).await
            }
            Storage::Bridge(bridge) => {
                bridge.edit(SpanId::NONE, unit, |bytes, _| bytes[range].fill(value), false).await
            }
        }
    }
}

#[derive(Clone)]
struct UnitModel {
    /// Writes, oldest first.
    writes: Vec<Content>,
    /// Lower bound of what is durable.
    settled: usize,
    /// The last acknowledged write; None if unknown since a power cut.
    acked: Option<usize>,
}

/// The units of an array, across power cuts.
pub struct Model {
    units: RefCell<Vec<UnitModel>>,
    version: Cell<u32>,
    /// Unreadable units are allowed.
    pub may_lose: Cell<bool>,
    pub unreadable: Cell<u64>,
    /// Writes may fail.
    pub may_fail: Cell<bool>,
    pub failed: Cell<u64>,
}

impl Model {
    pub fn new(units: u64) -> Rc<Model> {
        let unit = UnitModel { writes: vec![Content::Zero], settled: 0, acked: Some(0) };
        Rc::new(Model {
            units: RefCell::new(vec![unit; units as usize]),
            version: Cell::new(1),
            may_lose: Cell::default(),
            unreadable: Cell::default(),
            may_fail: Cell::default(),
            failed: Cell::default(),
        })
    }

    pub fn len(&self) -> u64 {
        self.units.borrow().len() as u64
    }

    fn begin(&self, unit: u64, content: Content) -> usize {
        let mut units = self.units.borrow_mut();
        let writes = &mut units[unit as usize].writes;
        writes.push(content);
        writes.len() - 1
    }

    fn ack(&self, unit: u64, index: usize, durable: bool) {
        let unit = &mut self.units.borrow_mut()[unit as usize];
        unit.acked = Some(index);
        if durable {
            unit.settled = index;
        }
    }

    /// After a power cut the last acknowledged write is unknown.
    pub fn cut(&self) {
        for unit in self.units.borrow_mut().iter_mut() {
            unit.writes.drain(..unit.settled);
            unit.settled = 0;
            unit.acked = (unit.writes.len() == 1).then_some(0);
        }
    }

    fn check(&self, unit: u64, content: &Content, context: &str) {
        let units = self.units.borrow();
        let UnitModel { writes, settled, acked } = &units[unit as usize];
        if content.marred() != 0 && self.may_lose.get() {
            self.unreadable.set(self.unreadable.get() + 1);
            return;
        }
        let is_right = match acked {
            Some(acked) => writes[*acked..].iter().any(|write| same(write, content)),
            None => writes[*settled..].iter().any(|write| same(write, content)),
        };
        let held = format!("{content:?}").chars().take(80).collect::<String>();
        assert!(is_right, "{context}: unit {unit} holds {held}; it may hold {:.500?}", &writes[*settled..]);
    }

    pub async fn write(
        &self,
        storage: impl Into<Storage>,
        first: u64,
        count: u64,
        durable: bool,
    ) -> Result<(), MediaError> {
        let version = self.version.get();
        self.version.set(version + 1);
        let mut contents: Vec<Content> = (first..first + count).map(|unit| stamp(unit, version)).collect();
        let begun: Vec<usize> =
            (first..).zip(&contents).map(|(unit, content)| self.begin(unit, content.clone())).collect();
        let written = storage.into().write(first, &mut contents, durable).await;
        self.end(written, first, &begun, durable)
    }

    fn end(
        &self,
        written: Result<(), MediaError>,
        first: u64,
        begun: &[usize],
        durable: bool,
    ) -> Result<(), MediaError> {
        match &written {
            Ok(()) => (first..).zip(begun).for_each(|(unit, index)| self.ack(unit, *index, durable)),
            Err(error) => {
                assert!(self.may_fail.get(), "a write failed: {error}");
                self.failed.set(self.failed.get() + 1);
                // It may have been carried out or not.
                let mut units = self.units.borrow_mut();
                (first..).zip(begun).for_each(|(unit, _)| units[unit as usize].acked = None);
            }
        }
        written
    }

    pub async fn trim(&self, storage: &Storage, first: u64, count: u64) -> Result<(), MediaError> {
        let begun: Vec<usize> = (first..first + count).map(|unit| self.begin(unit, Content::Zero)).collect();
        let trimmed = storage.trim(first, count).await;
        self.end(trimmed, first, &begun, false)
    }

    /// Changes a few bytes of a unit whose content is known.
    pub async fn edit(&self, storage: &Storage, unit: u64, value: u8) {
        let old = {
            let units = self.units.borrow();
            let model = &units[unit as usize];
            match model.acked {
                Some(acked) if acked + 1 == model.writes.len() => model.writes[acked].clone(),
                _ => return,
            }
        };
        let at = usize::from(value % 8) * 512;
        let edit = |bytes: &mut [u8; 4096]| bytes[at..at + 512].fill(value);
        let new = old.edited(Keep::Stamps, |bytes, _| edit(bytes));
        let index = self.begin(unit, new);
        match storage.fill(unit, at as u32, value).await {
            Ok(()) => self.ack(unit, index, false),
            // Part of a lost unit cannot be changed.
            Err(error) => {
                assert!(self.may_lose.get() || self.may_fail.get(), "an edit failed: {error}");
                self.units.borrow_mut()[unit as usize].acked = None;
            }
        }
    }

    pub async fn flush(&self, storage: &Storage) {
        let acked: Vec<Option<usize>> = self.units.borrow().iter().map(|unit| unit.acked).collect();
        match storage.flush().await {
            Ok(()) => {
                for (unit, acked) in self.units.borrow_mut().iter_mut().zip(acked) {
                    unit.settled = unit.settled.max(acked.unwrap_or(0));
                }
            }
            Err(error) => assert!(self.may_fail.get(), "a flush failed: {error}"),
        }
    }

    /// Reads units and checks them.
    pub async fn read(&self, storage: impl Into<Storage>, first: u64, count: u64, context: &str) {
        let mut out = Vec::new();
        storage.into().read(first, count as u32, &mut out).await.expect("they are units of the array");
        (first..).zip(&out).for_each(|(unit, content)| self.check(unit, content, context));
    }

    pub async fn read_all(&self, storage: impl Into<Storage>, context: &str) {
        let storage = storage.into();
        for first in (0..self.len()).step_by(50) {
            self.read(storage.clone(), first, 50.min(self.len() - first), context).await;
        }
    }
}

/// Units of a single worker, in areas that share stripes with others'.
const AREA: u64 = 30;
pub const WORKERS: u64 = 4;

/// Random I/O in a worker's areas, one at a time, so that it knows what it must read.
pub async fn work(storage: Storage, model: Rc<Model>, mut chance: Stream, worker: u64, ios: u32) {
    let areas = model.len() / AREA;
    for _ in 0..ios {
        let area = chance.below(areas / WORKERS) * WORKERS + worker;
        let at = chance.below(AREA);
        let count = match chance.below(3) {
            0 => 1,
            1 => 1 + chance.below((AREA - at).min(5)),
            _ => AREA - at,
        };
        let first = area * AREA + at;
        match chance.below(20) {
            0..9 => drop(model.write(storage.clone(), first, count, chance.chance(0.1)).await),
            9..15 => model.read(storage.clone(), first, count, "I/O").await,
            15..17 => model.edit(&storage, first, chance.below(200) as u8).await,
            17..19 => drop(model.trim(&storage, first, count).await),
            _ => model.flush(&storage).await,
        }
    }
}

/// Runs all workers to their end.
pub async fn run_all(clock: &Clock, storage: impl Into<Storage>, model: &Rc<Model>, seed: u64, ios: u32) {
    let storage = storage.into();
    let left = Rc::new(Cell::new(WORKERS));
    for worker in 0..WORKERS {
        let chance = byteway_clock::random::Rng::new(seed).stream(&format!("worker-{worker}"));
        let (storage, model, left) = (storage.clone(), model.clone(), left.clone());
        clock.spawn("worker", async move {
            work(storage, model, chance, worker, ios).await;
            left.set(left.get() - 1);
        });
    }
    while left.get() > 0 {
        clock.sleep(byteway_clock::Delay::from_us(50)).await;
    }
}
