//! Memory of another process that goes while commands use it.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use crate::fixture::*;
use byteway_clock::Delay;
use byteway_link::Memory;
use byteway_link::memory::{Access, Backing, Mapped};
use byteway_testkit::SmallWorld;
use byteway_wire::nvme::{Cns, Identify, NvmOpcode, Status};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Where the host keeps queues and buffers that stay.
const QUEUES: u64 = 1 << 32;
const QUEUES_BYTES: u64 = 64 << 20;
/// Where it keeps the payload of the command that is tested.
const PAYLOAD: u64 = 1 << 36;
const PAGES: u64 = 8;
const BYTES: usize = (PAGES * PAGE) as usize;
/// Fill pattern of unwritten memory.
const CANARY: u8 = 0xc5;

fn memfd(bytes: u64) -> File {
    let file = File::from(rustix::fs::memfd_create("byteway-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    file.set_len(bytes).unwrap();
    file
}

/// A host whose payload lies in a file of two halves, one of which is mapped.
struct Guest {
    host: TestHost,
    file: File,
}

impl Guest {
    fn run(test: impl AsyncFnOnce(Guest, Pair) + 'static) {
        let memory = Memory::mapped(Mapped::new(&memfd(QUEUES_BYTES), QUEUES, QUEUES_BYTES).unwrap());
        SmallWorld { memory, ..SmallWorld::default() }.run(async |powered| {
            let host = TestHost::over(powered);
            host.enable().await;
            let pair = host.create_pair(1, 64).await;
            let guest = Guest { host: host.clone(), file: memfd(2 * PAGES * PAGE) };
            test(guest, pair).await;
            host.sleep(LONG).await;
            assert!(host.drive().controller.is_quiet(), "slots, permits and tags are free");
        });
    }

    fn map(&self, half: u64) {
        let backing = Backing::File { file: &self.file, offset: half * PAGES * PAGE };
        self.host.memory().map(PAYLOAD, PAGES * PAGE, backing, Access::ReadWrite).unwrap();
    }

    fn half(&self, half: u64) -> Vec<u8> {
        let mut bytes = vec![0; BYTES];
        self.file.read_exact_at(&mut bytes, half * PAGES * PAGE).unwrap();
        bytes
    }

    fn set_half(&self, half: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, half * PAGES * PAGE).unwrap();
    }

    /// Puts the other half in the first one's place, `delay` from now.
    fn replace_after(&self, delay: Delay) {
        let guest = Guest { host: self.host.clone(), file: self.file.try_clone().unwrap() };
        self.host.clock().spawn("the host", async move {
            guest.host.sleep(delay).await;
            guest.host.memory().unmap(PAYLOAD, PAGES * PAGE).unwrap();
            guest.map(1);
        });
    }
}

/// Outcome of a command by the time at which the memory disappeared: before it was accessed, during use, or
/// afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    InTheNew,
    Failed,
    InTheOld,
}

/// Each must have been seen, in the order of the delays.
fn check_order(outcomes: &[Outcome]) {
    assert!(outcomes.is_sorted(), "{outcomes:?}");
    let mut kinds = outcomes.to_vec();
    kinds.dedup();
    assert_eq!(kinds, [Outcome::InTheNew, Outcome::Failed, Outcome::InTheOld]);
}

fn delays() -> impl Iterator<Item = Delay> {
    (0..480).map(|step| Delay::from_ns(step * 250))
}

// A Read that has begun must not write to what the host maps where its buffer was, at whatever moment that happens.
#[test]
fn a_read_never_lands_in_the_memory_that_follows() {
    Guest::run(async |guest, pair| {
        let host = &guest.host;
        let data = pattern(1, BYTES);
        assert_eq!(host.write(&pair, NS_4K, 0, &data).await, Status::SUCCESS);
        let (prp1, prp2) = host.prp(PAYLOAD, BYTES as u64);
        let mut outcomes = Vec::new();
        for delay in delays() {
            (0..2).for_each(|half| guest.set_half(half, &[CANARY; BYTES]));
            guest.map(0);
            guest.replace_after(delay);
            let sqe = read_write(NvmOpcode::READ, NS_4K, 0, PAGES as u32).with_prp(prp1, prp2);
            let status = host.io(&pair, sqe).await.status();
            host.sleep(Delay::from_us(200)).await;
            let untouched = |half| guest.half(half) == [CANARY; BYTES];
            outcomes.push(match status {
                Status::SUCCESS if guest.half(1) == data => Outcome::InTheNew,
                Status::SUCCESS if guest.half(0) == data && untouched(1) => Outcome::InTheOld,
                // Of data in flight when its memory goes no host can be notified: it must be nowhere.
                Status::SUCCESS | Status::DATA_TRANSFER_ERROR if untouched(1) => Outcome::Failed,
                status => panic!("{delay}: {status:?}, or a part of it has landed"),
            });
            host.memory().unmap(PAYLOAD, PAGES * PAGE).unwrap();
        }
        check_order(&outcomes);
    });
}

