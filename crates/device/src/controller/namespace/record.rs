//! The controller's non-volatile state: one record, written as a whole ([`byteway_firmware::Ftl::store_record`]).
//!
//! The record has a layout of its own, little endian, with a version in front and a checksum at the end. A record of
//! another version or another drive, or a damaged one, is ignored.

use crate::config::CommandSet;
use crate::controller::namespace::Format;
use crate::controller::namespace::capacity::Run;
use byteway_content::BlockSize;
use byteway_wire::IntoBytes;
use byteway_wire::nvme::feature::WriteProtection;
use byteway_wire::nvme::progress::SelfTestResult;

const SIGNATURE: [u8; 4] = *b"BWcr";
/// Version for a drive with block namespaces only: the layout from before other command sets.
const VERSION_BLOCKS: u16 = 1;
/// Version for a drive with a namespace without blocks: the code of its command set replaces the block size.
const VERSION: u16 = 2;
const HEADER_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 4;

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceRecord {
    /// Identifier.
    pub nsid: u32,
    /// Unique among all namespaces of the drive.
    pub uid: u64,
    /// Number of logical blocks, or of units without blocks.
    pub blocks: u64,
    /// Format.
    pub format: Format,
    /// Whether it is attached.
    pub attached: bool,
    /// Write protection state.
    pub protection: WriteProtection,
    /// Chunks of the namespace.
    pub runs: Vec<Run>,
}

/// A namespace change in progress, which the next power-on completes if the power fails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pending {
    /// None.
    #[default]
    None,
    /// These namespaces are being deleted.
    Delete(Vec<u32>),
    /// These are being formatted.
    Format {
        /// Identifiers of the namespaces.
        nsids: Vec<u32>,
        /// New block size.
        block: BlockSize,
        /// The former contents are also erased from the media.
        erase: bool,
    },
}

/// Result of the last sanitize operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SanitizeState {
    /// There was none.
    #[default]
    Never,
    /// The operation succeeded.
    Succeeded,
    /// The operation is in progress.
    InProgress,
    /// The operation failed.
    Failed,
    /// The operation failed, and the host has exited the failure state.
    Left,
}

/// The last sanitize operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SanitizeRecord {
    /// Result.
    pub state: SanitizeState,
    /// Dword 10 of its command.
    pub cdw10: u32,
}

/// Counters over the drive's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Bytes read by hosts.
    pub read_bytes: u64,
    /// Bytes written by hosts.
    pub written_bytes: u64,
    /// Time with a command outstanding, in ms.
    pub busy_ms: u64,
    /// Time with power, in ms.
    pub on_ms: u64,
    /// Media errors.
    pub media_errors: u64,
    /// Entries ever added to the error log.
    pub errors: u64,
    /// Power cycles.
    pub power_cycles: u64,
    /// The part of `power_cycles` that ended without a shutdown.
    pub unsafe_shutdowns: u64,
}

/// The whole record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Capacity of the drive that the record belongs to, in units.
    pub units: u64,
    /// Unique identifier of the next namespace.
    pub next_uid: u64,
    /// Namespaces, by rising identifier.
    pub namespaces: Vec<NamespaceRecord>,
    /// The namespace change in progress.
    pub pending: Pending,
    /// Saved feature values: identifier, index of the value, value.
    pub features: Vec<(u8, u8, u32)>,
    /// The timestamp when this was written, in ms, if the host has set one.
    pub timestamp: Option<u64>,
    /// The last sanitize operation.
    pub sanitize: SanitizeRecord,
    /// Results of self-tests, newest first.
    pub results: Vec<SelfTestResult>,
    /// The extended self-test in progress: its namespaces, and per cent done.
    pub extended_test: Option<(u32, u8)>,
    /// Counters.
    pub totals: Totals,
    /// The drive was shut down.
    pub is_clean: bool,
}

