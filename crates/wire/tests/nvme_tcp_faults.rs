//! PDUs that a decoder refuses, with Fatal Error Status and Information.

use byteway_wire::fabrics::tcp::*;
use byteway_wire::nvme::{Cqe, Sqe};

use crate::nvme_tcp::{LIMITS, decode, decoder, encoded, framing};

const SEQUENCE: Fatal = Fatal::of(FatalStatus::SEQUENCE);
const OUT_OF_RANGE: Fatal = Fatal::of(FatalStatus::OUT_OF_RANGE);
const LIMIT: Fatal = Fatal::of(FatalStatus::LIMIT_EXCEEDED);

/// A PDU, the position and value of the changed bytes, and the error.
type Case<'a> = (Pdu, (usize, &'a [u8]), Fatal);

fn sealed(framing: &Framing, pdu: impl Into<Pdu>, data: &[u8], change: (usize, &[u8])) -> Vec<u8> {
    let mut bytes = encoded(framing, pdu, data);
    bytes[change.0..][..change.1.len()].copy_from_slice(change.1);
    bytes
}

/// Without this an end would wait for bytes that never arrive, take a header for data, or report the wrong field.
#[test]
fn each_wrong_field_has_its_status() {
    // Data is aligned to 8 bytes, digests are off.
    let plain = |receiver| framing(false, false, 1, receiver);
    let h2c = || H2cData::new(1, 2, 0, 8, true);
    let c2h = || C2hData::new(1, 0, 8, true, true);
    let (cmd, resp, r2t) =
        (CapsuleCmd::new(Sqe::default()), CapsuleResp::new(Cqe::default()), R2t::new(1, 2, 0, 8));
    let cases: [(usize, Case<'_>); 34] = [
        // Type: reserved ones, and those of the other direction.
        (0, (cmd.into(), (0, &[0x08]), Fatal::field(0))),
        (0, (cmd.into(), (0, &[0x0A]), Fatal::field(0))),
        (0, (cmd.into(), (0, &[0x05]), Fatal::field(0))),
        (0, (cmd.into(), (0, &[0x03]), Fatal::field(0))),
        (0, (resp.into(), (0, &[0x04]), Fatal::field(0))),
        (0, (r2t.into(), (0, &[0x02]), Fatal::field(0))),
        (0, (r2t.into(), (0, &[0xFF]), Fatal::field(0))),
        // Sequence: parameters are exchanged once.
        (0, (cmd.into(), (0, &[0x00]), SEQUENCE)),
        (0, (resp.into(), (0, &[0x01]), SEQUENCE)),
        // Flags: digests that were not agreed, success before the last data.
        (0, (cmd.into(), (1, &[0b01]), Fatal::field(1))),
        (8, (cmd.into(), (1, &[0b10]), Fatal::field(1))),
        (8, (h2c().into(), (1, &[0b110]), Fatal::field(1))),
        (8, (c2h().into(), (1, &[0b1000]), Fatal::field(1))),
        (0, (resp.into(), (1, &[0b01]), Fatal::field(1))),
        // HLEN.
        (0, (cmd.into(), (2, &[71]), Fatal::field(2))),
        (8, (h2c().into(), (2, &[72]), Fatal::field(2))),
        (0, (resp.into(), (2, &[0]), Fatal::field(2))),
        // PDO: in the header, not aligned.
        (8, (cmd.into(), (3, &[64]), Fatal::field(3))),
        (8, (cmd.into(), (3, &[76]), Fatal::field(3))),
        (8, (c2h().into(), (3, &[16]), Fatal::field(3))),
        (8, (h2c().into(), (3, &[0]), Fatal::field(3))),
        // PLEN: without the header, without data, not DATAL, above the limit.
        (0, (cmd.into(), (4, &[71]), Fatal::field(4))),
        (0, (resp.into(), (4, &[25]), Fatal::field(4))),
        (0, (r2t.into(), (4, &[0, 0]), Fatal::field(4))),
        (8, (h2c().into(), (4, &[24]), Fatal::field(4))),
        (8, (c2h().into(), (4, &[36]), Fatal::field(4))),
        (8, (cmd.into(), (4, &[0xFF, 0xFF, 0xFF, 0xFF]), Fatal::field(4))),
        (8, (c2h().into(), (4, &[1, 0, 0x10, 0]), Fatal::field(4))),
        // Offsets and lengths: multiples of a dword, within 32 bits, and not zero.
        (8, (h2c().into(), (12, &[2]), Fatal::field(12))),
        (8, (c2h().into(), (12, &[0xFC, 0xFF, 0xFF, 0xFF]), OUT_OF_RANGE)),
        (0, (r2t.into(), (16, &[6]), Fatal::field(16))),
        (0, (r2t.into(), (16, &[0]), Fatal::field(16))),
        (0, (r2t.into(), (12, &[0xFC, 0xFF, 0xFF, 0xFF]), OUT_OF_RANGE)),
        (4100, (H2cData::new(1, 2, 0, 4100, true).into(), (1, &[0b100]), LIMIT)),
    ];
    for (data_bytes, (pdu, change, fatal)) in cases {
        let receiver = pdu.ch().pdu_type.receiver();
        let bytes = sealed(&plain(receiver), pdu, &vec![7; data_bytes], change);
        let mut decoder = decoder(receiver, plain(receiver), LIMITS);
        let result = decode(&mut decoder, [&bytes[..]]);
        assert_eq!(result, Err(fatal.into()), "{pdu:?} with {change:?}");
        // The header is returned to the sender, as far as it was received.
        let header = decoder.header().to_vec();
        assert!(header.len() >= 8 && bytes.starts_with(&header), "{pdu:?} with {change:?}");
        // Byte by byte it is refused before any data is passed on.
        let pieces = bytes.chunks(1);
        assert_eq!(decode(&mut self::decoder(receiver, plain(receiver), LIMITS), pieces), Err(fatal.into()));
    }
}

/// Without this reserved bits and fields, set by a later version or an implementation that does not clear them, would
/// end the connection.
#[test]
fn reserved_fields_are_passed_over() {
    let framing = framing(false, false, 0, End::Controller);
    let capsule = CapsuleCmd::new(Sqe::default());
    for (data, change) in [(&[][..], (1, &[0xFE][..])), (&[], (3, &[0x48])), (&[7; 4], (1, &[0xF0]))] {
        let bytes = sealed(&framing, capsule, data, change);
        assert_eq!(decode(&mut decoder(End::Controller, framing, LIMITS), [&bytes[..]]).unwrap().len(), 1);
    }
    // More padding than necessary.
    let mut bytes = sealed(&framing, capsule, &[7; 4], (3, &[80, 84]));
    bytes.splice(72..72, [0xEE; 8]);
    let found = decode(&mut decoder(End::Controller, framing, LIMITS), [&bytes[..]]).unwrap();
    assert_eq!(found[0].1, [7; 4]);
    // Data of any length, where the receiver accepts it.
    let odd = encoded(&framing, H2cData::new(1, 2, 1, 5, true), &[7; 5]);
    let limits = Limits { dwords: false, ..LIMITS };
    assert!(decode(&mut decoder(End::Controller, framing, limits), [&odd[..]]).is_ok());
    assert_eq!(
        decode(&mut decoder(End::Controller, framing, LIMITS), [&odd[..]]),
        Err(Fatal::field(12).into())
    );
}

/// Without this a damaged header would be used.
#[test]
fn wrong_header_digests_are_fatal() {
    let framing = framing(true, false, 0, End::Host);
    for at in 8..28 {
        let mut bytes = encoded(&framing, CapsuleResp::new(Cqe::default()), &[]);
        bytes[at] ^= 0x10;
        let info = u32::from_le_bytes(*bytes.last_chunk().unwrap());
        let fatal = Fatal { status: FatalStatus::HEADER_DIGEST, info };
        let mut decoder = decoder(End::Host, framing, LIMITS);
        assert_eq!(decode(&mut decoder, [&bytes[..]]), Err(fatal.into()));
        assert_eq!(decoder.header(), &bytes[..24], "without its digest");
    }
    let missing = sealed(&framing, CapsuleResp::new(Cqe::default()), &[], (1, &[0]));
    let result = decode(&mut decoder(End::Host, framing, LIMITS), [&missing[..]]);
    assert_eq!(result, Err(Fatal::field(1).into()));
}

/// Without this damaged data would end the connection, or pass as intact.
#[test]
fn wrong_data_digests_are_not_fatal() {
    let framing = framing(true, true, 3, End::Controller);
    let pdu = H2cData::new(1, 2, 0, 16, true);
    let whole = encoded(&framing, pdu, &[7; 16]);
    for at in 32..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes.extend_from_slice(&whole);
        let found = decode(&mut decoder(End::Controller, framing, LIMITS), bytes.chunks(5)).unwrap();
        assert_eq!(found.iter().map(|(_, _, intact)| *intact).collect::<Vec<_>>(), [false, true], "{at}");
    }
}

