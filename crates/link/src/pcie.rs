//! PCI Express arithmetic: packets and bytes of each kind of crossing, and link rates.

use crate::ledger::Entry;
use byteway_clock::{Delay, Rate};
use std::fmt;

/// PCI Express generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// 2.5 GT/s, 8b/10b.
    Gen1,
    /// 5 GT/s, 8b/10b.
    Gen2,
    /// 8 GT/s, 128b/130b.
    Gen3,
    /// 16 GT/s, 128b/130b.
    Gen4,
    /// 32 GT/s, 128b/130b.
    Gen5,
    /// 64 GT/s, flits of 256 bytes of which 236 carry packets.
    Gen6,
}

impl Generation {
    /// Converts the generation number, 1 to 6.
    pub fn from_number(number: u64) -> Option<Self> {
        [Self::Gen1, Self::Gen2, Self::Gen3, Self::Gen4, Self::Gen5, Self::Gen6]
            .get((number as usize).checked_sub(1)?)
            .copied()
    }

    /// Packet bytes a second on `lanes`, after encoding or flit overhead.
    pub fn rate(self, lanes: u32) -> Rate {
        let (megatransfers, useful, of) = match self {
            Self::Gen1 => (2_500u128, 8u128, 10u128),
            Self::Gen2 => (5_000, 8, 10),
            Self::Gen3 => (8_000, 128, 130),
            Self::Gen4 => (16_000, 128, 130),
            Self::Gen5 => (32_000, 128, 130),
            Self::Gen6 => (64_000, 236, 256),
        };
        let bytes = megatransfers * 1_000_000 * u128::from(lanes) * useful / of / 8;
        Rate::per_second(bytes as u64)
    }

    fn is_flit(self) -> bool {
        self == Self::Gen6
    }
}

/// Constants of a PCIe link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PcieConfig {
    /// PCIe generation.
    pub generation: Generation,
    /// Lanes: 1, 2, 4, 8, 12, 16 or 32.
    pub lanes: u32,
    /// Max Payload Size, bytes: 128 to 4096.
    pub mps: u32,
    /// Max Read Request Size, bytes: 128 to 4096.
    pub mrrs: u32,
    /// Read Completion Boundary, bytes: 64 or 128.
    pub rcb: u32,
    /// Read requests that the device may have outstanding.
    pub read_tags: u32,
    /// Propagation delay from end to end, after the last bit has left.
    pub propagation: Delay,
    /// Delay at the host from a read request's arrival to its first completion's departure.
    pub memory_latency: Delay,
    /// Factor by which the link is slower than its generation: 1 except in experiments.
    pub slowdown: u32,
}

/// A field of [`PcieConfig`] is out of range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PcieConfigError {
    /// Name of the field.
    pub field: &'static str,
    /// The rejected value.
    pub value: u64,
    /// The valid values.
    pub allowed: &'static str,
}

impl fmt::Display for PcieConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link.{} = {} is not possible: {}", self.field, self.value, self.allowed)
    }
}

impl std::error::Error for PcieConfigError {}

/// Packets and their wire bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlps {
    /// Number of packets.
    pub count: u64,
    /// Wire bytes including overhead.
    pub wire: u64,
}

/// Alignment that no memory request may cross, in bytes.
const BOUNDARY: u64 = 4096;

