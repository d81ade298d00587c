//! Parity: bytewise XOR of units.

use byteway_content::{Content, Keep, UNIT_BYTES};

/// XOR of any number of units.
pub(crate) struct Parity {
    bytes: [u8; UNIT_BYTES],
    is_zero: bool,
}

impl Parity {
    pub(crate) fn new() -> Self {
        Parity { bytes: [0; UNIT_BYTES], is_zero: true }
    }

    /// XORs a unit into it.
    pub(crate) fn add(&mut self, content: &Content) {
        match content {
            Content::Zero => return,
            Content::Bytes(bytes) => xor(&mut self.bytes, &bytes[..]),
            Content::Head(head) => xor(&mut self.bytes, head),
            Content::Marred(marred) => xor(&mut self.bytes, &marred.bytes),
            Content::Stamp(_) | Content::Blocks(_) => {
                let mut unit = [0; UNIT_BYTES];
                content.write_to(&mut unit);
                xor(&mut self.bytes, &unit);
            }
        }
        self.is_zero = false;
    }

    /// Returns the result, and starts again.
    pub(crate) fn take(&mut self, keep: Keep) -> Content {
        if std::mem::replace(&mut self.is_zero, true) {
            return Content::Zero;
        }
        let content = Content::of(&self.bytes, keep);
        self.bytes = [0; UNIT_BYTES];
        content
    }
}

fn xor(into: &mut [u8; UNIT_BYTES], from: &[u8]) {
    let words = into.as_chunks_mut::<8>().0.iter_mut().zip(from.as_chunks::<8>().0);
    for (into, from) in words {
        *into = (u64::from_ne_bytes(*into) ^ u64::from_ne_bytes(*from)).to_ne_bytes();
    }
    let whole = from.len() / 8 * 8;
    into[whole..].iter_mut().zip(&from[whole..]).for_each(|(into, from)| *into ^= from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_content::{BlockSize, Stamp};

    // Parity must restore any missing unit, in whatever form contents are stored.
    #[test]
    fn what_is_missing_is_the_parity_of_the_rest() {
        let stamp = |lba| Content::Stamp(Stamp { lba, version: 3, tag: 1, block: BlockSize::B4096 });
        let head = Content::of_bytes(&[0; UNIT_BYTES].into());
        let mut bytes = [0; UNIT_BYTES];
        bytes[..13].copy_from_slice(b"thirteen long");
        let units = [
            stamp(5),
            Content::Zero,
            Content::of(&[9; UNIT_BYTES], Keep::Bytes),
            head,
            Content::of_bytes(&bytes.into()),
        ];
        let parity_of = |left_out: usize, more: &Content| {
            let mut parity = Parity::new();
            units.iter().enumerate().filter(|(at, _)| *at != left_out).for_each(|(_, unit)| parity.add(unit));
            parity.add(more);
            parity.take(Keep::Stamps)
        };
        let parity = parity_of(usize::MAX, &Content::Zero);
        for (index, unit) in units.iter().enumerate() {
            let (mut found, mut expected) = ([1; UNIT_BYTES], [2; UNIT_BYTES]);
            parity_of(index, &parity).write_to(&mut found);
            unit.write_to(&mut expected);
            assert_eq!(found, expected, "unit {index}");
        }
        assert_eq!(parity_of(0, &parity), stamp(5), "a pattern is kept as its name again");
    }
}
