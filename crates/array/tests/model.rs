//! What an array may hold: of each unit everything that was written since the last that must have stayed.

use crate::ram::{same, stamp};
use byteway_array::Array;
use byteway_clock::random::Stream;
use byteway_clock::{Clock, SpanId};
use byteway_firmware::MediaError;
use byteway_wire::content::Content;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

#[derive(Clone)]
struct UnitModel {
    /// What was written, the oldest first.
    writes: Vec<Content>,
    /// What is known to have stayed, at least.
    settled: usize,
    /// The last that was acknowledged; none: since a power cut it is not known.
    acked: Option<usize>,
}

/// The units of an array, over power cuts.
pub struct Model {
    units: RefCell<Vec<UnitModel>>,
    version: Cell<u32>,
    /// Units that can't be read are allowed.
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

    /// The power has gone: what was acknowledged last is not known any more.
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
        array: &Array,
        first: u64,
        count: u64,
        durable: bool,
    ) -> Result<(), MediaError> {
        let version = self.version.get();
        self.version.set(version + 1);
        let mut contents: Vec<Content> = (first..first + count).map(|unit| stamp(unit, version)).collect();
        let begun: Vec<usize> =
            (first..).zip(&contents).map(|(unit, content)| self.begin(unit, content.clone())).collect();
        let written = array.write(SpanId::NONE, first, &mut contents, durable).await;
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
                // It may have been carried out, or not.
                let mut units = self.units.borrow_mut();
                (first..).zip(begun).for_each(|(unit, _)| units[unit as usize].acked = None);
            }
        }
        written
    }

    pub async fn trim(&self, array: &Array, first: u64, count: u64) -> Result<(), MediaError> {
        let begun: Vec<usize> = (first..first + count).map(|unit| self.begin(unit, Content::Zero)).collect();
        let trimmed = array.trim(SpanId::NONE, first, count).await;
        self.end(trimmed, first, &begun, false)
    }

    /// Changes a few bytes of a unit whose content is known.
    pub async fn edit(&self, array: &Array, unit: u64, value: u8) {
        let old = {
            let units = self.units.borrow();
            let model = &units[unit as usize];
            match model.acked {
                Some(acked) if acked + 1 == model.writes.len() => model.writes[acked].clone(),
                _ => return,
            }
        };
        let at = usize::from(value) * 8;
        let edit = |bytes: &mut [u8; 4096]| bytes[at..at + 512].fill(value);
        let new = old.edited(byteway_wire::content::Keep::Stamps, |bytes, _| edit(bytes));
        let index = self.begin(unit, new);
        match array.edit(SpanId::NONE, unit, |bytes, _| edit(bytes), false).await {
            Ok(()) => self.ack(unit, index, false),
            // A lost unit can't be changed in part.
            Err(error) => {
                assert!(self.may_lose.get() || self.may_fail.get(), "an edit failed: {error}");
                self.units.borrow_mut()[unit as usize].acked = None;
            }
        }
    }

    pub async fn flush(&self, array: &Array) {
        let acked: Vec<Option<usize>> = self.units.borrow().iter().map(|unit| unit.acked).collect();
        match array.flush(SpanId::NONE).await {
            Ok(()) => {
                for (unit, acked) in self.units.borrow_mut().iter_mut().zip(acked) {
                    unit.settled = unit.settled.max(acked.unwrap_or(0));
                }
            }
            Err(error) => assert!(self.may_fail.get(), "a flush failed: {error}"),
        }
    }

    /// Reads units and checks them.
    pub async fn read(&self, array: &Array, first: u64, count: u64, context: &str) {
        let mut out = Vec::new();
        array.read(SpanId::NONE, first, count as u32, &mut out).await.expect("they are units of the array");
        (first..).zip(&out).for_each(|(unit, content)| self.check(unit, content, context));
    }

    pub async fn read_all(&self, array: &Array, context: &str) {
        for first in (0..self.len()).step_by(50) {
            self.read(array, first, 50.min(self.len() - first), context).await;
        }
    }
}

/// Units that a worker has to itself, in areas that share stripes with others'.
const AREA: u64 = 30;
pub const WORKERS: u64 = 4;

/// Does random I/O in a worker's areas. One I/O at a time, so it knows what it must read.
pub async fn work(array: Array, model: Rc<Model>, mut chance: Stream, worker: u64, ios: u32) {
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
            0..9 => drop(model.write(&array, first, count, chance.chance(0.1)).await),
            9..15 => model.read(&array, first, count, "I/O").await,
            15..17 => model.edit(&array, first, chance.below(200) as u8).await,
            17..19 => drop(model.trim(&array, first, count).await),
            _ => model.flush(&array).await,
        }
    }
}

/// Runs all workers to their end.
pub async fn run_all(clock: &Clock, array: &Array, model: &Rc<Model>, seed: u64, ios: u32) {
    let left = Rc::new(Cell::new(WORKERS));
    for worker in 0..WORKERS {
        let chance = byteway_clock::random::Rng::new(seed).stream(&format!("worker-{worker}"));
        let (array, model, left) = (array.clone(), model.clone(), left.clone());
        clock.spawn("worker", async move {
            work(array, model, chance, worker, ios).await;
            left.set(left.get() - 1);
        });
    }
    while left.get() > 0 {
        clock.sleep(byteway_clock::Delay::from_us(50)).await;
    }
}
