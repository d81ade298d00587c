//! One trace of commands under each runner.
//!
//! Commands are submitted one at a time, or several at once on different blocks, so that completions do not depend on the order of
//! execution. Not compared: what may differ between runs, which is Abort, and logs that contain times or command identifiers.

use crate::both_runners::runner::{How, run};
use crate::both_runners::{NS_4K_UNITS, NS_512_UNITS, TRANSFER_BYTES_MAX, drive_config};
use byteway_clock::Timing;
use byteway_clock::random::{Rng, Stream};
use byteway_content::UNIT_BYTES;
use byteway_host::{Completion, Driver, DriverConfig, Port, QueueConfig, QueuePair};
use byteway_link::memory::PAGE_BYTES;
use byteway_serve::function::Doorbells;
use byteway_testkit::assert_at_rest;
use byteway_transfer::host::{Buffer, DataPointer, Planner, PointerKind};
use byteway_wire::nvme::feature::fid;
use byteway_wire::nvme::{
    AdminOpcode, Cns, CreateCq, CreateSq, DatasetManagement, DeleteQueue, Flush, GetFeatures, GetLogPage,
    Identify, NSID_ALL, NvmOpcode, QueuePriority, Range, ReadWrite, Select, SetFeatures, Sqe, Status,
    WriteZeroes, lid,
};
use std::collections::BTreeSet;

/// Upper limit of outstanding commands, each with its own buffer.
const LANES: u64 = 8;
/// An address without memory in both kinds of address spaces.
const HOLE: u64 = 0x7fff_0000_0000;
const PAGE: u32 = PAGE_BYTES as u32;

/// Content of a buffer at submission.
#[derive(Clone, Debug)]
enum Fill {
    /// Bytes from this seed.
    Pattern(u64),
    /// The remains of the previous command.
    Kept,
    /// A list of ranges, in bytes from this seed.
    Ranges(u64, Vec<Range>),
}

/// A defect of a data pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// The first entry is not dword-aligned.
    Misaligned,
    /// The first entry points to no memory.
    Hole,
    /// The second entry, a page or a list, points to no memory.
    SecondHole,
    /// The second entry is not aligned.
    SecondMisaligned,
}

#[derive(Clone, Debug)]
struct Command {
    /// 0: the admin queue.
    queue: usize,
    /// Without a data pointer.
    sqe: Sqe,
    /// Payload length, and its offset in the first page.
    bytes: u32,
    offset: u32,
    fill: Fill,
    flaw: Flaw,
}

impl Command {
    fn new(queue: usize, sqe: Sqe) -> Self {
        Command { queue, sqe, bytes: 0, offset: 0, fill: Fill::Pattern(0), flaw: Flaw::None }
    }

    fn with_payload(self, bytes: u32, offset: u32, fill: Fill) -> Self {
        Command { bytes, offset, fill, ..self }
    }

    fn with_flaw(self, flaw: Flaw) -> Self {
        Command { flaw, ..self }
    }
}

/// Commands that are submitted together.
type Step = Vec<Command>;

/// A namespace.
#[derive(Clone, Copy)]
struct Space {
    nsid: u32,
    blocks: u64,
    block_bytes: u32,
}

const SPACES: [Space; 2] = [
    Space { nsid: 1, blocks: NS_512_UNITS * 8, block_bytes: 512 },
    Space { nsid: 2, blocks: NS_4K_UNITS, block_bytes: 4096 },
];

/// Generates traces.
struct Maker {
    random: Stream,
    /// Only commands that are valid over a fabric too: I/O commands, not fused, with contiguous data.
    is_shared: bool,
}

impl Maker {
    fn trace(seed: u64, commands: usize) -> Vec<Step> {
        Maker::make(seed, commands, false)
    }

    fn shared_trace(seed: u64, commands: usize) -> Vec<Step> {
        Maker::make(seed, commands, true)
    }

