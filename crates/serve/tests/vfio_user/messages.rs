//! Exact layouts are what makes peers compatible; a lenient parser could be crashed by a peer's capabilities.

use byteway_serve::vfio_user::message::{Capabilities, Command, Header, RegionInfo, SparseMmap, sparse_mmap};
use zerocopy::IntoBytes;

#[test]
fn a_header_lies_as_the_protocol_says() {
    let mut header = Header::request(0x1234, Command::REGION_WRITE, Header::NO_REPLY);
    header.bytes = 0x20.into();
    assert_eq!(header.as_bytes(), [0x34, 0x12, 10, 0, 0x20, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0]);
    let failure = header.failure(22);
    assert_eq!(failure.as_bytes(), [0x34, 0x12, 10, 0, 0, 0, 0, 0, 0x21, 0, 0, 0, 22, 0, 0, 0]);
    assert_eq!(header.reply().kind(), Header::REPLY);
    assert_eq!(Command(77).to_string(), "command 77");
    assert_eq!(header.command().to_string(), "REGION_WRITE");
}

#[test]
fn capabilities_are_read_strictly() {
    let read = |text: &str| Capabilities::parse(text.as_bytes());
    assert_eq!(read("").unwrap(), Capabilities::default());
    assert_eq!(read("{}\0").unwrap(), Capabilities::default());
    let qemu = "{\"capabilities\": {\"migration\": {\"max_bitmap_size\": 268435456, \"pgsize\": 4096}, \
                \"max_msg_fds\": 16, \"max_data_xfer_size\": 1048576, \"pgsizes\": 4096, \"max_dma_maps\": 65535, \
                \"write_multiple\": true}}\0";
    let expected = Capabilities { files_max: 16, data_bytes_max: 1 << 20 };
    assert_eq!(read(qemu).unwrap(), expected);
    assert_eq!(Capabilities::parse(&Capabilities::offer()).unwrap(), expected);
    // QEMU accepts no reply that is longer than its request.
    assert!(Capabilities::offer().len() <= qemu.len());
    let deep = format!("{{\"capabilities\": {}{}}}\0", "[".repeat(100_000), "]".repeat(100_000));
    for wrong in [
        "{}",
        "\0",
        "{\0",
        "[]\0",
        "7\0",
        "{}{}\0",
        "{}\0\0",
        "{\"capabilities\": 1}\0",
        "{\"capabilities\": {\"max_msg_fds\": -1}}\0",
        "{\"capabilities\": {\"max_msg_fds\": \"8\"}}\0",
        "{\"capabilities\": {\"max_data_xfer_size\": 0}}\0",
        "{\"capabilities\": {\"max_data_xfer_size\": 4095}}\0",
        "{\"capabilities\": {\"max_data_xfer_size\": 1e99}}\0",
        "{\"capabilities\": {\"max_data_xfer_size\": 99999999999999999999999}}\0",
        deep.as_str(),
    ] {
        assert!(read(wrong).is_err(), "{wrong:.60} is taken");
    }
    assert!(Capabilities::parse(b"{\"\xff\": 1}\0").is_err(), "not UTF-8");
    assert!(Capabilities::parse(&[0xff, 0]).is_err(), "not UTF-8");
}

#[test]
fn a_chain_of_capabilities_that_leads_nowhere_ends() {
    let info = RegionInfo::default();
    let sparse = SparseMmap { id: 1.into(), version: 1.into(), areas: 1.into(), ..SparseMmap::default() };
    let reply = |sparse: SparseMmap| [info.as_bytes(), sparse.as_bytes()].concat();
    assert_eq!(sparse_mmap(&reply(sparse), 32), Some(sparse));
    assert_eq!(sparse_mmap(&reply(sparse), 0), None);
    for at in [33, 63, 64, 65, u32::MAX] {
        assert_eq!(sparse_mmap(&reply(sparse), at), None);
    }
    for next in [0, 1, 32, 48, 63, 64, u32::MAX] {
        let other = SparseMmap { id: 7.into(), next: next.into(), ..sparse };
        // At 48 are the sizes of the area, which is no known capability.
        assert_eq!(sparse_mmap(&reply(other), 32), None, "next {next}");
    }
    assert_eq!(sparse_mmap(&reply(SparseMmap { areas: 0.into(), ..sparse }), 32), None);
}
