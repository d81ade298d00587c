//! Wire formats: NVMe structures, PRP and SGL lists, fabrics and NVMe/TCP.
//!
//! | file | what |
//! |---|---|
//! | `nvme/command.rs` | submission queue entry; `command/nvm.rs` and `command/admin.rs`: each command, parsed and built |
//! | `nvme/completion.rs` | completion queue entry |
//! | `nvme/status.rs` | status codes with their names and flags |
//! | `nvme/opcode.rs` | opcodes of the admin, NVM and Key Value command sets |
//! | `nvme/register.rs` | register offsets and bits, doorbells |
//! | `nvme/identify.rs` | Identify structures and lists |
//! | `nvme/log.rs` | log pages |
//! | `nvme/feature.rs` | features, asynchronous events |
//! | `nvme/dataset.rs` | ranges of Dataset Management |
//! | `nvme/kv/` | the Key Value command set: commands, lists, Identify structures |
//! | `nvme/segment.rs` | a run of host memory |
//! | `nvme/prp.rs` | PRP lists: walked by a device, planned by a host |
//! | `nvme/sgl.rs` | SGLs: walked by a device, planned by a host |
//! | `fabrics/` | NVMe over Fabrics: Fabrics commands, Discovery log page, DH-HMAC-CHAP messages |
//! | `fabrics/tcp/` | NVMe/TCP: PDUs, digests, a decoder and an encoder |
//! | `cxl.rs` | the DVSEC by which a device announces memory |
//!
//! Only this crate contains shifts and masks of wire formats.
//!
//! A read of eight blocks becomes 64 bytes, and is parsed from them:
//!
//! ```
//! use byteway_wire::nvme::{NvmOpcode, ReadWrite, Sqe};
//!
//! let read = ReadWrite { slba: 1000, nlb_z: 7, ..ReadWrite::default() };
//! let bytes = read.sqe(NvmOpcode::READ, 5, 1).with_prp(0x1000, 0).to_bytes();
//! assert_eq!(bytes[..8], [0x02, 0, 5, 0, 1, 0, 0, 0]);
//! assert_eq!(bytes[40..50], [0xe8, 3, 0, 0, 0, 0, 0, 0, 7, 0]);
//!
//! let sqe = Sqe::from_bytes(&bytes);
//! assert_eq!((sqe.cid(), sqe.nsid, sqe.prp1), (5, 1, 0x1000));
//! assert_eq!(ReadWrite::parse(&sqe), read);
//! ```
//!
//! What it does not do: it moves no byte and charges no time (`link` and `transfer` do), it knows no queue and no
//! controller state (`device` and `host` do), and it does not judge the fields of a command; only the walkers judge,
//! and only the structure of a list. It reads no memory: a walker says what to fetch, and is fed.

#[cfg(target_endian = "big")]
compile_error!("the structures hold native integers, and NVMe is little endian");

pub mod cxl;
pub mod fabrics;
pub mod nvme;

pub use zerocopy::{FromBytes, IntoBytes};