    fn make(seed: u64, commands: usize, is_shared: bool) -> Vec<Step> {
        let mut maker = Maker { random: Rng::new(seed).stream("trace"), is_shared };
        let mut steps = Vec::new();
        let mut count = 0;
        while count < commands {
            let step = maker.step(&mut steps);
            count += step.len();
            steps.push(step);
        }
        steps
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }

    fn step(&mut self, before: &mut Vec<Step>) -> Step {
        match self.below(20) {
            0..6 => {
                let count = 2 + self.below(LANES - 1);
                (0..count).map(|lane| self.io(lane)).collect()
            }
            6..14 => {
                let lane = self.below(LANES);
                vec![self.io(lane)]
            }
            14 => {
                // Reads, and compares with the data read: equal.
                let lane = self.below(LANES);
                let (space, slba, blocks) = self.extent(lane);
                let command = self.transfer(NvmOpcode::READ, space, slba, blocks);
                before.push(vec![command.clone()]);
                let mut compare = command;
                compare.sqe.set_opcode(NvmOpcode::COMPARE);
                compare.fill = Fill::Kept;
                vec![compare]
            }
            15..17 if !self.is_shared => vec![self.admin()],
            _ => vec![self.refused()],
        }
    }

    fn space(&mut self) -> Space {
        SPACES[self.below(2) as usize]
    }

    /// Blocks of a lane: often at its start, where much has been written.
    fn extent(&mut self, lane: u64) -> (Space, u64, u32) {
        let space = self.space();
        let bytes = if self.below(32) == 0 { TRANSFER_BYTES_MAX } else { 16 << 10 };
        let blocks = 1 + self.below(u64::from(bytes / space.block_bytes));
        let lane_blocks = space.blocks / LANES;
        let within = if self.below(2) == 0 { lane_blocks / 16 + blocks } else { lane_blocks };
        (space, lane * lane_blocks + self.below(within - blocks + 1), blocks as u32)
    }

    fn queue(&mut self) -> usize {
        1 + self.below(2) as usize
    }

    /// Offset of a payload in its first page: mostly 0, else any dword.
    fn offset(&mut self) -> u32 {
        if !self.is_shared && self.below(3) == 0 { self.below(1024) as u32 * 4 } else { 0 }
    }

    fn transfer(&mut self, opcode: NvmOpcode, space: Space, slba: u64, blocks: u32) -> Command {
        let fua = self.below(16) == 0;
        let rw = ReadWrite { slba, nlb_z: (blocks - 1) as u16, fua, ..ReadWrite::default() };
        let (offset, fill) = (self.offset(), Fill::Pattern(self.below(u64::MAX)));
        let bytes = (blocks * space.block_bytes).min(TRANSFER_BYTES_MAX);
        Command::new(self.queue(), rw.sqe(opcode, 0, space.nsid)).with_payload(bytes, offset, fill)
    }

    fn deallocate(&mut self, nsid: u32, ranges: Vec<Range>) -> Command {
        let nr_z = (ranges.len() - 1) as u8;
        let command = DatasetManagement { nr_z, ad: self.below(8) > 0, ..DatasetManagement::default() };
        let (offset, bytes) = (self.offset(), command.bytes());
        let fill = Fill::Ranges(self.below(u64::MAX), ranges);
        Command::new(self.queue(), command.sqe(0, nsid)).with_payload(bytes, offset, fill)
    }

    fn zeroes(&mut self, nsid: u32, slba: u64, blocks: u32) -> Command {
        let (deac, fua) = (self.below(2) == 0, self.below(8) == 0);
        let command = WriteZeroes { slba, nlb_z: (blocks - 1) as u16, deac, fua, ..WriteZeroes::default() };
        Command::new(self.queue(), command.sqe(0, nsid))
    }

