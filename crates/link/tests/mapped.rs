//! Memory shared with another process, through two mappings of one memfd.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_link::memory::Mapped;
use byteway_link::{Memory, SharedBar};
use std::fs::File;

fn memfd(bytes: u64) -> File {
    let fd = rustix::fs::memfd_create("byteway-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let file = File::from(fd);
    file.set_len(bytes).unwrap();
    file
}

// What one side writes the other must read, at any alignment; what is outside must be refused on both.
#[test]
fn two_mappings_see_one_memory() {
    let file = memfd(64 << 10);
    let left = Memory::mapped(Mapped::new(&file, 0x10_0000, 64 << 10).unwrap());
    let right = Memory::mapped(Mapped::new(&file, 0x10_0000, 64 << 10).unwrap());
    for (offset, length) in [(0u64, 4096usize), (1, 17), (8, 8), (4095, 2), (65535, 1), (12, 100)] {
        let bytes: Vec<u8> = (0..length).map(|i| (i as u64 * 7 + offset) as u8).collect();
        left.write(0x10_0000 + offset, &bytes).unwrap();
        let mut back = vec![0; length];
        right.read(0x10_0000 + offset, &mut back).unwrap();
        assert_eq!(bytes, back, "{length} bytes at {offset}");
        right.with(0x10_0000 + offset, length, |seen| assert_eq!(seen, bytes)).unwrap();
    }
    left.store32(0x10_0010, 0xdead_beef).unwrap();
    assert_eq!(right.load32(0x10_0010).unwrap(), 0xdead_beef);
    for (address, length) in [(0, 1), (0x10_0000 - 1, 2), (0x11_0000, 1), (0x10_ffff, 2), (u64::MAX, 8)] {
        assert!(left.read(address, &mut vec![0; length]).is_err(), "{length} bytes at {address:#x}");
        assert!(left.write(address, &vec![0; length]).is_err());
    }
    assert!(left.check(0x10_0000, u64::MAX).is_err());
    assert!(left.with(0x10_0000, usize::MAX, |_| ()).is_err(), "no copy of a size that the other side chose");
    assert!(left.load32(0x10_0002).is_err(), "words are aligned");
    assert!(Mapped::new(&file, 0, 128 << 10).is_err(), "not beyond the file");
}

// A doorbell in a shared page wakes nobody: the drive must find each change, and not its own.
#[test]
fn a_shared_bar_gives_each_change_once() {
    let file = memfd(4096);
    let map = || Memory::mapped(Mapped::new(&file, 0, 4096).unwrap());
    let (driver, drive) = (SharedBar::new(map(), 0, 1024), SharedBar::new(map(), 0, 1024));
    driver.store(0x14, 1);
    driver.store(0x100, 9);
    let mut seen = Vec::new();
    assert!(drive.poll(0..1024, |offset, value| seen.push((offset, value))));
    assert_eq!(seen, [(0x14, 1), (0x100, 9)]);
    drive.publish(0x1c, 1);
    assert_eq!(driver.load(0x1c), 1);
    assert!(!drive.poll(0..1024, |_, _| panic!("nothing changed")));
}
