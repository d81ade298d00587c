//! Compute Express Link arithmetic: how many slots and flits loads and stores to memory in the device take.
//!
//! A flit of 68 B is a protocol identifier of 2 B, four slots of 16 B and a CRC of 2 B (CXL 2.0, 4.2). One of 256 B
//! has 15 slots beside header, CRC and forward error correction (CXL 3.0, 4.3). A message takes a slot for its header;
//! data of a line take four slots, the enables of a partial line one more. Messages that are sent together fill flits
//! behind one another; what is sent alone fills one with nothing.
//!
//! The papers' traffic figures count 68 B for a line that is stored. That is the payload ledger's unit; requests and
//! completions without data are in the wire ledger only.

use crate::pcie::Tlps;
use byteway_clock::Delay;

/// Bytes of a line of the processor's cache, in which CXL.mem moves everything.
pub const LINE_BYTES: u32 = 64;

/// What the payload ledger counts for a line with data: BandSlim's unit.
pub const LINE_PAYLOAD: u64 = 68;

/// Slots of a header.
const HEADER: u64 = 1;
/// Slots of a line's data.
const DATA: u64 = 4;
/// Slots of a partial line's byte enables.
const ENABLES: u64 = 1;

/// The size of a flit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flit {
    /// 68 B, four slots.
    #[default]
    Bytes68,
    /// 256 B, 15 slots.
    Bytes256,
}

impl Flit {
    /// From its size, bytes.
    pub fn from_bytes(bytes: u64) -> Option<Flit> {
        match bytes {
            68 => Some(Flit::Bytes68),
            256 => Some(Flit::Bytes256),
            _ => None,
        }
    }

    /// Its size.
    pub const fn bytes(self) -> u64 {
        match self {
            Flit::Bytes68 => 68,
            Flit::Bytes256 => 256,
        }
    }

    /// Its slots of 16 B.
    pub const fn slots(self) -> u64 {
        match self {
            Flit::Bytes68 => 4,
            Flit::Bytes256 => 15,
        }
    }

    /// The flits that `slots` take which are sent together.
    pub const fn carrying(self, slots: u64) -> Tlps {
        let count = slots.div_ceil(self.slots());
        Tlps { count, wire: count * self.bytes() }
    }
}

/// A way to device memory beside PCIe's own, over the same lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CxlConfig {
    /// The size of its flits.
    pub flit: Flit,
    /// From a request's arrival at the device to its answer's leaving, and until what it stores can be seen there.
    pub memory_latency: Delay,
}

/// Lines of one transfer: how many, and how many of them are stored in part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// All.
    pub count: u64,
    /// Of those, the ones of which not every byte is stored.
    pub partial: u64,
}

impl Lines {
    /// The lines that `bytes` from `offset` on touch.
    pub fn touched(offset: u64, bytes: u64) -> Lines {
        if bytes == 0 {
            return Lines::default();
        }
        let line = u64::from(LINE_BYTES);
        let (end, first) = (offset + bytes, offset / line);
        let count = (end - 1) / line - first + 1;
        let ragged = |at: u64| u64::from(!at.is_multiple_of(line));
        let partial = if count == 1 { ragged(offset).max(ragged(end)) } else { ragged(offset) + ragged(end) };
        Lines { count, partial }
    }
}

impl CxlConfig {
    /// Requests without data for `lines`: loads, or to own lines before they are changed.
    pub fn requests(&self, lines: u64) -> Tlps {
        self.flit.carrying(lines * HEADER)
    }

    /// Lines that go to the device or come from it with their data.
    pub fn data(&self, lines: Lines) -> Tlps {
        self.flit.carrying(lines.count * (HEADER + DATA) + lines.partial * ENABLES)
    }

    /// Completions without data of `lines` that were stored.
    pub fn completions(&self, lines: u64) -> Tlps {
        self.flit.carrying(lines * HEADER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CXL: CxlConfig = CxlConfig { flit: Flit::Bytes68, memory_latency: Delay::ZERO };
    const WHOLE: Lines = Lines { count: 1, partial: 0 };

    // A line alone takes two flits down and one up; of many together each takes 85 and 17 bytes. Counted as 68 B, as
    // papers do, the link would seem a quarter faster than it is.
    #[test]
    fn lines_fill_flits_behind_one_another() {
        assert_eq!(CXL.data(WHOLE), Tlps { count: 2, wire: 136 });
        assert_eq!(CXL.completions(1), Tlps { count: 1, wire: 68 });
        assert_eq!(CXL.data(Lines { count: 100, partial: 0 }).wire, 8500);
        assert_eq!(CXL.completions(100).wire, 1700);
        assert_eq!(CXL.data(Lines { count: 1, partial: 1 }), Tlps { count: 2, wire: 136 });
        let wide = CxlConfig { flit: Flit::Bytes256, ..CXL };
        assert_eq!(wide.data(WHOLE), Tlps { count: 1, wire: 256 });
        assert_eq!(wide.data(Lines { count: 3, partial: 0 }), Tlps { count: 1, wire: 256 });
    }

    // A value of 32 bytes across two lines is two transfers, not one.
    #[test]
    fn unaligned_extents_touch_more_lines() {
        let touched = |offset, bytes| {
            let Lines { count, partial } = Lines::touched(offset, bytes);
            (count, partial)
        };
        assert_eq!(touched(0, 64), (1, 0));
        assert_eq!(touched(0, 1), (1, 1));
        assert_eq!(touched(48, 32), (2, 2));
        assert_eq!(touched(48, 80), (2, 1));
        assert_eq!(touched(0, 130), (3, 1));
        assert_eq!(touched(7, 0), (0, 0));
    }
}
