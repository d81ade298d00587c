//! Fuzzed hosts of an NVMe/TCP target: valid, nearly valid and random PDUs and capsules, in any pieces, on
//! several connections, while time passes, data is left unread, paths change and connections are cut.
//!
//! Verified after each input: no panic; every closed connection leaves no resources, no controller, and a
//! quiet drive; pending output is bounded; a well-behaved host reads back what it has written.
//! In a *tame* input each byte received belongs to a PDU: each completion ends an outstanding command, once;
//! R2Ts request only described data, data fits, and none of it is the other host's.
//! Not verified: the status of a command.

use super::input::Input;
use super::prover::{self, Prover};
use byteway_clock::{Clock, Delay};
use byteway_content::BlockSize;
use byteway_device::{DriveConfig, NamespaceConfig};
use byteway_flash::Geometry;
use byteway_host::{Driver, DriverConfig};
use byteway_nvmeof::discovery::{Port, Record};
use byteway_nvmeof::tcp::Connection;
use byteway_nvmeof::{
    Directory, Discovery, HostLimits, Hosts, Path, PathConfig, Queue, Reached, Subsystem, SubsystemConfig,
    Target,
};
use byteway_testkit::{SmallWorld, assert_at_rest};
use byteway_wire::IntoBytes;
use byteway_wire::fabrics::connect::{CNTLID_DYNAMIC, ConnectAttributes};
use byteway_wire::fabrics::tcp::{
    Agreement, CapsuleCmd, Decoder, Digests, End, Event, Framing, H2cData, IcReq, Limits, Pdu, R2t,
};
use byteway_wire::fabrics::{
    Connect, ConnectData, Connected, DataPointer, Disconnect, FabricsType, Nqn, PropertyGet, PropertySet,
    PropertySize,
};
use byteway_wire::nvme::register::{CAP, CC, CSTS, Cc, NSSR, VS};
use byteway_wire::nvme::{AnaState, Cqe, NvmOpcode, ReadWrite, Sqe, lid};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

/// Steps of an input, at most, so that it ends soon.
const ACTIONS_MAX: u32 = 80;
const CONNECTIONS: u64 = 5;
const SUBSYSTEM: &str = "nqn.2026-11.org.byteway:fuzzed";
const HOST: &str = "nqn.2026-11.org.byteway:host";
const NEIGHBOUR: &str = "nqn.2026-11.org.byteway:neighbour";
/// The neighbour's namespace, of 4 KiB, filled with this pattern.
const SECRET_NSID: u32 = 2;
const SECRET: [u8; 8] = *b"\x5E\xC2\xE7\x05\x5E\xC2\xE7\x06";
const BLOCK: usize = 4096;
const BYTES_MAX: u32 = 32 << 10;
/// Limit of a connection's pending output: the limit for unread data, plus what its queue may have
/// outstanding.
const UNSENT_MAX: usize = (2 << 20) + 128 * BYTES_MAX as usize;

/// Runs an input.
pub fn run(bytes: &[u8]) {
    let bytes = bytes.to_vec();
    let small = byteway_testkit::drive_config();
    let drive = DriveConfig {
        geometry: Geometry { ways: 1, blocks: 16, pages: 16, ..small.geometry },
        namespaces: vec![
            NamespaceConfig::blocks(128, BlockSize::B512),
            NamespaceConfig::blocks(64, BlockSize::B4096),
        ],
        ..small
    };
    SmallWorld::of(drive).run_driven(DriverConfig::default(), async move |driver: Driver, powered| {
        play(driver, &bytes).await;
        assert_at_rest(powered);
    });
}

