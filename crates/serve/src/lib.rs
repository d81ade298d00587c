//! Real attachments: drives served to real hosts, to one host over vfio-user or to many over NVMe/TCP, and
//! the host's end of both.
//!
//! | file | what |
//! |---|---|
//! | [`attach`] | the host's end of an attachment, for Byteway's own driver |
//! | [`drive`] | a served drive: thread, executor |
//! | [`report`] | its statistics |
//! | [`function`] | the PCI function that a host sees: regions, interrupts, memory, reset |
//! | [`front`] | the poller of doorbells in shared memory |
//! | [`interrupts`] | MSI-X messages as eventfds |
//! | [`nvme_tcp`] | drives over NVMe/TCP: sockets, and the tasks that carry bytes to a target |
//! | [`system`] | system services for authentication: random bytes, and a thread for long computations |
//! | [`tcp_host`] | the host's end of NVMe/TCP: sockets for Byteway's own driver |
//! | [`pci`] | the configuration space |
//! | `before.rs` | work with a limit |
//! | `stream.rs` | the bytes of a connection, with or without TLS |
//! | [`tls`] | TLS 1.3 with pre-shared keys |
//! | [`watch`] | a served drive as another thread sees it |
//! | [`vfio_user`] | the protocol: messages, socket, server session, client |
//!
//! A host recognizes an NVMe controller by its configuration space, and finds the size of BAR0:
//!
//! ```
//! use byteway_clock::Delay;
//! use byteway_link::{Generation, PcieConfig};
//! use byteway_serve::pci::{ConfigSpace, Identity};
//!
//! let link = PcieConfig {
//!     generation: Generation::Gen3, lanes: 4, mps: 256, mrrs: 512, rcb: 64, read_tags: 32, slowdown: 1,
//!     propagation: Delay::from_ns(100), memory_latency: Delay::from_ns(150),
//! };
//! let space = ConfigSpace::new(&Identity::byteway(7, 16 << 10, 9, 0x2000, 0x3000), &link);
//! let mut class = [0; 3];
//! space.read(0x9, &mut class);
//! assert_eq!(class, [0x02, 0x08, 0x01], "mass storage, non-volatile memory, NVMe");
//!
//! space.write(0x10, &[0xff; 8]);
//! let mut bar0 = [0; 8];
//! space.read(0x10, &mut bar0);
//! let address_bits = u64::from_le_bytes(bar0) & !0xf;
//! assert_eq!(!address_bits + 1, 16 << 10);
//! ```
//!
//! What it does not do: it parses no NVMe command, charges no modelled time, and keeps no data itself
//! (`flash` does, in memory or in files). The controller behind it is the same code that simulations run. No
//! live migration, no dirty page tracking, no hot-unplug.

pub mod attach;
mod before;
pub mod drive;
pub mod front;
pub mod function;
pub mod interrupts;
pub mod nvme_tcp;
pub mod pci;
pub mod report;
mod stream;
pub mod system;
pub mod tcp_host;
pub mod tls;
pub mod vfio_user;
pub mod watch;
