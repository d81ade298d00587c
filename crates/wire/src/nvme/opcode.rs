//! Opcodes of the admin, NVM, Key Value and vendor-specific command sets. Those of a further set are in its own file, as in
//! [`slm`](super::slm). Unknown codes stay representable: a device must answer them.

/// Data transfer direction: bits 1:0 of an opcode (NVMe Base 2.1, 3.1.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// 00b: no data.
    None,
    /// 01b: host to controller.
    HostToController,
    /// 10b: controller to host.
    ControllerToHost,
    /// 11b: both directions.
    Bidirectional,
}

impl Direction {
    /// The direction that bits 1:0 of an opcode name.
    pub const fn of(opcode: u8) -> Direction {
        match opcode & 0b11 {
            0b00 => Direction::None,
            0b01 => Direction::HostToController,
            0b10 => Direction::ControllerToHost,
            _ => Direction::Bidirectional,
        }
    }
}

/// A type for the opcodes of a queue, in ascending order, with their names. Those from a code on are vendor specific.
macro_rules! opcodes {
    ($(#[$doc:meta])* $type:ident, vendor specific from $vendor:literal { $($(#[$code_doc:meta])* $name:ident = $code:literal, $text:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(pub u8);

        impl $type {
            $(#[doc = concat!($text, ", ", stringify!($code))] $(#[$code_doc])* pub const $name: Self = Self($code);)+

            /// All named opcodes, in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The specification's name, or "Vendor Specific" or "Reserved".
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                    Self(code) if code >= $vendor => "Vendor Specific",
                    _ => "Reserved",
                }
            }

            /// The direction of the command's data.
            pub const fn direction(self) -> $crate::nvme::opcode::Direction {
                $crate::nvme::opcode::Direction::of(self.0)
            }
        }

        impl From<u8> for $type {
            fn from(code: u8) -> Self {
                Self(code)
            }
        }

        impl From<$type> for u8 {
            fn from(opcode: $type) -> u8 {
                opcode.0
            }
        }

        impl ::core::fmt::Display for $type {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                write!(f, "{} ({:02X}h)", self.name(), self.0)
            }
        }

        impl ::core::fmt::Debug for $type {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        }
    };
}

