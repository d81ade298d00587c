//! NVMe/TCP PDUs: layout by the specification, and decoding in pieces of any size.

use byteway_wire::fabrics::tcp::framing::digest;
use byteway_wire::fabrics::tcp::*;
use byteway_wire::nvme::{Cqe, NvmOpcode, Sqe, Status};
use proptest::prelude::*;

pub const LIMITS: Limits = Limits { plen_max: 1 << 20, maxh2cdata: 4096, dwords: true };

/// CRC32C bit by bit, as RFC 3720 defines it.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8)
            .fold(crc ^ u32::from(*byte), |crc: u32, _| crc >> 1 ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 })
    })
}

pub fn framing(header: bool, data: bool, pda_z: u8, receiver: End) -> Framing {
    let dgst = Digests::new().with_header(header).with_data(data);
    let agreement = Agreement::new(&IcReq::new(pda_z, dgst, 0), &IcResp::new(pda_z, dgst, 4096));
    agreement.expect("both sides agree").framing_to(receiver)
}

pub fn encoded(framing: &Framing, pdu: impl Into<Pdu>, data: &[u8]) -> Vec<u8> {
    let pdu = pdu.into();
    let mut bytes = vec![0xAA; framing.pdu_bytes(&pdu, data.len() as u32) as usize];
    assert_eq!(framing.encode(&pdu, data, &mut bytes), Some(bytes.len()));
    let short = bytes.len() - 1;
    assert_eq!(framing.encode(&pdu, data, &mut vec![0; short]), None);
    bytes
}

/// A decoder for an established connection.
pub fn decoder(receiver: End, framing: Framing, limits: Limits) -> Decoder {
    let mut decoder = Decoder::new(receiver, limits);
    let first = match receiver {
        End::Controller => encoded(&Framing::INITIAL, IcReq::new(0, Digests::new(), 0), &[]),
        End::Host => encoded(&Framing::INITIAL, IcResp::new(0, Digests::new(), 4096), &[]),
    };
    let mut bytes = &first[..];
    assert!(matches!(decoder.next(&mut bytes), Ok(Event::Header { data_bytes: 0, .. })));
    assert_eq!((decoder.next(&mut bytes), decoder.header()), (Ok(Event::More), &first[..]));
    decoder.establish(framing);
    decoder
}

/// A PDU, its data, and whether the digest matched.
pub type DecodedPdu = (Pdu, Vec<u8>, bool);

/// Decodes a stream that arrives in pieces.
pub fn decode<'a>(
    decoder: &mut Decoder,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<DecodedPdu>, PduError> {
    let (mut found, mut left): (Vec<DecodedPdu>, u32) = (Vec::new(), 0);
    for mut piece in pieces {
        loop {
            match decoder.next(&mut piece)? {
                Event::More => break,
                Event::Header { pdu, data_bytes } => {
                    assert_eq!((left, decoder.header()), (0, pdu.as_bytes()));
                    left = data_bytes;
                    found.push((pdu, Vec::new(), true));
                }
                Event::Data(part) => {
                    assert!(!part.is_empty());
                    left -= part.len() as u32;
                    found.last_mut().expect("a header came").1.extend_from_slice(part);
                }
                Event::End { intact } => {
                    assert_eq!(left, 0);
                    found.last_mut().expect("a header came").2 = intact;
                }
            }
        }
        assert!(piece.is_empty());
    }
    Ok(found)
}

fn sqe() -> Sqe {
    Sqe::new(NvmOpcode::WRITE, 0x0102, 1)
}

fn cqe() -> Cqe {
    Cqe::new(0x0102, Status::SUCCESS, 0, 3)
}

