//! A client's messages: without the right replies a host sees no device; without the checks a client accesses
//! memory of others, or ends the service.

use crate::fixture::*;
use byteway_serve::function::Doorbells;
use byteway_serve::vfio_user::Client;
use byteway_serve::vfio_user::channel::{ANSWER_LIMIT, UNSENT_BYTES_MAX};
use byteway_serve::vfio_user::client::ClientError;
use byteway_serve::vfio_user::message::{
    Capabilities, Command, DATA_BYTES_MAX, DeviceInfo, DmaMap, DmaUnmap, Header, IrqInfo, MAPS_MAX,
    RegionAccess, RegionInfo, RegionIoFds, SetIrqs, SmallWrite, SparseMmap, Version, take,
};
use rustix::fd::AsFd;
use std::fs::File;
use vfio_bindings::bindings::vfio::*;
use zerocopy::IntoBytes;

const CC: u64 = 0x14;
/// CC, AQA, ASQ: registers that keep written values while the controller is disabled.
const AQA: u64 = 0x24;
const ASQ: u64 = 0x28;

fn read32(client: &Client, offset: u64) -> u32 {
    let mut bytes = [0; 4];
    client.region_read(BAR0, offset, &mut bytes).unwrap();
    u32::from_le_bytes(bytes)
}

fn write32(client: &Client, offset: u64, value: u32) {
    client.region_write(BAR0, offset, &value.to_le_bytes()).unwrap();
}

#[test]
fn versions() {
    let served = Served::new();
    let text = Capabilities::offer();
    let request =
        |major: u16, minor: u16, text: &[u8]| [&major.to_le_bytes(), &minor.to_le_bytes(), text].concat();
    // SPDK announces no capabilities; others announce unknown ones.
    for (minor, text) in [(0, &b""[..]), (1, &text), (u16::MAX, b"{\"other\": [1, {}]}\0")] {
        let client = eventually(|| Client::unversioned(&served.socket()).ok());
        let answer = exchange(&client, Command::VERSION, &[&request(0, minor, text)], &[]).unwrap();
        assert!(!answer.header.has(Header::ERROR));
        let (version, own) = take::<Version>(&answer.payload).unwrap();
        assert_eq!(version, Version::default(), "a minor version of the client or less");
        let own: serde_json::Value = serde_json::from_slice(own.strip_suffix(&[0]).unwrap()).unwrap();
        let own = &own["capabilities"];
        assert_eq!((&own["max_msg_fds"], &own["max_data_xfer_size"]), (&16.into(), &(1 << 20).into()));
        assert_eq!((&own["pgsizes"], &own["write_multiple"]), (&4096.into(), &true.into()));
        assert!(own.get("migration").is_none() && own.get("twin_socket").is_none());
        // A second VERSION is refused.
        assert_eq!(errno(&client, Command::VERSION, &[&request(0, 0, b"")], &[]), EINVAL);
        assert_eq!(read32(&client, 8) >> 16, 2, "VS");
    }
    let deep = [vec![b'['; 200_000], vec![0]].concat();
    for wrong in [
        request(1, 0, b""),
        request(u16::MAX, u16::MAX, &text),
        request(0, 0, b"\0"),
        request(0, 0, b"{\"capabilities\": {}}"),
        request(0, 0, b"{\"capabilities\": \0"),
        request(0, 0, b"{\"capabilities\": []}\0"),
        request(0, 0, b"\xff\xfe\0"),
        request(0, 0, b"{\"capabilities\": {\"max_data_xfer_size\": 1}}\0"),
        request(0, 0, &deep),
        request(0, 0, b"")[..3].to_vec(),
        vec![],
    ] {
        let client = served.stranger();
        assert_eq!(
            errno(&client, Command::VERSION, &[&wrong], &[]),
            EINVAL,
            "{:?}",
            &wrong[..wrong.len().min(9)]
        );
        assert!(is_dropped(&client));
    }
    served.is_well();
}

#[test]
fn whoever_does_not_begin_with_a_version_is_dropped() {
    let served = Served::new();
    for command in [0, 2, 3, 4, 9, 13, 14, 99, u16::MAX].map(Command) {
        let client = eventually(|| Client::unversioned(&served.socket()).ok());
        assert_eq!(errno(&client, command, &[&[0; 16]], &[]), EINVAL);
        assert!(is_dropped(&client), "{command}");
    }
    served.is_well();
}

