//! The Discovery log page, identifier 70h: addresses of subsystems and of other Discovery Services (NVMe Base 2.1,
//! 5.1.12.3.1).

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::nqn::NQN_FIELD_BYTES;
use super::{Nqn, NqnError};
use crate::nvme::assert_offsets;

macro_rules! codes {
    ($(#[$doc:meta])* $type:ident { $($name:ident = $code:literal, $text:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(transparent)]
        pub struct $type(pub u8);

        impl $type {
            $(#[doc = concat!($text, ", ", stringify!($code), ".")] pub const $name: $type = $type($code);)+

            /// Name of the code, or "reserved".
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$name => $text,)+
                    _ => "reserved",
                }
            }
        }
    };
}

codes! {
    /// Transport Type, TRTYPE.
    TransportType {
        RDMA = 0x01, "RDMA";
        FIBRE_CHANNEL = 0x02, "Fibre Channel";
        TCP = 0x03, "TCP";
        INTRA_HOST = 0xFE, "intra-host";
    }
}

codes! {
    /// Address Family, ADRFAM.
    AddressFamily {
        IPV4 = 0x01, "IPv4";
        IPV6 = 0x02, "IPv6";
        INFINIBAND = 0x03, "InfiniBand";
        FIBRE_CHANNEL = 0x04, "Fibre Channel";
        INTRA_HOST = 0xFE, "intra-host";
    }
}

codes! {
    /// Subsystem Type, SUBTYPE.
    SubsystemType {
        REFERRAL = 0x01, "referral to another Discovery Service";
        NVM = 0x02, "NVM subsystem";
        CURRENT_DISCOVERY = 0x03, "current Discovery subsystem";
    }
}

codes! {
    /// Security Type of an NVMe/TCP port, SECTYPE (TCP Transport 1.0, 3.6.1.1).
    SecurityType {
        NONE = 0x00, "no security";
        TLS_1_2 = 0x01, "TLS 1.2";
        TLS_1_3 = 0x02, "TLS 1.3";
    }
}

/// Transport Requirements, TREQ.
#[bitfield(u8)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct TransportRequirements {
    /// Transport Secure Channel: 0 not specified, 1 required, 2 not required.
    #[bits(2)]
    pub tsc: u8,
    /// SQ Flow Control Disable is supported.
    pub sqfcd: bool,
    /// Zero Host ID Support.
    pub zhids: bool,
    /// Transport Authentication and Secure Channel: 1 authentication required, 2 a secure channel from its key, too.
    #[bits(2)]
    pub tasc: u8,
    #[bits(2)]
    __: u8,
}

/// Entry Flags, EFLAGS.
#[bitfield(u16)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct EntryFlags {
    /// Duplicate Returned Information: this entry's Discovery Service returns what this one does.
    pub dupretinfo: bool,
    /// Explicit Persistent Connection Support for Discovery.
    pub epcsd: bool,
    /// No CDC Connectivity.
    pub ncc: bool,
    #[bits(13)]
    __: u16,
}

/// Header of the Discovery log page, 1024 bytes; entries of 1024 bytes each follow.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DiscoveryHeader {
    /// Generation Counter: changes with the page's contents.
    pub genctr: u64,
    /// Number of Records.
    pub numrec: u64,
    /// Record Format, 0.
    pub recfmt: u16,
    /// Discovery Log Page Flags: bit 0 extended entries, bit 1 entries of this port alone, bit 2 all subsystems.
    pub dlpf: u8,
    #[doc(hidden)]
    pub reserved_19: u8,
    /// Total Discovery Log Page Length in bytes, if there are extended entries.
    pub tdlpl: u32,
    #[doc(hidden)]
    pub reserved_24: [u8; 1000],
}

assert_offsets!(DiscoveryHeader: 1024; genctr = 0, numrec = 8, recfmt = 16, dlpf = 18, tdlpl = 20, reserved_24 = 24);

impl fmt::Debug for DiscoveryHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiscoveryHeader")
            .field("genctr", &self.genctr)
            .field("numrec", &self.numrec)
            .field("recfmt", &self.recfmt)
            .finish_non_exhaustive()
    }
}

