//! The fixed pipeline latency of a command, which follows the parsing.

use crate::controller::core::Core;
use byteway_clock::Delay;
use byteway_content::UNIT_BYTES;
use byteway_wire::nvme::{NvmOpcode, Sqe};

/// Latency by the direction of the opcode, which is the same in all command sets; of reads also by their length, from
/// `read_bytes`.
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