async fn play(driver: Driver, bytes: &[u8]) {
    let clock = driver.clock().clone();
    let mut input = Input::new(bytes);
    let (flags, nqn) = (input.byte(), Nqn::new(SUBSYSTEM).expect("a name"));
    let is_tame = flags & 1 == 0;
    let config = SubsystemConfig {
        // A tame host could read earlier contents of a namespace.
        may_manage: !is_tame,
        host: HostLimits {
            bytes_max: if flags & 2 == 0 { 32 << 20 } else { 64 << 10 },
            ..HostLimits::default()
        },
        entries_max: if flags & 4 == 0 { 128 } else { 4 },
        controllers_max: 4,
        ..SubsystemConfig::new(nqn)
    };
    let path =
        Path::open(driver, PathConfig { bytes_max: BYTES_MAX, commands_max: 16, ..PathConfig::default() })
            .await;
    let path = path.unwrap_or_else(|error| panic!("{error}"));
    // A value that older inputs do not have: from before authentication existed.
    let authenticates = flags >> 4 == 0xA;
    let subsystem = match authenticates {
        true => prover::subsystem(&clock, config, path, HOST),
        false => Subsystem::new(&clock, config, path),
    };
    let directory = Directory::default();
    let address = SocketAddr::from(([192, 0, 2, 1], 4420));
    let ports = [1, 2].map(|id| Port { id, address, is_secure: false }).to_vec();
    let record = Record { nqn, hosts: Hosts::Any, credentials: None, ports, admin_entries_max: 128 };
    let _published = directory.publish(record.clone());
    let discovery = Discovery::new(&clock, directory.clone());
    let target = Target::with_discovery(vec![subsystem.clone()], discovery.clone());

    let mut neighbour = Neighbour::connect(&clock, &target).await;
    neighbour.write().await;
    let mut hosts: Vec<Host> = (0..CONNECTIONS).map(|_| Host::open(&clock, &target, 1, is_tame)).collect();
    // Some hosts know the secret, and others guess.
    let prove = |at: usize| authenticates.then(|| Prover::new(at.is_multiple_of(2), HOST, SUBSYSTEM));
    hosts.iter_mut().enumerate().for_each(|(at, host)| host.prover = prove(at));
    if flags & 8 == 0 {
        hosts[0].begin(&mut input).await;
        let id = hosts[0].controller;
        hosts[1].controller = id;
    }
    for _ in 0..ACTIONS_MAX {
        if input.is_empty() {
            break;
        }
        let at = input.below(CONNECTIONS) as usize;
        let known: Vec<u16> = hosts.iter().map(|host| host.controller).collect();
        match input.below(20) {
            0 => {
                hosts[at] = Host::open(&clock, &target, 1 + input.below(2) as u16, is_tame);
                hosts[at].prover = prove(at);
            }
            1 => hosts[at].initialize(&mut input),
            2 | 3 => hosts[at].connect(&mut input, &known),
            4 if authenticates && input.below(4) < 3 => hosts[at].authenticate(&mut input),
            4 => hosts[at].property(&mut input),
            5..=8 => hosts[at].command(&mut input),
            9 | 10 => hosts[at].data(&mut input),
            11 if !is_tame => {
                let bytes = input.take(64).to_vec();
                hosts[at].say_bytes(&bytes);
            }
            12 if !is_tame => hosts[at].mutate = Some((input.byte(), 1 | input.byte())),
            13 => clock.timer(Delay::from_ms(1) * (1 + input.below(256) * input.below(4) * 200)).await,
            14 => {
                let state = input.pick(&AnaState::ALL);
                subsystem.config().ports.set(1 + input.below(2) as u16, state);
                subsystem.ports_changed();
            }
            15 => {
                drop(directory.publish(record.clone()));
                discovery.changed();
            }
            16 => hosts[at].pieces = 1 + input.below(40) as usize,
            17 => hosts[at].connection.borrow_mut().drain(),
            18 => hosts[at].is_deaf = input.byte() & 1 == 1,
            _ => clock.timer(Delay::from_us(20)).await,
        }
        hosts[at].work(&clock);
        hosts.iter_mut().for_each(Host::hear);
        hosts.iter().for_each(Host::assert_proved);
        if input.one_in(16) {
            neighbour.check().await;
        }
    }
    // Make the path optimized again, so that the neighbour can read.
    subsystem.config().ports.set(1, AnaState::OPTIMIZED);
    subsystem.ports_changed();
    neighbour.check().await;
    hosts.iter_mut().for_each(|host| host.is_deaf = false);
    hosts.iter_mut().for_each(Host::hear);
    drop(hosts);
    neighbour.queues.iter().for_each(|queue| queue.close());
    clock.timer(Delay::from_ms(20)).await;
    assert!(target.controllers().is_empty(), "a controller is left without its host");
}

