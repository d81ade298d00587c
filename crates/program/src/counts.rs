//! Counts of executed instructions by class, and weights, from which a drive computes the cost of a run on its cores.

use std::ops::AddAssign;

/// Number of instructions executed, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Arithmetic, moves, and 64-bit immediate loads.
    pub alu: u64,
    /// Divisions and remainders.
    pub divide: u64,
    /// Loads and stores.
    pub memory: u64,
    /// Jumps, taken or not, and exits.
    pub jump: u64,
    /// Helper calls.
    pub call: u64,
}

impl Counts {
    /// Sum over all classes.
    pub const fn all(&self) -> u64 {
        self.alu + self.divide + self.memory + self.jump + self.call
    }

    /// The difference to an earlier count.
    pub const fn since(&self, before: &Counts) -> Counts {
        Counts {
            alu: self.alu - before.alu,
            divide: self.divide - before.divide,
            memory: self.memory - before.memory,
            jump: self.jump - before.jump,
            call: self.call - before.call,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.alu += other.alu;
        self.divide += other.divide;
        self.memory += other.memory;
        self.jump += other.jump;
        self.call += other.call;
    }
}

/// Cost of an instruction of each class, relative to an addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Arithmetic.
    pub alu: u32,
    /// Divisions and remainders.
    pub divide: u32,
    /// Loads and stores, with the bounds check.
    pub memory: u32,
    /// Jumps.
    pub jump: u32,
    /// Helper calls.
    pub call: u32,
}

impl Default for Weights {
    /// Assumption: programs are compiled at load time for an in-order 64-bit core (Arm's Cortex-A53 data sheet: 4 to 20 cycles for a
    /// division, 3 for a load that hits), and each access is compared with the bounds of its range.
    fn default() -> Weights {
        Weights { alu: 1, divide: 12, memory: 5, jump: 2, call: 10 }
    }
}

impl Weights {
    /// Weighted sum of `counts`.
    pub fn of(&self, counts: &Counts) -> u64 {
        [
            (counts.alu, self.alu),
            (counts.divide, self.divide),
            (counts.memory, self.memory),
            (counts.jump, self.jump),
            (counts.call, self.call),
        ]
        .into_iter()
        .fold(0, |sum, (count, weight)| sum.saturating_add(count.saturating_mul(weight.into())))
    }
}
