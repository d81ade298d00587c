//! A drive: an NVMe controller that its profile connects to firmware and flash.
//!
//! | file | what |
//! |---|---|
//! | [`config`] | the parameters that a profile gives; `validate`: checks across parameters |
//! | `backing` | what stores a controller's units: a translation layer, or an array of drives |
//! | [`drive`] | an assembled drive: link, controller, firmware, flash |
//! | [`controller`] | registers, queues, arbitration, fetching, commands |
//!
//! A host enables the controller of a small drive by its registers:
//!
//! ```
//! use byteway_clock::Delay;
//! use byteway_link::Purpose;
//! use byteway_testkit::SmallWorld;
//! use byteway_wire::nvme::register::{ACQ, AQA, ASQ, Aqa, CC, CSTS, Cc, Csts};
//!
//! SmallWorld::default().run(async |powered| {
//!     let (host, clock) = (&powered.host, powered.host.clock());
//!     assert!(!Csts::from_bits(host.read32(CSTS).await).rdy());
//!
//!     let queues = powered.memory.allocate(2).expect("memory is not exhausted");
//!     host.write32(AQA, Aqa::new().with_asqs_z(31).with_acqs_z(31).into_bits(), Purpose::Register);
//!     host.write64(ASQ, queues);
//!     host.write64(ACQ, queues + 4096);
//!     let enable = Cc::new().with_iosqes(6).with_iocqes(4).with_en(true);
//!     host.write32(CC, enable.into_bits(), Purpose::Register);
//!     clock.sleep(Delay::from_ms(1)).await;
//!     assert!(Csts::from_bits(host.read32(CSTS).await).rdy());
//! });
//! ```
//!
//! What it does not do: it never looks into the host (it sees registers, memory and interrupts only), places no unit in
//! flash (`firmware` does), and charges no link crossing itself (`link` does).

mod backing;
pub mod config;
pub mod controller;
pub mod drive;
mod validate;

pub use backing::Backing;
pub use config::{
    CommandSet, ConfigError, ControllerConfig, CsdPolicy, Defect, DriveConfig, HostBufferConfig, KvPolicy,
    MediaConfig, MemoryConfig, MergeConfig, NamespaceConfig, ProgramsPolicy, SiteConfig, Temperature,
    TransferConfig,
};
pub use controller::Controller;
pub use controller::command_set::lending::LendError;
pub use controller::core::{OnReset, Router};
pub use controller::state::loan::Loan;
pub use drive::Drive;
