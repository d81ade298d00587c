//! Which I/O command sets there are.

/// The I/O command sets that there are. What each of them does is in a folder of its own
/// ([`command_set`](crate::controller::command_set)); its number is what the drive's record has for a namespace of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandSet {
    /// NVM: logical blocks. The record has the size of its blocks instead of this number.
    #[default]
    Nvm = 255,
    /// Key Value: pairs of keys and values.
    KeyValue = 0,
    /// Raw flash: the array itself, for a translation layer that runs elsewhere.
    RawFlash = 1,
    /// The payload sink: it acts on the drive, whatever namespace a command names, and no namespace is of it.
    Sink = 254,
}

impl CommandSet {
    /// All of them.
    pub const ALL: [CommandSet; 4] =
        [CommandSet::Nvm, CommandSet::KeyValue, CommandSet::RawFlash, CommandSet::Sink];
}