    /// A valid command. It succeeds, unless it is a Compare.
    fn io(&mut self, lane: u64) -> Command {
        let (space, slba, blocks) = self.extent(lane);
        match self.below(100) {
            0..35 => self.transfer(NvmOpcode::READ, space, slba, blocks),
            35..80 => self.transfer(NvmOpcode::WRITE, space, slba, blocks),
            80..85 => self.transfer(NvmOpcode::COMPARE, space, slba, blocks),
            85..90 => self.zeroes(space.nsid, slba, blocks),
            90..96 => {
                let mut ranges = Vec::new();
                let mut rest = (slba, blocks);
                while rest.1 > 0 && ranges.len() < 255 {
                    let length = 1 + self.below(u64::from(rest.1)) as u32;
                    ranges.push(Range { slba: rest.0, length, ..Range::default() });
                    rest = (rest.0 + u64::from(length), rest.1 - length);
                }
                self.deallocate(space.nsid, ranges)
            }
            _ => Command::new(self.queue(), Flush.sqe(0, if slba % 2 == 0 { space.nsid } else { NSID_ALL })),
        }
    }

    /// An invalid command.
    fn refused(&mut self) -> Command {
        let lane = self.below(LANES);
        let (space, slba, blocks) = self.extent(lane);
        let opcode = [NvmOpcode::READ, NvmOpcode::WRITE, NvmOpcode::COMPARE][self.below(3) as usize];
        let flaws = [Flaw::Misaligned, Flaw::Hole, Flaw::SecondHole, Flaw::SecondMisaligned];
        let mut command = self.transfer(opcode, space, slba, blocks);
        match self.below(16) {
            0 => self.transfer(opcode, space, space.blocks + slba, blocks),
            1 => self.transfer(opcode, space, space.blocks - 1, blocks.max(2)),
            2 => self.transfer(opcode, space, u64::MAX - slba % 4, blocks),
            3 => {
                let opcode = [0x03, 0x0b, 0x42, 0x7f, 0x81, 0xc1, 0xfe][self.below(7) as usize];
                // 7Fh is reserved for fabrics.
                command.sqe.set_opcode(if opcode == 0x7f && self.is_shared { 0x43 } else { opcode });
                command
            }
            4 => {
                command.sqe.nsid = [0, 3, 1 << 20, NSID_ALL][self.below(4) as usize];
                command
            }
            5..10 if !self.is_shared => {
                // Two pages or more for the defects of the second entry.
                let flaw = flaws[self.below(4) as usize];
                let blocks = blocks.max((PAGE + 1).div_ceil(space.block_bytes));
                let slba = slba.min(space.blocks - u64::from(blocks));
                self.transfer(opcode, space, slba, blocks).with_flaw(flaw)
            }
            10 if !self.is_shared => {
                command.sqe.set_fuse(1 + self.below(2) as u8);
                command
            }
            11 if !self.is_shared => {
                command.sqe.set_psdt(1 + self.below(3) as u8);
                command
            }
            12 => self.transfer(opcode, space, 0, TRANSFER_BYTES_MAX / space.block_bytes + blocks),
            13 => {
                let good = Range { slba, length: blocks, ..Range::default() };
                let far = Range { slba: space.blocks - 1, length: 2 + blocks, ..Range::default() };
                self.deallocate(space.nsid, vec![good, far])
            }
            14 => self.zeroes(space.nsid, space.blocks - u64::from(blocks - 1), blocks),
            _ => Command::new(self.queue(), Flush.sqe(0, 3)),
        }
    }