#[test]
fn the_device_and_its_regions_are_described() {
    let served = Served::new();
    let client = served.client();
    let device = client.device().unwrap();
    assert_eq!(device.flags.get(), VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET);
    assert_eq!((device.regions.get(), device.irqs.get()), (9, 5));
    let read_write = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
    for index in 0..9 {
        let region = client.region(index).unwrap();
        match index {
            BAR0 => {
                assert_eq!(
                    region.flags,
                    read_write | VFIO_REGION_INFO_FLAG_MMAP | VFIO_REGION_INFO_FLAG_CAPS
                );
                assert!(region.bytes.is_power_of_two());
                let part = region.mappable.unwrap();
                // SPDK maps the area at 0x1000.
                assert_eq!((part.offset, part.bytes), (0x1000, 0x1000));
                assert!(part.file.metadata().unwrap().len() >= part.file_offset + part.bytes);
            }
            CONFIG => assert_eq!((region.flags, region.bytes), (read_write, 4096)),
            _ => assert_eq!((region.flags, region.bytes), (0, 0)),
        }
    }
    for index in [9, 10, u32::MAX] {
        assert!(matches!(client.region(index), Err(ClientError::Refused { .. })));
    }
    for (index, count) in [(0, 0), (1, 0), (2, VECTORS), (3, 1), (4, 1)] {
        let irq = client.irq(index).unwrap();
        assert_eq!((irq.flags.get(), irq.count.get()), (VFIO_IRQ_INFO_EVENTFD, count));
    }
    assert!(client.irq(5).is_err() && client.irq(u32::MAX).is_err());
}

#[test]
fn a_region_whose_description_does_not_fit_says_how_much_it_needs() {
    let served = Served::new();
    let client = served.client();
    let ask = |argsz: u32, behind: usize| {
        let info = RegionInfo { argsz: argsz.into(), ..RegionInfo::default() };
        exchange(&client, Command::DEVICE_GET_REGION_INFO, &[info.as_bytes(), &vec![0; behind]], &[]).unwrap()
    };
    // QEMU provides a buffer for the structure, and refuses a longer reply, or one with capabilities.
    for argsz in [32, 33, 63] {
        let answer = ask(argsz, 0);
        let (info, rest) = take::<RegionInfo>(&answer.payload).unwrap();
        assert_eq!((info.argsz.get(), info.cap_offset.get(), rest.len(), answer.files.len()), (64, 0, 0, 0));
        assert_eq!(info.flags.get() & VFIO_REGION_INFO_FLAG_CAPS, 0);
    }
    // SPDK's request has the buffer behind it.
    for (argsz, behind) in [(64, 0), (4064, 4032), (u32::MAX, 0)] {
        let answer = ask(argsz, behind);
        let (info, rest) = take::<RegionInfo>(&answer.payload).unwrap();
        assert_eq!((info.argsz.get(), info.cap_offset.get(), answer.files.len()), (64, 32, 1));
        let (sparse, rest) = take::<SparseMmap>(rest).unwrap();
        assert_eq!((sparse.id.get(), sparse.version.get(), sparse.next.get(), rest.len()), (1, 1, 0, 0));
        assert_eq!((sparse.areas.get(), sparse.offset.get(), sparse.bytes.get()), (1, 0x1000, 0x1000));
        // Every client maps the file at the sum of both offsets.
        let at = info.offset.get().wrapping_add(sparse.offset.get());
        let file = File::from(answer.files.into_iter().next().unwrap());
        assert!(at.is_multiple_of(PAGE) && at + sparse.bytes.get() <= file.metadata().unwrap().len());
    }
}

#[test]
fn trapped_doorbells_cannot_be_mapped() {
    let served = Served::with(Doorbells::Trapped);
    let region = served.client().region(BAR0).unwrap();
    assert!(region.mappable.is_none());
    assert_eq!(region.flags, VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE);
}

#[test]
fn registers_are_read_and_written() {
    let served = Served::new();
    let client = served.client();
    client.region_write(BAR0, AQA, &0x001f_001fu32.to_le_bytes()).unwrap();
    assert_eq!(read32(&client, AQA), 0x001f_001f);
    client.region_write(BAR0, ASQ, &0x12_3456_7000u64.to_le_bytes()).unwrap();
    let mut both = [0; 12];
    client.region_read(BAR0, AQA, &mut both).unwrap();
    assert_eq!(both, [0x1f, 0, 0x1f, 0, 0, 0x70, 0x56, 0x34, 0x12, 0, 0, 0]);
    // A complete region at once.
    let mut all = vec![0; client.region(BAR0).unwrap().bytes as usize];
    client.region_read(BAR0, 0, &mut all).unwrap();
    assert_eq!(all[0x24..0x30], both);
    // A posted write has taken effect when the next read is answered, and has no reply of its own.
    for value in 0..100u32 {
        client.region_post(BAR0, ASQ, &(value << 12).to_le_bytes()).unwrap();
        assert_eq!(read32(&client, ASQ), value << 12);
    }
    assert_eq!(client.channel().stray_replies(), 0);
}

