//! Status codes of Fabrics commands (NVMe Base 2.1, 4.2.3.2, figure "Command Specific Status Values, Fabrics Commands").
//!
//! Codes of type 1h from 80h on have different meanings for Fabrics and I/O commands, so the former have names here,
//! and [`Status::name`] gives those of the latter.

use crate::nvme::Status;
use crate::nvme::status::SCT_COMMAND_SPECIFIC;

macro_rules! statuses {
    ($($name:ident = $code:literal, $text:literal;)+) => {
        $(#[doc = concat!($text, ", type 1h, code ", stringify!($code))]
        pub const $name: Status = Status::new(SCT_COMMAND_SPECIFIC, $code);)+

        /// Every status that is named here, ascending, without flags.
        pub const ALL: &[Status] = &[$($name),+];

        /// Name of the status of a Fabrics command.
        pub const fn name(status: Status) -> &'static str {
            match status.without_flags() {
                $($name => $text,)+
                other => other.name(),
            }
        }
    };
}

statuses! {
    INCOMPATIBLE_FORMAT = 0x80, "Incompatible Format";
    CONTROLLER_BUSY = 0x81, "Controller Busy";
    CONNECT_INVALID_PARAMETERS = 0x82, "Connect Invalid Parameters";
    CONNECT_RESTART_DISCOVERY = 0x83, "Connect Restart Discovery";
    CONNECT_INVALID_HOST = 0x84, "Connect Invalid Host";
    INVALID_QUEUE_TYPE = 0x85, "Invalid Queue Type";
    DISCOVER_RESTART = 0x90, "Discover Restart";
    AUTHENTICATION_REQUIRED = 0x91, "Authentication Required";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a failed Connect would be reported as an I/O command's error.
    #[test]
    fn fabrics_codes_have_names_of_their_own() {
        assert!(ALL.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(name(CONNECT_INVALID_PARAMETERS.with_dnr()), "Connect Invalid Parameters");
        assert_eq!(CONNECT_INVALID_PARAMETERS.with_dnr().bits(), 0x4182);
        assert_eq!(name(Status::INVALID_FIELD), "Invalid Field in Command");
    }
}