impl PcieConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// [`PcieConfigError`] for the first field that is out of range.
    pub fn validate(&self) -> Result<(), PcieConfigError> {
        let size = |bytes: u32| bytes.is_power_of_two() && (128..=4096).contains(&bytes);
        let checks = [
            (
                "lanes",
                self.lanes,
                matches!(self.lanes, 1 | 2 | 4 | 8 | 12 | 16 | 32),
                "1, 2, 4, 8, 12, 16 or 32",
            ),
            ("mps", self.mps, size(self.mps), "a power of two from 128 B to 4096 B"),
            ("mrrs", self.mrrs, size(self.mrrs), "a power of two from 128 B to 4096 B"),
            ("rcb", self.rcb, matches!(self.rcb, 64 | 128), "64 B or 128 B"),
            ("read_tags", self.read_tags, (1..=1024).contains(&self.read_tags), "1 to 1024"),
            ("slowdown", self.slowdown, (1..=1_000_000).contains(&self.slowdown), "1 to 1,000,000"),
        ];
        match checks.into_iter().find(|(_, _, holds, _)| !holds) {
            Some((field, value, _, allowed)) => {
                Err(PcieConfigError { field, value: u64::from(value), allowed })
            }
            None => Ok(()),
        }
    }

    /// Bandwidth of each direction in bytes a second.
    pub fn rate(&self) -> Rate {
        let rate = self.generation.rate(self.lanes);
        Rate::per_second(rate.units_per_second() / u64::from(self.slowdown.max(1)))
    }

    /// Overhead of a packet: framing, sequence number and LCRC (8 bytes before flit mode), and its header of
    /// three double words, or four for an address above 4 GiB.
    fn overhead(&self, address: u64) -> u64 {
        let header = if address >= 1 << 32 { 16 } else { 12 };
        header + self.completion_overhead() - 12
    }

    fn completion_overhead(&self) -> u64 {
        if self.generation.is_flit() { 12 } else { 20 }
    }

    /// A posted write of `bytes` to `address`: packets of at most MPS, none across a 4 KiB boundary.
    pub fn write(&self, address: u64, bytes: u64) -> Tlps {
        let count = pieces(address, bytes, u64::from(self.mps));
        Tlps { count, wire: bytes + count * self.overhead(address) }
    }

    /// The requests for a read of `bytes` at `address`: at most MRRS each, none across a 4 KiB boundary.
    pub fn read_requests(&self, address: u64, bytes: u64) -> Tlps {
        let count = pieces(address, bytes, u64::from(self.mrrs));
        Tlps { count, wire: count * self.overhead(address) }
    }

    /// The completions of that read: at most MPS each, each but the last of a request ending on a multiple of
    /// RCB.
    pub fn read_completions(&self, address: u64, bytes: u64) -> Tlps {
        // All three are powers of two, so masks and shifts replace remainders and divisions.
        let (mps, rcb, mrrs) = (u64::from(self.mps), u64::from(self.rcb), u64::from(self.mrrs));
        let in_mps = |bytes: u64| (bytes + mps - 1) >> mps.trailing_zeros();
        // Nearly all reads are of queue entries or whole pages.
        let within_line = bytes > 0 && (address & (rcb - 1)) + bytes <= rcb;
        if within_line || address & (mps - 1) == 0 && bytes > 0 {
            let count = if within_line { 1 } else { pieces(address, bytes, mps.min(mrrs)) };
            return Tlps { count, wire: bytes + count * self.completion_overhead() };
        }
        let mut count = 0;
        let (mut at, end) = (address, address + bytes);
        while at < end {
            let request_end = end.min((at | (mrrs - 1)) + 1);
            // The first completion ends on the last boundary within MPS; each other one is a whole MPS.
            let first = (at + mps) & !(rcb - 1);
            count += if first >= request_end { 1 } else { 1 + in_mps(request_end - first) };
            at = request_end;
        }
        Tlps { count, wire: bytes + count * self.completion_overhead() }
    }

    /// The completion of a register read.
    pub fn register_completion(&self, bytes: u64) -> Tlps {
        Tlps { count: 1, wire: bytes + self.completion_overhead() }
    }
}

/// Number of aligned pieces of `size` (a power of two of at most 4 KiB) that the extent touches.
fn pieces(address: u64, bytes: u64, size: u64) -> u64 {
    debug_assert!(size <= BOUNDARY);
    if bytes == 0 { 1 } else { ((address & (size - 1)) + bytes + size - 1) >> size.trailing_zeros() }
}