/// An entry of the Discovery log page, 1024 bytes (NVMe Base 2.1, figure "Discovery Log Page Entry Data Structure").
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DiscoveryEntry {
    /// Transport Type.
    pub trtype: TransportType,
    /// Address Family of `traddr`.
    pub adrfam: AddressFamily,
    /// Subsystem Type.
    pub subtype: SubsystemType,
    /// Transport Requirements.
    pub treq: TransportRequirements,
    /// Port ID of the subsystem's port.
    pub portid: u16,
    /// Controller ID: FFFFh for the dynamic controller model, FFFEh for any of the static one.
    pub cntlid: u16,
    /// Admin Max SQ Size in entries, at least 32.
    pub asqsz: u16,
    /// Entry Flags.
    pub eflags: EntryFlags,
    #[doc(hidden)]
    pub reserved_12: [u8; 20],
    /// Transport Service Identifier, ASCII: of TCP the port in decimal.
    pub trsvcid: [u8; 32],
    #[doc(hidden)]
    pub reserved_64: [u8; 192],
    /// NVM Subsystem Qualified Name, zero terminated.
    pub subnqn: [u8; NQN_FIELD_BYTES],
    /// Transport Address, ASCII.
    pub traddr: [u8; 256],
    /// Security Type: the first byte of the Transport Specific Address Subtype of TCP.
    pub sectype: SecurityType,
    /// The rest of the Transport Specific Address Subtype.
    pub tsas: [u8; 255],
}

assert_offsets!(DiscoveryEntry: 1024; trtype = 0, adrfam = 1, subtype = 2, treq = 3, portid = 4, cntlid = 6,
    asqsz = 8, eflags = 10, trsvcid = 32, subnqn = 256, traddr = 512, sectype = 768, tsas = 769);

impl DiscoveryEntry {
    /// Bytes of an entry, and of the header.
    pub const SIZE: usize = 1024;

    /// An entry for a subsystem reached by TCP without TLS, with dynamic controllers and admin queues of 128 entries.
    pub fn tcp(subsystem: &Nqn, address: SocketAddr, portid: u16) -> DiscoveryEntry {
        DiscoveryEntry {
            trtype: TransportType::TCP,
            adrfam: if address.is_ipv4() { AddressFamily::IPV4 } else { AddressFamily::IPV6 },
            subtype: SubsystemType::NVM,
            portid,
            cntlid: super::connect::CNTLID_DYNAMIC,
            asqsz: 128,
            trsvcid: padded(&address.port().to_string()),
            subnqn: subsystem.field(),
            traddr: padded(&address.ip().to_string()),
            ..DiscoveryEntry::new_zeroed()
        }
    }

    /// A referral to another Discovery Service, reached by TCP.
    pub fn referral(address: SocketAddr, portid: u16) -> DiscoveryEntry {
        DiscoveryEntry {
            subtype: SubsystemType::REFERRAL,
            ..DiscoveryEntry::tcp(&Nqn::discovery(), address, portid)
        }
    }

    /// Name of the subsystem.
    ///
    /// # Errors
    /// [`NqnError`] if the name is malformed.
    pub fn subsystem(&self) -> Result<Nqn, NqnError> {
        Nqn::from_field(&self.subnqn)
    }

    /// Address and port of an NVMe/TCP entry; `None` for other transports, or if either is malformed.
    pub fn address(&self) -> Option<SocketAddr> {
        let ip: IpAddr = text(&self.traddr)?.parse().ok()?;
        let family = if ip.is_ipv4() { AddressFamily::IPV4 } else { AddressFamily::IPV6 };
        let is_tcp = self.trtype == TransportType::TCP && self.adrfam == family;
        is_tcp.then_some(SocketAddr::new(ip, text(&self.trsvcid)?.parse().ok()?))
    }
}

impl fmt::Debug for DiscoveryEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiscoveryEntry")
            .field("trtype", &self.trtype.name())
            .field("subtype", &self.subtype.name())
            .field("subnqn", &self.subsystem())
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

/// ASCII, left justified and padded with spaces (NVMe Base 2.1, 1.4.2).
fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    field[..text.len()].copy_from_slice(text.as_bytes());
    field
}

/// A text field without its padding, which may be spaces or zeros; `None` if it is not ASCII.
fn text(field: &[u8]) -> Option<&str> {
    let text = field.split(|byte| *byte == 0).next()?;
    core::str::from_utf8(text).ok().filter(|text| text.is_ascii()).map(str::trim_end)
}

/// The whole log page, of which Get Log Page reads parts.
#[derive(Clone, Copy, Debug)]
pub struct DiscoveryLog<'a> {
    /// Generation Counter.
    pub genctr: u64,
    /// Entries, in order.
    pub entries: &'a [DiscoveryEntry],
}