#[test]
fn several_writes_in_one_message() {
    let served = Served::new();
    let client = served.client();
    let write = |offset: u64, value: u64, count: u32| SmallWrite {
        offset: offset.into(),
        region: BAR0.into(),
        count: count.into(),
        data: value.to_le_bytes(),
    };
    let writes = [write(AQA, 0x00ff_00ff, 4), write(ASQ, 0x77_0000_1000, 8), write(AQA, 0x0001_0002, 4)];
    let command = Command::REGION_WRITE_MULTI;
    assert_eq!(errno(&client, command, &[&3u64.to_le_bytes(), writes.as_bytes()], &[]), 0);
    assert_eq!((read32(&client, AQA), read32(&client, ASQ)), (0x0001_0002, 0x1000));
    // As QEMU sends it.
    let header = Header::request(client.channel().next_id(), command, Header::NO_REPLY);
    client.channel().send(header, &[&1u64.to_le_bytes(), write(AQA, 5, 4).as_bytes()], &[]).unwrap();
    assert_eq!(read32(&client, AQA), 5);
    assert_eq!(errno(&client, command, &[&0u64.to_le_bytes()], &[]), 0);
    let three = writes.as_bytes();
    for (count, writes) in [(2u64, three), (4, three), (u64::MAX, three), (1 << 61, &[]), (1, &three[..23])] {
        assert_eq!(errno(&client, command, &[&count.to_le_bytes(), writes], &[]), EINVAL, "{count}");
    }
    for count in [9, u32::MAX] {
        let wrong = write(AQA, 0, count);
        assert_eq!(errno(&client, command, &[&1u64.to_le_bytes(), wrong.as_bytes()], &[]), EINVAL);
    }
    let beyond = write(u64::MAX, 0, 8);
    assert_eq!(errno(&client, command, &[&1u64.to_le_bytes(), beyond.as_bytes()], &[]), EINVAL);
    assert_eq!(errno(&client, command, &[&[0; 7]], &[]), EINVAL);
    let many = vec![write(AQA, 0, 4); 201];
    assert_eq!(errno(&client, command, &[&201u64.to_le_bytes(), many.as_bytes()], &[]), EINVAL);
    assert_eq!(read32(&client, AQA), 5);
}

#[test]
fn accesses_beyond_a_region_are_refused() {
    let served = Served::new();
    let client = served.client();
    let bytes = client.region(BAR0).unwrap().bytes;
    let access = |region: u32, offset: u64, count: u32| RegionAccess {
        offset: offset.into(),
        region: region.into(),
        count: count.into(),
    };
    for (region, offset, count) in [
        (BAR0, bytes, 1),
        (BAR0, bytes - 3, 4),
        (BAR0, u64::MAX, 1),
        (BAR0, u64::MAX - 3, 4),
        (BAR0, 0, bytes as u32 + 1),
        (BAR0, 0, DATA_BYTES_MAX as u32 + 1),
        (BAR0, 0, u32::MAX),
        (CONFIG, 4096, 1),
        (CONFIG, 4093, 4),
        (1, 0, 1),
        (8, 0, 4),
        (9, 0, 4),
        (u32::MAX, 0, 4),
    ] {
        let access = access(region, offset, count);
        assert_eq!(errno(&client, Command::REGION_READ, &[access.as_bytes()], &[]), EINVAL, "{access:?}");
        let data = vec![0; (count as usize).min(DATA_BYTES_MAX)];
        assert_eq!(
            errno(&client, Command::REGION_WRITE, &[access.as_bytes(), &data], &[]),
            EINVAL,
            "{access:?}"
        );
    }
    // The data does not match the count.
    for (count, data) in [(4, 0), (4, 3), (4, 5), (0, 1), (u32::MAX, 4)] {
        let parts: [&[u8]; 2] =
            [access(BAR0, AQA, count).as_bytes(), &vec![1; data]].map(|part| &*part.to_vec().leak());
        assert_eq!(errno(&client, Command::REGION_WRITE, &parts, &[]), EINVAL, "{count} {data}");
    }
    let with_data = access(BAR0, AQA, 4);
    assert_eq!(errno(&client, Command::REGION_READ, &[with_data.as_bytes(), &[0; 4]], &[]), EINVAL);
    // An empty extent is valid.
    assert_eq!(errno(&client, Command::REGION_READ, &[access(BAR0, bytes, 0).as_bytes()], &[]), 0);
    assert_eq!(read32(&client, AQA), 0);
}

