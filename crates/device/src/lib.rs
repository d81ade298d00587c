//! A drive: an NVMe controller, wired to firmware and flash by its profile.
//!
//! | file | what |
//! |---|---|
//! | [`config`] | the constants that a profile gives; `validate`: whether there can be such a drive |
//! | `backing` | what a controller's units are on: a translation layer, or an array of drives |
//! | [`drive`] | a drive put together: link, controller, firmware, flash |
//! | [`controller`] | registers, queues, arbitration, fetching, commands |
//!
//! What it does not do: it never looks into the host (registers, memory and interrupts are all it knows of it), places
//! no unit in flash (that is `firmware`), and costs no link crossing itself (that is `link`).

mod backing;
pub mod config;
pub mod controller;
pub mod drive;
mod validate;

pub use backing::Backing;
pub use config::{
    CommandSet, ConfigError, ControllerConfig, DriveConfig, HostBufferConfig, KvPolicy, MediaConfig,
    MemoryConfig, NamespaceConfig, SiteConfig, TransferConfig,
};
pub use controller::Controller;
pub use controller::command_set::lending::LendError;
pub use controller::core::Router;
pub use controller::state::loan::Loan;
pub use drive::Drive;