impl Tlps {
    /// Converts to a ledger entry that carries `payload` bytes.
    pub fn carrying(self, payload: u64) -> Entry {
        Entry { tlps: self.count, payload, wire: self.wire }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gen2() -> PcieConfig {
        PcieConfig {
            generation: Generation::Gen2,
            lanes: 8,
            mps: 256,
            mrrs: 512,
            rcb: 64,
            read_tags: 8,
            propagation: Delay::ZERO,
            memory_latency: Delay::ZERO,
            slowdown: 1,
        }
    }

    const HIGH: u64 = 1 << 32;

    // Rates off by the encoding would scale every latency and throughput.
    #[test]
    fn rates_are_those_of_the_generations() {
        let mbps = |g: Generation, lanes| g.rate(lanes).units_per_second() / 1_000_000;
        assert_eq!(mbps(Generation::Gen1, 1), 250);
        assert_eq!(mbps(Generation::Gen2, 8), 4_000);
        assert_eq!(mbps(Generation::Gen3, 4), 3_938);
        assert_eq!(mbps(Generation::Gen4, 4), 7_876);
        assert_eq!(mbps(Generation::Gen5, 8), 31_507);
        assert_eq!(mbps(Generation::Gen6, 1), 7_375);
    }

    // What is nearly always read has a short cut, which must count what the rule counts.
    #[test]
    fn short_cuts_count_as_the_rule_does() {
        let by_rule = |link: &PcieConfig, address: u64, bytes: u64| {
            let mut count = 0;
            let (mut at, end) = (address, address + bytes);
            while at < end {
                let request_end = end.min((at / u64::from(link.mrrs) + 1) * u64::from(link.mrrs));
                while at < request_end {
                    // A completion that is not the last of its request ends on a multiple of RCB.
                    let rcb = u64::from(link.rcb);
                    at = request_end.min((at + u64::from(link.mps)) / rcb * rcb);
                    count += 1;
                }
            }
            count
        };
        for (mps, mrrs, rcb) in
            [(128, 512, 64), (256, 512, 64), (256, 256, 128), (512, 128, 64), (4096, 4096, 64)]
        {
            let link = PcieConfig { mps, mrrs, rcb, ..gen2() };
            for address in (0..4096).step_by(4).map(|offset| HIGH + offset) {
                for bytes in [1, 4, 16, 60, 64, 68, 128, 256, 512, 1000, 4096, 8192] {
                    let counted = link.read_completions(address, bytes).count;
                    assert_eq!(
                        counted,
                        by_rule(&link, address, bytes),
                        "{mps} {mrrs} {rcb}: {address:#x} {bytes}"
                    );
                }
            }
        }
    }

    // The page of the papers' tables: 8 requests of 24 bytes, 16 completions of 276.
    #[test]
    fn a_page_takes_4608_bytes_on_the_wire() {
        let link = gen2();
        assert_eq!(link.read_requests(HIGH, 4096), Tlps { count: 8, wire: 192 });
        assert_eq!(link.read_completions(HIGH, 4096), Tlps { count: 16, wire: 4416 });
        assert_eq!(link.write(HIGH, 4096), Tlps { count: 16, wire: 4096 + 16 * 24 });
    }

    // Short and unaligned extents must split where the rules say; otherwise the wire ledger would drift on
    // odd buffers.
    #[test]
    fn unaligned_extents_split_at_the_boundaries() {
        let link = gen2();
        assert_eq!(link.read_requests(HIGH + 256, 512).count, 2);
        assert_eq!(link.read_completions(HIGH + 4, 256).count, 2);
        assert_eq!(link.read_completions(HIGH + 4, 252).count, 1);
        assert_eq!(link.write(HIGH + 255, 2).count, 2);
        assert_eq!(link.write(4096, 4), Tlps { count: 1, wire: 24 });
        let flit = PcieConfig { generation: Generation::Gen6, ..gen2() };
        assert_eq!(flit.write(HIGH, 4).wire, 20);
    }
}