#[test]
fn messages_that_are_too_short_are_refused() {
    let served = Served::new();
    let client = served.client();
    // Each structure with an argsz of its length, and truncated.
    for (command, bytes) in [
        (Command::DMA_MAP, size_of::<DmaMap>()),
        (Command::DMA_UNMAP, size_of::<DmaUnmap>()),
        (Command::DEVICE_GET_INFO, size_of::<DeviceInfo>()),
        (Command::DEVICE_GET_REGION_INFO, size_of::<RegionInfo>()),
        (Command::DEVICE_GET_REGION_IO_FDS, size_of::<RegionIoFds>()),
        (Command::DEVICE_GET_IRQ_INFO, size_of::<IrqInfo>()),
        (Command::DEVICE_SET_IRQS, size_of::<SetIrqs>()),
        (Command::REGION_READ, size_of::<RegionAccess>()),
        (Command::REGION_WRITE, size_of::<RegionAccess>()),
        (Command::REGION_WRITE_MULTI, 8),
    ] {
        let mut payload = vec![0; bytes];
        payload[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        for cut in 0..bytes {
            assert_eq!(errno(&client, command, &[&payload[..cut]], &[]), EINVAL, "{command} of {cut}");
        }
        if command.0 < Command::REGION_READ.0 {
            for argsz in 0..bytes as u32 {
                payload[..4].copy_from_slice(&argsz.to_le_bytes());
                assert_eq!(errno(&client, command, &[&payload], &[]), EINVAL, "{command} argsz {argsz}");
            }
        }
    }
    assert_eq!(errno(&client, Command::DEVICE_RESET, &[&[0]], &[]), EINVAL);
    drop(client);
    served.is_well();
}

#[test]
fn what_is_unknown_is_refused_with_its_payload_taken() {
    let served = Served::new();
    let client = served.client();
    for command in [0, 11, 12, 14, 16, 17, 18, 200, u16::MAX].map(Command) {
        for bytes in [0, 1, 16, 1000, DATA_BYTES_MAX] {
            assert_eq!(errno(&client, command, &[&vec![0xff; bytes]], &[]), ENOTSUP, "{command} of {bytes}");
        }
    }
    let fds = RegionIoFds { argsz: 16.into(), ..RegionIoFds::default() };
    assert_eq!(
        exchange(&client, Command::DEVICE_GET_REGION_IO_FDS, &[fds.as_bytes()], &[]).unwrap().payload,
        fds.as_bytes()
    );
    for wrong in [RegionIoFds { index: 9.into(), ..fds }, RegionIoFds { flags: 1.into(), ..fds }] {
        assert_eq!(errno(&client, Command::DEVICE_GET_REGION_IO_FDS, &[wrong.as_bytes()], &[]), EINVAL);
    }
    assert_eq!(read32(&client, AQA), 0);
}

#[test]
fn replies_and_odd_flags() {
    let served = Served::new();
    let client = served.client();
    let channel = client.channel();
    // Replies to no request are ignored.
    for id in 0..100 {
        let reply = Header::request(id, Command::DMA_READ, 0).reply();
        channel.send(reply, &[&[0; 40]], &[event().as_fd()]).unwrap();
    }
    assert_eq!(read32(&client, AQA), 0);
    // An unknown message type is refused.
    for kind in 2..16 {
        let header = Header::request(500 + kind, Command::DEVICE_GET_INFO, kind.into());
        channel.send(header, &[&[0; 16]], &[]).unwrap();
        let answer = channel.wait_for(ANSWER_LIMIT, |message| Ok(Some(message))).unwrap().unwrap();
        assert_eq!((answer.header.id.get(), answer.header.error.get() as i32), (500 + kind, EINVAL));
        assert_eq!(answer.header.kind(), Header::REPLY);
    }
    // Unknown flags are ignored.
    let info = DeviceInfo { argsz: 16.into(), ..DeviceInfo::default() };
    channel
        .send(Header::request(600, Command::DEVICE_GET_INFO, 0xffff_ffc0), &[info.as_bytes()], &[])
        .unwrap();
    let answer = channel.wait_for(ANSWER_LIMIT, |message| Ok(Some(message))).unwrap().unwrap();
    assert_eq!((answer.header.error.get(), answer.payload.len()), (0, 16));
    // A request with NO_REPLY gets no reply, whether it succeeds or fails.
    for (command, payload) in [
        (Command::DEVICE_GET_INFO, info.as_bytes()),
        (Command::DEVICE_GET_INFO, &[]),
        (Command(999), &[1, 2, 3]),
        (Command::DEVICE_RESET, &[]),
        (Command::VERSION, &[]),
    ] {
        channel.send(Header::request(700, command, Header::NO_REPLY), &[payload], &[]).unwrap();
    }
    assert_eq!(read32(&client, AQA), 0);
    assert_eq!(channel.stray_replies(), 0);
}

#[test]
fn memory_is_mapped_and_unmapped() {
    let served = Served::new();
    let client = served.client();
    let file = memfd(8 * PAGE);
    client.dma_map(0x10_0000, 4 * PAGE, Some((&file, 2 * PAGE)), true).unwrap();
    // Repeating a mapping is no error, as QEMU does it. Any other overlapping mapping is.
    client.dma_map(0x10_0000, 4 * PAGE, Some((&file, 2 * PAGE)), true).unwrap();
    let other = memfd(8 * PAGE);
    let refused = |result: Result<(), ClientError>| match result {
        Err(ClientError::Refused { source, .. }) => source.raw_os_error().unwrap(),
        other => panic!("{other:?}"),
    };
    for (address, pages, file, offset, is_writable) in [
        (0x10_0000, 4, &other, 2 * PAGE, true),
        (0x10_0000, 4, &file, PAGE, true),
        (0x10_0000, 4, &file, 2 * PAGE, false),
        (0x10_0000, 5, &file, 2 * PAGE, true),
        (0x10_0000, 1, &file, 2 * PAGE, true),
        (0x10_3000, 1, &file, 0, true),
        (0x0f_f000, 2, &file, 0, true),
        (0x0f_f000, 8, &file, 0, true),
    ] {
        let result = client.dma_map(address, pages * PAGE, Some((file, offset)), is_writable);
        assert_eq!(refused(result), EEXIST, "{address:#x} {pages}");
    }
    assert_eq!(refused(client.dma_map(0x10_0000, 4 * PAGE, None, true)), EEXIST);
    // A range without a file, as QEMU has for ROMs, repeatedly.
    for _ in 0..50 {
        client.dma_map(0xc_0000, 0x8000, None, false).unwrap();
        client.dma_map(0xc_0000, 0x8000, None, false).unwrap();
        client.dma_unmap(0xc_0000, 0x8000).unwrap();
    }
    // A part cannot be unmapped.
    for (address, bytes) in [(0x10_0000, PAGE), (0x10_3000, PAGE), (0x20_0000, PAGE), (0x0f_f000, 2 * PAGE)] {
        assert_eq!(refused(client.dma_unmap(address, bytes)), ENOENT, "{address:#x}");
    }
    client.dma_map(0x20_0000, PAGE, Some((&file, 0)), false).unwrap();
    // Several mappings at once can be.
    client.dma_unmap(0x10_0000, 0x20_0000).unwrap();
    assert_eq!(refused(client.dma_unmap(0x10_0000, 0x20_0000)), ENOENT);
    client.dma_map(0x10_0000, 4 * PAGE, Some((&other, 0)), true).unwrap();
    client.dma_unmap_all().unwrap();
    client.dma_unmap_all().unwrap();
    client.dma_map(0x10_0000, 4 * PAGE, Some((&file, 0)), true).unwrap();
    // SPDK's DMA_UNMAP comes with the descriptor.
    let unmap =
        DmaUnmap { argsz: 24.into(), flags: 0.into(), address: 0x10_0000.into(), bytes: (4 * PAGE).into() };
    let answer = exchange(&client, Command::DMA_UNMAP, &[unmap.as_bytes()], &[file.as_fd()]).unwrap();
    assert_eq!(answer.payload, unmap.as_bytes());
}

#[test]
fn regions_that_cannot_be_are_refused() {
    let served = Served::new();
    let client = served.client();
    let file = memfd(4 * PAGE);
    let map = |flags: u32, offset: u64, address: u64, bytes: u64| DmaMap {
        argsz: 32.into(),
        flags: flags.into(),
        offset: offset.into(),
        address: address.into(),
        bytes: bytes.into(),
    };
    let good = map(3, 0, 0, PAGE);
    let (top, half) = (u64::MAX - PAGE + 1, 1u64 << 63);
    for wrong in [
        map(3, 0, 0, 0),
        map(3, 0, 0, 1),
        map(3, 0, 0, PAGE - 1),
        map(3, 0, 0, u64::MAX),
        map(3, 0, 1, PAGE),
        map(3, 0, 512, PAGE),
        map(3, 0, top, PAGE),
        map(3, 0, top, 2 * PAGE),
        map(3, 0, half, half),
        map(3, 1, 0, PAGE),
        map(3, 512, 0, PAGE),
        map(3, 4 * PAGE, 0, PAGE),
        map(3, 3 * PAGE, 0, 2 * PAGE),
        map(3, top, 0, PAGE),
        map(3, top, 0, 2 * PAGE),
        map(3, half, 0, PAGE),
        map(3, 0, 0, 5 * PAGE),
        map(3, 0, 0, half),
        map(4, 0, 0, PAGE),
        map(7, 0, 0, PAGE),
        map(u32::MAX, 0, 0, PAGE),
    ] {
        assert_eq!(
            errno(&client, Command::DMA_MAP, &[wrong.as_bytes()], &[file.as_fd()]),
            EINVAL,
            "{wrong:?}"
        );
    }
    // Descriptors that are not memory, or too many.
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    let directory = File::open("/").unwrap();
    for wrong in
        [reader.as_fd(), event().as_fd(), directory.as_fd(), File::open("/dev/null").unwrap().as_fd()]
    {
        assert_ne!(errno(&client, Command::DMA_MAP, &[good.as_bytes()], &[wrong]), 0);
    }
    assert_eq!(errno(&client, Command::DMA_MAP, &[good.as_bytes()], &[file.as_fd(); 2]), EINVAL);
    assert_eq!(errno(&client, Command::DMA_MAP, &[good.as_bytes()], &[file.as_fd(); 16]), EINVAL);
    // A file that is open for reading only cannot be mapped writable.
    let read_only = File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file))).unwrap();
    assert_ne!(errno(&client, Command::DMA_MAP, &[good.as_bytes()], &[read_only.as_fd()]), 0);
    let read = map(1, 0, 0, PAGE);
    assert_eq!(errno(&client, Command::DMA_MAP, &[read.as_bytes()], &[read_only.as_fd()]), 0);
    client.dma_unmap_all().unwrap();
    // All valid flags.
    for flags in 0..4 {
        assert_eq!(
            errno(&client, Command::DMA_MAP, &[map(flags, 0, 0, PAGE).as_bytes()], &[file.as_fd()]),
            0
        );
        client.dma_unmap(0, PAGE).unwrap();
    }
    let unmap = |flags: u32, address: u64, bytes: u64| DmaUnmap {
        argsz: 24.into(),
        flags: flags.into(),
        address: address.into(),
        bytes: bytes.into(),
    };
    assert_eq!(errno(&client, Command::DMA_MAP, &[good.as_bytes()], &[file.as_fd()]), 0);
    for (wrong, expected) in [
        (unmap(0, 0, 0), EINVAL),
        (unmap(0, u64::MAX, u64::MAX), EINVAL),
        (unmap(0, PAGE, u64::MAX), EINVAL),
        (unmap(1, 0, PAGE), ENOTSUP),
        (unmap(2, 0, PAGE), EINVAL),
        (unmap(2, PAGE, 0), EINVAL),
        (unmap(3, 0, 0), EINVAL),
        (unmap(4, 0, PAGE), EINVAL),
        (unmap(u32::MAX, 0, 0), EINVAL),
    ] {
        assert_eq!(errno(&client, Command::DMA_UNMAP, &[wrong.as_bytes()], &[]), expected, "{wrong:?}");
    }
    client.dma_unmap(0, 0u64.wrapping_sub(PAGE)).unwrap();
    drop(client);
    served.is_well();
}