/// Without this a connection would run without parameters, or with those of another version.
#[test]
fn connections_begin_with_parameters() {
    let initial = Framing::INITIAL;
    let (request, response) = (IcReq::new(0, Digests::new(), 0), IcResp::new(0, Digests::new(), 4096));
    let unsupported = Fatal { status: FatalStatus::UNSUPPORTED_PARAMETER, info: 8 };
    let cases: [Case<'_>; 11] = [
        (CapsuleCmd::new(Sqe::default()).into(), (0, &[4]), SEQUENCE),
        (CapsuleResp::new(Cqe::default()).into(), (0, &[5]), SEQUENCE),
        (request.into(), (0, &[1]), Fatal::field(0)),
        (request.into(), (2, &[127]), Fatal::field(2)),
        (request.into(), (4, &[129]), Fatal::field(4)),
        (request.into(), (8, &[1]), unsupported),
        (request.into(), (10, &[32]), Fatal::field(10)),
        (response.into(), (9, &[1]), unsupported),
        (response.into(), (10, &[32]), Fatal::field(10)),
        (response.into(), (12, &[2, 0x10]), Fatal::field(12)),
        (response.into(), (12, &[0xFC, 0x0F]), Fatal::field(12)),
    ];
    for (pdu, change, fatal) in cases {
        let bytes = sealed(&initial, pdu, &[], change);
        let mut decoder = Decoder::new(pdu.ch().pdu_type.receiver(), LIMITS);
        assert_eq!(decode(&mut decoder, [&bytes[..]]), Err(fatal.into()), "{pdu:?} with {change:?}");
    }
    // An end that continues before the answer does not know the layout.
    let bytes = [encoded(&initial, request, &[]), encoded(&initial, CapsuleCmd::new(Sqe::default()), &[])];
    let result = decode(&mut Decoder::new(End::Controller, LIMITS), [&bytes.concat()[..]]);
    assert_eq!(result, Err(SEQUENCE.into()));
}

