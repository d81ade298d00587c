//! Arrays of whole drives: RAID levels 0, 1, 5 and 10, as the storage behind a controller.
//!
//! An [`Array`] offers units as a translation layer does, and stores them on
//! [members](byteway_member::Member) across links. Its work (address computation, parity) runs where a
//! [`Placement`](byteway_firmware::Placement) puts it: on a host's processors, or on a bridge's own core.
//!
//! | file | contents |
//! |---|---|
//! | [`config`] | levels, parameters, errors |
//! | [`array`](mod@array) | [`Array`]: the operations that a controller calls |
//! | `assemble` | creation, assembly, spares; the guarantee after a power cut |
//! | `layout` | the arithmetic of the levels, from units to members |
//! | `area` | the array's own state on every member |
//! | `superblock` | the array's identity and member states, on every member |
//! | `slots`, `gate` | members and their states; what keeps writes out while these change |
//! | `core` | what an array is made of; sending to members |
//! | `group`, `port` | requests to members, and the tasks that send them |
//! | `read` | reads, and reconstruction of missing units |
//! | `write`, `parity` | writes; for level 5, with parity |
//! | `xor`, `scratch` | parity of units; memory used again |
//! | `durable`, `record` | its own state made durable; the controller's record |
//! | `failures` | failures of members |
//! | `intent` | the write-intent log |
//! | `journal`, `journaling` | the journal of degraded stripes; its use |
//! | `lost` | units whose content is lost |
//! | `rebuild` | progress of a rebuild |
//! | `upkeep` | repair after a power cut, rebuilding |
//! | [`counters`] | what is counted |
//! | [`bridge`] | a cache in front of an array: small writes into non-volatile memory |
//!
//! **Order of waits.** An operation locks its units, has its regions marked, and then enters the gate.
//! Operations inside wait only for members. The gate closes while the failure of a member is recorded, which
//! waits for the operations inside.
//!
//! A RAID 5 of three members gives back its units after one of them is lost:
//!
//! ```
//! use byteway_array::{Array, ArrayConfig, Initial, Level};
//! use byteway_clock::{Delay, Executor, Rate, SpanId};
//! use byteway_firmware::{Cycles, Placement, Site};
//! use byteway_content::{BlockSize, Content, Keep, Stamp};
//!
//! # use byteway_member::{Member, MemberError, MemberLost, MemberShape};
//! # use std::{cell::{Cell, RefCell}, rc::Rc};
//! # #[derive(Clone)]
//! # struct RamDrive {
//! #     units: Rc<RefCell<Vec<Content>>>,
//! #     lost: Rc<Cell<bool>>,
//! # }
//! # impl RamDrive {
//! #     fn new(units: usize) -> RamDrive {
//! #         RamDrive { units: Rc::new(RefCell::new(vec![Content::Zero; units])), lost: Rc::default() }
//! #     }
//! #     fn check(&self) -> Result<(), MemberLost> {
//! #         if self.lost.get() { Err(MemberLost::because("it was unplugged")) } else { Ok(()) }
//! #     }
//! # }
//! # impl Member for RamDrive {
//! #     fn lanes(&self) -> usize {
//! #         1
//! #     }
//! #     async fn describe(&self) -> Result<MemberShape, MemberLost> {
//! #         let units = self.units.borrow().len() as u64;
//! #         Ok(MemberShape { units, command_units: 32, block_bytes: 4096, identity: "RAM".into() })
//! #     }
//! #     async fn read(
//! #         &self, _: usize, _: SpanId, first: u64, count: u32, out: &mut Vec<Content>,
//! #     ) -> Result<(), MemberError> {
//! #         self.check()?;
//! #         out.clear();
//! #         out.extend_from_slice(&self.units.borrow()[first as usize..][..count as usize]);
//! #         Ok(())
//! #     }
//! #     async fn write(
//! #         &self, _: usize, _: SpanId, first: u64, contents: &[Content], _: bool,
//! #     ) -> Result<(), MemberError> {
//! #         self.check()?;
//! #         self.units.borrow_mut()[first as usize..][..contents.len()].clone_from_slice(contents);
//! #         Ok(())
//! #     }
//! #     async fn write_part(
//! #         &self, lane: usize, span: SpanId, unit: u64, _: u32, _: u32, content: &Content, durable: bool,
//! #     ) -> Result<(), MemberError> {
//! #         self.write(lane, span, unit, std::slice::from_ref(content), durable).await
//! #     }
//! #     async fn deallocate(&self, _: usize, _: SpanId, first: u64, count: u64) -> Result<(), MemberError> {
//! #         self.check()?;
//! #         self.units.borrow_mut()[first as usize..][..count as usize].fill(Content::Zero);
//! #         Ok(())
//! #     }
//! #     async fn flush(&self, _: usize, _: SpanId) -> Result<(), MemberError> {
//! #         Ok(self.check()?)
//! #     }
//! # }
//! let executor = Executor::new();
//! let clock = executor.clock().clone();
//! executor.run(async move {
//!     let site = Site::new(&clock, 1, 1_000_000_000, Delay::ZERO, Rate::per_second(1 << 34));
//!     let placement = Placement::all_at(&site, Cycles::FREE);
//!     let config = ArrayConfig::new(Level::Raid5, 4, *b"an array's name.", Keep::Stamps);
//!     let drives = vec![RamDrive::new(500), RamDrive::new(500), RamDrive::new(500)];
//!     let array = Array::create(&clock, placement, config, drives.clone(), Initial::Zeroed).await?;
//!
//!     let stamp = |lba| Content::Stamp(Stamp { lba, version: 1, tag: 0, block: BlockSize::B4096 });
//!     let written: Vec<Content> = (0..24).map(stamp).collect();
//!     array.write(SpanId::NONE, 0, &mut written.clone(), false).await?;
//!     drives[0].lost.set(true);
//!     let mut read = Vec::new();
//!     array.read(SpanId::NONE, 0, 24, &mut read).await?;
//!     assert_eq!(read, written);
//!     assert!(array.state().is_degraded());
//!     Ok::<(), Box<dyn std::error::Error>>(())
//! })??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does not do: it knows no commands (`device`, `host`) and no flash. Deallocation does not reach the
//! members where parity forbids it. No level 6, no reshaping, no journal of undegraded stripes.

mod area;
pub mod array;
mod assemble;
pub mod bridge;
pub mod config;
mod core;
pub mod counters;
mod durable;
mod failures;
mod gate;
mod group;
mod intent;
mod journal;
mod journaling;
mod layout;
mod lost;
mod parity;
mod port;
mod read;
mod rebuild;
mod record;
mod scratch;
mod slots;
mod superblock;
mod upkeep;
mod write;
mod xor;

pub use array::{Array, ArrayHealth, ArrayMemory, UnitExchange};
pub use assemble::Unused;
pub use bridge::nvram::Nvram;
pub use bridge::{Bridge, BridgeCounters, BridgeExchange, NvramConfig};
pub use config::{ArrayConfig, ArrayError, Defect, Initial, Level, MEMBERS_MAX, RebuildConfig};
pub use counters::{ArrayCounters, Cause, Traffic};
pub use rebuild::Rebuild;
pub use superblock::SlotState;
