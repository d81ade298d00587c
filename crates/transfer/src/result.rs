//! Short results in the entries behind a completion: entry and parts follow one another in the completion queue, also
//! over its end, each with the phase tag that its slot has to have.

use byteway_wire::nvme::Cqe;
use byteway_wire::nvme::vendor::ResultSlot;
use std::fmt;

/// The device's end: `bytes` of a result behind a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The result.
    pub bytes: &'a [u8],
}

impl Parts<'_> {
    /// Slots behind the completion.
    pub fn count(self) -> u32 {
        ResultSlot::count(self.bytes.len() as u32)
    }

    /// Part `index` (from 0), for a slot of this phase.
    pub fn entry(self, index: u32, phase: bool) -> [u8; Cqe::SIZE] {
        let at = index as usize * ResultSlot::PAYLOAD_BYTES;
        let end = (at + ResultSlot::PAYLOAD_BYTES).min(self.bytes.len());
        ResultSlot::new(index as u16 + 1, &self.bytes[at..end], phase).to_bytes()
    }
}

/// A slot that is not the part that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongPart {
    /// Which part it is.
    pub found: u16,
    /// Which is due.
    pub due: u16,
}

impl fmt::Display for WrongPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part {} of a result where part {} belongs", self.found, self.due)
    }
}

impl std::error::Error for WrongPart {}

/// The host's end: puts a result together, slot by slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Joining {
    bytes: u32,
    next: u16,
}

impl Joining {
    /// A completion has come whose dword 1 says `bytes`. The longest result that can be told apart is 32767 parts; what
    /// the host has agreed to is far less, and is checked before.
    pub fn new(bytes: u32) -> Self {
        Joining { bytes, next: 1 }
    }

    /// Slots that are still to come.
    pub fn missing(&self) -> u32 {
        ResultSlot::count(self.bytes) + 1 - u32::from(self.next)
    }

    /// The next slot, whose phase is right: adds its part to `into`.
    ///
    /// # Errors
    /// It is another part; nothing was added.
    pub fn add(&mut self, slot: &ResultSlot, into: &mut Vec<u8>) -> Result<(), WrongPart> {
        if slot.part() != self.next || self.missing() == 0 {
            return Err(WrongPart { found: slot.part(), due: self.next });
        }
        let at = (usize::from(self.next) - 1) * ResultSlot::PAYLOAD_BYTES;
        let count = (self.bytes as usize - at).min(ResultSlot::PAYLOAD_BYTES);
        into.extend_from_slice(&slot.payload[..count]);
        self.next += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Without this a result would lose bytes at a part's boundary, or carry padding.
        #[test]
        fn parts_join_to_the_result(bytes in prop::collection::vec(any::<u8>(), 0..600), phase in any::<bool>()) {
            let parts = Parts { bytes: &bytes };
            let mut joining = Joining::new(bytes.len() as u32);
            let mut all = Vec::new();
            for index in 0..parts.count() {
                prop_assert_eq!(joining.missing(), parts.count() - index);
                let slot = ResultSlot::from_bytes(&parts.entry(index, phase));
                prop_assert_eq!(slot.phase(), phase);
                prop_assert_eq!(joining.add(&slot, &mut all), Ok(()));
            }
            prop_assert_eq!(joining.missing(), 0);
            prop_assert_eq!(all, bytes);
        }
    }

    /// Without this a host would take parts of another pass of the ring, or of another result, for its own.
    #[test]
    fn another_part_is_refused() {
        let parts = Parts { bytes: &[7; 30] };
        let slot = |index| ResultSlot::from_bytes(&parts.entry(index, true));
        let mut joining = Joining::new(30);
        let mut all = Vec::new();
        assert_eq!(joining.add(&slot(1), &mut all), Err(WrongPart { found: 2, due: 1 }));
        for index in 0..3 {
            joining.add(&slot(index), &mut all).unwrap();
        }
        assert_eq!(all, [7; 30]);
        assert!(joining.add(&slot(2), &mut all).is_err());
        assert!(joining.add(&ResultSlot::new(4, &[], true), &mut all).is_err(), "more than there are");
    }
}