/// Without this two ends would answer TermReq with TermReq, or a host could not give up before the connection is
/// established.
#[test]
fn termination_comes_at_any_time_and_is_never_answered() {
    let term = TermReq::new(End::Host, Fatal::field(4));
    let bytes = encoded(&Framing::INITIAL, term, &[7; 128]);
    for mut decoder in [
        Decoder::new(End::Controller, LIMITS),
        decoder(
            End::Controller,
            framing(true, true, 31, End::Controller),
            Limits { plen_max: 100, ..LIMITS },
        ),
    ] {
        let found = decode(&mut decoder, [&bytes[..]]).unwrap();
        let (Pdu::TermReq(received), data, true) = &found[0] else { panic!("it is a TermReq: {found:?}") };
        assert_eq!((received.fatal(), &data[..]), (Fatal::field(4), &[7; 128][..]));
    }
    for change in [(2, &[25][..]), (4, &[23]), (4, &[153])] {
        let bytes = sealed(&Framing::INITIAL, term, &[7; 128], change);
        let result = decode(&mut Decoder::new(End::Controller, LIMITS), [&bytes[..]]);
        assert_eq!(result, Err(PduError::TermReq), "{change:?}");
    }
    assert_eq!(Fatal::field(4).to_string(), "Invalid PDU Header Field (FES 01h, FEI 4h)");
    assert_eq!(FatalStatus(0x99).name(), "Reserved");
}