impl DiscoveryLog<'_> {
    /// The header.
    pub fn header(&self) -> DiscoveryHeader {
        DiscoveryHeader {
            genctr: self.genctr,
            numrec: self.entries.len() as u64,
            ..DiscoveryHeader::new_zeroed()
        }
    }

    /// Fills `out` with the page from byte `offset` on, and with zeros past its end.
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        out.fill(0);
        let header = self.header();
        let parts = [header.as_bytes(), self.entries.as_bytes()];
        let mut start = 0;
        for part in parts {
            let skip = offset.saturating_sub(start).min(part.len() as u64) as usize;
            let at = start.saturating_sub(offset).min(out.len() as u64) as usize;
            let bytes = (part.len() - skip).min(out.len() - at);
            out[at..at + bytes].copy_from_slice(&part[skip..skip + bytes]);
            start += part.len() as u64;
        }
    }

    /// Splits a page into its header and entries: as many as the header says and the page contains. `None` if the
    /// header is incomplete, or the entries have another format.
    pub fn parse(page: &[u8]) -> Option<(DiscoveryHeader, impl Iterator<Item = DiscoveryEntry> + '_)> {
        let (header, rest) = DiscoveryHeader::read_from_prefix(page).ok()?;
        let count = usize::try_from(header.numrec).unwrap_or(usize::MAX);
        let entries = rest.chunks_exact(DiscoveryEntry::SIZE).take(count);
        let entries = entries.filter_map(|entry| DiscoveryEntry::read_from_bytes(entry).ok());
        (header.recfmt == 0).then_some((header, entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> [DiscoveryEntry; 2] {
        let subsystem = Nqn::new("nqn.2014-08.com.example:drive").unwrap();
        [
            DiscoveryEntry::tcp(&subsystem, "192.0.2.7:4420".parse().unwrap(), 1),
            DiscoveryEntry::referral("[2001:db8::1]:8009".parse().unwrap(), 2),
        ]
    }

    /// Without this a host would not find a drive, or would connect to a wrong address.
    #[test]
    fn entries_lie_as_the_specification_says() {
        let [subsystem, referral] = entries();
        let bytes = subsystem.as_bytes();
        assert_eq!(bytes[..12], [3, 1, 2, 0, 1, 0, 0xFF, 0xFF, 128, 0, 0, 0]);
        assert_eq!((&bytes[32..37], bytes[63]), (&b"4420 "[..], b' '));
        assert_eq!(bytes[256..285], *b"nqn.2014-08.com.example:drive");
        assert_eq!((&bytes[512..522], bytes[768]), (&b"192.0.2.7 "[..], 0));
        assert_eq!(referral.as_bytes()[..3], [3, 2, 1]);
        assert_eq!(subsystem.address(), Some("192.0.2.7:4420".parse().unwrap()));
        assert_eq!(referral.address(), Some("[2001:db8::1]:8009".parse().unwrap()));
        assert!(referral.subsystem().unwrap().is_discovery());
        assert_eq!(TransportRequirements::new().with_sqfcd(true).with_tasc(1).into_bits(), 0x14);
        assert_eq!(EntryFlags::new().with_dupretinfo(true).with_ncc(true).into_bits(), 5);
    }

    /// Without this an entry from Linux, which pads with zeros, or a malformed one would give a wrong address.
    #[test]
    fn addresses_of_others_are_read_or_refused() {
        let [mut entry, _] = entries();
        (entry.traddr, entry.trsvcid) = ([0; 256], [0; 32]);
        entry.traddr[..9].copy_from_slice(b"192.0.2.7");
        entry.trsvcid[..4].copy_from_slice(b"4420");
        assert_eq!(entry.address(), Some("192.0.2.7:4420".parse().unwrap()));
        let ipv6 = DiscoveryEntry { adrfam: AddressFamily::IPV6, ..entry };
        let rdma = DiscoveryEntry { trtype: TransportType::RDMA, ..entry };
        let no_port = DiscoveryEntry { trsvcid: [b'x'; 32], ..entry };
        let no_text = DiscoveryEntry { traddr: [0xFF; 256], ..entry };
        assert!([ipv6, rdma, no_port, no_text].iter().all(|entry| entry.address().is_none()));
    }

    /// Without this a page read in parts would differ from the page read as a whole.
    #[test]
    fn parts_of_the_page_are_the_page() {
        let entries = entries();
        let log = DiscoveryLog { genctr: 9, entries: &entries };
        let mut page = vec![0xAA; 3200];
        log.read(0, &mut page);
        assert_eq!(page[..18], [9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(page[1024..3072], *entries.as_bytes());
        assert!(page[3072..].iter().all(|byte| *byte == 0));
        for (offset, bytes) in
            [(0, 16), (16, 1020), (1000, 100), (1024, 2048), (2047, 2), (3000, 200), (3190, 10)]
        {
            let mut part = vec![0xAA; bytes];
            log.read(offset as u64, &mut part);
            assert_eq!(part, page[offset..offset + bytes], "{offset}");
        }
        let mut beyond = [0xAA; 4];
        log.read(u64::MAX, &mut beyond);
        assert_eq!(beyond, [0; 4]);

        let (header, found) = DiscoveryLog::parse(&page).unwrap();
        assert_eq!((header, found.collect::<Vec<_>>()), (log.header(), entries.to_vec()));
        assert_eq!(DiscoveryLog::parse(&page[..2050]).unwrap().1.count(), 1);
        assert!(DiscoveryLog::parse(&page[..1023]).is_none());
        page[16] = 1;
        assert!(DiscoveryLog::parse(&page).is_none());
    }
}
