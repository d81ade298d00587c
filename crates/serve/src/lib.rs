//! Real attachments: a drive served to real hosts, to one over vfio-user or to any over NVMe/TCP; and the host's end of both.
//!
//! | file | what |
//! |---|---|
//! | [`attach`] | the host's end of an attachment, for a driver of our own |
//! | [`drive`] | a served drive: its thread, its executor, what it reports |
//! | [`function`] | the PCI function that a host sees: regions, interrupts, memory, reset |
//! | [`front`] | doorbells that are stored to shared memory, and who looks at them |
//! | [`interrupts`] | MSI-X messages as eventfds |
//! | [`nvme_tcp`] | drives over NVMe/TCP: sockets, and the tasks that carry bytes to a target |
//! | [`system`] | what authentication takes of the system: random bytes, and a thread for long computations |
//! | [`tcp_host`] | the host's end of NVMe/TCP: the sockets of a driver of our own |
//! | [`pci`] | the configuration space |
//! | `stream.rs` | the bytes of a connection, with TLS or without |
//! | [`tls`] | TLS 1.3 with pre-shared keys |
//! | [`vfio_user`] | the protocol: messages, the socket, the server's session, the client |
//!
//! What it does not do: it knows no NVMe command, charges no modelled time and keeps no data itself (`flash` does, in memory
//! or in files); the controller behind it is the one that simulations use. No live migration, no dirty page tracking, no hot-unplug.

pub mod attach;
pub mod drive;
pub mod front;
pub mod function;
pub mod interrupts;
pub mod nvme_tcp;
pub mod pci;
mod stream;
pub mod system;
pub mod tcp_host;
pub mod tls;
pub mod vfio_user;
