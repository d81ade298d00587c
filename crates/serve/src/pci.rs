//! The configuration space of a served drive (PCI Express Base 6.0, 7.5 to 7.7): its contents and which bits
//! a host may write.
//!
//! A type 0 header with one memory region, three capabilities (power management, PCI Express, MSI-X) and the serial
//! number as the only extended one. Each byte has a mask of the bits that the host may write; what a write does beyond
//! changing them is its [`Effect`]. The MSI-X table itself is not here: it lies in BAR0.

use byteway_device::controller::admin::identify::VENDOR_ID;
use byteway_link::PcieConfig;
use std::cell::Cell;

/// Bytes of the space, including the extended part.
pub const CONFIG_BYTES: usize = 4096;

/// The device identifier under [`VENDOR_ID`], from the range that the vendor reserves for experiments.
/// Drivers match the class instead of this identifier; Linux has quirks for many drives, and none for this
/// one.
pub const DEVICE_ID: u16 = 0x10f0;

/// Identity and layout of a drive's function.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Vendor identifier; Identify Controller (VID) has to match.
    pub vendor: u16,
    /// Device identifier.
    pub device: u16,
    /// Subsystem vendor identifier.
    pub subsystem_vendor: u16,
    /// Subsystem identifier.
    pub subsystem: u16,
    /// Revision identifier.
    pub revision: u8,
    /// Serial number, constant for a drive (an EUI-64 by the specification).
    pub serial: u64,
    /// Size of BAR0: a power of two of at least 4 KiB.
    pub bar0_bytes: u64,
    /// MSI-X vectors: 1 to 2048.
    pub vectors: u16,
    /// Offset of the MSI-X table in BAR0: a multiple of 8.
    pub table_offset: u32,
    /// Offset of the pending bit array in BAR0: a multiple of 8.
    pub pba_offset: u32,
}

impl Identity {
    /// Byteway's own identifiers, with this serial number, BAR0 and interrupts.
    pub fn byteway(serial: u64, bar0_bytes: u64, vectors: u16, table_offset: u32, pba_offset: u32) -> Self {
        Identity {
            vendor: VENDOR_ID,
            device: DEVICE_ID,
            subsystem_vendor: VENDOR_ID,
            subsystem: DEVICE_ID,
            revision: 1,
            serial,
            bar0_bytes,
            vectors,
            table_offset,
            pba_offset,
        }
    }

    /// Asserts the drive's layout; none of these values comes from a host.
    fn check(&self) {
        assert!(self.bar0_bytes.is_power_of_two() && self.bar0_bytes >= 4096, "BAR0 has a possible size");
        assert!((1..=2048).contains(&self.vectors), "MSI-X has 1 to 2048 vectors");
        assert!((self.table_offset | self.pba_offset).is_multiple_of(8), "the low bits name the BAR");
        let vectors = u64::from(self.vectors);
        let table_end = u64::from(self.table_offset) + 16 * vectors;
        let pba_end = u64::from(self.pba_offset) + 8 * vectors.div_ceil(64);
        assert!(table_end.max(pba_end) <= self.bar0_bytes, "MSI-X lies in BAR0");
    }
}

/// Action that a write requires in addition to changing bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// No further action.
    None,
    /// A function-level reset. The configuration space itself is already reset: see [`ConfigSpace::reset`].
    Reset,
}

// The header (7.5.1).
const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const REVISION: usize = 0x08;
const CLASS: usize = 0x09;
const CACHE_LINE: usize = 0x0c;
const BAR0: usize = 0x10;
const SUBSYSTEM: usize = 0x2c;
const CAPABILITIES: usize = 0x34;
const INTERRUPT_LINE: usize = 0x3c;

const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_MASTER: u16 = 1 << 2;
/// Parity Error Response and SERR# Enable: PCI Express requires them to be writable. The function never
/// raises these errors.
const COMMAND_ERRORS: u16 = 1 << 6 | 1 << 8;
const COMMAND_INTX_DISABLE: u16 = 1 << 10;
const STATUS_CAPABILITIES: u16 = 1 << 4;
/// Class code of an NVM Express I/O controller: programming interface first.
const CLASS_NVME: [u8; 3] = [0x02, 0x08, 0x01];
/// 64-bit memory BAR, not prefetchable: reading a register may have effects.
const BAR_MEMORY_64: u32 = 0b0100;

