//! Which I/O command sets there are: the one list of them.

/// The I/O command sets, a line each: what implements it in [`command_set`](crate::controller::command_set), and the number
/// that the drive's record has for a namespace of it, below that of the smallest block. The list is given to the macro
/// `$then`, behind `$with`.
macro_rules! command_sets {
    ($then:ident $($with:tt)*) => {
        $then! {
            ($($with)*)
            /// NVM: logical blocks. The record has the size of its blocks instead of this number.
            Nvm: nvm::Nvm = 255,
            /// Key Value: pairs of keys and values.
            KeyValue: kv::KeyValue = 0,
            /// Raw flash: the array itself, for a translation layer that runs elsewhere.
            RawFlash: raw_flash::RawFlash = 1,
            /// The payload sink: it acts on the drive, whatever namespace a command names, and no namespace is of it.
            Sink: sink::Sink = 254,
            /// Echoes: what tests plug in.
            #[cfg(feature = "echo")]
            Echo: echo::Echo = 8,
        }
    };
}
pub(crate) use command_sets;

macro_rules! command_set_enum {
    (() $($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $name:ident: $module:ident::$type:ident = $number:literal,)*) => {
        /// The I/O command sets that there are. What each of them does is in a folder of its own
        /// ([`command_set`](crate::controller::command_set)); its number is what the drive's record has for a namespace of it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum CommandSet {
            $($(#[doc = $doc])* $(#[cfg($cfg)])? $name = $number,)*
        }

        impl CommandSet {
            /// All of them.
            pub const ALL: &[CommandSet] = &[$($(#[cfg($cfg)])? CommandSet::$name,)*];
        }
    };
}
command_sets! { command_set_enum }
