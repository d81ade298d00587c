//! The list of I/O command sets, the only one.

/// Calls the macro `$then` with `$with` and the list. Each line names an I/O command set, the module that implements it
/// in [`command_set`](crate::controller::command_set), and the code that the drive's record stores for namespaces of
/// the set, which is below that of the smallest block size.
macro_rules! command_sets {
    ($then:ident $($with:tt)*) => {
        $then! {
            ($($with)*)
            /// NVM: logical blocks. For its namespaces the record stores the block size instead of this code.
            Nvm: nvm::Nvm = 255,
            /// Key Value: key-value pairs.
            KeyValue: kv::KeyValue = 0,
            /// Raw flash: the flash array itself, for a translation layer that runs elsewhere.
            RawFlash: raw_flash::RawFlash = 1,
            /// Tables, and queries over them.
            Tables: csd::Csd = 2,
            /// The payload sink: its commands act on the drive, whatever namespace they name; no namespace has this
            /// set.
            Sink: sink::Sink = 254,
            /// Subsystem Local Memory: DRAM of the drive, for hosts and for programs.
            LocalMemory: slm::Slm = 3,
            /// Computational Programs: programs of the host that run over local memory.
            Programs: programs::Programs = 4,
            /// Echo: the smallest possible set, for tests.
            #[cfg(feature = "echo")]
            Echo: echo::Echo = 8,
        }
    };
}
pub(crate) use command_sets;

macro_rules! command_set_enum {
    (() $($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $name:ident: $module:ident::$type:ident = $number:literal,)*) => {
        /// An I/O command set. Each is implemented in a folder of its own
        /// ([`command_set`](crate::controller::command_set)); its number is the code in the drive's record for
        /// namespaces of the set.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum CommandSet {
            $($(#[doc = $doc])* $(#[cfg($cfg)])? $name = $number,)*
        }

        impl CommandSet {
            /// All command sets, in the order of the list.
            pub const ALL: &[CommandSet] = &[$($(#[cfg($cfg)])? CommandSet::$name,)*];
        }
    };
}
command_sets! { command_set_enum }