// Power management (7.5.2).
const PM: usize = 0x40;
const PM_ID: u8 = 0x01;
const PMC: usize = PM + 2;
const PMCSR: usize = PM + 4;
/// Version 1.2 of its own specification; D1, D2 and PME are not supported.
const PMC_VERSION: u16 = 3;
const POWER_STATE: u8 = 0b11;
const D0: u8 = 0;
const D3_HOT: u8 = 3;
/// The transition from D3hot to D0 preserves all state.
const NO_SOFT_RESET: u16 = 1 << 3;

// PCI Express (7.5.3).
const EXPRESS: usize = 0x60;
const EXPRESS_ID: u8 = 0x10;
/// Capability version 2; device type 0, endpoint.
const EXPRESS_CAPABILITIES: u16 = 2;
const DEVICE_CAPABILITIES: usize = EXPRESS + 0x04;
const DEVICE_CONTROL: usize = EXPRESS + 0x08;
const LINK_CAPABILITIES: usize = EXPRESS + 0x0c;
const LINK_CONTROL: usize = EXPRESS + 0x10;
const LINK_STATUS: usize = EXPRESS + 0x12;
const DEVICE_CAPABILITIES_2: usize = EXPRESS + 0x24;
const DEVICE_CONTROL_2: usize = EXPRESS + 0x28;
const LINK_CAPABILITIES_2: usize = EXPRESS + 0x2c;
const LINK_CONTROL_2: usize = EXPRESS + 0x30;

const EXTENDED_TAGS: u32 = 1 << 5;
const ROLE_BASED_ERRORS: u32 = 1 << 15;
const FLR_CAPABLE: u32 = 1 << 28;
/// Error reporting enables, relaxed ordering, extended tags, no snoop.
const DEVICE_CONTROL_FLAGS: u16 = 0b1111 | 1 << 4 | 1 << 8 | 1 << 11;
const DEVICE_CONTROL_MPS: u16 = 0b111 << 5;
const DEVICE_CONTROL_MRRS: u16 = 0b111 << 12;
/// Relaxed ordering, no snoop, maximum read request of 512 bytes.
const DEVICE_CONTROL_INITIAL: u16 = 1 << 4 | 1 << 11 | 0b010 << 12;
/// Initiate Function Level Reset, in the second byte of device control: reads as zero.
const INITIATE_FLR: u8 = 1 << 7;
/// ASPM Optionality Compliance: the link may lack active-state power management.
const ASPM_OPTIONALITY: u32 = 1 << 22;
/// ASPM control, read completion boundary, common clock, extended synch.
const LINK_CONTROL_FLAGS: u16 = 0b11 | 1 << 3 | 1 << 6 | 1 << 7;
const SLOT_CLOCK: u16 = 1 << 12;
/// Completion Timeout Disable: supported and enabled.
const NO_TIMEOUT: u16 = 1 << 4;

// MSI-X (7.7.2).
const MSIX: usize = 0xa0;
const MSIX_ID: u8 = 0x11;
const MSIX_CONTROL: usize = MSIX + 2;
const MSIX_TABLE: usize = MSIX + 4;
const MSIX_PBA: usize = MSIX + 8;
const MSIX_ENABLE: u16 = 1 << 15;
const MSIX_MASK: u16 = 1 << 14;

// Device serial number (7.9.3).
const SERIAL: usize = 0x100;
const SERIAL_ID: u32 = 0x0003;
const SERIAL_VERSION: u32 = 1;

/// The configuration space, with a mask of writable bits.
pub struct ConfigSpace {
    bytes: Vec<Cell<u8>>,
    /// Contents after a reset.
    initial: Vec<u8>,
    /// The bits that the host may write.
    writable: Vec<u8>,
}

impl ConfigSpace {
    /// The space of a function with `identity`, at the end of `link`.
    pub fn new(identity: &Identity, link: &PcieConfig) -> Self {
        identity.check();
        let mut layout = Layout { initial: vec![0; CONFIG_BYTES], writable: vec![0; CONFIG_BYTES] };
        layout.header(identity);
        layout.power_management();
        layout.express(link);
        layout.msix(identity);
        layout.serial_number(identity.serial);
        let Layout { initial, writable } = layout;
        let bytes = initial.iter().copied().map(Cell::new).collect();
        ConfigSpace { bytes, initial, writable }
    }