/// An outstanding command.
struct Begun {
    /// Length of the data that it describes.
    bytes: u32,
    came: u32,
}

/// A connection of the fuzzed host.
struct Host {
    clock: Clock,
    queue: Rc<Queue>,
    connection: Rc<RefCell<Connection>>,
    decoder: Decoder,
    framing: Framing,
    is_tame: bool,
    is_open: bool,
    is_deaf: bool,
    is_crediting: bool,
    /// Position and kind of the change to the next PDU.
    mutate: Option<(u8, u8)>,
    pieces: usize,
    cid: u16,
    begun: BTreeMap<u16, Begun>,
    asked: Vec<R2t>,
    /// Result of the last Connect.
    controller: u16,
    /// The command whose data is being received.
    coming: Option<u16>,
    recent: Vec<u8>,
    /// State of its authentication, if required; and the last received data.
    prover: Option<Prover>,
    message: Vec<u8>,
}

impl Host {
    fn open(clock: &Clock, target: &Rc<Target>, port: u16, is_tame: bool) -> Host {
        let address = SocketAddr::from(([192, 0, 2, 1], 4420));
        let queue = Rc::new(Queue::at(target, Reached { port, address, ..Reached::default() }));
        Host {
            clock: clock.clone(),
            connection: Rc::new(RefCell::new(Connection::new(queue.clone(), 8192))),
            queue,
            decoder: Host::decoder(),
            framing: Framing::INITIAL,
            is_tame,
            is_open: true,
            is_deaf: false,
            is_crediting: false,
            mutate: None,
            pieces: usize::MAX,
            cid: 0,
            begun: BTreeMap::new(),
            asked: Vec::new(),
            controller: CNTLID_DYNAMIC,
            coming: None,
            recent: Vec::new(),
            prover: None,
            message: Vec::new(),
        }
    }

    /// Sends the expected message of a transaction, or another one, or requests the controller's message.
    fn authenticate(&mut self, input: &mut Input<'_>) {
        let Some(prover) = &mut self.prover else { return };
        let (sqe, data, bytes) = prover.command(input, &self.message);
        self.say_command(sqe, &data, bytes);
    }

    /// A host without the secret must not have been authenticated.
    fn assert_proved(&self) {
        let is_drive = self.queue.controller().is_some_and(|controller| controller.subsystem().is_some());
        let guesses = self.prover.as_ref().is_some_and(|prover| !prover.knows());
        assert!(!(is_drive && guesses && self.queue.is_established()), "authenticated without the secret");
    }

