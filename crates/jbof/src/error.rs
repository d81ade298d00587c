//! Errors of a JBOF.

use super::config::DRIVES_MAX;
use byteway_device::ConfigError;
use byteway_host::DriverError;

/// Why a JBOF could not be built, or an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum JbofError {
    /// The drive's configuration is invalid.
    #[error("drive {drive}: {error}")]
    Config {
        /// Number of the drive.
        drive: usize,
        /// Reason.
        error: ConfigError,
    },
    /// No drives, or more than their numbers allow.
    #[error("a JBOF has 1 to {DRIVES_MAX} drives, not {0}")]
    Count(usize),
    /// The fabric has another number of ports.
    #[error("the fabric has {ports} ports for {drives} drives")]
    Fabric {
        /// Ports of the fabric.
        ports: usize,
        /// Number of drives.
        drives: usize,
    },
    /// The drive has no power, or the host has no driver for it.
    #[error("drive {0} has no power or no driver")]
    Gone(usize),
    /// A drive's controller has failed.
    #[error("drive {drive}: {error}")]
    Driver {
        /// Number of the drive.
        drive: usize,
        /// Error of the drive's driver.
        error: DriverError,
    },
}