    /// Reads `into.len()` bytes from `offset`; any extent is allowed, and bytes outside the space read as
    /// ones.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        into.fill(0xff);
        for (value, byte) in into.iter_mut().zip(self.from(offset)) {
            *value = byte.get();
        }
    }

    /// Writes `from` at `offset`; read-only bits and bytes outside the space are ignored.
    pub fn write(&self, offset: u64, from: &[u8]) -> Effect {
        let mut effect = Effect::None;
        let first = CONFIG_BYTES - self.from(offset).len();
        for (at, value) in (first..CONFIG_BYTES).zip(from.iter().copied()) {
            let (byte, mask) = (&self.bytes[at], self.writable[at]);
            // D1 and D2 are not supported: the write is accepted and the power state does not change.
            let mask = match at {
                PMCSR if !matches!(value & POWER_STATE, D0 | D3_HOT) => mask & !POWER_STATE,
                _ => mask,
            };
            byte.set(byte.get() & !mask | value & mask);
            if at == DEVICE_CONTROL + 1 && value & INITIATE_FLR != 0 {
                effect = Effect::Reset;
            }
        }
        if effect == Effect::Reset {
            self.reset();
        }
        effect
    }

    /// Restores the initial contents. (The specification lets Max_Payload_Size and link control survive a
    /// function-level reset; hosts save and restore them with the rest, and nothing here depends on them.)
    pub fn reset(&self) {
        for (byte, initial) in self.bytes.iter().zip(&self.initial) {
            byte.set(*initial);
        }
    }

    fn from(&self, offset: u64) -> &[Cell<u8>] {
        let first = usize::try_from(offset).unwrap_or(CONFIG_BYTES).min(CONFIG_BYTES);
        &self.bytes[first..]
    }
}

/// Builder of a configuration space.
struct Layout {
    initial: Vec<u8>,
    writable: Vec<u8>,
}

impl Layout {
    fn header(&mut self, identity: &Identity) {
        self.set16(0, identity.vendor, 0);
        self.set16(2, identity.device, 0);
        let command = COMMAND_MEMORY | COMMAND_MASTER | COMMAND_ERRORS | COMMAND_INTX_DISABLE;
        self.set16(COMMAND, 0, command);
        self.set16(STATUS, STATUS_CAPABILITIES, 0);
        self.initial[REVISION] = identity.revision;
        self.initial[CLASS..CLASS + 3].copy_from_slice(&CLASS_NVME);
        self.writable[CACHE_LINE] = 0xff; // legacy PCI register, kept as memory
        // A host writes ones and derives the size of the region from the bits that stay zero.
        let address = !(identity.bar0_bytes - 1);
        self.set32(BAR0, BAR_MEMORY_64, address as u32);
        self.set32(BAR0 + 4, 0, (address >> 32) as u32);
        self.set16(SUBSYSTEM, identity.subsystem_vendor, 0);
        self.set16(SUBSYSTEM + 2, identity.subsystem, 0);
        self.initial[CAPABILITIES] = PM as u8;
        self.writable[INTERRUPT_LINE] = 0xff; // scratch register of the host's firmware; Interrupt Pin next to it is 0: no INTx
    }

    fn capability(&mut self, at: usize, id: u8, next: usize) {
        self.initial[at] = id;
        self.initial[at + 1] = next as u8;
    }

    fn power_management(&mut self) {
        self.capability(PM, PM_ID, EXPRESS);
        self.set16(PMC, PMC_VERSION, 0);
        self.set16(PMCSR, NO_SOFT_RESET, POWER_STATE.into());
    }

    fn express(&mut self, link: &PcieConfig) {
        // Max_Payload_Size is coded as 128 << n.
        let payload = (link.mps.max(128).ilog2() - 7).min(5);
        let (speed, width) = (link.generation as u32 + 1, link.lanes);
        self.capability(EXPRESS, EXPRESS_ID, MSIX);
        self.set16(EXPRESS + 2, EXPRESS_CAPABILITIES, 0);
        self.set32(DEVICE_CAPABILITIES, payload | EXTENDED_TAGS | ROLE_BASED_ERRORS | FLR_CAPABLE, 0);
        let control = DEVICE_CONTROL_FLAGS | DEVICE_CONTROL_MPS | DEVICE_CONTROL_MRRS;
        self.set16(DEVICE_CONTROL, DEVICE_CONTROL_INITIAL, control);
        self.set32(LINK_CAPABILITIES, speed | width << 4 | ASPM_OPTIONALITY, 0);
        self.set16(LINK_CONTROL, 0, LINK_CONTROL_FLAGS);
        self.set16(LINK_STATUS, (speed | width << 4) as u16 | SLOT_CLOCK, 0);
        self.set32(DEVICE_CAPABILITIES_2, NO_TIMEOUT.into(), 0);
        self.set16(DEVICE_CONTROL_2, 0, NO_TIMEOUT);
        // One bit for each speed from bit 1, up to the link's.
        self.set32(LINK_CAPABILITIES_2, (1 << (speed + 1)) - 2, 0);
        self.set16(LINK_CONTROL_2, speed as u16, 0b1111);
    }

