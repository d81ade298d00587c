//! Random valid commands of an authenticated host, on three queues at once, each checked against a model of
//! its blocks.

use crate::authentication::{admin, credentials, io};
use crate::host::{Host, by_transport, in_capsule, with_credentials};
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay};
use byteway_wire::IntoBytes;
use byteway_wire::nvme::{
    Abort, Cns, Copy, CopyRange, DatasetManagement, Flush, GetFeatures, GetLogPage, Identify, KeepAlive,
    NvmOpcode, Range, ReadWrite, Select, SetFeatures, Status, WriteZeroes,
};
use std::cell::Cell;
use std::rc::Rc;

const BLOCK: usize = 4096;
/// The blocks that a queue uses exclusively.
const BLOCKS: u64 = 24;
/// MDTS of the path, in blocks.
const BLOCKS_MAX: u64 = 8;
const NSID: u32 = 2;
const COMMANDS: u32 = 250;

/// Contents of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Zeroes,
    Pattern(u8),
    Unreadable,
}

impl Held {
    fn extend(self, bytes: &mut Vec<u8>) {
        let from = bytes.len();
        bytes.resize(from + BLOCK, 0);
        if let Held::Pattern(seed) = self {
            bytes[from..].iter_mut().zip(0u32..).for_each(|(byte, at)| *byte = seed ^ (at / 3) as u8);
        }
    }
}

fn bytes_of(blocks: &[Held]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(blocks.len() * BLOCK);
    blocks.iter().for_each(|block| block.extend(&mut bytes));
    bytes
}

/// A queue, with the contents of its blocks.
struct Player {
    host: Host,
    stream: Stream,
    first: u64,
    held: Vec<Held>,
}

impl Player {
    async fn play(&mut self) {
        for number in 0..COMMANDS {
            let from = self.stream.below(BLOCKS) as usize;
            let count = 1 + self.stream.below(BLOCKS_MAX.min(BLOCKS - from as u64)) as usize;
            let kind = self.stream.below(12);
            let (status, expected) = self.command(kind, from, count).await;
            assert!(status.is(expected), "{number}: {kind} of {count} from {from}: {status}, not {expected}");
        }
    }

    /// The status of one command, and the expected status.
    async fn command(&mut self, kind: u64, from: usize, count: usize) -> (Status, Status) {
        let range = from..from + count;
        let bytes = count * BLOCK;
        let sqe = |opcode| {
            let lba = self.first + from as u64;
            ReadWrite { slba: lba, nlb_z: count as u16 - 1, ..ReadWrite::default() }.sqe(opcode, 0, NSID)
        };
        let is_readable = !self.held[range.clone()].contains(&Held::Unreadable);
        let read_status = if is_readable { Status::SUCCESS } else { Status::UNRECOVERED_READ_ERROR };
        match kind {
            0..=2 => {
                let seed = self.stream.next_u64() as u8;
                let written: Vec<Held> = (0..count).map(|at| Held::Pattern(seed ^ at as u8)).collect();
                let sqe = match bytes <= 8192 && kind == 0 {
                    true => in_capsule(sqe(NvmOpcode::WRITE), bytes as u32),
                    false => by_transport(sqe(NvmOpcode::WRITE), bytes as u32),
                };
                let answer = self.host.ask(sqe, &bytes_of(&written)).await;
                self.held[range].copy_from_slice(&written);
                (answer.cqe.status(), Status::SUCCESS)
            }
            3..=5 => {
                let answer = self.host.ask(by_transport(sqe(NvmOpcode::READ), bytes as u32), &[]).await;
                if is_readable {
                    assert!(answer.data == bytes_of(&self.held[range]), "other bytes than were written");
                }
                (answer.cqe.status(), read_status)
            }
            6 => {
                let mut data = bytes_of(&self.held[range]);
                let differs = self.stream.below(2) == 1;
                let at = self.stream.below(data.len() as u64) as usize;
                data[at] ^= u8::from(differs);
                let sqe = by_transport(sqe(NvmOpcode::COMPARE), bytes as u32);
                let status = self.host.ask(sqe, &data).await.cqe.status();
                (status, if is_readable && differs { Status::COMPARE_FAILURE } else { read_status })
            }
            7 => {
                let zeroes = WriteZeroes {
                    slba: self.first + from as u64,
                    nlb_z: count as u16 - 1,
                    ..WriteZeroes::default()
                };
                self.held[range].fill(Held::Zeroes);
                (self.host.ask(zeroes.sqe(0, NSID), &[]).await.cqe.status(), Status::SUCCESS)
            }
            8 => {
                let trimmed =
                    Range { slba: self.first + from as u64, length: count as u32, ..Range::default() };
                let sqe = DatasetManagement { ad: true, ..DatasetManagement::default() }.sqe(0, NSID);
                self.held[range].fill(Held::Zeroes);
                let answer = self.host.ask(in_capsule(sqe, 16), trimmed.as_bytes()).await;
                (answer.cqe.status(), Status::SUCCESS)
            }
            9 => {
                let to = self.stream.below(BLOCKS - count as u64 + 1);
                let copy = Copy { sdlba: self.first + to, ..Copy::default() };
                let source = CopyRange::new(self.first + from as u64, count as u32);
                let sqe = by_transport(copy.sqe(0, NSID), CopyRange::SIZE as u32);
                let status = self.host.ask(sqe, &source.to_bytes()).await.cqe.status();
                if is_readable {
                    self.held.copy_within(range, to as usize);
                }
                (status, read_status)
            }
            10 => match self.stream.below(3) {
                0 => (self.host.ask(sqe(NvmOpcode::VERIFY), &[]).await.cqe.status(), read_status),
                _ => (self.host.ask(Flush.sqe(0, NSID), &[]).await.cqe.status(), Status::SUCCESS),
            },
            _ => {
                let status = self.host.ask(sqe(NvmOpcode::WRITE_UNCORRECTABLE), &[]).await.cqe.status();
                self.held[range].fill(Held::Unreadable);
                (status, Status::SUCCESS)
            }
        }
    }
}

