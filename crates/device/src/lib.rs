//! A drive: an NVMe controller that its profile connects to firmware and flash.
//!
//! | file | what |
//! |---|---|
//! | [`config`] | the parameters that a profile gives; `validate`: checks across parameters |
//! | `backing` | what stores a controller's units: a translation layer, or an array of drives |
//! | [`drive`] | an assembled drive: link, controller, firmware, flash |
//! | [`controller`] | registers, queues, arbitration, fetching, commands |
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
    CommandSet, ConfigError, ControllerConfig, CsdCanary, CsdPolicy, DriveConfig, HostBufferConfig, KvPolicy,
    MediaConfig, MemoryConfig, NamespaceConfig, ProgramsCanary, ProgramsPolicy, SiteConfig, TransferConfig,
};
pub use controller::Controller;
pub use controller::command_set::lending::LendError;
pub use controller::core::{OnReset, Router};
pub use controller::state::loan::Loan;
pub use drive::Drive;