opcodes! {
    /// An opcode of the admin queue (NVMe Base 2.1, 5, figure "Opcodes for Admin Commands").
    AdminOpcode, vendor specific from 0xC0 {
        DELETE_SQ = 0x00, "Delete I/O Submission Queue";
        CREATE_SQ = 0x01, "Create I/O Submission Queue";
        GET_LOG_PAGE = 0x02, "Get Log Page";
        DELETE_CQ = 0x04, "Delete I/O Completion Queue";
        CREATE_CQ = 0x05, "Create I/O Completion Queue";
        IDENTIFY = 0x06, "Identify";
        ABORT = 0x08, "Abort";
        SET_FEATURES = 0x09, "Set Features";
        GET_FEATURES = 0x0A, "Get Features";
        ASYNC_EVENT_REQUEST = 0x0C, "Asynchronous Event Request";
        NAMESPACE_MANAGEMENT = 0x0D, "Namespace Management";
        FIRMWARE_COMMIT = 0x10, "Firmware Commit";
        FIRMWARE_IMAGE_DOWNLOAD = 0x11, "Firmware Image Download";
        DEVICE_SELF_TEST = 0x14, "Device Self-test";
        NAMESPACE_ATTACHMENT = 0x15, "Namespace Attachment";
        KEEP_ALIVE = 0x18, "Keep Alive";
        DIRECTIVE_SEND = 0x19, "Directive Send";
        DIRECTIVE_RECEIVE = 0x1A, "Directive Receive";
        VIRTUALIZATION_MANAGEMENT = 0x1C, "Virtualization Management";
        NVME_MI_SEND = 0x1D, "NVMe-MI Send";
        NVME_MI_RECEIVE = 0x1E, "NVMe-MI Receive";
        CAPACITY_MANAGEMENT = 0x20, "Capacity Management";
        DISCOVERY_INFORMATION_MANAGEMENT = 0x21, "Discovery Information Management";
        FABRIC_ZONING_RECEIVE = 0x22, "Fabric Zoning Receive";
        LOCKDOWN = 0x24, "Lockdown";
        FABRIC_ZONING_LOOKUP = 0x25, "Fabric Zoning Lookup";
        CLEAR_EXPORTED_NVM_RESOURCE_CONFIGURATION = 0x28, "Clear Exported NVM Resource Configuration";
        FABRIC_ZONING_SEND = 0x29, "Fabric Zoning Send";
        CREATE_EXPORTED_NVM_SUBSYSTEM = 0x2A, "Create Exported NVM Subsystem";
        MANAGE_EXPORTED_NVM_SUBSYSTEM = 0x2D, "Manage Exported NVM Subsystem";
        MANAGE_EXPORTED_NAMESPACE = 0x31, "Manage Exported Namespace";
        MANAGE_EXPORTED_PORT = 0x35, "Manage Exported Port";
        SEND_DISCOVERY_LOG_PAGE = 0x39, "Send Discovery Log Page";
        TRACK_SEND = 0x3D, "Track Send";
        TRACK_RECEIVE = 0x3E, "Track Receive";
        MIGRATION_SEND = 0x41, "Migration Send";
        MIGRATION_RECEIVE = 0x42, "Migration Receive";
        CONTROLLER_DATA_QUEUE = 0x45, "Controller Data Queue";
        DOORBELL_BUFFER_CONFIG = 0x7C, "Doorbell Buffer Config";
        FABRICS = 0x7F, "Fabrics Commands";
        FORMAT_NVM = 0x80, "Format NVM";
        SECURITY_SEND = 0x81, "Security Send";
        SECURITY_RECEIVE = 0x82, "Security Receive";
        SANITIZE = 0x84, "Sanitize";
        LOAD_PROGRAM = 0x85, "Load Program";
        GET_LBA_STATUS = 0x86, "Get LBA Status";
        PROGRAM_ACTIVATION_MANAGEMENT = 0x88, "Program Activation Management";
        MEMORY_RANGE_SET_MANAGEMENT = 0x89, "Memory Range Set Management";
    }
}

opcodes! {
    /// An opcode of an I/O queue under the NVM command set (NVM Command Set 1.1, 3; NVMe Base 2.1, 7).
    NvmOpcode, vendor specific from 0x80 {
        FLUSH = 0x00, "Flush";
        WRITE = 0x01, "Write";
        READ = 0x02, "Read";
        WRITE_UNCORRECTABLE = 0x04, "Write Uncorrectable";
        COMPARE = 0x05, "Compare";
        WRITE_ZEROES = 0x08, "Write Zeroes";
        DATASET_MANAGEMENT = 0x09, "Dataset Management";
        VERIFY = 0x0C, "Verify";
        RESERVATION_REGISTER = 0x0D, "Reservation Register";
        RESERVATION_REPORT = 0x0E, "Reservation Report";
        RESERVATION_ACQUIRE = 0x11, "Reservation Acquire";
        IO_MANAGEMENT_RECEIVE = 0x12, "I/O Management Receive";
        RESERVATION_RELEASE = 0x15, "Reservation Release";
        CANCEL = 0x18, "Cancel";
        COPY = 0x19, "Copy";
        IO_MANAGEMENT_SEND = 0x1D, "I/O Management Send";
        FABRICS = 0x7F, "Fabrics Commands";
    }
}

opcodes! {
    /// An opcode of an I/O queue under the Key Value command set (NVMe Key Value Command Set 1.0, 3).
    KvOpcode, vendor specific from 0x80 {
        FLUSH = 0x00, "Flush";
        STORE = 0x01, "Store";
        RETRIEVE = 0x02, "Retrieve";
        LIST = 0x06, "List";
        RESERVATION_REGISTER = 0x0D, "Reservation Register";
        RESERVATION_REPORT = 0x0E, "Reservation Report";
        DELETE = 0x10, "Delete";
        RESERVATION_ACQUIRE = 0x11, "Reservation Acquire";
        EXIST = 0x14, "Exist";
        RESERVATION_RELEASE = 0x15, "Reservation Release";
    }
}

