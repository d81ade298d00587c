//! The controller's registers (NVMe Base 2.1, 3.1.4).

use byteway_wire::nvme::register::{self, Aqa, Cap, Cc, Csts, Vs};
use std::cell::Cell;

/// The property registers, except doorbells.
pub struct Registers {
    /// Capabilities.
    pub cap: Cap,
    /// Version.
    pub vs: Vs,
    /// Configuration, as last written.
    pub cc: Cell<Cc>,
    /// Status.
    pub csts: Cell<Csts>,
    /// Admin queue sizes.
    pub aqa: Cell<Aqa>,
    /// Admin submission queue base.
    pub asq: Cell<u64>,
    /// Admin completion queue base.
    pub acq: Cell<u64>,
    /// Bit mask of masked vectors.
    pub interrupt_mask: Cell<u32>,
    /// Memory page size in bytes, from CC.MPS when the controller was enabled: the host may change CC.MPS while
    /// commands run.
    pub page_bytes: Cell<u32>,
    /// CC.EN was cleared, and the lifecycle task has not seen it; the host may have set it again since.
    pub disabled: Cell<bool>,
}

/// A consequence of a register write beyond the register itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// CC.EN or CC.SHN changed: wake the lifecycle task.
    Lifecycle,
    /// Vectors were unmasked.
    Unmasked,
}

impl Registers {
    /// Values after power-on.
    pub fn new(cap: Cap) -> Self {
        Registers {
            cap,
            vs: Vs::V2_0,
            cc: Cell::new(Cc::new()),
            csts: Cell::new(Csts::new()),
            aqa: Cell::new(Aqa::new()),
            asq: Cell::default(),
            acq: Cell::default(),
            interrupt_mask: Cell::default(),
            page_bytes: Cell::new(Cc::new().page_bytes()),
            disabled: Cell::default(),
        }
    }

    /// Reads `bytes` (4 or 8) at `offset`. Reserved registers, doorbells and unaligned offsets read as zero.
    pub fn read(&self, offset: u64, bytes: u32) -> u64 {
        if !offset.is_multiple_of(4) {
            return 0;
        }
        let low = u64::from(self.word(offset));
        // The offset comes from the host and may be the last of the address space.
        if bytes == 8 { low | u64::from(self.word(offset.saturating_add(4))) << 32 } else { low }
    }

    fn word(&self, offset: u64) -> u32 {
        let halves =
            |value: u64, first: u64| if offset == first { value as u32 } else { (value >> 32) as u32 };
        match offset {
            register::CAP | 0x4 => halves(self.cap.into_bits(), register::CAP),
            register::VS => self.vs.into_bits(),
            register::INTMS | register::INTMC => self.interrupt_mask.get(),
            register::CC => self.cc.get().into_bits(),
            register::CSTS => self.csts.get().into_bits(),
            register::AQA => self.aqa.get().into_bits(),
            register::ASQ | 0x2C => halves(self.asq.get(), register::ASQ),
            register::ACQ | 0x34 => halves(self.acq.get(), register::ACQ),
            // Becoming ready with media takes no longer than CAP.TO says, in the same unit.
            register::CRTO => self.cap.to().into(),
            _ => 0,
        }
    }

    /// Writes `bytes` (4 or 8) at `offset`; returns the effect of each dword. Read-only and reserved registers ignore
    /// writes.
    pub fn write(&self, offset: u64, value: u64, bytes: u32) -> [Effect; 2] {
        let low = self.write_word(offset, value as u32);
        let high = match bytes {
            8 => self.write_word(offset.saturating_add(4), (value >> 32) as u32),
            _ => Effect::None,
        };
        [low, high]
    }

    fn write_word(&self, offset: u64, value: u32) -> Effect {
        let low = |old: u64| old & !0xffff_ffff | u64::from(value);
        let high = |old: u64| old & 0xffff_ffff | u64::from(value) << 32;
        match offset {
            register::INTMS => self.interrupt_mask.set(self.interrupt_mask.get() | value),
            register::INTMC => {
                self.interrupt_mask.set(self.interrupt_mask.get() & !value);
                return Effect::Unmasked;
            }
            register::CC => {
                let (old, new) = (self.cc.get(), Cc::from_bits(value));
                self.cc.set(new);
                if old.en() && !new.en() {
                    self.disabled.set(true);
                }
                if old.en() != new.en() || old.shn() != new.shn() {
                    return Effect::Lifecycle;
                }
            }
            register::AQA => self.aqa.set(Aqa::from_bits(value & 0x0fff_0fff)),
            // Queues begin at a page boundary.
            register::ASQ => self.asq.set(low(self.asq.get()) & !0xfff),
            0x2C => self.asq.set(high(self.asq.get())),
            register::ACQ => self.acq.set(low(self.acq.get()) & !0xfff),
            0x34 => self.acq.set(high(self.acq.get())),
            _ => {}
        }
        Effect::None
    }

    /// Controller reset: clears all registers but AQA, ASQ and ACQ (NVMe Base 2.1, 3.7.2).
    pub fn reset(&self) {
        self.csts.set(Csts::new());
        self.interrupt_mask.set(0);
    }

    /// Function-level reset: clears all registers.
    pub fn power_on(&self) {
        self.reset();
        self.cc.set(Cc::new());
        self.aqa.set(Aqa::new());
        self.asq.set(0);
        self.acq.set(0);
        self.page_bytes.set(Cc::new().page_bytes());
        self.disabled.set(false);
    }
}