#[test]
fn there_are_only_so_many_regions() {
    let served = Served::new();
    let client = served.client();
    let file = memfd(PAGE);
    for index in 0..MAPS_MAX as u64 {
        let file = Some((&file, 0)).filter(|_| index % 2 == 0);
        client.dma_map(index * 2 * PAGE, PAGE, file, true).unwrap();
    }
    let result = client.dma_map(1 << 40, PAGE, None, true);
    assert!(matches!(result, Err(ClientError::Refused { source, .. }) if source.raw_os_error() == Some(28)));
    // Memory that is already mapped is still no error.
    client.dma_map(0, PAGE, Some((&file, 0)), true).unwrap();
    client.dma_unmap_all().unwrap();
    client.dma_map(1 << 40, PAGE, None, true).unwrap();
}

#[test]
fn vectors_are_assigned_and_triggered() {
    let served = Served::new();
    let client = served.client();
    let events: Vec<_> = (0..VECTORS).map(|_| event()).collect();
    let fds: Vec<_> = events.iter().map(AsFd::as_fd).collect();
    let counts = || events.iter().map(count).collect::<Vec<_>>();
    let trigger = |start, count| client.set_irqs(VFIO_IRQ_SET_DATA_NONE, start, count, &[], &[]).unwrap();
    trigger(0, VECTORS);
    assert_eq!(counts(), [0; 5]);
    // One per message, as QEMU does; then all.
    client.set_events(2, &fds[2..3]).unwrap();
    trigger(0, VECTORS);
    assert_eq!(counts(), [0, 0, 1, 0, 0]);
    client.set_events(0, &fds).unwrap();
    trigger(0, VECTORS);
    trigger(1, 2);
    assert_eq!(counts(), [1, 2, 2, 1, 1]);
    client.set_irqs(VFIO_IRQ_SET_DATA_BOOL, 1, 3, &[1, 0, 0xff], &[]).unwrap();
    assert_eq!(counts(), [0, 1, 0, 1, 0]);
    // Without descriptors they are removed.
    client.set_irqs(VFIO_IRQ_SET_DATA_EVENTFD, 1, 2, &[], &[]).unwrap();
    trigger(0, VECTORS);
    assert_eq!(counts(), [1, 0, 0, 1, 1]);
    client.clear_events().unwrap();
    trigger(0, VECTORS);
    assert_eq!(counts(), [0; 5]);
    // A function reset keeps them; disconnecting does not.
    client.set_events(0, &fds).unwrap();
    client.reset().unwrap();
    trigger(0, 1);
    assert_eq!(counts(), [1, 0, 0, 0, 0]);
    drop(client);
    let client = served.client();
    client.set_irqs(VFIO_IRQ_SET_DATA_NONE, 0, VECTORS, &[], &[]).unwrap();
    assert_eq!(counts(), [0; 5]);
    // Other descriptors are refused; full eventfds block no one, even if the client has made them blocking.
    let (_reader, writer) = rustix::pipe::pipe().unwrap();
    assert!(client.set_events(0, &[writer.as_fd()]).is_err());
    client.set_events(0, &fds[..2]).unwrap();
    for event in &events[..2] {
        rustix::io::write(event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        let flags = rustix::fs::fcntl_getfl(event).unwrap();
        rustix::fs::fcntl_setfl(event, flags - rustix::fs::OFlags::NONBLOCK).unwrap();
    }
    for _ in 0..20_000 {
        let set = SetIrqs {
            argsz: 20.into(),
            flags: (VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER).into(),
            index: MSIX.into(),
            start: 0.into(),
            count: 2.into(),
        };
        let header = Header::request(0, Command::DEVICE_SET_IRQS, Header::NO_REPLY);
        client.channel().send(header, &[set.as_bytes()], &[]).unwrap();
        client.channel().drain(ANSWER_LIMIT).unwrap();
    }
    assert_eq!(read32(&client, AQA), 0);
}

#[test]
fn interrupts_that_cannot_be_are_refused() {
    let served = Served::new();
    let client = served.client();
    const TRIGGER: u32 = VFIO_IRQ_SET_ACTION_TRIGGER;
    let (none, chosen, eventfd) = (VFIO_IRQ_SET_DATA_NONE, VFIO_IRQ_SET_DATA_BOOL, VFIO_IRQ_SET_DATA_EVENTFD);
    let event = event();
    let set = |flags: u32, index: u32, start: u32, count: u32, data: usize, files: usize| {
        let set = SetIrqs {
            argsz: 20.into(),
            flags: flags.into(),
            index: index.into(),
            start: start.into(),
            count: count.into(),
        };
        let files = vec![event.as_fd(); files];
        errno(&client, Command::DEVICE_SET_IRQS, &[set.as_bytes(), &vec![1; data]], &files)
    };
    for (flags, index, start, count, data, files) in [
        (none | TRIGGER, 5, 0, 0, 0, 0),
        (none | TRIGGER, u32::MAX, 0, 0, 0, 0),
        (none | TRIGGER, 0, 0, 1, 0, 0),
        (none | TRIGGER, 1, 0, 1, 0, 0),
        (none | TRIGGER, MSIX, 0, VECTORS + 1, 0, 0),
        (none | TRIGGER, MSIX, VECTORS, 1, 0, 0),
        (none | TRIGGER, MSIX, 1, u32::MAX, 0, 0),
        (none | TRIGGER, MSIX, u32::MAX, u32::MAX, 0, 0),
        (none | TRIGGER, MSIX, u32::MAX, 0, 0, 0),
        (none | TRIGGER, MSIX, 0, 1, 0, 1),
        (none, MSIX, 0, 1, 0, 0),
        (TRIGGER, MSIX, 0, 1, 0, 0),
        (0, MSIX, 0, 1, 0, 0),
        (u32::MAX, MSIX, 0, 1, 0, 0),
        (none | chosen | TRIGGER, MSIX, 0, 1, 1, 0),
        (none | TRIGGER | VFIO_IRQ_SET_ACTION_MASK, MSIX, 0, 1, 0, 0),
        (none | TRIGGER | 64, MSIX, 0, 1, 0, 0),
        (chosen | TRIGGER, MSIX, 0, 0, 0, 0),
        (chosen | TRIGGER, MSIX, 0, 2, 0, 0),
        (chosen | TRIGGER, MSIX, 0, 2, 1, 0),
        (chosen | TRIGGER, MSIX, 0, 2, 2, 1),
        (eventfd | TRIGGER, MSIX, 0, 0, 0, 0),
        (eventfd | TRIGGER, MSIX, 0, 0, 0, 1),
        (eventfd | TRIGGER, MSIX, 0, 2, 0, 1),
        (eventfd | TRIGGER, MSIX, 0, 2, 0, 3),
        (eventfd | TRIGGER, MSIX, 0, VECTORS, 0, 16),
        (eventfd | TRIGGER, 3, 0, 2, 0, 2),
    ] {
        let got = set(flags, index, start, count, data, files);
        assert_eq!(got, EINVAL, "{flags:#x} {index} {start} {count} {data} {files}");
    }
    for action in [VFIO_IRQ_SET_ACTION_MASK, VFIO_IRQ_SET_ACTION_UNMASK] {
        assert_eq!(set(none | action, MSIX, 0, 1, 0, 0), ENOTSUP);
    }
    // Requests of QEMU that have no effect: INTx off, error and request interrupts.
    assert_eq!(set(none | TRIGGER, 0, 0, 0, 0, 0), 0);
    assert_eq!(set(eventfd | TRIGGER, 3, 0, 1, 0, 1), 0);
    assert_eq!(set(eventfd | TRIGGER, 4, 0, 1, 0, 1), 0);
    assert_eq!(set(none | TRIGGER, 4, 0, 1, 0, 0), 0);
    assert_eq!(count(&event), 0);
}

#[test]
fn a_reset_puts_registers_back() {
    let served = Served::new();
    let client = served.client();
    client.region_write(BAR0, AQA, &0x0007_0007u32.to_le_bytes()).unwrap();
    client.region_write(CONFIG, 4, &[6, 0]).unwrap();
    client.reset().unwrap();
    assert_eq!(read32(&client, AQA), 0);
    let mut command = [0; 2];
    client.region_read(CONFIG, 4, &mut command).unwrap();
    assert_eq!(command, [0, 0]);
    for _ in 0..100 {
        client.reset().unwrap();
    }
}

#[test]
fn too_many_descriptors_are_refused_and_the_client_stays() {
    let served = Served::new();
    let client = served.client();
    let map = DmaMap { argsz: 32.into(), flags: 3.into(), bytes: PAGE.into(), ..DmaMap::default() };
    // More than a channel sends itself: as parts of a message whose rest follows later.
    let file = memfd(PAGE);
    let mut header = Header::request(9, Command::DMA_MAP, 0);
    header.bytes = 48.into();
    let message = [header.as_bytes(), map.as_bytes()].concat();
    for part in message.chunks(4) {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
        let files = [file.as_fd(); 5];
        assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&files)));
        let sent = rustix::net::sendmsg(
            &**client.channel().socket(),
            &[std::io::IoSlice::new(part)],
            &mut control,
            rustix::net::SendFlags::NOSIGNAL,
        );
        assert_eq!(sent, Ok(4));
    }
    let answer = client.channel().wait_for(ANSWER_LIMIT, |message| Ok(Some(message))).unwrap().unwrap();
    assert_eq!((answer.header.id.get(), answer.header.error.get() as i32), (9, EINVAL));
    client.dma_map(0, PAGE, Some((&file, 0)), true).unwrap();
}

