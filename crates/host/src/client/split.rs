//! Splitting of I/Os that are longer than a command, as in Linux' block layer: into commands of the maximum length and
//! one for the rest, submitted together; the I/O ends with the last of them.
//!
//! Linux splits at `max_hw_sectors`, which its NVMe driver derives from MDTS (NVMe Base 2.1, 5.1.13.2.1), and earlier
//! if `max_sectors_kb` is lower or memory has too many segments. Here only the former applies.

use crate::client::block::{BlockError, BlockIoError, Client, Direction};
use crate::driver::buffer::IoBuffer;
use crate::error::IoError;
use byteway_clock::{Notify, SpanRecord, SpanTrail};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Memory for one I/O at a time: a buffer per command.
pub struct SplitBuffer(Vec<IoBuffer>);

impl SplitBuffer {
    /// The buffer of its first command, for I/Os that are never split.
    pub fn first(&mut self) -> &mut IoBuffer {
        self.0.first_mut().expect("it is made with at least one, and an I/O gives all back")
    }
}

/// An I/O that has ended, split or not.
pub struct SplitDone {
    /// The result: the record of the command that ended last, or the first error.
    pub result: Result<SpanRecord, BlockIoError>,
    /// Number of commands.
    pub commands: u32,
    /// The trail of the command that ended last, if there were several and it was recorded.
    pub trail: Option<SpanTrail>,
}

/// One of the commands of an I/O.
struct Part {
    index: usize,
    buffer: IoBuffer,
    result: Result<SpanRecord, BlockIoError>,
    trail: Option<SpanTrail>,
}

/// Joins the commands of an I/O.
struct Gather {
    /// In the order in which they ended.
    ended: RefCell<Vec<Part>>,
    left: Cell<usize>,
    last: Notify,
}

impl Client {
    /// A buffer for I/Os of up to `blocks` blocks, in commands of at most the client's maximum length.
    pub fn split_buffer(&self, blocks: u32) -> Result<SplitBuffer, IoError> {
        let count = blocks.div_ceil(self.blocks_max()).max(1);
        (0..count).map(|_| self.buffer()).collect::<Result<_, _>>().map(SplitBuffer)
    }

    /// Reads and verifies `blocks` blocks from `lba` on, or writes a new version of each.
    pub async fn read_or_write_split(
        &self,
        direction: Direction,
        buffer: &mut SplitBuffer,
        lba: u64,
        blocks: u32,
    ) -> SplitDone {
        match buffer.0.first_mut() {
            Some(first) if blocks <= self.blocks_max() => {
                let result = self.read_or_write(direction, first, lba, blocks).await;
                SplitDone { result, commands: 1, trail: None }
            }
            _ => Box::pin(self.split(direction, buffer, lba, blocks)).await,
        }
    }

    /// Like [`Client::read_or_write_split`], by several commands.
    async fn split(
        &self,
        direction: Direction,
        buffer: &mut SplitBuffer,
        lba: u64,
        blocks: u32,
    ) -> SplitDone {
        let most = self.blocks_max();
        let count = blocks.div_ceil(most) as usize;
        let end = lba.checked_add(u64::from(blocks));
        if buffer.0.len() < count || end.is_none() {
            return SplitDone::refused(lba, blocks);
        }
        let clock = self.queue().port().clock();
        let gather = Rc::new(Gather {
            ended: RefCell::new(Vec::with_capacity(count)),
            left: Cell::new(count),
            last: Notify::new(clock),
        });
        for (index, mut own) in buffer.0.drain(..count).enumerate() {
            let (client, gather) = (self.clone(), gather.clone());
            let first = index as u32 * most;
            clock.spawn("split", async move {
                let lba = lba + u64::from(first);
                let result = client.read_or_write(direction, &mut own, lba, most.min(blocks - first)).await;
                // Take it in the same poll in which its span closes: the next I/O that ends reuses its memory.
                let trail = client.queue().port().spans().and_then(|spans| spans.take_trail());
                gather.ended.borrow_mut().push(Part { index, buffer: own, result, trail });
                gather.left.set(gather.left.get() - 1);
                if gather.left.get() == 0 {
                    gather.last.notify_one();
                }
            });
        }
        while gather.left.get() > 0 {
            gather.last.notified().await;
        }
        let mut ended = gather.ended.take();
        let mut trail = None;
        for part in &mut ended {
            // Only the last trail is returned.
            if let Some(before) = trail.take()
                && let Some(spans) = self.queue().port().spans()
            {
                spans.recycle(before);
            }
            trail = part.trail.take();
        }
        let last = ended.last().map(|part| part.index);
        ended.sort_by_key(|part| part.index);
        let mut record = None;
        let mut wrong = None;
        for part in ended {
            // At their former positions, before those that this I/O did not need.
            buffer.0.insert(part.index, part.buffer);
            match part.result {
                Ok(found) if Some(part.index) == last => record = Some(found),
                Ok(_) => {}
                Err(error) => wrong = Some(worse(wrong, error)),
            }
        }
        let result = match (wrong, record) {
            (None, Some(record)) => Ok(record),
            (Some(error), _) => Err(error),
            (None, None) => Err(IoError::Client(BlockError::Extent { lba, count: u64::from(blocks) })),
        };
        SplitDone { result, commands: count as u32, trail }
    }
}

impl SplitDone {
    fn refused(lba: u64, blocks: u32) -> SplitDone {
        let result = Err(IoError::Client(BlockError::Extent { lba, count: u64::from(blocks) }));
        SplitDone { result, commands: 0, trail: None }
    }
}

/// The more informative of two errors: a status is the drive's answer, anything else ends the client's work.
fn worse(first: Option<BlockIoError>, second: BlockIoError) -> BlockIoError {
    match first {
        None => second,
        Some(IoError::Status(_)) if !matches!(second, IoError::Status(_)) => second,
        Some(first) => first,
    }
}
