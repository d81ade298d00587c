//! Splitting of commands: a command that is too long for the drive, or that crosses the namespace's optimal
//! I/O boundary (NOIOB), becomes several commands.

use byteway_host::Namespace;
use byteway_wire::nvme::{Cqe, NvmOpcode, ReadWrite, Sqe, Status};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// A part of a command: its command, and the offset of its data.
pub(crate) struct Part {
    pub sqe: Sqe,
    pub offset: u32,
    pub bytes: u32,
}

/// Splits a command that moves `bytes` bytes; returns no parts if it stays whole. `bytes_max`: the longest
/// data of a part. A boundary splits only what the drive would not write atomically anyway, that is, more
/// than `atomic_blocks` blocks.
pub(crate) fn parts(
    sqe: &Sqe,
    namespace: &Namespace,
    bytes: u32,
    bytes_max: u32,
    atomic_blocks: u32,
) -> Vec<Part> {
    let splits = matches!(NvmOpcode(sqe.opcode()), NvmOpcode::READ | NvmOpcode::WRITE | NvmOpcode::COMPARE);
    let command = ReadWrite::parse(sqe);
    let blocks = command.blocks();
    let block_bytes = bytes / blocks;
    let most = (bytes_max / block_bytes.max(1)).max(1);
    let boundary = match namespace.optimal_boundary {
        0 => None,
        boundary => Some(u64::from(boundary)).filter(|_| blocks > atomic_blocks),
    };
    let within = |slba: u64| boundary.map_or(u64::from(u32::MAX), |boundary| boundary - slba % boundary);
    if !splits || (blocks <= most && u64::from(blocks) <= within(command.slba)) {
        return Vec::new();
    }
    let (mut parts, mut done) = (Vec::new(), 0);
    while done < blocks {
        // The drive refuses what lies beyond the namespace.
        let slba = command.slba.wrapping_add(done.into());
        let count = (blocks - done).min(most).min(within(slba).min(u32::MAX.into()) as u32);
        let cdw12 = (sqe.cdw12 & 0xFFFF_0000) | (count - 1);
        let part = Sqe { cdw10: slba as u32, cdw11: (slba >> 32) as u32, cdw12, ..*sqe };
        parts.push(Part { sqe: part, offset: done * block_bytes, bytes: count * block_bytes });
        done += count;
    }
    parts
}

/// Completion of the whole command: that of the first part that failed.
pub(crate) fn whole(parts: &[Cqe]) -> Cqe {
    let failed = parts.iter().find(|cqe| !cqe.status().is_success());
    failed.or(parts.first()).copied().unwrap_or(Cqe::new(0, Status::INTERNAL_ERROR, 0, 0))
}

/// A boxed future of a part.
pub(crate) type BoxedWork<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Runs all futures concurrently.
pub(crate) async fn all<T>(works: Vec<BoxedWork<'_, T>>) -> Vec<T> {
    let mut works: Vec<_> = works.into_iter().map(|work| (Some(work), None)).collect();
    poll_fn(|context| {
        let mut is_over = true;
        for (work, result) in &mut works {
            if let Some(running) = work {
                match running.as_mut().poll(context) {
                    Poll::Ready(value) => (*work, *result) = (None, Some(value)),
                    Poll::Pending => is_over = false,
                }
            }
        }
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    works.into_iter().filter_map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(slba: u64, blocks: u32, bytes_max: u32, boundary: u16, atomic_blocks: u32) -> Vec<(u64, u32)> {
        let namespace = Namespace {
            nsid: 1,
            blocks: 1 << 20,
            block_bytes: 512,
            metadata_bytes: 0,
            optimal_boundary: boundary,
        };
        let sqe = ReadWrite { slba, nlb_z: (blocks - 1) as u16, ..ReadWrite::default() }.sqe(
            NvmOpcode::WRITE,
            0,
            1,
        );
        let parts = parts(&sqe, &namespace, blocks * 512, bytes_max, atomic_blocks);
        let mut done = 0;
        parts
            .iter()
            .map(|part| {
                let command = ReadWrite::parse(&part.sqe);
                assert_eq!((part.offset, part.bytes), (done, command.blocks() * 512));
                done += part.bytes;
                (command.slba, command.blocks())
            })
            .collect()
    }

    // Without this a part could be too long for the drive, cross a stripe, or be missing.
    #[test]
    fn parts_are_whole_and_within_limits() {
        assert_eq!(lengths(5, 8, 4096, 0, 1), []);
        assert_eq!(lengths(5, 9, 4096, 0, 1), [(5, 8), (13, 1)]);
        assert_eq!(lengths(5, 20, 4096, 0, 1), [(5, 8), (13, 8), (21, 4)]);
        // Stripes of 8 blocks, and of 3.
        assert_eq!(lengths(8, 8, 1 << 20, 8, 1), []);
        assert_eq!(lengths(5, 20, 1 << 20, 8, 1), [(5, 3), (8, 8), (16, 8), (24, 1)]);
        assert_eq!(lengths(5, 4, 1024, 3, 1), [(5, 1), (6, 2), (8, 1)]);
        // An atomic write stays whole.
        assert_eq!(lengths(7, 2, 1 << 20, 8, 2), []);
        assert_eq!(lengths(7, 3, 1 << 20, 8, 2), [(7, 1), (8, 2)]);
        assert_eq!(lengths(u64::MAX - 1, 9, 4096, 0, 1), [(u64::MAX - 1, 8), (6, 1)]);
    }

    // Without this the failure of a part would be lost.
    #[test]
    fn the_whole_fails_with_its_first_part() {
        let end = |status| Cqe::new(0, status, 0, 0);
        let (good, bad, worse) =
            (end(Status::SUCCESS), end(Status::COMPARE_FAILURE), end(Status::INTERNAL_ERROR));
        assert_eq!(whole(&[good, good]).status(), Status::SUCCESS);
        assert_eq!(whole(&[good, bad, worse]).status(), Status::COMPARE_FAILURE);
        assert!(!whole(&[]).status().is_success());
    }
}
