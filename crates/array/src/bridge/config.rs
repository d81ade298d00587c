//! Parameters of a bridge's memory, and what a bridge counts.

/// Parameters of a bridge's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvramConfig {
    /// Capacity in bytes, at least 64 KiB.
    pub bytes: u64,
    /// Maximum length of a write that enters the memory, in bytes.
    pub small_bytes: u64,
    /// Maximum distance in bytes from the end of another write at which a write belongs to its stream.
    pub stream_window: u64,
    /// Maximum drain writes in flight to the array.
    pub drain_depth: u32,
    /// Writes that pass through are acknowledged only once they survive a power cut on the members.
    pub is_through: bool,
    /// Units of a row, at least 1, in which only one write that passes through is in flight at a time, for
    /// members that map whole rows.
    pub row_units: u64,
}

/// Counters of a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BridgeCounters {
    /// Writes taken into the memory.
    pub writes_taken: u64,
    /// Writes that passed through, as a whole or except for units in the memory.
    pub writes_passed: u64,
    /// Small writes that passed through because they belonged to a sequential stream.
    pub writes_of_streams: u64,
    /// Times that a write waited for free memory.
    pub waits: u64,
    /// Drain writes to the array.
    pub drains: u64,
    /// Units of these writes.
    pub units_drained: u64,
    /// Units read from the memory.
    pub units_read: u64,
}
