//! Host-managed device memory (HDM): loads and stores of the host's processor over CXL.mem.
//!
//! CXL.mem and CXL.io share the lanes and are not ordered against each other: a store becomes visible in the
//! device some time after it has arrived, and a doorbell write may overtake it. Data that must be visible
//! before a command is therefore flushed line by line, each flush ending with a completion, or streamed and
//! then read back.

use crate::cxl::{CxlConfig, LINE_BYTES, LINE_PAYLOAD, Lines};
use crate::ledger::Purpose;
use crate::port::{DeviceEnd, HostEnd, Link};
use byteway_clock::{Mailbox, SpanId, Time};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Host address of the device memory: above BAR and interrupt addresses, on a multiple of 256 MiB as HDM
/// decoders require (CXL 2.0, 8.2.5.12).
const HDM_ADDRESS: u64 = 0x50_0000_0000;

/// The device's memory, as the link reaches it.
pub trait Hdm {
    /// Size in bytes.
    fn bytes(&self) -> u64;

    /// Called when a store of at most one line, within the memory, becomes visible.
    fn store(&self, offset: u64, bytes: &[u8]);

    /// Called when such a store is sent; it becomes visible at `at`, and not before. A device that polls the
    /// memory may skip polls until then.
    fn announce(&self, offset: u64, bytes: u64, at: Time) {
        let _ = (offset, bytes, at);
    }

    /// Fills `into` with the bytes at `offset`, as of the instant at which the load arrives.
    fn load(&self, offset: u64, into: &mut [u8]);
}

/// The device memory as enumeration finds it: its decoder base and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HdmRange {
    /// Host address of the first byte.
    pub base: u64,
    /// Size in bytes.
    pub bytes: u64,
}

impl HdmRange {
    /// Offset of a host address from the base; None if it lies outside (BandSlim, fine-grained CXL).
    pub fn offset(&self, address: u64) -> Option<u64> {
        address.checked_sub(self.base).filter(|offset| *offset < self.bytes)
    }
}

/// How the processor orders its stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreOrdering {
    /// Into its cache, with a read for ownership of each line; then each line is flushed, one after the
    /// other.
    #[default]
    Flushed,
    /// Non-temporal, all lines in sequence; then a read back of the last line, which completes when all have
    /// arrived.
    Streamed,
}

/// A line in flight to the device.
struct Store {
    offset: u64,
    bytes: u8,
    line: [u8; LINE_BYTES as usize],
}

/// CXL.mem state of a link.
pub(crate) struct Cxl {
    config: CxlConfig,
    memory: Rc<dyn Hdm>,
    stores: Rc<Mailbox<Store>>,
    /// Lines stored, and lines loaded.
    lines: Rc<Cell<(u64, u64)>>,
    /// Spans of the I/Os whose records were stored to a ring, by index.
    followed: RefCell<Vec<SpanId>>,
}

impl Link {
    /// Makes visible every store that is due by now.
    fn settle_lines(&self) {
        let held = self.cxl.borrow().as_ref().map(|cxl| (cxl.stores.clone(), cxl.memory.clone()));
        let Some((stores, memory)) = held else { return };
        while let Some(store) = stores.try_receive_quiet() {
            memory.store(store.offset, &store.line[..usize::from(store.bytes)]);
        }
    }

    fn cxl_config(&self) -> Option<CxlConfig> {
        self.cxl.borrow().as_ref().map(|cxl| cxl.config)
    }

    /// Sends lines with data down. Each part becomes visible `memory_latency` after its arrival. Returns when
    /// the last one is visible.
    fn send_lines(&self, config: CxlConfig, offset: u64, bytes: &[u8]) -> Time {
        let lines = Lines::touched(offset, bytes.len() as u64);
        let passage = self.send_down(Purpose::CxlMem, config.data(lines), lines.count * LINE_PAYLOAD);
        let visible = passage.arrival + config.memory_latency;
        let cxl = self.cxl.borrow();
        let Some(cxl) = &*cxl else { return visible };
        let (stored, loaded) = cxl.lines.get();
        cxl.lines.set((stored + lines.count, loaded));
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let space = LINE_BYTES as usize - (at % u64::from(LINE_BYTES)) as usize;
            let (part, later) = rest.split_at(rest.len().min(space));
            let mut line = [0; LINE_BYTES as usize];
            line[..part.len()].copy_from_slice(part);
            let store = Store { offset: at, bytes: part.len() as u8, line };
            cxl.stores.send_quietly_at(visible, store);
            cxl.memory.announce(at, part.len() as u64, visible);
            (at, rest) = (at + part.len() as u64, later);
        }
        visible
    }

    /// Loads one line, or reads it for ownership: a request down, a response with data up. `sample` runs when
    /// the request has arrived.
    async fn load_line(&self, config: CxlConfig, sample: impl FnOnce(&dyn Hdm)) {
        let asked = self.send_down(Purpose::CxlMem, config.requests(1), 0);
        self.clock.sleep_until(asked.arrival + config.memory_latency).await;
        self.settle_lines();
        let memory = self.cxl.borrow().as_ref().map(|cxl| cxl.memory.clone());
        if let Some(memory) = memory {
            sample(&*memory);
        }
        let answer = self.send_up(Purpose::CxlMem, config.data(Lines { count: 1, partial: 0 }), 0);
        self.clock.sleep_until(answer.arrival).await;
        if let Some(cxl) = &*self.cxl.borrow() {
            let (stored, loaded) = cxl.lines.get();
            cxl.lines.set((stored, loaded + 1));
        }
    }
}

