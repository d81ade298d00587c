//! The buffers of a command slot, reused from command to command.

use byteway_content::{Content, Keep, Pattern, UNIT_BYTES};
use byteway_kv::Key;
use byteway_link::PartConsumer;
use byteway_transfer::Collector;
use byteway_transfer::collector::Supported;
use byteway_wire::nvme::{CopyRange, Range};

/// The buffers of a command slot.
pub struct Workspace {
    /// Resolves data pointers.
    pub collector: Collector,
    /// Units in transfer between host and flash.
    pub(crate) contents: Vec<Content>,
    /// Bytes in transfer that are not whole units.
    pub(crate) bytes: Vec<u8>,
    pub(crate) unit: Box<[u8; UNIT_BYTES]>,
    /// Source ranges of a Copy.
    pub(crate) ranges: Vec<CopyRange>,
    /// Ranges of a Dataset Management.
    pub(crate) dataset: Vec<Range>,
    /// Keys found by a List.
    pub(crate) keys: Vec<Key>,
    /// First block of a failed command, for the error log.
    pub failed_lba: u64,
    /// Dword 0 of the completion of a failed command.
    pub failed_dword: u32,
    /// Command specific information of a failed command, for the error log.
    pub failed_information: u64,
}

impl Workspace {
    /// A workspace for the data pointers `supported`.
    pub fn new(supported: Supported) -> Self {
        Workspace {
            collector: Collector::new(supported),
            contents: Vec::new(),
            bytes: Vec::new(),
            unit: Box::new([0; UNIT_BYTES]),
            ranges: Vec::new(),
            dataset: Vec::new(),
            keys: Vec::new(),
            failed_lba: 0,
            failed_dword: 0,
            failed_information: 0,
        }
    }

    /// Appends the part of the payload at `offset`. Parts must come in order.
    pub(crate) fn land(&mut self, landing: Landing, keep: Keep, offset: usize, part: &[u8]) {
        self.landed(landing, keep).1.bytes(offset, part);
    }

    /// The collector, and the destination of the payload that it resolves.
    pub(crate) fn landed(&mut self, landing: Landing, keep: Keep) -> (&Collector, Landed<'_>) {
        let Workspace { collector, contents, unit, bytes, .. } = self;
        (collector, Landed { landing, keep, contents, unit, bytes })
    }
}

/// The destination of a payload in transfer.
pub(crate) struct Landed<'a> {
    landing: Landing,
    keep: Keep,
    contents: &'a mut Vec<Content>,
    unit: &'a mut [u8; UNIT_BYTES],
    bytes: &'a mut Vec<u8>,
}

impl PartConsumer for Landed<'_> {
    fn bytes(&mut self, offset: usize, part: &[u8]) {
        match self.landing {
            Landing::Units => assemble(self.contents, self.unit, self.keep, offset, part),
            Landing::Bytes | Landing::Dram => self.bytes.extend_from_slice(part),
        }
    }

    fn page(&mut self, offset: usize, pattern: Pattern) -> bool {
        let is_unit = self.landing == Landing::Units && offset.is_multiple_of(UNIT_BYTES);
        if is_unit && self.keep == Keep::Stamps {
            self.contents.push(pattern.into());
            return true;
        }
        false
    }
}

/// Destination of a payload from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landing {
    /// Into `contents`: whole units.
    Units,
    /// Into `bytes`.
    Bytes,
    /// `bytes`, and the drive's DRAM.
    Dram,
}

/// Appends a part of the payload to the units that it forms. Parts must come in order.
fn assemble(
    contents: &mut Vec<Content>,
    unit: &mut [u8; UNIT_BYTES],
    keep: Keep,
    offset: usize,
    mut part: &[u8],
) {
    let mut at = offset % UNIT_BYTES;
    while !part.is_empty() {
        let (now, later) = part.split_at(part.len().min(UNIT_BYTES - at));
        if now.len() == UNIT_BYTES {
            contents.push(Content::of(now, keep));
        } else {
            unit[at..at + now.len()].copy_from_slice(now);
            if at + now.len() == UNIT_BYTES {
                contents.push(Content::of(&unit[..], keep));
            }
        }
        (at, part) = (0, later);
    }
}