    /// An admin command, valid or not, that leaves the queues unchanged.
    fn admin(&mut self) -> Command {
        let set = |fid, cdw11| SetFeatures { fid, cdw11, ..SetFeatures::default() }.sqe(0, 0);
        let get = |fid, sel, cdw11| GetFeatures { fid, sel, cdw11, uidx: 0 }.sqe(0, 0);
        let data = |sqe: Sqe, bytes| Command::new(0, sqe).with_payload(bytes, 0, Fill::Pattern(7));
        let any = self.below(1 << 32) as u32;
        match self.below(12) {
            0..3 => {
                let pages = [
                    Cns::CONTROLLER,
                    Cns::NAMESPACE,
                    Cns::ACTIVE_NAMESPACES,
                    Cns::NAMESPACE_DESCRIPTORS,
                    Cns::COMMAND_SET_CONTROLLER,
                    Cns::DOMAIN_LIST,
                ];
                let cns = pages[self.below(6) as usize];
                data(Identify { cns, ..Identify::default() }.sqe(0, self.below(4) as u32), PAGE)
            }
            3 => Command::new(0, set(fid::VOLATILE_WRITE_CACHE, any & 1)),
            4 => Command::new(0, set(fid::ARBITRATION, any)),
            5 => Command::new(
                0,
                set([fid::NUMBER_OF_QUEUES, 0, 0x7f, fid::LBA_RANGE_TYPE][any as usize % 4], 1),
            ),
            6..8 => {
                let selects = [Select::CURRENT, Select::DEFAULT, Select::SAVED, Select::SUPPORTED];
                Command::new(0, get(self.below(14) as u8, selects[self.below(4) as usize], 0))
            }
            8 => {
                let lid = [lid::FIRMWARE_SLOT, 0x7f, 0xc5][any as usize % 3];
                data(GetLogPage { lid, numd_z: 127, ..GetLogPage::default() }.sqe(0, NSID_ALL), 512)
            }
            9 => {
                let qid = [0, 1, 3, 5][self.below(4) as usize];
                let qsize_z = [0, 256, 0xffff][self.below(3) as usize];
                Command::new(0, CreateCq { qid, qsize_z, pc: true, ien: false, iv: 0 }.sqe(0, HOLE))
            }
            10 => {
                let cqid = [0, 4, 9][self.below(3) as usize];
                let qprio = QueuePriority::default();
                Command::new(0, CreateSq { qid: 3, qsize_z: 15, pc: true, qprio, cqid }.sqe(0, HOLE))
            }
            _ => {
                let qid = [0, 3, 9][self.below(3) as usize];
                let opcode = [AdminOpcode::DELETE_SQ, AdminOpcode::DELETE_CQ][self.below(2) as usize];
                Command::new(0, DeleteQueue { qid }.sqe(opcode, 0))
            }
        }
    }
}

/// A completion, with a digest of the buffer after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    status: Status,
    dw0: u32,
    data: u64,
}

/// Outcome of a trace.
struct Played {
    answers: Vec<Answer>,
    /// A digest of each unit.
    media: Vec<u64>,
}