opcodes! {
    /// Byteway's own opcodes on I/O queues: see [`vendor`](super::vendor). Bits 1:0 are the direction of the data
    /// pointer's data: 00b for payload in the entry itself.
    VendorOpcode, vendor specific from 0x80 {
        SINK_WRITE = 0x81, "Sink Write";
        SINK_READ = 0x82, "Sink Read";
        SINK_STORE = 0x84, "Sink Store";
        TRANSFER = 0x88, "Transfer";
        TRANSFER_PIPELINED = 0x8C, "Transfer Pipelined";
        CHUNK = 0x90, "Chunk";
        KV_STORE_PIGGYBACK = 0x94, "KV Store Piggyback";
        KV_STORE_PIPELINED = 0x98, "KV Store Pipelined";
        KV_SEEK = 0x9C, "KV Seek";
        KV_NEXT = 0x9E, "KV Next";
        KV_CLOSE = 0xA0, "KV Close";
        KV_STORE_MANY = 0xA1, "KV Store Many";
        PAGE_POINTER = 0xA4, "Page Pointer";
        RAW_ERASE = 0xA8, "Raw Erase";
        RAW_PROGRAM = 0xA9, "Raw Program";
        RAW_READ = 0xAA, "Raw Read";
        RAW_MANAGE = 0xAC, "Raw Manage";
        RAW_COPY = 0xAD, "Raw Copy";
        RAW_REPORT = 0xAE, "Raw Report";
        RAW_SYSTEM_WRITE = 0xB1, "Raw System Write";
        RAW_SYSTEM_READ = 0xB2, "Raw System Read";
        CSD_TASK_PIGGYBACK = 0xB4, "Task Piggyback";
        CSD_TASK = 0xB5, "Task";
        CSD_RESULT = 0xB6, "Result";
        CSD_CANCEL = 0xB8, "Cancel";
        TABLE_CREATE = 0xB9, "Table Create";
        TABLE_LIST = 0xBA, "Table List";
        TABLE_DROP = 0xBC, "Table Drop";
        TABLE_APPEND = 0xBD, "Table Append";
        TABLE_GROUPS = 0xBE, "Table Groups";
        TABLE_READ = 0xC2, "Table Read";
    }
}

pub(super) use opcodes;

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this data could be transferred in the wrong direction.
    #[test]
    fn direction_is_the_low_two_bits() {
        assert_eq!(NvmOpcode::READ.direction(), Direction::ControllerToHost);
        assert_eq!(NvmOpcode::WRITE.direction(), Direction::HostToController);
        assert_eq!(NvmOpcode::FLUSH.direction(), Direction::None);
        assert_eq!(KvOpcode::STORE.direction(), Direction::HostToController);
        assert_eq!(KvOpcode::LIST.direction(), Direction::ControllerToHost);
        assert_eq!(KvOpcode::EXIST.direction(), Direction::None);
        assert_eq!(VendorOpcode::KV_STORE_PIPELINED.direction(), Direction::None);
        assert_eq!(VendorOpcode::KV_NEXT.direction(), Direction::ControllerToHost);
        assert_eq!(VendorOpcode::KV_STORE_MANY.direction(), Direction::HostToController);
        assert_eq!(AdminOpcode::IDENTIFY.direction(), Direction::ControllerToHost);
        assert_eq!(AdminOpcode::CREATE_SQ.direction(), Direction::HostToController);
    }

    /// Without this a mistyped table could name a code twice, or list a vendor's command after a standard one.
    #[test]
    fn tables_ascend_and_unknown_codes_have_a_name() {
        assert!(AdminOpcode::ALL.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(NvmOpcode::ALL.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(KvOpcode::ALL.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(VendorOpcode::ALL.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(NvmOpcode(0x90).name(), "Vendor Specific");
        assert_eq!(AdminOpcode(0x03).to_string(), "Reserved (03h)");
        assert_eq!(AdminOpcode(0xC1).name(), "Vendor Specific");
    }
}
