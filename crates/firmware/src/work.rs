//! The kinds of firmware work, and what each costs.

/// A kind of firmware work. What a count of it means stands with each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Work {
    /// Noticing a submission and fetching its entry. Per command.
    Fetch,
    /// Decoding and checking a command. Per command.
    Parse,
    /// Entering the translation layer, where it runs apart from who decodes commands: a driver's way to it on the host, its locks,
    /// its bookkeeping. Per command.
    Enter,
    /// Looking a unit up in the map, or changing its entry. Per unit of 4 KiB.
    Translate,
    /// Taking a unit into the write buffer. Per unit of 4 KiB.
    Buffer,
    /// Moving a valid unit out of a block that is collected. Per unit of 4 KiB.
    Collect,
    /// Building and posting a completion. Per command.
    Complete,
    /// Setting up DMA between host and drive by a data pointer. Per 4 KiB or part of it.
    Dma,
    /// Copying payload between an application's memory and a driver's buffers, at so many bytes a second: see
    /// [`Placement::with_bounce_buffers`](crate::placement::Placement::with_bounce_buffers).
    Copy,
    /// Taking an operation of flash or DMA out of the queue that peers put it into. Per operation, and as long as
    /// [`Placement::with_agent`](crate::placement::Placement::with_agent) says.
    Agent,
    /// Taking an entry of a queue that carries payload. Per entry.
    Chunk,
    /// What a command of the key-value store costs beside the copies: look-up or insertion. Per command.
    Index,
    /// Copying a value to its place in the page buffer. Per 64 bytes or part of them.
    Pack,
    /// Merging an entry of the key-value store's index. Per entry.
    Compact,
    /// Looking once whether the next commit record is there. Per look.
    Poll,
    /// Finding the member of an array and the place on it. Per piece of an I/O that goes to one member.
    Stripe,
    /// Computing parity over real bytes. Per 4 KiB that is XORed into another.
    Parity,
    /// Converting a command of one protocol into another's, and its answer back. Per command of a bridge to a member.
    Convert,
    /// Submitting a vector of flash commands to hardware across a link, or taking its completion. Per vector, and as much as
    /// [`Hardware`](crate::hardware::Hardware) says.
    Command,
}

impl Work {
    /// All kinds, in the order in which they are reported.
    pub const ALL: [Work; 19] = [
        Work::Fetch,
        Work::Parse,
        Work::Enter,
        Work::Translate,
        Work::Buffer,
        Work::Collect,
        Work::Complete,
        Work::Dma,
        Work::Copy,
        Work::Agent,
        Work::Chunk,
        Work::Index,
        Work::Pack,
        Work::Compact,
        Work::Poll,
        Work::Stripe,
        Work::Parity,
        Work::Convert,
        Work::Command,
    ];

    /// Its name in profiles and reports.
    pub fn name(self) -> &'static str {
        match self {
            Work::Fetch => "fetch",
            Work::Parse => "parse",
            Work::Enter => "enter",
            Work::Translate => "translate",
            Work::Buffer => "buffer",
            Work::Collect => "collect",
            Work::Complete => "complete",
            Work::Dma => "DMA",
            Work::Copy => "copy",
            Work::Agent => "agent",
            Work::Chunk => "chunk",
            Work::Index => "index",
            Work::Pack => "pack",
            Work::Compact => "compact",
            Work::Poll => "poll",
            Work::Stripe => "stripe",
            Work::Parity => "parity",
            Work::Convert => "convert",
            Work::Command => "flash command",
        }
    }
}

/// What one of each kind of work costs, in cycles of the core that does it. Zero means that it is not modelled: it
/// then waits for no core either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cycles([u64; Work::ALL.len()]);

impl Cycles {
    /// Work that costs nothing.
    pub const FREE: Cycles = Cycles([0; Work::ALL.len()]);

    /// The same with `cycles` for each `work`.
    pub fn with(mut self, work: Work, cycles: u64) -> Self {
        self.0[work as usize] = cycles;
        self
    }

    /// What one `work` costs.
    pub fn of(&self, work: Work) -> u64 {
        self.0[work as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Costs are kept by the kind's number: one that stood elsewhere among all would be charged another's.
    #[test]
    fn every_kind_stands_at_its_number() {
        for (index, work) in Work::ALL.into_iter().enumerate() {
            assert_eq!(work as usize, index);
        }
    }
}
