//! Loans: peers whose processors work for a drive, as its host takes them away ("Espresso", 4.5: failures).
//!
//! A host that has given up a command which it sent by a peer's shadow queue does not know whether the peer goes on with it. Before it
//! has the drive itself carry the command out, it revokes the loan by Set Features C2h: when that has completed, nothing that the peer
//! does reaches the drive's map, flash or link any more.

use bitfield_struct::bitfield;

/// Feature C2h, dword 11 of Set Features. Get Features gives how many loans hold, in `lender`.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Loans {
    /// The number of the peer whose loan is revoked.
    pub lender: u8,
    /// It is.
    pub revoke: bool,
    #[bits(23)]
    __: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a host would revoke another peer's loan than the one that it has lost.
    #[test]
    fn bits_are_where_the_documentation_says() {
        assert_eq!(Loans::new().with_lender(7).with_revoke(true).into_bits(), 0x107);
    }
}
