//! Loans: revoking the work of peers for a drive ("Espresso", 4.5: failures).
//!
//! A host that has given up a command sent through a peer's shadow queue does not know whether the peer continues with
//! it. Before it submits the command to the drive itself, it revokes the loan by Set Features C2h: when that has
//! completed, no action of the peer reaches the drive's map, flash or link any more.

use bitfield_struct::bitfield;

/// Feature C2h, dword 11 of Set Features. Get Features returns the number of loans in effect, in `lender`.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Loans {
    /// Number of the peer whose loan is revoked.
    pub lender: u8,
    /// Revoke the loan.
    pub revoke: bool,
    #[bits(23)]
    __: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a host would revoke the loan of another peer than the one that it has lost.
    #[test]
    fn bits_are_where_the_documentation_says() {
        assert_eq!(Loans::new().with_lender(7).with_revoke(true).into_bits(), 0x107);
    }
}