impl Record {
    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        out.extend_from_slice(&SIGNATURE);
        let has_others = self.namespaces.iter().any(|n| n.format.set != CommandSet::Nvm);
        let version = if has_others { VERSION } else { VERSION_BLOCKS };
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        let mut out = Writer(out);
        out.u64(self.units);
        out.u64(self.next_uid);
        out.u32(self.namespaces.len() as u32);
        for namespace in &self.namespaces {
            out.u32(namespace.nsid);
            out.u64(namespace.uid);
            out.u64(namespace.blocks);
            out.u8(namespace.format.code());
            out.u8(namespace.attached.into());
            out.u8(namespace.protection.bits() as u8);
            out.u16(namespace.runs.len() as u16);
            for (first, count) in &namespace.runs {
                out.u16(*first);
                out.u16(*count);
            }
        }
        match &self.pending {
            Pending::None => out.u8(0),
            Pending::Delete(nsids) => {
                out.u8(1);
                out.nsids(nsids);
            }
            Pending::Format { nsids, block, erase } => {
                out.u8(2);
                out.nsids(nsids);
                out.u8(*block as u8);
                out.u8((*erase).into());
            }
        }
        out.u16(self.features.len() as u16);
        for (fid, which, value) in &self.features {
            out.u8(*fid);
            out.u8(*which);
            out.u32(*value);
        }
        out.u8(self.timestamp.is_some().into());
        out.u64(self.timestamp.unwrap_or(0));
        out.u8(self.sanitize.state as u8);
        out.u32(self.sanitize.cdw10);
        out.u8(self.results.len() as u8);
        self.results.iter().for_each(|result| out.0.extend_from_slice(result.as_bytes()));
        out.u8(self.extended_test.is_some().into());
        let (nsid, percent) = self.extended_test.unwrap_or_default();
        out.u32(nsid);
        out.u8(percent);
        self.totals.fields().into_iter().for_each(|field| out.u64(field));
        out.u8(self.is_clean.into());
        let mut out = out.0;
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        out
    }

    /// Decodes a record; `None` if the bytes are not a valid one.
    pub fn decode(bytes: &[u8]) -> Option<Record> {
        let (body, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM_BYTES)?)?;
        if crc32c::crc32c(body).to_le_bytes() != checksum {
            return None;
        }
        let (header, body) = body.split_at_checked(HEADER_BYTES)?;
        let is_known = [VERSION, VERSION_BLOCKS].iter().any(|version| header[4..6] == version.to_le_bytes());
        if header[..4] != SIGNATURE || !is_known {
            return None;
        }
        let mut from = Reader(body);
        let mut record = Record { units: from.u64()?, next_uid: from.u64()?, ..Record::default() };
        for _ in 0..from.u32()? {
            record.namespaces.push(from.namespace()?);
        }
        record.pending = match from.u8()? {
            0 => Pending::None,
            1 => Pending::Delete(from.nsids()?),
            2 => Pending::Format { nsids: from.nsids()?, block: from.block()?, erase: from.bool()? },
            _ => return None,
        };
        for _ in 0..from.u16()? {
            record.features.push((from.u8()?, from.u8()?, from.u32()?));
        }
        let is_set = from.bool()?;
        record.timestamp = Some(from.u64()?).filter(|_| is_set);
        record.sanitize.state = match from.u8()? {
            0 => SanitizeState::Never,
            1 => SanitizeState::Succeeded,
            2 => SanitizeState::InProgress,
            3 => SanitizeState::Failed,
            4 => SanitizeState::Left,
            _ => return None,
        };
        record.sanitize.cdw10 = from.u32()?;
        for _ in 0..from.u8()? {
            let bytes = from.take(SelfTestResult::SIZE)?;
            record.results.push(byteway_wire::FromBytes::read_from_bytes(bytes).ok()?);
        }
        let is_testing = from.bool()?;
        record.extended_test = Some((from.u32()?, from.u8()?)).filter(|_| is_testing);
        for field in record.totals.fields_mut() {
            *field = from.u64()?;
        }
        record.is_clean = from.bool()?;
        from.0.is_empty().then_some(record)
    }
}

impl Totals {
    fn fields(mut self) -> [u64; 10] {
        self.fields_mut().map(|field| *field)
    }