/// Without this digests would differ from every other implementation's. Values: RFC 3720, B.4.
#[test]
fn digests_are_crc32c() {
    assert_eq!(digest(&[0; 32]), [0xAA, 0x36, 0x91, 0x8A]);
    assert_eq!(digest(&[0xFF; 32]), [0x43, 0xAB, 0xA8, 0x62]);
    let bytes: Vec<u8> = (0..200).collect();
    assert_eq!(digest(&bytes), crc32c(&bytes).to_le_bytes());
    for split in 0..bytes.len() {
        let mut parts = DataDigest::new();
        parts.update(&bytes[..split]);
        parts.update(&bytes[split..]);
        assert_eq!(parts.finish(), digest(&bytes));
    }
}

/// Without this no other implementation could read our PDUs. TCP Transport 1.0, 3.6.2, figures 20 to 28.
#[test]
fn pdus_lie_as_the_specification_says() {
    let plain = framing(false, false, 0, End::Controller);
    let both = Digests::new().with_header(true).with_data(true);

    // ICReq: HPDA at 10, DGST at 11, MAXR2T at 12.
    let bytes = encoded(&plain, IcReq::new(3, both, 15), &[]);
    assert_eq!(bytes[..16], [0x00, 0, 0x80, 0, 0x80, 0, 0, 0, 0, 0, 3, 3, 15, 0, 0, 0]);
    assert_eq!((&bytes[16..], bytes.len()), (&[0; 112][..], 128));

    // ICResp: CPDA at 10, DGST at 11, MAXH2CDATA at 12.
    let bytes = encoded(&plain, IcResp::new(15, Digests::new().with_header(true), 0x2_0000), &[]);
    assert_eq!(bytes[..16], [0x01, 0, 0x80, 0, 0x80, 0, 0, 0, 0, 0, 15, 1, 0, 0, 2, 0]);

    // H2CTermReq and C2HTermReq: FES at 8, FEI at 10, the wrong header at 24.
    let bytes = encoded(&plain, TermReq::new(End::Host, Fatal::field(4)), &[7; 8]);
    assert_eq!(bytes[..16], [0x02, 0, 0x18, 0, 0x20, 0, 0, 0, 1, 0, 4, 0, 0, 0, 0, 0]);
    assert_eq!((&bytes[16..24], &bytes[24..]), (&[0; 8][..], &[7; 8][..]));
    let fatal = Fatal { status: FatalStatus::HEADER_DIGEST, info: 0xAABB_CCDD };
    let bytes = encoded(&framing(true, true, 31, End::Host), TermReq::new(End::Controller, fatal), &[]);
    assert_eq!(bytes[..16], [0x03, 0, 0x18, 0, 0x18, 0, 0, 0, 3, 0, 0xDD, 0xCC, 0xBB, 0xAA, 0, 0]);

    // CapsuleCmd: the command at 8, HDGST at 72.
    let bytes = encoded(&plain, CapsuleCmd::new(sqe()), &[]);
    assert_eq!((&bytes[..8], &bytes[8..]), (&[0x04, 0, 0x48, 0, 0x48, 0, 0, 0][..], &sqe().to_bytes()[..]));
    let bytes = encoded(&framing(true, true, 15, End::Controller), CapsuleCmd::new(sqe()), b"data");
    assert_eq!(bytes[..8], [0x04, 0b11, 0x48, 0x80, 0x88, 0, 0, 0]);
    assert_eq!(bytes[72..76], crc32c(&bytes[..72]).to_le_bytes());
    assert_eq!((&bytes[76..128], &bytes[128..132]), (&[0; 52][..], &b"data"[..]));
    assert_eq!(bytes[132..], crc32c(b"data").to_le_bytes());

    // CapsuleResp: the completion at 8, HDGST at 24.
    let bytes = encoded(&framing(true, true, 0, End::Host), CapsuleResp::new(cqe()), &[]);
    assert_eq!((&bytes[..8], &bytes[8..24]), (&[0x05, 1, 0x18, 0, 0x1C, 0, 0, 0][..], &cqe().to_bytes()[..]));
    assert_eq!(bytes[24..], crc32c(&bytes[..24]).to_le_bytes());

    // H2CData, with the padding of figure 8: CPDA 0Fh, data at 64.
    let cpda = framing(false, false, 15, End::Controller);
    let bytes = encoded(&cpda, H2cData::new(0x0102, 0x0304, 0xBB8, 1000, true), &[7; 1000]);
    assert_eq!(bytes[..12], [0x06, 0b100, 0x18, 0x40, 0x28, 4, 0, 0, 2, 1, 4, 3]);
    assert_eq!(bytes[12..24], [0xB8, 0x0B, 0, 0, 0xE8, 3, 0, 0, 0, 0, 0, 0]);
    assert_eq!((&bytes[24..64], &bytes[64..]), (&[0; 40][..], &[7; 1000][..]));

    // C2HData, with the padding of figure 9: HPDA 03h, data at 32.
    let hpda = framing(false, true, 3, End::Host);
    let bytes = encoded(&hpda, C2hData::new(0x0102, 0x1000, 64, true, true), &[7; 64]);
    assert_eq!(bytes[..12], [0x07, 0b1110, 0x18, 0x20, 0x64, 0, 0, 0, 2, 1, 0, 0]);
    assert_eq!(bytes[12..24], [0, 0x10, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[96..], crc32c(&[7; 64]).to_le_bytes());

    // R2T: CCCID at 8, TTAG at 10, R2TO at 12, R2TL at 16.
    let bytes = encoded(&plain, R2t::new(0x0102, 0x0304, 0xBB8, 0x2000), &[]);
    assert_eq!(bytes[..12], [0x09, 0, 0x18, 0, 0x18, 0, 0, 0, 2, 1, 4, 3]);
    assert_eq!(bytes[12..], [0xB8, 0x0B, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0]);
}

/// Without this a connection would use digests or alignments that one end does not expect.
#[test]
fn agreements_are_what_both_say() {
    let digests = |header, data| Digests::new().with_header(header).with_data(data);
    let request = IcReq::new(3, digests(true, false), 0xFFFF_FFFF);
    let agreement = Agreement::new(&request, &IcResp::new(15, digests(true, false), 8192)).unwrap();
    assert_eq!((agreement.host_alignment, agreement.controller_alignment), (16, 64));
    assert_eq!((agreement.maxr2t, agreement.maxh2cdata), (1 << 32, 8192));
    assert_eq!(agreement.framing_to(End::Host), framing(true, false, 3, End::Host));
    let unasked = Agreement::new(&request, &IcResp::new(15, digests(true, true), 8192));
    assert_eq!(unasked, Err(Fatal::field(11)));
    let refused = Agreement::new(&request, &IcResp::new(15, digests(false, false), 8192)).unwrap();
    assert_eq!(refused.digests, digests(false, false));
}

/// Without this the longest header would overrun the buffer, or waste half of it.
#[test]
fn the_longest_header_is_as_long_as_stated() {
    let mut longest = 0;
    for (header, pda_z) in (0..64).map(|at| (at % 2 == 1, at / 2)) {
        let framing = framing(header, true, pda_z, End::Controller);
        for (pdu, bytes) in [
            (Pdu::from(CapsuleCmd::new(sqe())), 72),
            (H2cData::new(1, 2, 0, 4, true).into(), 24),
            (IcReq::new(0, Digests::new(), 0).into(), 128),
        ] {
            let data_bytes = if bytes == 128 { 0 } else { 4 };
            let mut out = [0xAA; HEADER_BYTES_MAX];
            let length = framing.encode_header(&pdu, data_bytes, &mut out);
            let alignment = usize::from(pda_z + 1) * 4;
            assert!(length >= bytes && (data_bytes == 0 || length.is_multiple_of(alignment)));
            longest = longest.max(length);
        }
    }
    assert_eq!(longest, HEADER_BYTES_MAX);
}

/// Every PDU that an end receives on an established connection, encoded, and its contents.
fn stream(receiver: End, framing: &Framing) -> (Vec<u8>, Vec<(Pdu, Vec<u8>)>) {
    let sent: Vec<(Pdu, Vec<u8>)> = match receiver {
        End::Controller => vec![
            (CapsuleCmd::new(sqe()).into(), vec![]),
            (CapsuleCmd::new(sqe()).into(), vec![1, 2, 3, 4, 5]),
            (H2cData::new(1, 2, 8, 12, false).into(), (0..12).collect()),
            (H2cData::new(1, 2, 20, 4, true).into(), vec![9; 4]),
            (TermReq::new(End::Host, Fatal::of(FatalStatus::SEQUENCE)).into(), vec![3; 24]),
            (TermReq::new(End::Host, Fatal::field(1)).into(), vec![]),
        ],
        End::Host => vec![
            (R2t::new(1, 2, 0, 8).into(), vec![]),
            (C2hData::new(1, 0, 16, false, false).into(), (0..16).collect()),
            (CapsuleResp::new(cqe()).into(), vec![]),
            (C2hData::new(1, 16, 4, true, true).into(), vec![5; 4]),
            (TermReq::new(End::Controller, Fatal::field(3)).into(), vec![3; 128]),
        ],
    };
    (sent.iter().flat_map(|(pdu, data)| encoded(framing, *pdu, data)).collect(), sent)
}

/// A received PDU equals the sent one, except for what [`Framing`] fills in.
fn assert_same((pdu, data, intact): &DecodedPdu, (sent, sent_data): &(Pdu, Vec<u8>)) {
    let mut sent = *sent;
    *sent.ch_mut() = *pdu.ch();
    assert_eq!((pdu, data, intact), (&sent, sent_data, &true));
}

/// Without this a PDU would be lost or changed if the network splits the stream.
#[test]
fn every_split_of_a_stream_gives_the_same() {
    for receiver in [End::Controller, End::Host] {
        for (header, data, pda_z) in [(false, false, 0), (true, false, 0), (false, true, 3), (true, true, 7)]
        {
            let framing = framing(header, data, pda_z, receiver);
            let (bytes, sent) = stream(receiver, &framing);
            let whole = decode(&mut decoder(receiver, framing, LIMITS), [&bytes[..]]).unwrap();
            assert_eq!(whole.len(), sent.len());
            whole.iter().zip(&sent).for_each(|(found, sent)| assert_same(found, sent));
            for split in 0..=bytes.len() {
                let (first, second) = bytes.split_at(split);
                let mut decoder = decoder(receiver, framing, LIMITS);
                assert_eq!(decode(&mut decoder, [first, &[], second]).unwrap(), whole, "split at {split}");
            }
            for size in [1, 2, 3, 7] {
                let mut decoder = decoder(receiver, framing, LIMITS);
                assert_eq!(decode(&mut decoder, bytes.chunks(size)).unwrap(), whole, "in pieces of {size}");
            }
        }
    }
}

fn any_pdu(receiver: End) -> impl Strategy<Value = (Pdu, Vec<u8>)> {
    let data = prop::collection::vec(any::<u8>(), 1..100);
    (0..4_u8, any::<[u8; 64]>(), data, any::<[u16; 2]>(), 0..1_u32 << 31, any::<bool>()).prop_map(
        move |(kind, bytes, data, [cccid, ttag], offset, last)| {
            let length = data.len() as u32;
            let completion = bytes.first_chunk().expect("there are 64");
            match (receiver, kind) {
                (End::Controller, 0) => (CapsuleCmd::new(Sqe::from_bytes(&bytes)).into(), vec![]),
                (End::Controller, 1) => (CapsuleCmd::new(Sqe::from_bytes(&bytes)).into(), data),
                (End::Controller, _) => (H2cData::new(cccid, ttag, offset, length, last).into(), data),
                (End::Host, 0) => (CapsuleResp::new(Cqe::from_bytes(completion)).into(), vec![]),
                (End::Host, 1) => (R2t::new(cccid, ttag, offset, length).into(), vec![]),
                (End::Host, _) => (C2hData::new(cccid, offset, length, last, last).into(), data),
            }
        },
    )
}

fn any_stream() -> impl Strategy<Value = (End, Vec<(Pdu, Vec<u8>)>)> {
    prop::sample::select(vec![End::Controller, End::Host])
        .prop_flat_map(|receiver| (Just(receiver), prop::collection::vec(any_pdu(receiver), 1..8)))
}

proptest! {
    /// Without this some mix of PDUs, layouts and pieces would be decoded as another.
    #[test]
    fn streams_survive(
        (receiver, sent) in any_stream(), digests: (bool, bool), pda_z in 0..32_u8, size in 1..300_usize,
    ) {
        let framing = framing(digests.0, digests.1, pda_z, receiver);
        let bytes: Vec<u8> = sent.iter().flat_map(|(pdu, data)| encoded(&framing, *pdu, data)).collect();
        let limits = Limits { dwords: false, ..LIMITS };
        let found = decode(&mut decoder(receiver, framing, limits), bytes.chunks(size)).unwrap();
        prop_assert_eq!(found.len(), sent.len());
        found.iter().zip(&sent).for_each(|(found, sent)| assert_same(found, sent));
    }

    /// Without this a flipped bit in a header or in data would go unnoticed.
    #[test]
    fn flipped_bits_are_found((receiver, sent) in any_stream(), pda_z in 0..32_u8, at: prop::sample::Index, bit in 0..8) {
        let framing = framing(true, true, pda_z, receiver);
        let mut bytes: Vec<u8> = sent.iter().flat_map(|(pdu, data)| encoded(&framing, *pdu, data)).collect();
        let limits = Limits { dwords: false, ..LIMITS };
        let whole = decode(&mut decoder(receiver, framing, limits), [&bytes[..]]).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        match decode(&mut decoder(receiver, framing, limits), [&bytes[..]]) {
            Err(_) => {}
            // No digest covers the padding.
            Ok(found) if found == whole => {}
            // A flipped bit turns a data PDU into a TermReq, which has no digest and ends the connection, too.
            Ok(found) if found.iter().any(|(pdu, ..)| matches!(pdu, Pdu::TermReq(_))) => {}
            Ok(found) => prop_assert_eq!(found.iter().filter(|(_, _, intact)| !intact).count(), 1),
        }
    }

    /// Without this hostile bytes would crash an end, or make it accept an invalid header.
    #[test]
    fn any_bytes_end_in_headers_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..600), ch in (0..12_u8, 0..16_u8, 0..4_u8, 0..160_u8, 0..300_u32),
        digests: (bool, bool), is_host: bool, size in 1..100_usize,
    ) {
        let receiver = if is_host { End::Host } else { End::Controller };
        let framing = framing(digests.0, digests.1, 0, receiver);
        let mut bytes = bytes;
        if bytes.len() >= 8 {
            let hlen = [24, 72, 128, ch.3][usize::from(ch.2)];
            bytes[..4].copy_from_slice(&[ch.0, ch.1, hlen, ch.3]);
            bytes[4..8].copy_from_slice(&ch.4.to_le_bytes());
        }
        let mut decoder = decoder(receiver, framing, LIMITS);
        let result = decode(&mut decoder, bytes.chunks(size));
        let mut more = &[0; 4][..];
        match result {
            Err(error) => prop_assert_eq!(decoder.next(&mut more), Err(error), "an error stays"),
            Ok(found) => for (pdu, data, _) in found {
                prop_assert_eq!(pdu.ch().pdu_type.receiver(), receiver);
                prop_assert!(data.len() as u32 <= pdu.ch().plen && pdu.ch().plen <= LIMITS.plen_max);
            },
        }
        prop_assert!(decoder.header().len() <= 128);
    }
}
