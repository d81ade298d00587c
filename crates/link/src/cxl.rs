//! Compute Express Link arithmetic: slots and flits of loads and stores to device memory.
//!
//! A 68 B flit is a protocol identifier of 2 B, four slots of 16 B and a CRC of 2 B (CXL 2.0, 4.2). A 256 B
//! flit has 15 slots next to header, CRC and forward error correction (CXL 3.0, 4.3). A message takes one
//! slot for its header; the data of a line take four more, the byte enables of a partial line one more.
//! Messages sent together share flits without gaps; the unused slots of the last flit stay empty.
//!
//! The papers' traffic figures count 68 B for each stored line, which is the unit of the payload ledger.
//! Requests and completions without data appear in the wire ledger only.

use crate::pcie::Tlps;
use byteway_clock::Delay;

/// Bytes of a processor cache line, the unit of every CXL.mem transfer.
pub const LINE_BYTES: u32 = 64;

/// Payload ledger bytes of a line with data: BandSlim's unit.
pub const LINE_PAYLOAD: u64 = 68;

/// Slots of a message header.
const HEADER: u64 = 1;
/// Slots of the data of a line.
const DATA: u64 = 4;
/// Slots of the byte enables of a partial line.
const ENABLES: u64 = 1;

/// Flit size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flit {
    /// 68 B, four slots.
    #[default]
    Bytes68,
    /// 256 B, 15 slots.
    Bytes256,
}

impl Flit {
    /// Converts a flit size in bytes; `None` unless 68 or 256.
    pub fn from_bytes(bytes: u64) -> Option<Flit> {
        match bytes {
            68 => Some(Flit::Bytes68),
            256 => Some(Flit::Bytes256),
            _ => None,
        }
    }

    /// Size in bytes, 68 or 256.
    pub const fn bytes(self) -> u64 {
        match self {
            Flit::Bytes68 => 68,
            Flit::Bytes256 => 256,
        }
    }

    /// Payload slots of 16 B in one flit.
    pub const fn slots(self) -> u64 {
        match self {
            Flit::Bytes68 => 4,
            Flit::Bytes256 => 15,
        }
    }

    /// The flits for `slots` that are sent together, and their bytes.
    pub const fn carrying(self, slots: u64) -> Tlps {
        let count = slots.div_ceil(self.slots());
        Tlps { count, wire: count * self.bytes() }
    }
}

/// Constants of CXL.mem, which shares the lanes with PCIe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CxlConfig {
    /// Flit size.
    pub flit: Flit,
    /// Delay at the device from a request's arrival to its response's departure, and from a store's arrival
    /// until it is visible.
    pub memory_latency: Delay,
}

/// Lines of one transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// All lines.
    pub count: u64,
    /// Lines of which only some bytes are stored.
    pub partial: u64,
}

impl Lines {
    /// The lines that the extent of `bytes` at `offset` touches.
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
    /// Requests without data for `lines`: loads, or reads for ownership before a store.
    pub fn requests(&self, lines: u64) -> Tlps {
        self.flit.carrying(lines * HEADER)
    }

    /// Messages that carry `lines` with their data, in either direction.
    pub fn data(&self, lines: Lines) -> Tlps {
        self.flit.carrying(lines.count * (HEADER + DATA) + lines.partial * ENABLES)
    }

    /// Completions without data for `lines` stored lines.
    pub fn completions(&self, lines: u64) -> Tlps {
        self.flit.carrying(lines * HEADER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CXL: CxlConfig = CxlConfig { flit: Flit::Bytes68, memory_latency: Delay::ZERO };
    const WHOLE: Lines = Lines { count: 1, partial: 0 };

    // A line on its own takes two flits down and one up; in a long transfer each takes 85 and 17 bytes.
    // Counted as 68 B, as papers do, the link would seem a quarter faster than it is.
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