    fn fields_mut(&mut self) -> [&mut u64; 10] {
        let Totals { reads, writes, read_bytes, written_bytes, busy_ms, .. } = self;
        let Totals { on_ms, media_errors, errors, power_cycles, unsafe_shutdowns, .. } = self;
        [
            reads,
            writes,
            read_bytes,
            written_bytes,
            busy_ms,
            on_ms,
            media_errors,
            errors,
            power_cycles,
            unsafe_shutdowns,
        ]
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn nsids(&mut self, nsids: &[u32]) {
        self.u16(nsids.len() as u16);
        nsids.iter().for_each(|nsid| self.u32(*nsid));
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn bool(&mut self) -> Option<bool> {
        Some(self.u8()? != 0)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn block(&mut self) -> Option<BlockSize> {
        BlockSize::from_bytes(1_u64.checked_shl(self.u8()?.into())?)
    }

    fn format(&mut self) -> Option<Format> {
        match Format::of_code(*self.0.first()?) {
            Some(format) => self.u8().map(|_| format),
            None => self.block().map(Format::blocks),
        }
    }

    fn nsids(&mut self) -> Option<Vec<u32>> {
        (0..self.u16()?).map(|_| self.u32()).collect()
    }

    fn namespace(&mut self) -> Option<NamespaceRecord> {
        Some(NamespaceRecord {
            nsid: self.u32()?,
            uid: self.u64()?,
            blocks: self.u64()?,
            format: self.format()?,
            attached: self.bool()?,
            protection: WriteProtection::from_bits(self.u8()?.into())?,
            runs: (0..self.u16()?).map(|_| Some((self.u16()?, self.u16()?))).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let namespace = |nsid| NamespaceRecord {
            nsid,
            uid: 77,
            blocks: 123,
            format: if nsid == 1 {
                Format::blocks(BlockSize::B512)
            } else {
                Format::of(CommandSet::KeyValue)
            },
            attached: nsid == 1,
            protection: WriteProtection::Protected,
            runs: vec![(0, 3), (9, 1)],
        };
        Record {
            units: 12288,
            next_uid: 1 << 33,
            namespaces: vec![namespace(1), namespace(7)],
            pending: Pending::Format { nsids: vec![1, 7], block: BlockSize::B4096, erase: true },
            features: vec![(6, 0, 1), (4, 1, 300)],
            timestamp: Some(1_700_000_000_000),
            sanitize: SanitizeRecord { state: SanitizeState::Failed, cdw10: 10 },
            results: vec![SelfTestResult { status: 0x10, nsid: 1, ..SelfTestResult::default() }],
            extended_test: Some((u32::MAX, 40)),
            totals: Totals { reads: 1, unsafe_shutdowns: 2, ..Totals::default() },
            is_clean: true,
        }
    }

    // A record that is decoded differently puts a namespace in the wrong place.
    #[test]
    fn a_record_comes_back_as_it_was() {
        for record in [record(), Record::default(), Record { pending: Pending::Delete(vec![3]), ..record() }]
        {
            assert_eq!(Record::decode(&record.encode()), Some(record));
        }
    }

    // Earlier versions must accept the record of a drive with block namespaces only, and reject that of one with a KV
    // namespace.
    #[test]
    fn the_version_says_whether_there_are_pairs() {
        let mut record = record();
        assert_eq!(record.encode()[4..6], [2, 0]);
        record.namespaces.pop();
        assert_eq!(record.encode()[4..6], [1, 0]);
    }

    // The media may hold anything, of any length: invalid bytes must be rejected without a panic.
    #[test]
    fn what_is_no_record_is_none() {
        let bytes = record().encode();
        for length in 0..bytes.len() {
            assert_eq!(Record::decode(&bytes[..length]), None);
        }
        for byte in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[byte] ^= 0x41;
            assert_eq!(Record::decode(&damaged), None, "byte {byte}");
            // With a matching checksum, too: whatever the bytes decode to, decoding must end.
            let end = damaged.len() - CHECKSUM_BYTES;
            let checksum = crc32c::crc32c(&damaged[..end]).to_le_bytes();
            damaged[end..].copy_from_slice(&checksum);
            Record::decode(&damaged);
        }
    }
}
