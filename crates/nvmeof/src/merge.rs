//! Merging of requests in the block layer: a bio adjacent to a request that still waits in the scheduler
//! joins it, and the drive executes one command for all.

use crate::movement::Movement;
use byteway_clock::{Clock, Notify};
use byteway_wire::nvme::{Cqe, NvmOpcode, ReadWrite, Sqe, Status};
use std::cell::RefCell;
use std::rc::Rc;

/// A command and its data, offered for merging.
pub(crate) struct Offer<'a> {
    pub movement: Movement,
    pub data: &'a mut Vec<u8>,
    /// The longest data of a command.
    pub bytes_max: u32,
}

/// The outcome of a command that was merged into another.
pub(crate) struct Joined {
    end: RefCell<Option<(Cqe, Vec<u8>)>>,
    ended: Notify,
}

impl Joined {
    /// Waits for the completion. Then `data` is the command's again, with what was read.
    pub(crate) async fn end(&self, data: &mut Vec<u8>) -> Cqe {
        loop {
            if let Some((cqe, own)) = self.end.take() {
                *data = own;
                return cqe;
            }
            self.ended.notified().await;
        }
    }
}

/// A command within a merged request.
struct Part {
    slba: u64,
    bytes: u32,
    data: Vec<u8>,
    joined: Rc<Joined>,
}

impl Part {
    fn end(mut self, cqe: Cqe) {
        self.complete(cqe);
    }

    fn complete(&mut self, cqe: Cqe) {
        self.joined.end.replace(Some((cqe, std::mem::take(&mut self.data))));
        self.joined.ended.notify_one();
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // The request that it was merged into was dropped: complete the command with an error.
        if Rc::strong_count(&self.joined) > 1 && self.joined.end.borrow().is_none() {
            self.complete(Cqe::new(0, Status::INTERNAL_PATH_ERROR, 0, 0));
        }
    }
}

/// A request, and the commands merged into it.
pub(crate) struct Gathering {
    /// Opcode, namespace, and all dwords but address and length: equal in all merged commands.
    kind: (u8, u32, [u32; 4]),
    own: u64,
    own_bytes: u32,
    slba: u64,
    blocks: u64,
    block_bytes: u32,
    bytes_max: u32,
    parts: Vec<Part>,
}

impl Gathering {
    /// For a read or a write; other commands are not merged.
    pub(crate) fn of(sqe: &Sqe, offer: &Offer<'_>) -> Option<Gathering> {
        let (Movement::ToDrive(bytes) | Movement::ToHost(bytes)) = offer.movement else { return None };
        if !matches!(NvmOpcode(sqe.opcode()), NvmOpcode::READ | NvmOpcode::WRITE) {
            return None;
        }
        let command = ReadWrite::parse(sqe);
        let kind = (sqe.opcode(), sqe.nsid, [sqe.cdw12 & 0xFFFF_0000, sqe.cdw13, sqe.cdw14, sqe.cdw15]);
        Some(Gathering {
            kind,
            own: command.slba,
            own_bytes: bytes,
            slba: command.slba,
            blocks: command.blocks().into(),
            block_bytes: bytes / command.blocks(),
            bytes_max: offer.bytes_max,
            parts: Vec::new(),
        })
    }

    /// First logical block.
    pub(crate) fn slba(&self) -> u64 {
        self.slba
    }

    /// Whether `other` is adjacent and both together fit into one command.
    pub(crate) fn takes(&self, other: &Gathering) -> bool {
        let bytes = (self.blocks + other.blocks) * u64::from(self.block_bytes);
        let is_behind = self.slba.checked_add(self.blocks) == Some(other.slba);
        let is_before = other.slba.checked_add(other.blocks) == Some(self.slba);
        self.kind == other.kind
            && self.block_bytes == other.block_bytes
            && bytes <= self.bytes_max.into()
            && (is_behind || is_before)
    }

    /// Merges a command for which [`Gathering::takes`] holds.
    pub(crate) fn join(&mut self, clock: &Clock, other: &Gathering, data: &mut Vec<u8>) -> Rc<Joined> {
        let joined = Rc::new(Joined { end: RefCell::default(), ended: Notify::new(clock) });
        let part = Part {
            slba: other.own,
            bytes: other.own_bytes,
            data: std::mem::take(data),
            joined: joined.clone(),
        };
        self.slba = self.slba.min(other.slba);
        self.blocks += other.blocks;
        self.parts.push(part);
        joined
    }

    /// The command for all, with its data in `data`.
    pub(crate) fn command(&mut self, sqe: &Sqe, movement: Movement, data: &mut Vec<u8>) -> (Sqe, Movement) {
        if self.parts.is_empty() {
            return (*sqe, movement);
        }
        let bytes = (self.blocks * u64::from(self.block_bytes)) as u32;
        let movement = match movement {
            Movement::ToDrive(_) => Movement::ToDrive(bytes),
            _ => Movement::ToHost(bytes),
        };
        if let Movement::ToDrive(_) = movement {
            let mut all = vec![0; bytes as usize];
            let own = [(self.own, &*data)];
            for (slba, part) in own.into_iter().chain(self.parts.iter().map(|part| (part.slba, &part.data))) {
                let at = ((slba - self.slba) * u64::from(self.block_bytes)) as usize;
                all[at..at + part.len()].copy_from_slice(part);
            }
            *data = all;
        }
        let cdw12 = (sqe.cdw12 & 0xFFFF_0000) | (self.blocks as u32 - 1);
        let (cdw10, cdw11) = (self.slba as u32, (self.slba >> 32) as u32);
        (Sqe { cdw10, cdw11, cdw12, ..*sqe }, movement)
    }

    /// Completes all commands, and leaves in `data` what the first command has read.
    pub(crate) fn end(self, movement: Movement, cqe: Cqe, data: &mut Vec<u8>) {
        let Gathering { own, own_bytes, slba, block_bytes, parts, .. } = self;
        if parts.is_empty() {
            return;
        }
        let has_read = matches!(movement, Movement::ToHost(_)) && cqe.status().is_success();
        let read = |first: u64, bytes: u32| {
            let at = ((first - slba) * u64::from(block_bytes)) as usize;
            data.get(at..at + bytes as usize).unwrap_or_default().to_vec()
        };
        for mut part in parts {
            if has_read {
                part.data = read(part.slba, part.bytes);
            }
            part.end(cqe);
        }
        if has_read {
            *data = read(own, own_bytes);
        }
    }
}