#[test]
fn who_never_reads_its_answers_is_dropped_and_the_next_is_served() {
    let served = Served::new();
    let client = served.client();
    let bytes = client.region(BAR0).unwrap().bytes as u32;
    let access = RegionAccess { offset: 0.into(), region: BAR0.into(), count: bytes.into() };
    // Twice the limit of pending bytes, and the size of the sockets' buffers.
    let requests = 2 * UNSENT_BYTES_MAX as u32 / bytes + 1000;
    let mut was_dropped = false;
    for id in 0..requests {
        let header = Header::request(id as u16, Command::REGION_READ, 0);
        was_dropped |= client.channel().send(header, &[access.as_bytes()], &[]).is_err();
        was_dropped |= client.channel().drain(ANSWER_LIMIT).is_err();
    }
    eventually(|| (was_dropped || client.channel().has_left()).then_some(()));
    served.is_well();
}

// Each such reply carries a descriptor: pending ones could exhaust the process's table, for all its drives.
#[test]
fn who_leaves_descriptors_unread_is_dropped_and_the_next_is_served() {
    let served = Served::new();
    let client = served.client();
    let info = RegionInfo { argsz: 4096.into(), index: BAR0.into(), ..RegionInfo::default() };
    for id in 0..5_000u32 {
        let header = Header::request(id as u16, Command::DEVICE_GET_REGION_INFO, 0);
        let sent = client.channel().send(header, &[info.as_bytes()], &[]);
        if sent.is_err() || client.channel().drain(ANSWER_LIMIT).is_err() {
            break;
        }
    }
    eventually(|| client.channel().has_left().then_some(()));
    served.is_well();
}

