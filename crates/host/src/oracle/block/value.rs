//! What a block holds, as the oracle remembers it.

/// The contents of a block, in 31 bits: 0 is the base state; then versions; then unreadable, and zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value(pub(super) u32);

impl Value {
    pub(super) const BASE: Value = Value(0);
    pub(super) const VERSION_MAX: u32 = 0x7fff_fffc;
    pub(super) const MARRED: Value = Value(0x7fff_fffd);
    pub(super) const ZEROES: Value = Value(0x7fff_fffe);
}