    fn msix(&mut self, identity: &Identity) {
        self.capability(MSIX, MSIX_ID, 0);
        self.set16(MSIX_CONTROL, identity.vectors - 1, MSIX_ENABLE | MSIX_MASK);
        self.set32(MSIX_TABLE, identity.table_offset, 0);
        self.set32(MSIX_PBA, identity.pba_offset, 0);
    }

    fn serial_number(&mut self, serial: u64) {
        self.set32(SERIAL, SERIAL_ID | SERIAL_VERSION << 16, 0);
        self.set32(SERIAL + 4, serial as u32, 0);
        self.set32(SERIAL + 8, (serial >> 32) as u32, 0);
    }

    fn set16(&mut self, at: usize, initial: u16, writable: u16) {
        self.initial[at..at + 2].copy_from_slice(&initial.to_le_bytes());
        self.writable[at..at + 2].copy_from_slice(&writable.to_le_bytes());
    }

    fn set32(&mut self, at: usize, initial: u32, writable: u32) {
        self.initial[at..at + 4].copy_from_slice(&initial.to_le_bytes());
        self.writable[at..at + 4].copy_from_slice(&writable.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl ConfigSpace {
        /// Whether the function may send messages.
        fn is_msix_enabled(&self) -> bool {
            self.word(MSIX_CONTROL) & MSIX_ENABLE != 0
        }

        /// Whether the function mask masks all vectors.
        fn is_msix_masked(&self) -> bool {
            self.word(MSIX_CONTROL) & MSIX_MASK != 0
        }

        /// Whether BAR0 answers: memory space is enabled and the function is in D0.
        fn is_memory_enabled(&self) -> bool {
            let awake = self.bytes[PMCSR].get() & POWER_STATE == D0;
            awake && self.word(COMMAND) & COMMAND_MEMORY != 0
        }

        /// Whether the function may read and write memory, and send messages.
        fn is_bus_master(&self) -> bool {
            self.word(COMMAND) & COMMAND_MASTER != 0
        }

        /// Address that the host assigned to BAR0.
        fn bar0(&self) -> u64 {
            let mut bytes = [0; 8];
            self.read(BAR0 as u64, &mut bytes);
            u64::from_le_bytes(bytes) & !0xf
        }

        fn word(&self, at: usize) -> u16 {
            u16::from_le_bytes([self.bytes[at].get(), self.bytes[at + 1].get()])
        }
    }
    use byteway_link::Generation;

    const BAR_BYTES: u64 = 1 << 16;

    fn space_of(identity: &Identity) -> ConfigSpace {
        let link = PcieConfig { generation: Generation::Gen4, ..byteway_testkit::link_config() };
        ConfigSpace::new(identity, &link)
    }

    fn space() -> ConfigSpace {
        space_of(&Identity::byteway(0x0123_4567_89ab_cdef, BAR_BYTES, 33, 0x8000, 0xc000))
    }

    fn read32(space: &ConfigSpace, at: u64) -> u32 {
        let mut bytes = [0; 4];
        space.read(at, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn read16(space: &ConfigSpace, at: u64) -> u16 {
        let mut bytes = [0; 2];
        space.read(at, &mut bytes);
        u16::from_le_bytes(bytes)
    }

    fn whole(space: &ConfigSpace) -> Vec<u8> {
        let mut bytes = vec![0; CONFIG_BYTES];
        space.read(0, &mut bytes);
        bytes
    }

    /// The capabilities, found by the walk that lspci and Linux do.
    fn capabilities(space: &ConfigSpace) -> Vec<(u8, u64)> {
        assert_ne!(read16(space, 0x06) & 1 << 4, 0, "status says that there is a list");
        let mut found = Vec::new();
        let mut at = u64::from(read16(space, 0x34) & 0xfc);
        while at != 0 {
            assert!((0x40..0x100).contains(&at) && found.len() < 48, "the list ends, within its space");
            let [id, next] = read16(space, at).to_le_bytes();
            found.push((id, at));
            at = u64::from(next & 0xfc);
        }
        found
    }

    // A host that doesn't find the class binds no driver, and one that doesn't find MSI-X gets no interrupt.
    #[test]
    fn header_and_capabilities_are_found_as_a_host_looks_for_them() {
        let space = space();
        assert_eq!(read32(&space, 0), 0x10f0_1af4);
        assert_eq!(read32(&space, 0x08), 0x0108_0201, "class 01-08-02, revision 1");
        assert_eq!(read32(&space, 0x0c), 0, "type 0, one function");
        assert_eq!(read32(&space, 0x2c), 0x10f0_1af4);
        assert_eq!((read32(&space, 0x28), read32(&space, 0x30)), (0, 0), "neither CardBus nor a ROM");
        assert_eq!(read32(&space, 0x3c), 0, "no INTx");
        assert_eq!(capabilities(&space), [(0x01, 0x40), (0x10, 0x60), (0x11, 0xa0)]);

        assert_eq!(read16(&space, 0x42), 3, "power management without D1, D2 and PME");
        assert_eq!(read16(&space, 0x44), 1 << 3, "in D0, and nothing is lost in D3hot");

        assert_eq!(read16(&space, 0x62), 2, "PCI Express version 2, endpoint");
        let device = read32(&space, 0x64);
        assert_eq!((device & 0b111, device >> 28 & 1), (1, 1), "payload of 256 bytes, FLR");
        assert_eq!(read16(&space, 0x68), 0x2810, "payload of 128 bytes, reads of 512");
        let (capable, now) = (read32(&space, 0x6c), read16(&space, 0x72));
        assert_eq!((capable & 0xf, capable >> 4 & 0x3f), (4, 4), "Gen4 x4");
        assert_eq!((now & 0xf, now >> 4 & 0x3f), (4, 4));
        assert_eq!(read32(&space, 0x60 + 0x2c), 0b11110, "2.5 to 16 GT/s");

        assert_eq!(read16(&space, 0xa2), 32, "33 vectors");
        assert_eq!((read32(&space, 0xa4), read32(&space, 0xa8)), (0x8000, 0xc000));

        assert_eq!(read32(&space, 0x100), 0x0001_0003, "serial number, the last of the extended list");
        assert_eq!((read32(&space, 0x104), read32(&space, 0x108)), (0x89ab_cdef, 0x0123_4567));
        assert!(whole(&space)[0x10c..].iter().all(|byte| *byte == 0));
    }

    // A host derives the region's size from bits that it cannot write; a wrong size makes the doorbells
    // overlap another region.
    #[test]
    fn bar0_is_sized_and_placed() {
        for bytes in [1 << 14, BAR_BYTES, 1 << 20, 1 << 32, 1 << 35] {
            let space = space_of(&Identity::byteway(1, bytes, 1, 0x2000, 0x3000));
            assert_eq!((read32(&space, 0x10), read32(&space, 0x14)), (0b0100, 0));
            space.write(0x10, &[0xff; 24]);
            let seen = u64::from(read32(&space, 0x10)) | u64::from(read32(&space, 0x14)) << 32;
            assert_eq!(seen & 0xf, 0b0100);
            assert_eq!(!(seen & !0xf) + 1, bytes);
            assert!((0x18..0x28).step_by(4).all(|at| read32(&space, at) == 0), "there are no other regions");
            space.write(0x30, &[0xff; 4]);
            assert_eq!(read32(&space, 0x30), 0, "nor a ROM");
            let placed = 0x0040_1234_5678_9abc_u64;
            space.write(0x14, &placed.to_le_bytes()[4..]);
            space.write(0x10, &placed.to_le_bytes()[..4]);
            assert_eq!(space.bar0(), placed & !(bytes - 1));
        }
    }

    // Without masks, a host's read-modify-write would change the identity of the drive.
    #[test]
    fn ones_everywhere_change_only_what_may_be_written() {
        let table: &[(u64, u32)] = &[
            (0x04, 0x0546),           // memory, bus master, errors, INTx disable
            (0x0c, 0xff),             // cache line size
            (0x10, 0xffff_0000),      // BAR0
            (0x14, 0xffff_ffff),      //
            (0x3c, 0xff),             // interrupt line
            (0x44, 0b11),             // power state
            (0x68, 0x7fff & !0x0600), // device control but phantom functions and auxiliary power; the FLR bit reads 0
            (0x70, 0xcb),             // link control
            (0x88, 1 << 4),           // device control 2
            (0x90, 0xf),              // link control 2
            (0xa0, 0xc000_0000),      // MSI-X enable, function mask
        ];
        let mut expected = whole(&space());
        for (at, mask) in table {
            let at = *at as usize;
            for (byte, ones) in expected[at..at + 4].iter_mut().zip(mask.to_le_bytes()) {
                *byte |= ones;
            }
        }
        let space = space();
        for at in 0..CONFIG_BYTES as u64 {
            // All but the FLR bit, which would restore everything.
            let ones = if at == 0x69 { 0x7f } else { 0xff };
            assert_eq!(space.write(at, &[ones]), Effect::None, "at {at:#x}");
        }
        for (at, (is, right)) in whole(&space).into_iter().zip(&expected).enumerate() {
            assert_eq!(is, *right, "at {at:#x}");
        }
        assert!(space.is_msix_enabled() && space.is_msix_masked() && space.is_bus_master());
        assert!(!space.is_memory_enabled(), "in D3hot");
        for at in 0..CONFIG_BYTES as u64 {
            space.write(at, &[0]);
        }
        let zeroed = whole(&space);
        for (at, (is, ones)) in zeroed.into_iter().zip(&space.writable).enumerate() {
            assert_eq!(is & ones, 0, "every writable bit can be cleared too, at {at:#x}");
        }
        assert_eq!(read32(&space, 0), 0x10f0_1af4);
    }

    // The host may name any offset and length.
    #[test]
    fn extents_beyond_the_space_read_as_ones_and_are_not_written() {
        let space = space();
        let before = whole(&space);
        for offset in [4096, 4097, u64::from(u32::MAX), 1 << 32, u64::MAX - 3, u64::MAX] {
            let mut bytes = [0; 8];
            space.read(offset, &mut bytes);
            assert_eq!(bytes, [0xff; 8], "at {offset:#x}");
            assert_eq!(space.write(offset, &[0xff; 8]), Effect::None);
        }
        let mut bytes = [1; 8];
        space.read(4092, &mut bytes);
        assert_eq!(bytes, [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        space.read(0, &mut []);
        assert_eq!(space.write(0x69, &[]), Effect::None);
        assert_eq!(space.write(4090, &vec![0xff; 10_000]), Effect::None);
        assert_eq!(whole(&space), before);
        let mut long = vec![0; 10_000];
        space.read(1, &mut long);
        assert_eq!(long[..CONFIG_BYTES - 1], before[1..]);
        assert!(long[CONFIG_BYTES - 1..].iter().all(|byte| *byte == 0xff));
        assert_eq!(space.write(0, &vec![0xff; 10_000]), Effect::Reset, "the bit was among them");
        assert_eq!(whole(&space), before);
    }

    // A reset that leaves Bus Master Enable set would let the function write to memory of its next owner.
    #[test]
    fn a_function_level_reset_puts_everything_back() {
        let space = space();
        let before = whole(&space);
        space.write(0x04, &[0x06, 0x04]);
        space.write(0x10, &[0, 0, 0x12, 0x34, 1, 0, 0, 0]);
        space.write(0xa2, &[0, 0x80]);
        assert!(space.is_memory_enabled() && space.is_bus_master() && space.is_msix_enabled());
        assert_eq!(space.write(0x68, &[0x10]), Effect::None, "the other half of the register");
        assert_eq!(space.write(0x69, &[0x28]), Effect::None);
        assert_eq!(space.write(0x68, &0xa810_u16.to_le_bytes()), Effect::Reset);
        assert_eq!(whole(&space), before, "the bit has cleared itself, too");
        space.write(0x04, &[0xff; 2]);
        space.reset();
        assert_eq!(whole(&space), before);
    }

    // An unsupported state must not read back as entered: the host would wait for a sleeping function.
    #[test]
    fn only_d0_and_d3hot_are_entered() {
        let space = space();
        space.write(0x04, &[0x02]);
        for (written, state) in [(3, 3), (1, 3), (2, 3), (0, 0), (1, 0), (2, 0)] {
            space.write(0x44, &[written, 0x81]);
            assert_eq!(read16(&space, 0x44), 1 << 3 | state);
            assert_eq!(space.is_memory_enabled(), state == 0);
        }
    }
}