impl HostEnd {
    /// The device's memory as enumeration finds it; None if the device has none.
    pub fn hdm(&self) -> Option<HdmRange> {
        let cxl = self.0.cxl.borrow();
        let bytes = cxl.as_ref()?.memory.bytes();
        (bytes > 0).then_some(HdmRange { base: HDM_ADDRESS, bytes })
    }

    /// Stores `bytes` to device memory at `offset`, and waits until the device has them. Bytes outside the
    /// memory are discarded.
    pub async fn store_lines(&self, offset: u64, bytes: &[u8], ordering: StoreOrdering) {
        let link = &self.0;
        let (Some(config), Some(range)) = (link.cxl_config(), self.hdm()) else { return };
        let Some(space) = range.bytes.checked_sub(offset) else { return };
        let bytes = &bytes[..bytes.len().min(usize::try_from(space).unwrap_or(usize::MAX))];
        if bytes.is_empty() {
            return;
        }
        match ordering {
            StoreOrdering::Flushed => {
                let (mut at, mut rest) = (offset, bytes);
                while !rest.is_empty() {
                    let space = LINE_BYTES as usize - (at % u64::from(LINE_BYTES)) as usize;
                    let (part, later) = rest.split_at(rest.len().min(space));
                    link.load_line(config, |_| ()).await;
                    let visible = link.send_lines(config, at, part);
                    link.clock.sleep_until(visible).await;
                    link.settle_lines();
                    let done = link.send_up(Purpose::CxlMem, config.completions(1), 0);
                    link.clock.sleep_until(done.arrival).await;
                    (at, rest) = (at + part.len() as u64, later);
                }
            }
            StoreOrdering::Streamed => {
                let lines = Lines::touched(offset, bytes.len() as u64);
                let visible = link.send_lines(config, offset, bytes);
                link.load_line(config, |_| ()).await;
                link.clock.sleep_until(visible).await;
                link.settle_lines();
                let done = link.send_up(Purpose::CxlMem, config.completions(lines.count), 0);
                link.clock.sleep_until(done.arrival).await;
            }
        }
    }

    /// Stores without flush or read back, like a faulty host. A doorbell write may overtake the stores.
    pub fn store_lines_unordered(&self, offset: u64, bytes: &[u8]) {
        let link = &self.0;
        let (Some(config), Some(range)) = (link.cxl_config(), self.hdm()) else { return };
        let fits = offset.checked_add(bytes.len() as u64).is_some_and(|end| end <= range.bytes);
        if fits && !bytes.is_empty() {
            link.send_lines(config, offset, bytes);
            let lines = Lines::touched(offset, bytes.len() as u64);
            link.send_up(Purpose::CxlMem, config.completions(lines.count), 0);
        }
    }

    /// Loads from device memory, line by line. Bytes outside the memory read as zeroes.
    pub async fn load_lines(&self, offset: u64, into: &mut [u8]) {
        into.fill(0);
        let link = &self.0;
        let (Some(config), Some(range)) = (link.cxl_config(), self.hdm()) else { return };
        let Some(space) = range.bytes.checked_sub(offset) else { return };
        let count = into.len().min(usize::try_from(space).unwrap_or(usize::MAX));
        let mut done = 0;
        while done < count {
            let at = offset + done as u64;
            let part = (count - done).min(LINE_BYTES as usize - (at % u64::from(LINE_BYTES)) as usize);
            link.load_line(config, |memory| memory.load(at, &mut into[done..done + part])).await;
            done += part;
        }
    }

    /// Attaches the span of an I/O to the record that the host stores at `index` of a ring in device memory.
    pub fn follow_stored(&self, index: u32, span: SpanId) {
        let cxl = self.0.cxl.borrow();
        let Some(cxl) = &*cxl else { return };
        let (mut followed, index) = (cxl.followed.borrow_mut(), index as usize);
        if followed.len() <= index {
            followed.resize(index + 1, SpanId::NONE);
        }
        followed[index] = span;
    }

    /// Lines stored and lines loaded over CXL.mem up to now.
    pub fn lines(&self) -> (u64, u64) {
        self.0.cxl.borrow().as_ref().map_or((0, 0), |cxl| cxl.lines.get())
    }
}

impl DeviceEnd {
    /// Makes the device memory `memory` reachable over CXL.mem.
    pub fn attach_memory(&self, config: CxlConfig, memory: Rc<dyn Hdm>) {
        let stores = Rc::new(Mailbox::new(&self.0.clock));
        let (lines, followed) = (Rc::default(), RefCell::default());
        self.0.cxl.replace(Some(Cxl { config, memory, stores, lines, followed }));
    }

    /// Takes the span of the I/O whose record lies at `index` of a ring in device memory. Later calls return
    /// [`SpanId::NONE`].
    pub fn followed_stored(&self, index: u32) -> SpanId {
        let cxl = self.0.cxl.borrow();
        let mut followed = match &*cxl {
            Some(cxl) => cxl.followed.borrow_mut(),
            None => return SpanId::NONE,
        };
        followed.get_mut(index as usize).map_or(SpanId::NONE, |span| std::mem::replace(span, SpanId::NONE))
    }

    /// Makes visible every store that is due by now. Call before reading the device's memory.
    pub fn settle_memory(&self) {
        self.0.settle_lines();
    }

    /// Whether no store to the device's memory is in flight.
    pub fn memory_is_settled(&self) -> bool {
        self.0.settle_lines();
        self.0.cxl.borrow().as_ref().is_none_or(|cxl| cxl.stores.is_empty())
    }
}