/// Reads and sets what an admin queue may, and aborts; each command gets exactly one response.
async fn administer(host: &mut Host, stream: &mut Stream, clock: &Clock, is_done: &Cell<u32>) {
    while is_done.get() > 0 {
        let sqe = match stream.below(6) {
            0 => {
                let nsid = [0, 1, NSID, u32::MAX][stream.below(4) as usize];
                let identify = Identify { cns: Cns(stream.below(0x20) as u8), ..Identify::default() };
                by_transport(identify.sqe(0, nsid), Identify::BYTES)
            }
            1 => {
                let log = GetLogPage {
                    lid: stream.below(0x20) as u8,
                    numd_z: stream.below(1024) as u32,
                    ..GetLogPage::default()
                };
                by_transport(log.sqe(0, u32::MAX), log.bytes() as u32)
            }
            2 => {
                let sel = Select(stream.below(4) as u8);
                let get = GetFeatures { fid: stream.below(0x90) as u8, sel, ..GetFeatures::default() };
                by_transport(get.sqe(0, NSID), 4096)
            }
            3 => {
                let cdw11 = stream.below(0x1_0000) as u32;
                let set = SetFeatures { fid: stream.below(0x90) as u8, cdw11, ..SetFeatures::default() };
                by_transport(set.sqe(0, NSID), 4096)
            }
            4 => Abort { sqid: stream.below(4) as u16, cid: stream.below(64) as u16 }.sqe(0),
            _ => KeepAlive.sqe(0),
        };
        host.ask(sqe, &[1; 4096]).await;
        clock.timer(Delay::from_us(stream.below(100))).await;
    }
}

// No allowed command may damage another queue's data, lose a response, or change the drive for others.
#[test]
fn each_command_has_one_answer_and_the_right_data() {
    for seed in 0..6 {
        with_credentials(credentials(), async move |target, clock| {
            let rng = Rng::new(seed);
            let mut first = admin(&target).await;
            let running = Rc::new(Cell::new(3));
            for (qid, index) in (1..=3).zip(0..) {
                let mut player = Player {
                    host: io(&target, &first, qid).await,
                    stream: rng.stream(&format!("queue-{qid}")),
                    first: index * BLOCKS,
                    held: vec![Held::Zeroes; BLOCKS as usize],
                };
                let running = running.clone();
                clock.spawn("queue", async move {
                    player.play().await;
                    player.host.queue.close();
                    running.set(running.get() - 1);
                });
            }
            administer(&mut first, &mut rng.stream("admin"), &clock, &running).await;
            first.queue.close();
        });
    }
}