fn digest(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325, |hash: u64, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

fn play(how: How, steps: &[Step]) -> Played {
    let steps = steps.to_vec();
    run(how, drive_config(), async move |setting| {
        let player = Player::attach(how, setting.port.clone()).await;
        let mut answers = Vec::new();
        for step in &steps {
            player.play(step, &mut answers).await;
        }
        player.driver.shutdown().await.unwrap();
        assert_eq!(player.driver.protocol_errors(), 0);
        if !how.is_remote() {
            assert_at_rest(&setting.powered); // otherwise the target's driver still has its queues
        }
        let ftl = setting.powered.drive.controller.ftl();
        let mut unit = [0; UNIT_BYTES];
        let peek = |lpa| {
            ftl.peek(lpa).write_to(&mut unit);
            digest(&unit)
        };
        Played { answers, media: (0..NS_512_UNITS + NS_4K_UNITS).map(peek).collect() }
    })
}

/// A driver, its queues, and a buffer for each lane.
struct Player {
    driver: Driver,
    queues: Vec<QueuePair>,
    planner: Planner,
    lanes: Vec<Lane>,
}

struct Lane {
    pages: Vec<u64>,
    slot: usize,
}

impl Player {
    async fn attach(how: How, port: Port) -> Player {
        let memory = port.memory().clone();
        let remote = DriverConfig { completion: Completion::Interrupt, ..DriverConfig::default() };
        let config = if how.is_remote() { remote } else { DriverConfig::default() };
        let driver = Driver::attach(port, config).await.unwrap();
        let mut queues = vec![driver.admin_queue().clone()];
        for entries in [5, 64] {
            // A step holds the identifiers of its commands until all have been submitted.
            let outstanding_max = Some(LANES as u16);
            let vector = how.is_remote().then_some(1);
            let config = QueueConfig { outstanding_max, vector, ..QueueConfig::new(entries) };
            queues.push(driver.create_queue_pair(config).await.unwrap());
        }
        let kind = if how.is_remote() { PointerKind::Sgl } else { PointerKind::Prp };
        let planner = Planner::new(&memory, kind, TRANSFER_BYTES_MAX);
        let lanes = (0..LANES)
            .map(|_| {
                // Pages not in the order of their use, so that each entry of a list matters; over a fabric there are no lists.
                let bytes = TRANSFER_BYTES_MAX + PAGE;
                let buffer = match how.is_remote() {
                    true => Buffer::contiguous(&memory, 0, bytes),
                    false => Buffer::scattered(&memory, 0, bytes),
                };
                let buffer = buffer.unwrap();
                Lane { pages: buffer.pages().to_vec(), slot: planner.add_slot().unwrap() }
            })
            .collect();
        Player { driver, queues, planner, lanes }
    }

    async fn play(&self, step: &Step, answers: &mut Vec<Answer>) {
        let mut pending = Vec::new();
        for (command, lane) in step.iter().zip(&self.lanes) {
            let sqe = self.prepare(command, lane);
            pending.push(self.queues[command.queue].submit(sqe).await.unwrap());
        }
        for ((pending, command), lane) in pending.into_iter().zip(step).zip(&self.lanes) {
            let cqe = pending.await.unwrap();
            answers.push(Answer { status: cqe.status(), dw0: cqe.dw0, data: self.digest(command, lane) });
        }
    }

    fn buffer(&self, command: &Command, lane: &Lane) -> Buffer {
        Buffer::over(lane.pages.clone(), command.offset, command.bytes).unwrap()
    }

    /// Fills the buffer and sets the command's data pointer.
    fn prepare(&self, command: &Command, lane: &Lane) -> Sqe {
        if command.bytes == 0 {
            return command.sqe;
        }
        let buffer = self.buffer(command, lane);
        let memory = self.driver.port().memory();
        let mut word = match command.fill {
            Fill::Pattern(seed) | Fill::Ranges(seed, _) => Some(seed | 1),
            Fill::Kept => None,
        };
        let touched = buffer.pages_touched(command.bytes) as usize;
        for page in &lane.pages[..touched] {
            let Some(word) = &mut word else { break };
            let fill = |bytes: &mut [u8]| {
                for chunk in bytes.chunks_exact_mut(8) {
                    *word ^= *word << 13;
                    *word ^= *word >> 7;
                    *word ^= *word << 17;
                    chunk.copy_from_slice(&word.to_le_bytes());
                }
            };
            memory.with_mut(*page, PAGE as usize, fill).unwrap();
        }
        if let Fill::Ranges(_, ranges) = &command.fill {
            let list: Vec<u8> = ranges.iter().flat_map(Range::to_bytes).collect();
            let mut rest = &list[..];
            for part in buffer.extents(command.bytes) {
                let (now, later) = rest.split_at(part.bytes as usize);
                memory.write(part.address, now).unwrap();
                rest = later;
            }
        }
        let pointer = self.planner.plan(lane.slot, &buffer, command.bytes).unwrap();
        let (mut prp1, mut prp2) = match pointer {
            DataPointer::Prp { prp1, prp2 } => (prp1, prp2),
            DataPointer::Sgl(descriptor) => return command.sqe.with_sgl(descriptor),
        };
        match command.flaw {
            Flaw::None => {}
            Flaw::Misaligned => prp1 |= 2,
            Flaw::Hole => prp1 = HOLE + u64::from(command.offset),
            Flaw::SecondHole => prp2 = HOLE,
            Flaw::SecondMisaligned => prp2 |= 4,
        }
        // As a data pointer, regardless of PSDT.
        Sqe { prp1, prp2, ..command.sqe }
    }

    /// Digest of all pages that the payload touches, including the bytes around it.
    fn digest(&self, command: &Command, lane: &Lane) -> u64 {
        if command.bytes == 0 {
            return 0;
        }
        let touched = self.buffer(command, lane).pages_touched(command.bytes) as usize;
        let memory = self.driver.port().memory();
        lane.pages[..touched]
            .iter()
            .fold(0, |hash, page| hash.rotate_left(7) ^ memory.with(*page, PAGE as usize, digest).unwrap())
    }
}

fn assert_same(seed: u64, how: How, steps: &[Step], expected: &Played, played: &Played) {
    let commands: Vec<_> = steps.iter().flatten().collect();
    assert_eq!(played.answers.len(), commands.len());
    for (index, (answer, expected)) in played.answers.iter().zip(&expected.answers).enumerate() {
        let command = commands[index];
        assert_eq!(answer, expected, "seed {seed}, {how:?}: command {index}, {command:?}");
    }
    for (unit, (held, expected)) in played.media.iter().zip(&expected.media).enumerate() {
        assert_eq!(held, expected, "seed {seed}, {how:?}: unit {unit} of the media");
    }
}

/// Checks that a trace is useful: its commands have all kinds of outcomes.
fn assert_varied(played: &Played, successes: usize, outcomes: usize) {
    let statuses: BTreeSet<_> = played.answers.iter().map(|answer| answer.status.bits()).collect();
    let good = played.answers.iter().filter(|answer| answer.status.is_success()).count();
    assert!(good >= successes && statuses.len() >= outcomes, "{good} successes, {} outcomes", statuses.len());
    let blank = played.media.iter().filter(|unit| **unit == digest(&[0; UNIT_BYTES])).count();
    assert!(blank < played.media.len(), "something was written");
}

// Otherwise the simulation could be of another drive than the served one.
#[test]
fn a_trace_gives_the_same_answers_and_media_in_no_time_as_in_virtual_time() {
    let seed = 11;
    let steps = Maker::trace(seed, 3000);
    let expected = play(How::Virtual, &steps);
    assert_varied(&expected, 1500, 12);
    for how in [How::Served(Timing::None, Doorbells::Mapped), How::Link(Timing::None)] {
        assert_same(seed, how, &steps, &expected, &play(how, &steps));
    }
}

// The same with latencies that really pass: timers then fire in another order.
#[test]
fn a_trace_gives_the_same_answers_and_media_at_modelled_speed_as_in_virtual_time() {
    let seed = 12;
    let steps = Maker::trace(seed, 300);
    let expected = play(How::Virtual, &steps);
    assert_varied(&expected, 100, 8);
    for how in [How::Served(Timing::Model, Doorbells::Mapped), How::Link(Timing::Model)] {
        assert_same(seed, how, &steps, &expected, &play(how, &steps));
    }
}

// A drive behind a target must behave like the drive itself: completions, data read and final media, over sockets and over a simulated
// network.
#[test]
fn a_trace_gives_the_same_answers_and_media_over_every_way_to_the_drive() {
    let seed = 13;
    let steps = Maker::shared_trace(seed, 3000);
    let expected = play(How::Virtual, &steps);
    assert_varied(&expected, 1500, 6);
    for how in [How::Served(Timing::None, Doorbells::Mapped), How::Network, How::Tcp] {
        assert_same(seed, how, &steps, &expected, &play(how, &steps));
    }
}
