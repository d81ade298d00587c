//! Transfer methods: how a payload crosses the link, one method a file, host end and device end side by side.
//!
//! | file | contents |
//! |---|---|
//! | [`method`] | the methods by name: what each needs, and how much a drive and a queue carry |
//! | [`choice`] | a host's rules, and the choice for each payload |
//! | [`own`] | methods that are not built in |
//! | [`prp`] | PRP1, PRP2 and PRP lists |
//! | [`sgl`] | SGL data blocks, segments, bit buckets |
//! | [`inline`] | payload in the submission queue slots behind its command |
//! | [`reassembly`] | chunks that are joined by their identifiers |
//! | [`piggyback`] | payload in the fields of commands, serialized and pipelined |
//! | [`partial`] | incomplete payloads, for both of these |
//! | [`mmio`] | a buffer in the BAR that the host stores to |
//! | [`area`] | memory that is stored to, for this and the next |
//! | [`cxl_mem`] | device memory that the host stores to over CXL.mem |
//! | [`result`] | results in the completion queue slots behind a completion |
//! | [`host`] | the host's end of all pointer methods: from a buffer to a command's data pointer |
//! | `buffer.rs` | the memory of a payload; data pointers |
//! | `extent.rs` | location of part of a payload |
//! | [`collector`] | the device's end of all pointer methods: from a command's data pointer to extents of host memory |
//!
//! The host describes a payload by PRPs, and the device finds it by them:
//!
//! ```
//! use byteway_clock::Executor;
//! use byteway_link::{Link, Memory};
//! # use byteway_clock::Delay;
//! # use byteway_link::{Generation, PcieConfig};
//! use byteway_transfer::Collector;
//! use byteway_transfer::collector::Supported;
//! use byteway_transfer::host::{Buffer, Planner, PointerKind};
//! use byteway_wire::nvme::{NvmOpcode, Sqe};
//!
//! # let config = PcieConfig {
//! #     generation: Generation::Gen3, lanes: 4, mps: 256, mrrs: 512, rcb: 64, read_tags: 32, slowdown: 1,
//! #     propagation: Delay::from_ns(100), memory_latency: Delay::from_ns(150),
//! # };
//! let (executor, memory) = (Executor::new(), Memory::simulated());
//! let (_host, device) = Link::connect(executor.clock(), config, memory.clone());
//! let buffer = Buffer::scattered(&memory, 512, 10_000).expect("memory is not exhausted");
//! let planner = Planner::new(&memory, PointerKind::Prp, 128 << 10);
//! let slot = planner.add_slot().expect("memory is not exhausted");
//! let pointer = planner.plan(slot, &buffer, 10_000)?;
//! let write = pointer.placed_in(Sqe::new(NvmOpcode::WRITE, 1, 1));
//!
//! let segments = executor.run(async move {
//!     let mut collector = Collector::new(Supported { sgl: None });
//!     let resolved = collector.resolve(&device, &write, 10_000, 4096, false).await;
//!     resolved.map(|()| collector.segments().map(|segment| segment.bytes).collect::<Vec<_>>())
//! })?;
//! assert_eq!(segments, Ok(vec![4096 - 512, 4096, 10_000 - 7680]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does not do: it moves no payload itself (the link does), allocates no host memory while I/O runs,
//! and knows no command's meaning.

pub mod area;
mod buffer;
pub mod choice;
pub mod collector;
pub mod cxl_mem;
mod extent;
pub mod host;
pub mod inline;
pub mod method;
pub mod mmio;
pub mod own;
pub mod partial;
pub mod piggyback;
pub mod prp;
pub mod reassembly;
pub mod result;
pub mod sgl;

pub use choice::{Ordering, Rules, TransferChoice};
pub use collector::Collector;
pub use extent::Extent;
pub use method::{Limits, Method, TransferKind};
