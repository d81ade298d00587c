//! What data a command moves.

/// Direction and length of a command's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movement {
    /// No data.
    None,
    /// To the drive, in bytes.
    ToDrive(u32),
    /// To the host, in bytes.
    ToHost(u32),
}
