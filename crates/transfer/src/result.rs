//! Short results in the completion queue slots behind a completion. Entry and parts are consecutive in the
//! queue, across its end too, each with the phase tag of its slot.

use byteway_wire::nvme::Cqe;
use byteway_wire::nvme::vendor::{Methods, ResultSlot};
use std::fmt;

/// How a result crosses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultMethod {
    /// The data pointer, with exact length.
    #[default]
    Pointer,
    /// Behind the completion, as far as slots are available.
    Inline,
    /// The data pointer, in whole DMA units.
    Rounded,
}

impl ResultMethod {
    /// Adds to `methods` what a queue must be enabled for.
    pub const fn enabled_in(self, methods: Methods) -> Methods {
        match self {
            ResultMethod::Pointer => methods,
            ResultMethod::Inline => methods.with_inline_result(true),
            ResultMethod::Rounded => methods.with_rounded_results(true),
        }
    }
}

/// The device's end: a result in slots behind a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The bytes of the result.
    pub bytes: &'a [u8],
}

impl Parts<'_> {
    /// Number of slots behind the completion.
    pub fn count(self) -> u32 {
        ResultSlot::count(self.bytes.len() as u32)
    }

    /// Part `index` (from 0), for a slot with this phase.
    pub fn entry(self, index: u32, phase: bool) -> [u8; Cqe::SIZE] {
        let at = index as usize * ResultSlot::PAYLOAD_BYTES;
        let end = (at + ResultSlot::PAYLOAD_BYTES).min(self.bytes.len());
        ResultSlot::new(index as u16 + 1, &self.bytes[at..end], phase).to_bytes()
    }
}

/// A slot that does not hold the expected part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongPart {
    /// Index of the part found.
    pub found: u16,
    /// Index of the part expected.
    pub due: u16,
}

impl fmt::Display for WrongPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part {} of a result instead of part {}", self.found, self.due)
    }
}

impl std::error::Error for WrongPart {}

/// The host's end: joins a result, slot by slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Joining {
    bytes: u32,
    next: u16,
}

impl Joining {
    /// Reassembly for a completion that announces `bytes` in dword 1. The format allows 32767 parts; the
    /// limit agreed with the host is far lower, and checked before.
    pub fn new(bytes: u32) -> Self {
        Joining { bytes, next: 1 }
    }

    /// Slots still to come.
    pub fn missing(&self) -> u32 {
        ResultSlot::count(self.bytes) + 1 - u32::from(self.next)
    }

    /// Appends the part in the next slot, whose phase is right, to `into`.
    ///
    /// # Errors
    /// [`WrongPart`], with nothing appended.
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
        /// Without this a result would lose bytes at a part boundary, or carry padding.
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

    /// Without this a host would take parts of an earlier pass of the ring, or of another result, for its
    /// own.
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
