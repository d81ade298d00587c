//! eBPF instructions: encoding, and the codes of the instruction set (RFC 9669, 3 to 5).

/// An instruction of eight bytes. A 64-bit immediate load takes two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// Opcode: class in bits 2:0; the class determines the meaning of the others.
    pub opcode: u8,
    /// Destination register, 0 to 15; the verifier accepts 0 to 10.
    pub dst: u8,
    /// Source register, 0 to 15; the verifier accepts 0 to 10.
    pub src: u8,
    /// Signed offset: of an address in bytes, of a jump in instructions.
    pub offset: i16,
    /// Immediate value.
    pub imm: i32,
}

impl Instruction {
    /// Length of an instruction in bytes.
    pub const BYTES: usize = 8;

    /// Decodes an instruction.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Instruction {
        let [opcode, registers, o0, o1, i0, i1, i2, i3] = bytes;
        Instruction {
            opcode,
            dst: registers & 0xf,
            src: registers >> 4,
            offset: i16::from_le_bytes([o0, o1]),
            imm: i32::from_le_bytes([i0, i1, i2, i3]),
        }
    }

    /// Encodes the instruction.
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        let ([o0, o1], [i0, i1, i2, i3]) = (self.offset.to_le_bytes(), self.imm.to_le_bytes());
        [self.opcode, self.dst & 0xf | self.src << 4, o0, o1, i0, i1, i2, i3]
    }

    /// Instruction class, bits 2:0.
    pub const fn class(self) -> u8 {
        self.opcode & 0x07
    }

    /// Operation of an arithmetic or jump instruction, bits 7:4.
    pub const fn operation(self) -> u8 {
        self.opcode & 0xf0
    }

    /// Whether the second operand of an arithmetic or jump instruction is a register.
    pub const fn has_register(self) -> bool {
        self.opcode & REGISTER != 0
    }

    /// Access size of a load or store in bytes.
    pub const fn access_bytes(self) -> usize {
        match self.opcode & 0x18 {
            size::WORD => 4,
            size::HALF => 2,
            size::BYTE => 1,
            _ => 8,
        }
    }

    /// Mode of a load or store, bits 7:5.
    pub const fn mode(self) -> u8 {
        self.opcode & 0xe0
    }
}

/// Bit 3 of arithmetic and jump instructions: the second operand is a register.
pub const REGISTER: u8 = 0x08;
/// Frame pointer: the end of the stack, read-only.
pub const FRAME: u8 = 10;
/// Opcode of a 64-bit immediate load, which takes two instructions.
pub const LOAD_WIDE: u8 = class::LD | size::DOUBLE;

/// Instruction classes, bits 2:0 of an opcode (RFC 9669, 3.3).
pub mod class {
    /// Loads of immediate values.
    pub const LD: u8 = 0x00;
    /// Loads into registers.
    pub const LDX: u8 = 0x01;
    /// Stores of immediate values.
    pub const ST: u8 = 0x02;
    /// Stores of registers.
    pub const STX: u8 = 0x03;
    /// Arithmetic of 32 bits.
    pub const ALU: u8 = 0x04;
    /// Jumps that compare 64 bits.
    pub const JMP: u8 = 0x05;
    /// Conditional jumps that compare the low 32 bits of the registers.
    pub const JMP32: u8 = 0x06;
    /// Arithmetic of 64 bits.
    pub const ALU64: u8 = 0x07;
}

/// Arithmetic operations, bits 7:4 of an opcode (RFC 9669, 4.1).
pub mod alu {
    /// Addition.
    pub const ADD: u8 = 0x00;
    /// Subtraction.
    pub const SUB: u8 = 0x10;
    /// Multiplication.
    pub const MUL: u8 = 0x20;
    /// Division; by zero the result is zero. Signed with an offset of 1.
    pub const DIV: u8 = 0x30;
    /// Or.
    pub const OR: u8 = 0x40;
    /// Bitwise AND.
    pub const AND: u8 = 0x50;
    /// Left shift.
    pub const LSH: u8 = 0x60;
    /// Logical right shift.
    pub const RSH: u8 = 0x70;
    /// Negation.
    pub const NEG: u8 = 0x80;
    /// Remainder; by zero the result is the dividend. Signed with an offset of 1.
    pub const MOD: u8 = 0x90;
    /// Exclusive or.
    pub const XOR: u8 = 0xa0;
    /// Move. An offset of 8, 16 or 32 selects a sign-extending move of that many bits.
    pub const MOV: u8 = 0xb0;
    /// Arithmetic right shift.
    pub const ARSH: u8 = 0xc0;
    /// Byte order conversion.
    pub const END: u8 = 0xd0;
}

/// Jump operations, bits 7:4 of an opcode (RFC 9669, 4.3).
pub mod jump {
    /// Always.
    pub const ALWAYS: u8 = 0x00;
    /// If equal.
    pub const EQ: u8 = 0x10;
    /// If greater.
    pub const GT: u8 = 0x20;
    /// If greater or equal.
    pub const GE: u8 = 0x30;
    /// If any bit is set in both.
    pub const SET: u8 = 0x40;
    /// If not equal.
    pub const NE: u8 = 0x50;
    /// If greater, signed.
    pub const SGT: u8 = 0x60;
    /// If greater or equal, signed.
    pub const SGE: u8 = 0x70;
    /// Calls a helper.
    pub const CALL: u8 = 0x80;
    /// Ends the program.
    pub const EXIT: u8 = 0x90;
    /// If less.
    pub const LT: u8 = 0xa0;
    /// If less or equal.
    pub const LE: u8 = 0xb0;
    /// If less, signed.
    pub const SLT: u8 = 0xc0;
    /// If less or equal, signed.
    pub const SLE: u8 = 0xd0;
}

/// Access sizes, bits 4:3 of an opcode (RFC 9669, 5).
pub mod size {
    /// 4 bytes.
    pub const WORD: u8 = 0x00;
    /// 2 bytes.
    pub const HALF: u8 = 0x08;
    /// 1 byte.
    pub const BYTE: u8 = 0x10;
    /// 8 bytes.
    pub const DOUBLE: u8 = 0x18;
}

/// Access modes, bits 7:5 of an opcode (RFC 9669, 5).
pub mod mode {
    /// 64-bit immediate value.
    pub const IMM: u8 = 0x00;
    /// Memory.
    pub const MEM: u8 = 0x60;
    /// Memory, with sign extension.
    pub const MEMSX: u8 = 0x80;
}