// If a reset were still in progress when its write is answered, the host's next writes would be lost.
#[test]
fn a_function_level_reset_is_over_when_it_is_answered() {
    let served = Served::new();
    let client = served.client();
    let config = |at: u64| {
        let mut byte = [0];
        client.region_read(CONFIG, at, &mut byte).unwrap();
        u64::from(byte[0])
    };
    let mut capability = config(0x34);
    while config(capability) != 0x10 {
        capability = config(capability + 1);
    }
    for round in 0..50u32 {
        write32(&client, CC, 0x0046_0001);
        client.region_write(CONFIG, capability + 9, &[0x80]).unwrap();
        write32(&client, AQA, round);
        assert_eq!((read32(&client, CC), read32(&client, AQA)), (0, round));
    }
}

// A detached process keeps its mapping of the doorbells: they must have no effect then.
#[test]
fn doorbells_of_a_client_that_has_gone_are_not_those_of_the_next() {
    let served = Served::new();
    let file = |client: &Client| client.region(BAR0).unwrap().mappable.unwrap().file;
    let client = served.client();
    let (old, same) = (file(&client), file(&client));
    drop(client);
    let client = served.client();
    let inode = |file: &File| rustix::fs::fstat(file).unwrap().st_ino;
    assert_eq!(inode(&old), inode(&same));
    assert_ne!(inode(&old), inode(&file(&client)));
}