    /// A connected and enabled admin queue, as most hosts have.
    async fn begin(&mut self, input: &mut Input<'_>) {
        self.initialize(input);
        let connect = Connect { sqsize_z: 31, kato_ms: 5000, ..Connect::default() };
        self.say_connect(&connect, CNTLID_DYNAMIC, SUBSYSTEM, HOST, 7);
        self.settle().await;
        let cc = Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).into_bits();
        let enable = PropertySet { size: PropertySize::DWORD, offset: CC as u32, value: cc.into() };
        self.say_command(enable.sqe(0), &[], 0);
        self.settle().await;
    }

    async fn settle(&mut self) {
        let clock = self.clock.clone();
        self.work(&clock);
        clock.timer(Delay::from_us(5)).await;
        self.hear();
    }

    fn initialize(&mut self, input: &mut Input<'_>) {
        let digests = Digests::from_bits(input.byte() & 3);
        let request = IcReq::new(0, digests, input.byte().into());
        self.say(&Pdu::IcReq(request), &[]);
        // Only on an unused connection: otherwise `hear` has to decode unread PDUs first.
        let answer = self.connection.borrow().unsent().to_vec();
        let mut rest = &answer[..];
        let mut decoder = Host::decoder();
        if let Ok(Event::Header { pdu: Pdu::IcResp(response), .. }) = decoder.next(&mut rest)
            && let Ok(agreed) = Agreement::new(&request, &response)
        {
            decoder.establish(agreed.framing_to(End::Host));
            self.decoder = decoder;
            self.framing = agreed.framing_to(End::Controller);
            self.connection.borrow_mut().sent(answer.len() - rest.len());
        }
    }

    fn decoder() -> Decoder {
        Decoder::new(End::Host, Limits { plen_max: 1 << 20, maxh2cdata: 1 << 20, dwords: false })
    }

    fn connect(&mut self, input: &mut Input<'_>, known: &[u16]) {
        let qid = input.pick(&[0, 1, 2, 3, 40, u16::MAX]);
        let cntlid = match input.below(4) {
            0 if qid == 0 => CNTLID_DYNAMIC,
            0 | 1 => input.pick(known),
            2 => CNTLID_DYNAMIC,
            _ => input.u16(),
        };
        let connect = Connect {
            recfmt: u16::from(input.one_in(32)),
            qid,
            sqsize_z: input.pick(&[31, 3, 127, 1, 0, u16::MAX]),
            attributes: ConnectAttributes::from_bits(input.byte() & 0xF),
            kato_ms: input.pick(&[0, 5000, 1, u32::MAX]),
            nvmsetid: 0,
        };
        let subsystem = input.pick(&[SUBSYSTEM, SUBSYSTEM, byteway_wire::fabrics::nqn::DISCOVERY, NEIGHBOUR]);
        let id = if input.one_in(8) { 9 } else { 7 };
        self.say_connect(&connect, cntlid, subsystem, HOST, id);
    }

    fn say_connect(&mut self, connect: &Connect, cntlid: u16, subsystem: &str, host: &str, id: u8) {
        let name = |text| Nqn::new(text).expect("a name");
        let data = ConnectData::new([id; 16], cntlid, &name(subsystem), &name(host));
        let pointer = DataPointer::InCapsule { offset: 0, bytes: ConnectData::SIZE as u32 };
        self.say_command(connect.sqe(0, pointer.descriptor()), data.as_bytes(), 0);
    }

    fn property(&mut self, input: &mut Input<'_>) {
        let offset = input.pick(&[CC, CSTS, CAP, VS, NSSR, 0x18, u64::from(u32::MAX)]) as u32;
        let size = PropertySize(input.byte() & 0b111);
        let sqe = match input.below(4) {
            0 => PropertyGet { size, offset }.sqe(0),
            1 => Disconnect { recfmt: u16::from(size.0 == 7) }.sqe(0),
            2 => {
                let enabled =
                    Cc::new().with_en(input.byte() & 1 == 0).with_iosqes(6).with_iocqes(4).into_bits();
                PropertySet { size: PropertySize::DWORD, offset: CC as u32, value: enabled.into() }.sqe(0)
            }
            _ => PropertySet { size, offset, value: input.u64() }.sqe(0),
        };
        self.say_command(sqe, &[], 0);
    }

    fn command(&mut self, input: &mut Input<'_>) {
        let is_admin = self.queue.qid().is_none_or(|qid| qid == 0);
        let opcode =
            match is_admin {
                true => input
                    .pick(&[0x06u8, 0x02, 0x09, 0x0A, 0x0C, 0x18, 0x08, 0x0D, 0x15, 0x01, 0x80, 0x81, 0x7F]),
                false => input
                    .pick(&[0x01u8, 0x02, 0x00, 0x05, 0x08, 0x09, 0x0C, 0x04, 0x19, 0x10, 0x14, 0x06, 0x7F]),
            };
        let mut sqe = Sqe::new(opcode, 0, input.pick(&[1, 1, 0, 3, SECRET_NSID, u32::MAX]));
        sqe.cdw10 =
            input.pick(&[0, 1, 2, 3, 5, 6, 7, 8, 0x13, 0x70, lid::ANA.into(), 0x07FF_0004, 0x03FF_0070]);
        if input.one_in(4) {
            sqe.cdw10 = input.u32();
        }
        let words = input.byte();
        sqe.cdw11 = if words & 1 == 1 { input.u32() } else { 0 };
        sqe.cdw12 = if words & 2 == 2 { input.u32() } else { input.below(16) as u32 };
        sqe.cdw13 = if words & 4 == 4 { input.u32() } else { 0 };
        sqe.cdw14 = if words & 8 == 8 { input.u32() } else { 0 };
        sqe.cdw2 = if words & 16 == 16 { input.u32() } else { 0 };
        if words & 32 == 32 {
            sqe.set_fuse(1);
        }
        // A tame host does not access the neighbour's data, nor send commands for all namespaces.
        if self.is_tame && !is_admin && (sqe.nsid == SECRET_NSID || sqe.nsid == u32::MAX) {
            sqe.nsid = 1;
        }
        let bytes = match input.below(4) {
            0 => (input.below(64) * 512) as u32,
            1 => 4096,
            2 => u32::from(input.u16()),
            _ => 8 * 512,
        };
        let pointer = match input.below(8) {
            0..=3 => DataPointer::Transport { bytes },
            4..=6 => DataPointer::InCapsule { offset: 0, bytes: bytes.min(8192) },
            _ if input.byte() & 1 == 0 => {
                DataPointer::InCapsule { offset: input.u64(), bytes: bytes.min(8192) }
            }
            _ => DataPointer::Keyed { address: input.u64(), bytes, key: input.u32(), invalidate: false },
        };
        let bits = pointer.descriptor().to_bytes();
        let (low, high) = bits.split_at(8);
        let word = |half: &[u8]| half.try_into().map_or(0, u64::from_le_bytes);
        (sqe.prp1, sqe.prp2) = (word(low), word(high));
        sqe.set_psdt(1);
        let data = match pointer {
            DataPointer::InCapsule { bytes, .. } => vec![input.byte() | 1; bytes as usize],
            _ => Vec::new(),
        };
        self.say_command(sqe, &data, bytes);
    }

    fn say_command(&mut self, sqe: Sqe, data: &[u8], bytes: u32) {
        // An identifier is free after its completion.
        let free = (0..=u16::MAX).map(|step| self.cid.wrapping_add(step + 1));
        let cid = free.into_iter().find(|cid| !self.begun.contains_key(cid)).unwrap_or(0);
        self.cid = cid;
        let brings = FabricsType::of(&sqe).is_none_or(|kind| kind == FabricsType::AUTHENTICATION_RECEIVE);
        self.begun.insert(cid, Begun { bytes: if brings { bytes } else { 0 }, came: 0 });
        self.say(&Pdu::CapsuleCmd(CapsuleCmd::new(sqe.with_cid(cid))), data);
    }

    /// Sends requested data, possibly with wrong lengths.
    fn data(&mut self, input: &mut Input<'_>) {
        let change = input.byte();
        let Some(asked) = self.asked.pop() else { return };
        let length = asked.r2tl;
        let mut header = H2cData::new(asked.cccid, asked.ttag, asked.r2to, length, true);
        if !self.is_tame {
            match change {
                1 => header.ttag ^= 1,
                2 => header.datao = header.datao.wrapping_add(4),
                3 => header.cccid ^= 1,
                4 => {
                    let half = length / 2;
                    header = H2cData::new(asked.cccid, asked.ttag, asked.r2to, half, change & 1 == 0);
                }
                _ => {}
            }
        }
        let data = vec![change | 1; header.datal as usize];
        self.say(&Pdu::H2cData(header), &data);
    }

    fn say(&mut self, pdu: &Pdu, data: &[u8]) {
        let mut bytes = vec![0; self.framing.pdu_bytes(pdu, data.len() as u32) as usize];
        if self.framing.encode(pdu, data, &mut bytes).is_none() {
            return;
        }
        if let Some((at, change)) = self.mutate.take() {
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= change;
        }
        self.say_bytes(&bytes);
    }

    fn say_bytes(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(self.pieces.min(bytes.len().max(1))) {
            let mut connection = self.connection.borrow_mut();
            // As a server does: it stops reading while the host does not receive.
            if !self.is_open || connection.is_full() {
                return;
            }
            if connection.receive(piece).is_err() {
                self.is_open = false;
                drop(connection);
                self.queue.close();
            }
        }
    }

    /// Executes received commands, each in its own task.
    fn work(&mut self, clock: &Clock) {
        loop {
            let work = self.connection.borrow_mut().next_command();
            let Some(mut work) = work else { break };
            let (queue, connection) = (self.queue.clone(), self.connection.clone());
            if let Some(status) = work.refused() {
                connection.borrow_mut().finish(work, Some(Cqe::new(0, status, 0, 0)));
                continue;
            }
            clock.spawn("command", async move {
                let cqe = queue.execute(&work.sqe, work.movement, &mut work.data).await;
                connection.borrow_mut().finish(work, cqe);
            });
        }
        if self.connection.borrow().waits_for_credit() && !self.is_crediting {
            self.is_crediting = true;
            let connection = self.connection.clone();
            clock.spawn("credit", async move {
                while connection.borrow().waits_for_credit() {
                    let credit = connection.borrow().credit();
                    let credit = credit.await;
                    connection.borrow_mut().grant(credit);
                }
            });
        }
    }

    /// Receives bytes, and checks that they are expected.
    fn hear(&mut self) {
        let waiting = self.connection.borrow().unsent().len();
        assert!(waiting < UNSENT_MAX, "{waiting} bytes wait for a host");
        if self.is_deaf {
            return;
        }
        let bytes = {
            let mut connection = self.connection.borrow_mut();
            let bytes = connection.unsent().to_vec();
            connection.sent(bytes.len());
            bytes
        };
        let mut rest = &bytes[..];
        while self.is_tame && !rest.is_empty() {
            match self.decoder.next(&mut rest) {
                Ok(Event::More) => break,
                Ok(Event::Header { pdu, .. }) => self.heard(&pdu),
                Ok(Event::Data(part)) => {
                    self.message.extend_from_slice(part);
                    // PDUs may cut the neighbour's pattern.
                    self.recent.extend_from_slice(part);
                    let is_secret = self.recent.windows(SECRET.len()).any(|bytes| bytes == SECRET);
                    assert!(!is_secret, "another host's data");
                    let keep = self.recent.len().saturating_sub(SECRET.len());
                    self.recent.drain(..keep);
                    if let Some(begun) = self.coming.and_then(|cid| self.begun.get_mut(&cid)) {
                        begun.came += part.len() as u32;
                        assert!(begun.came <= begun.bytes, "more data than was asked for");
                    }
                }
                Ok(Event::End { intact }) => {
                    assert!(intact);
                    self.recent.clear();
                }
                // For example, a second ICReq, which causes a TermReq before the framing is agreed.
                Err(_) => return,
            }
        }
    }

    fn heard(&mut self, pdu: &Pdu) {
        self.coming = None;
        match pdu {
            Pdu::CapsuleResp(response) => {
                let cqe = response.cqe;
                assert!(self.begun.remove(&cqe.cid).is_some(), "a completion of no command: {}", cqe.cid);
                if let Some(connected) = Connected::parse(&cqe).filter(|_| self.queue.qid() == Some(0)) {
                    self.controller = if cqe.dw0 > 0 { connected.cntlid } else { self.controller };
                }
            }
            Pdu::C2hData(data) => {
                assert!(self.begun.contains_key(&data.cccid), "data of no command");
                self.coming = Some(data.cccid);
                self.message.clear();
                if data.ch.flags.success() {
                    let begun = self.begun.remove(&data.cccid);
                    assert!(begun.is_some_and(|begun| data.datao + data.datal <= begun.bytes));
                }
            }
            Pdu::R2t(request) => {
                let begun = self.begun.get(&request.cccid);
                assert!(begun.is_some_and(|begun| request.r2to + request.r2tl <= begun.bytes), "{request:?}");
                self.asked.push(*request);
            }
            _ => {}
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// A well-behaved host, whose data is secret.
struct Neighbour {
    queues: [Rc<Queue>; 2],
}

impl Neighbour {
    async fn connect(_: &Clock, target: &Rc<Target>) -> Neighbour {
        let queues = [Rc::new(Queue::new(target)), Rc::new(Queue::new(target))];
        let name = |text| Nqn::new(text).expect("a name");
        let mut cntlid = CNTLID_DYNAMIC;
        for (queue, qid) in queues.iter().zip(0..) {
            let connect = Connect { qid, sqsize_z: 3, ..Connect::default() };
            let data = ConnectData::new([1; 16], cntlid, &name(SUBSYSTEM), &name(NEIGHBOUR));
            let pointer = DataPointer::InCapsule { offset: 0, bytes: ConnectData::SIZE as u32 };
            let cqe = ask(queue, connect.sqe(1, pointer.descriptor()), &mut data.as_bytes().to_vec()).await;
            cntlid = Connected::parse(&cqe).unwrap_or_else(|| panic!("{}", cqe.status())).cntlid;
            if qid == 0 {
                let cc = Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).into_bits();
                let enable = PropertySet { size: PropertySize::DWORD, offset: CC as u32, value: cc.into() };
                assert!(ask(queue, enable.sqe(2), &mut Vec::new()).await.status().is_success());
            }
        }
        Neighbour { queues }
    }

    async fn write(&mut self) {
        let mut data = SECRET.repeat(BLOCK / SECRET.len());
        let cqe = ask(&self.queues[1], block(NvmOpcode::WRITE), &mut data).await;
        assert!(cqe.status().is_success());
    }

    /// Its data is unchanged, unless its path is inaccessible.
    async fn check(&mut self) {
        let mut data = Vec::new();
        let cqe = ask(&self.queues[1], block(NvmOpcode::READ), &mut data).await;
        match cqe.status().is_success() {
            true => {
                assert!(self.is_gone() || data == SECRET.repeat(BLOCK / SECRET.len()), "its data has changed")
            }
            false => assert!(cqe.status().sct() == 3 || self.is_gone(), "{}", cqe.status()),
        }
    }

    /// A wild host may delete namespaces, which is permitted.
    fn is_gone(&self) -> bool {
        let controller = self.queues[1].controller();
        let subsystem = controller.as_ref().and_then(|controller| controller.subsystem());
        subsystem.is_none_or(|subsystem| subsystem.config().may_manage)
    }
}

fn block(opcode: NvmOpcode) -> Sqe {
    ReadWrite::default().sqe(opcode, 5, SECRET_NSID)
}

/// Executes a command on a queue, as its transport does.
async fn ask(queue: &Rc<Queue>, sqe: Sqe, data: &mut Vec<u8>) -> Cqe {
    let begun = queue.begin(&sqe).unwrap_or_else(|misuse| panic!("{misuse}"));
    let cqe = match begun {
        Ok(movement) => queue.execute(&sqe, movement, data).await,
        Err(status) => Some(Cqe::new(0, status, 0, 0)),
    };
    queue.end(&sqe, cqe.unwrap_or_else(|| panic!("its controller has ended")))
}
