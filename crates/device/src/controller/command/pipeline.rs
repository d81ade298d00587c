//! The fixed part of what the controller's pipeline takes for a command: it follows the parsing.

use crate::controller::core::Core;
use byteway_clock::Delay;
use byteway_wire::content::UNIT_BYTES;
use byteway_wire::nvme::{NvmOpcode, Sqe};

/// By the command's opcode, which it looks at before anything else is known of the command; of those that read, by their
/// length, which `read_bytes` tells. Opcodes have the same direction in all command sets.
pub(crate) fn by_opcode(core: &Core, sqe: &Sqe, read_bytes: impl FnOnce() -> usize) -> Delay {
    let c = &core.config.controller;
    match NvmOpcode(sqe.opcode()) {
        NvmOpcode::READ | NvmOpcode::COMPARE | NvmOpcode::VERIFY => {
            if read_bytes() <= UNIT_BYTES {
                c.read_pipeline
            } else {
                c.read_large_pipeline
            }
        }
        NvmOpcode::WRITE | NvmOpcode::COPY => c.write_pipeline,
        _ => Delay::ZERO,
    }
}