#[test]
fn a_flood_of_small_messages_is_answered() {
    let served = Served::new();
    let client = served.client();
    let info = DeviceInfo { argsz: 16.into(), ..DeviceInfo::default() };
    let (mut sent, mut answered) = (0u32, 0u32);
    while answered < 20_000 {
        while sent < 20_000 && sent - answered < 500 {
            let header = Header::request(sent as u16, Command::DEVICE_GET_INFO, 0);
            client.channel().send(header, &[info.as_bytes()], &[]).unwrap();
            sent += 1;
        }
        client.channel().flush().unwrap();
        if let Some(message) = client.channel().try_receive().unwrap() {
            assert_eq!(message.header.id.get(), answered as u16);
            answered += 1;
        }
    }
    assert_eq!(read32(&client, AQA), 0);
}

#[test]
fn messages_of_random_bytes() {
    // A fixed sequence: a failure names its step.
    let served = Served::new();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let interesting = [0, 1, 2, 4, 16, 20, 24, 32, 4095, 4096, 1 << 20, 1 << 31, u64::MAX, u64::MAX - 4095];
    let file = memfd(4 * PAGE);
    let client = served.client();
    for step in 0..4000 {
        let command = Command((next() % 18) as u16);
        let words = next() % 12;
        let payload: Vec<u8> = (0..words)
            .flat_map(|_| {
                let word = interesting[(next() % interesting.len() as u64) as usize];
                let halves = [word as u32, interesting[(next() % 14) as usize] as u32];
                if next() % 2 == 0 {
                    word.to_le_bytes()
                } else {
                    (u64::from(halves[0]) << 32 | u64::from(halves[1])).to_le_bytes()
                }
            })
            .collect();
        let cut = payload.len() - (next() % 4).min(payload.len() as u64) as usize;
        let files = vec![file.as_fd(); (next() % 4).saturating_sub(2) as usize];
        let parts = [&payload[..cut]];
        let answer = exchange(&client, command, &parts, &files);
        assert!(answer.is_some(), "step {step}: {command} has no answer");
    }
    drop(client);
    served.is_well();
}
