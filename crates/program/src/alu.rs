//! Arithmetic of a single instruction (RFC 9669, 4.1 and 4.2). The verifier guarantees valid operations and offsets.

use crate::instruction::alu;

/// 64-bit operation. `offset` is the instruction's: it selects signed division, and the width of a move.
pub(crate) fn alu64(operation: u8, offset: i16, dst: u64, src: u64) -> u64 {
    let is_signed = offset != 0;
    match operation {
        alu::ADD => dst.wrapping_add(src),
        alu::SUB => dst.wrapping_sub(src),
        alu::MUL => dst.wrapping_mul(src),
        // Division of the minimum by -1 wraps around, and its remainder is 0 (RFC 9669, 4.1).
        alu::DIV if src == 0 => 0,
        alu::DIV if is_signed => (dst as i64).wrapping_div(src as i64) as u64,
        alu::DIV => dst / src,
        alu::MOD if src == 0 => dst,
        alu::MOD if is_signed => (dst as i64).wrapping_rem(src as i64) as u64,
        alu::MOD => dst % src,
        alu::OR => dst | src,
        alu::AND => dst & src,
        alu::XOR => dst ^ src,
        alu::LSH => dst << (src & 63),
        alu::RSH => dst >> (src & 63),
        alu::ARSH => ((dst as i64) >> (src & 63)) as u64,
        alu::NEG => dst.wrapping_neg(),
        _ => match offset {
            8 => src as i8 as u64,
            16 => src as i16 as u64,
            32 => src as i32 as u64,
            _ => src,
        },
    }
}

/// 32-bit operation; the upper half of the result is zero.
pub(crate) fn alu32(operation: u8, offset: i16, dst: u32, src: u32) -> u64 {
    let is_signed = offset != 0;
    u64::from(match operation {
        alu::ADD => dst.wrapping_add(src),
        alu::SUB => dst.wrapping_sub(src),
        alu::MUL => dst.wrapping_mul(src),
        alu::DIV if src == 0 => 0,
        alu::DIV if is_signed => (dst as i32).wrapping_div(src as i32) as u32,
        alu::DIV => dst / src,
        alu::MOD if src == 0 => dst,
        alu::MOD if is_signed => (dst as i32).wrapping_rem(src as i32) as u32,
        alu::MOD => dst % src,
        alu::OR => dst | src,
        alu::AND => dst & src,
        alu::XOR => dst ^ src,
        alu::LSH => dst << (src & 31),
        alu::RSH => dst >> (src & 31),
        alu::ARSH => ((dst as i32) >> (src & 31)) as u32,
        alu::NEG => dst.wrapping_neg(),
        _ => match offset {
            8 => src as i8 as u32,
            16 => src as i16 as u32,
            _ => src,
        },
    })
}

/// The low `bits` bits of `value`, byte-swapped if `swaps`. The other bits are zero.
pub(crate) fn end(bits: i32, swaps: bool, value: u64) -> u64 {
    match (bits, swaps) {
        (16, false) => u64::from(value as u16),
        (16, true) => u64::from((value as u16).swap_bytes()),
        (32, false) => u64::from(value as u32),
        (32, true) => u64::from((value as u32).swap_bytes()),
        (_, false) => value,
        (_, true) => value.swap_bytes(),
    }
}
