//! Transfer by MMIO: the host stores payload to a buffer in the BAR ([`area`](crate::area)), and the command names its location.

use crate::area::Area;
use byteway_wire::nvme::vendor::{SUB_TYPE_BAR, bar_descriptor};
use byteway_wire::nvme::{Sqe, command::PSDT_SGL, sgl::SglType};

impl Area {
    /// The command with a data pointer to the payload of `bytes` in this area.
    pub fn placed_in(self, bytes: u32, sqe: Sqe) -> Sqe {
        sqe.with_sgl(bar_descriptor(self.first.into(), bytes))
    }
}

/// Offset in the buffer and length of the payload to which a command's data pointer refers, if it is in the
/// buffer.
pub fn named_by(sqe: &Sqe) -> Option<(u64, u32)> {
    let pointer = sqe.sgl();
    let named =
        sqe.psdt() == PSDT_SGL && pointer.sgl_type() == SglType::VENDOR && pointer.sub_type() == SUB_TYPE_BAR;
    named.then_some((pointer.address, pointer.length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a payload would be read from a wrong location.
    #[test]
    fn the_data_pointer_comes_back() {
        let sqe = Area { first: 0x1040, bytes: 128 }.placed_in(77, Sqe::default());
        assert_eq!(named_by(&sqe), Some((0x1040, 77)));
        assert_eq!(named_by(&Sqe::default()), None);
    }
}
