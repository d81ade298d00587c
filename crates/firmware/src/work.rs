//! The kinds of firmware work, and the cost of each.

/// A kind of firmware work, with the unit in which it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum WorkKind {
    /// Detecting a submission and fetching its entry. Per command.
    Fetch,
    /// Decoding and checking a command. Per command.
    Parse,
    /// Entering a translation layer that runs apart from command decoding: a host driver's call path, locks
    /// and bookkeeping. Per command.
    Enter,
    /// Looking up or changing a unit's map entry. Per unit of 4 KiB.
    Translate,
    /// Taking a unit into the write buffer. Per unit of 4 KiB.
    Buffer,
    /// Moving a valid unit out of a victim block. Per unit of 4 KiB.
    Collect,
    /// Building and posting a completion. Per command.
    Complete,
    /// Setting up DMA between host and drive by a data pointer. Per 4 KiB or part of it.
    Dma,
    /// Copying payload between an application's memory and a driver's buffers. Its cost is a rate in bytes a
    /// second: see [`Placement::with_bounce_buffers`](crate::placement::Placement::with_bounce_buffers).
    Copy,
    /// Taking a flash or DMA operation from the queue that peers submit to. Per operation, with the time
    /// given to [`Placement::with_agent`](crate::placement::Placement::with_agent).
    Agent,
    /// Taking a submission queue slot that carries payload. Per slot.
    Chunk,
    /// A command of the key-value store except for copies: look-up or insertion. Per command.
    Index,
    /// Copying a value into the page buffer. Per 64 bytes or part of them.
    Pack,
    /// Merging an entry of the key-value store's index in a compaction. Per entry.
    Compact,
    /// Polling once for the next commit record. Per poll.
    Poll,
    /// Finding the member of an array and the address on it. Per piece of an I/O on one member.
    Stripe,
    /// Computing parity over real bytes. Per 4 KiB that is XORed into another.
    Parity,
    /// Converting a command between protocols, and its completion back. Per command from a bridge to a
    /// member.
    Convert,
    /// Submitting a vector of flash commands to hardware across a link, or handling its completion. Per
    /// vector, with the time given to [`Hardware`](crate::hardware::Hardware).
    Command,
    /// Parsing a query and checking it against its table. Per 64 bytes of the task or part of them.
    Task,
    /// Decoding columns of a table. Per 64 bytes as stored in flash.
    Decode,
    /// Encoding columns of a table. Per 64 bytes of input.
    Encode,
    /// Evaluating a query. Per comparison of 64 values of 8 bytes; other operators count as several
    /// comparisons.
    Evaluate,
    /// Writing the result of a query. Per 64 bytes.
    Output,
    /// Executing a program of the host. Per instruction, weighted by its class.
    Program,
}

impl WorkKind {
    /// All kinds, in report order.
    pub const ALL: [WorkKind; 25] = [
        WorkKind::Fetch,
        WorkKind::Parse,
        WorkKind::Enter,
        WorkKind::Translate,
        WorkKind::Buffer,
        WorkKind::Collect,
        WorkKind::Complete,
        WorkKind::Dma,
        WorkKind::Copy,
        WorkKind::Agent,
        WorkKind::Chunk,
        WorkKind::Index,
        WorkKind::Pack,
        WorkKind::Compact,
        WorkKind::Poll,
        WorkKind::Stripe,
        WorkKind::Parity,
        WorkKind::Convert,
        WorkKind::Command,
        WorkKind::Task,
        WorkKind::Decode,
        WorkKind::Encode,
        WorkKind::Evaluate,
        WorkKind::Output,
        WorkKind::Program,
    ];

    /// Name of the kind in profiles and reports.
    pub fn name(self) -> &'static str {
        match self {
            WorkKind::Fetch => "fetch",
            WorkKind::Parse => "parse",
            WorkKind::Enter => "enter",
            WorkKind::Translate => "translate",
            WorkKind::Buffer => "buffer",
            WorkKind::Collect => "collect",
            WorkKind::Complete => "complete",
            WorkKind::Dma => "DMA",
            WorkKind::Copy => "copy",
            WorkKind::Agent => "agent",
            WorkKind::Chunk => "chunk",
            WorkKind::Index => "index",
            WorkKind::Pack => "pack",
            WorkKind::Compact => "compact",
            WorkKind::Poll => "poll",
            WorkKind::Stripe => "stripe",
            WorkKind::Parity => "parity",
            WorkKind::Convert => "convert",
            WorkKind::Command => "flash command",
            WorkKind::Task => "task",
            WorkKind::Decode => "decode",
            WorkKind::Encode => "encode",
            WorkKind::Evaluate => "evaluate",
            WorkKind::Output => "output",
            WorkKind::Program => "program",
        }
    }
}

/// Cost of one count of each kind, in cycles of the core that runs it. Zero means not modelled: such work
/// does not wait for a core either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cycles([u64; WorkKind::ALL.len()]);

impl Cycles {
    /// Work that costs nothing.
    pub const FREE: Cycles = Cycles([0; WorkKind::ALL.len()]);

    /// Sets the cost of `work` to `cycles`.
    pub fn with(mut self, work: WorkKind, cycles: u64) -> Self {
        self.0[work as usize] = cycles;
        self
    }

    /// Cost of one count of `work`, in cycles.
    pub fn of(&self, work: WorkKind) -> u64 {
        self.0[work as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Costs are indexed by the kind's number: a kind out of order in `ALL` would be charged another's cost.
    #[test]
    fn every_kind_stands_at_its_number() {
        for (index, work) in WorkKind::ALL.into_iter().enumerate() {
            assert_eq!(work as usize, index);
        }
    }
}
