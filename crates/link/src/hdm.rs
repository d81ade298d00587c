//! Host-managed device memory: what the host's processor loads from and stores to over CXL.mem.
//!
//! CXL.mem and CXL.io share the lanes and are not ordered against each other: a store can be seen in the device some
//! time after it has arrived, and a doorbell may overtake it. So what must be there before a command is either
//! flushed line by line, each of which ends with a completion, or streamed and read back.

use crate::cxl::{CxlConfig, LINE_BYTES, LINE_PAYLOAD, Lines};
use crate::ledger::Purpose;
use crate::port::{DeviceEnd, HostEnd, Link};
use byteway_clock::{Mailbox, SpanId, Time};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Where device memory begins in the host's address space: above BAR and interrupts, on a multiple of 256 MiB, as
/// decoders have it (CXL 2.0, 8.2.5.12).
const HDM_ADDRESS: u64 = 0x50_0000_0000;

/// The device's memory.
pub trait Hdm {
    /// Its size, bytes.
    fn bytes(&self) -> u64;

    /// A store of at most a line, within the memory, has become visible.
    fn store(&self, offset: u64, bytes: &[u8]);

    /// Such a store is under way, and becomes visible at `at`. Nothing can be seen of it before; but a device that would look
    /// again and again need not until then.
    fn announce(&self, offset: u64, bytes: u64, at: Time) {
        let _ = (offset, bytes, at);
    }

    /// What lies at `offset`, into all of `into`, at the instant at which the load gets there.
    fn load(&self, offset: u64, into: &mut [u8]);
}

/// What enumeration finds of the device's memory: its base, programmed in a decoder, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HdmRange {
    /// The host address of its first byte.
    pub base: u64,
    /// Its size.
    pub bytes: u64,
}

impl HdmRange {
    /// The device address of a host address within: what is beyond the base (BandSlim, fine-grained CXL).
    pub fn offset(&self, address: u64) -> Option<u64> {
        address.checked_sub(self.base).filter(|offset| *offset < self.bytes)
    }
}

/// How the processor stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// To its cache, which reads each line to own it, and then each line is flushed: one after the other.
    #[default]
    Flushed,
    /// Past its cache, all lines behind one another; then the last is read back, which ends when all are there.
    Streamed,
}

/// A line on its way to the device.
struct Store {
    offset: u64,
    bytes: u8,
    line: [u8; LINE_BYTES as usize],
}

/// CXL.mem on a link.
pub(crate) struct Cxl {
    config: CxlConfig,
    memory: Rc<dyn Hdm>,
    stores: Rc<Mailbox<Store>>,
    /// Lines that were stored, and loaded.
    lines: Rc<Cell<(u64, u64)>>,
    /// The I/Os of what was stored to a ring, by index.
    followed: RefCell<Vec<SpanId>>,
}

impl Link {
    /// What was stored and has become visible by now.
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