// A Write that has begun must not take what the host maps where its payload was: that would store another's data.
#[test]
fn a_write_never_takes_the_memory_that_follows() {
    Guest::run(async |guest, pair| {
        let host = &guest.host;
        let (prp1, prp2) = host.prp(PAYLOAD, BYTES as u64);
        let mut outcomes = Vec::new();
        let mut held = vec![0; BYTES];
        for (step, delay) in delays().enumerate() {
            let halves = [0, 1].map(|half| pattern(2 * step as u64 + half + 9, BYTES));
            (0..).zip(&halves).for_each(|(half, bytes)| guest.set_half(half, bytes));
            guest.map(0);
            guest.replace_after(delay);
            let sqe = read_write(NvmOpcode::WRITE, NS_4K, 0, PAGES as u32).with_prp(prp1, prp2);
            let status = host.io(&pair, sqe).await.status();
            host.sleep(Delay::from_us(200)).await;
            let stored = host.read(&pair, NS_4K, 0, PAGES as u32).await;
            outcomes.push(match status {
                Status::SUCCESS if stored == halves[1] => Outcome::InTheNew,
                Status::SUCCESS if stored == halves[0] => Outcome::InTheOld,
                Status::DATA_TRANSFER_ERROR if stored == held => Outcome::Failed,
                status => panic!("{delay}: {status:?}, or a mixture is stored"),
            });
            held = stored;
            host.memory().unmap(PAYLOAD, PAGES * PAGE).unwrap();
        }
        check_order(&outcomes);
    });
}

// The admin commands' data takes another way.
#[test]
fn an_identify_never_lands_in_the_memory_that_follows() {
    Guest::run(async |guest, _| {
        let host = &guest.host;
        let page = host.identify(Cns::CONTROLLER, 0).await;
        let mut outcomes = Vec::new();
        for delay in (0..120).map(|step| Delay::from_ns(step * 50)) {
            (0..2).for_each(|half| guest.set_half(half, &[CANARY; BYTES]));
            guest.map(0);
            guest.replace_after(delay);
            let sqe = Identify { cns: Cns::CONTROLLER, ..Identify::default() }.sqe(0, 0).with_prp(PAYLOAD, 0);
            let status = host.admin(sqe).await.status();
            host.sleep(Delay::from_us(200)).await;
            let is_there = |half| guest.half(half)[..PAGE as usize] == page;
            let untouched = |half| guest.half(half) == [CANARY; BYTES];
            outcomes.push(match status {
                Status::SUCCESS if is_there(1) => Outcome::InTheNew,
                Status::SUCCESS if is_there(0) && untouched(1) => Outcome::InTheOld,
                Status::SUCCESS | Status::DATA_TRANSFER_ERROR if untouched(1) => Outcome::Failed,
                status => panic!("{delay}: {status:?}, or a part of it has landed"),
            });
            host.memory().unmap(PAYLOAD, PAGES * PAGE).unwrap();
        }
        check_order(&outcomes);
    });
}

// A Read must not write memory that the host gave read-only, and a truncated file must not crash the drive:
// both commands fail.
#[test]
fn memory_that_can_not_be_used_fails_the_command() {
    Guest::run(async |guest, pair| {
        let host = &guest.host;
        let (prp1, prp2) = host.prp(PAYLOAD, BYTES as u64);
        let command = |opcode| read_write(opcode, NS_4K, 0, PAGES as u32).with_prp(prp1, prp2);
        let backing = Backing::File { file: &guest.file, offset: 0 };
        guest.set_half(0, &[CANARY; BYTES]);
        host.memory().map(PAYLOAD, PAGES * PAGE, backing, Access::Read).unwrap();
        let read = host.io(&pair, command(NvmOpcode::READ)).await;
        assert_eq!(read.status(), Status::DATA_TRANSFER_ERROR);
        let written = host.io(&pair, command(NvmOpcode::WRITE)).await;
        assert_eq!(written.status(), Status::SUCCESS);
        assert_eq!(guest.half(0), [CANARY; BYTES]);
        guest.file.set_len(0).unwrap();
        let lost = host.io(&pair, command(NvmOpcode::WRITE)).await;
        assert_eq!(lost.status(), Status::DATA_TRANSFER_ERROR);
        let still = host.io(&pair, command(NvmOpcode::WRITE)).await;
        assert_eq!(still.status(), Status::DATA_TRANSFER_ERROR);
        assert_eq!(
            host.read(&pair, NS_4K, 0, PAGES as u32).await,
            [CANARY; BYTES],
            "what was stored has stayed"
        );
    });
}