    /// Lines with data go down; each part is visible `memory_latency` after its arrival. Gives that instant.
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
            let room = LINE_BYTES as usize - (at % u64::from(LINE_BYTES)) as usize;
            let (part, later) = rest.split_at(rest.len().min(room));
            let mut line = [0; LINE_BYTES as usize];
            line[..part.len()].copy_from_slice(part);
            let store = Store { offset: at, bytes: part.len() as u8, line };
            cxl.stores.send_quietly_at(visible, store);
            cxl.memory.announce(at, part.len() as u64, visible);
            (at, rest) = (at + part.len() as u64, later);
        }
        visible
    }

    /// A line is loaded, or read to be owned: down without data, up with it; `sample` looks when the request has got there.
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
    /// Enumerates the device's memory: none if it has none.
    pub fn hdm(&self) -> Option<HdmRange> {
        let cxl = self.0.cxl.borrow();
        let bytes = cxl.as_ref()?.memory.bytes();
        (bytes > 0).then_some(HdmRange { base: HDM_ADDRESS, bytes })
    }

    /// Stores `bytes` to device memory from `offset` on, and waits until the device has them. What lies outside of the
    /// memory goes nowhere.
    pub async fn store_lines(&self, offset: u64, bytes: &[u8], manner: Manner) {
        let link = &self.0;
        let (Some(config), Some(range)) = (link.cxl_config(), self.hdm()) else { return };
        let Some(room) = range.bytes.checked_sub(offset) else { return };
        let bytes = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        if bytes.is_empty() {
            return;
        }
        match manner {
            Manner::Flushed => {
                let (mut at, mut rest) = (offset, bytes);
                while !rest.is_empty() {
                    let room = LINE_BYTES as usize - (at % u64::from(LINE_BYTES)) as usize;
                    let (part, later) = rest.split_at(rest.len().min(room));
                    link.load_line(config, |_| ()).await;
                    let visible = link.send_lines(config, at, part);
                    link.clock.sleep_until(visible).await;
                    link.settle_lines();
                    let done = link.send_up(Purpose::CxlMem, config.completions(1), 0);
                    link.clock.sleep_until(done.arrival).await;
                    (at, rest) = (at + part.len() as u64, later);
                }
            }
            Manner::Streamed => {
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

    /// Stores without waiting for anything: what a host does that forgets the read back. A doorbell may overtake it.
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

    /// Loads from device memory, line by line; zeroes outside of it.
    pub async fn load_lines(&self, offset: u64, into: &mut [u8]) {
        into.fill(0);
        let link = &self.0;
        let (Some(config), Some(range)) = (link.cxl_config(), self.hdm()) else { return };
        let Some(room) = range.bytes.checked_sub(offset) else { return };
        let count = into.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let mut done = 0;
        while done < count {
            let at = offset + done as u64;
            let part = (count - done).min(LINE_BYTES as usize - (at % u64::from(LINE_BYTES)) as usize);
            link.load_line(config, |memory| memory.load(at, &mut into[done..done + part])).await;
            done += part;
        }
    }

    /// Follows the I/O of what the host stores at `index` of a ring in device memory.
    pub fn follow_stored(&self, index: u32, span: SpanId) {
        let cxl = self.0.cxl.borrow();
        let Some(cxl) = &*cxl else { return };
        let (mut followed, index) = (cxl.followed.borrow_mut(), index as usize);
        if followed.len() <= index {
            followed.resize(index + 1, SpanId::NONE);
        }
        followed[index] = span;
    }

    /// Lines stored and loaded over CXL.mem so far.
    pub fn lines(&self) -> (u64, u64) {
        self.0.cxl.borrow().as_ref().map_or((0, 0), |cxl| cxl.lines.get())
    }
}

impl DeviceEnd {
    /// Gives the host memory of the device over CXL.mem.
    pub fn attach_memory(&self, config: CxlConfig, memory: Rc<dyn Hdm>) {
        let stores = Rc::new(Mailbox::new(&self.0.clock));
        let (lines, followed) = (Rc::default(), RefCell::default());
        self.0.cxl.replace(Some(Cxl { config, memory, stores, lines, followed }));
    }

    /// The I/O of what the host has stored at `index` of a ring in device memory; it is handed over once.
    pub fn followed_stored(&self, index: u32) -> SpanId {
        let cxl = self.0.cxl.borrow();
        let mut followed = match &*cxl {
            Some(cxl) => cxl.followed.borrow_mut(),
            None => return SpanId::NONE,
        };
        followed.get_mut(index as usize).map_or(SpanId::NONE, |span| std::mem::replace(span, SpanId::NONE))
    }

    /// Brings the device's memory up to now: before it is looked at.
    pub fn settle_memory(&self) {
        self.0.settle_lines();
    }

    /// Whether every store to the device's memory can be seen.
    pub fn memory_is_settled(&self) -> bool {
        self.0.settle_lines();
        self.0.cxl.borrow().as_ref().is_none_or(|cxl| cxl.stores.is_empty())
    }
}
