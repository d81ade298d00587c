//! A scripted host: sends what a test tells it to, and collects the responses.

use byteway_auth::{Credentials, NoRandomness, Provider};
use byteway_clock::Clock;
use byteway_clock::random::{Rng, Stream};
use byteway_device::DriveConfig;
use byteway_host::{Driver, DriverConfig};
use byteway_nvmeof::tcp::{CapsuleCommand, Connection, ConnectionError};
use byteway_nvmeof::{
    Directory, Discovery, GeneratedKeys, Path, PathConfig, Queue, Reached, Subsystem, SubsystemConfig, Target,
};
use byteway_testkit::{SmallWorld, assert_at_rest, drive_config};
use byteway_wire::IntoBytes;
use byteway_wire::fabrics::connect::ConnectAttributes;
use byteway_wire::fabrics::tcp::{
    Agreement, CapsuleCmd, Decoder, Digests, End, Event, Framing, H2cData, IcReq, Limits, Pdu,
};
use byteway_wire::fabrics::{
    Connect, ConnectData, Connected, DataPointer, Nqn, PropertyGet, PropertySet, PropertySize,
};
use byteway_wire::nvme::register::{CC, CSTS, Cc, Csts};
use byteway_wire::nvme::{Cqe, Sqe, Status};
use std::cell::RefCell;
use std::rc::Rc;

pub const SUBSYSTEM: &str = "nqn.2026-11.org.byteway:a";
pub const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555";

/// Runs a test with a target for a small drive; `config` may change its one subsystem.
pub fn with_target<T: 'static>(
    config: impl FnOnce(&mut SubsystemConfig) + 'static,
    test: impl AsyncFnOnce(Rc<Target>, Clock) -> T + 'static,
) -> T {
    with_target_of(drive_config(), config, test)
}

/// As above, with this drive.
pub fn with_target_of<T: 'static>(
    drive: DriveConfig,
    config: impl FnOnce(&mut SubsystemConfig) + 'static,
    test: impl AsyncFnOnce(Rc<Target>, Clock) -> T + 'static,
) -> T {
    with_credentials_of(drive, config, None, test)
}

/// As above, with hosts that have to authenticate.
pub fn with_credentials<T: 'static>(
    credentials: Credentials,
    test: impl AsyncFnOnce(Rc<Target>, Clock) -> T + 'static,
) -> T {
    with_credentials_of(drive_config(), |_| (), Some((credentials, None)), test)
}

/// As above, with hosts that generate TLS keys.
pub fn with_generated_keys<T: 'static>(
    credentials: Credentials,
    keys: Rc<dyn GeneratedKeys>,
    test: impl AsyncFnOnce(Rc<Target>, Clock) -> T + 'static,
) -> T {
    with_credentials_of(drive_config(), |_| (), Some((credentials, Some(keys))), test)
}

fn with_credentials_of<T: 'static>(
    drive: DriveConfig,
    config: impl FnOnce(&mut SubsystemConfig) + 'static,
    credentials: Option<(Credentials, Option<Rc<dyn GeneratedKeys>>)>,
    test: impl AsyncFnOnce(Rc<Target>, Clock) -> T + 'static,
) -> T {
    SmallWorld::of(drive).run_driven(DriverConfig::default(), async move |driver: Driver, powered| {
        let clock = driver.clock().clone();
        let mut subsystem = SubsystemConfig::new(Nqn::new(SUBSYSTEM).unwrap());
        config(&mut subsystem);
        let path =
            Path::open(driver, PathConfig { bytes_max: 32 << 10, commands_max: 64, ..PathConfig::default() })
                .await
                .unwrap();
        let discovery = Discovery::new(&clock, Directory::default());
        let subsystem = match credentials {
            None => Subsystem::new(&clock, subsystem, path),
            Some((credentials, keys)) => {
                let provider = Box::new(Seeded::new(1));
                Subsystem::with_keys(&clock, subsystem, path, credentials, provider, keys)
            }
        };
        let target = Target::with_discovery(vec![subsystem], discovery);
        let result = test(target, clock).await;
        assert_at_rest(powered);
        result
    })
}

/// Random bytes from a seed.
pub struct Seeded(RefCell<Stream>);

impl Seeded {
    pub fn new(seed: u64) -> Seeded {
        Seeded(RefCell::new(Rng::new(seed).stream("authentication")))
    }
}

impl Provider for Seeded {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        let mut stream = self.0.borrow_mut();
        bytes.iter_mut().for_each(|byte| *byte = stream.next_u64() as u8);
        Ok(())
    }
}

/// A response received by a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub cqe: Cqe,
    pub data: Vec<u8>,
}

/// One connection of a host.
pub struct Host {
    pub queue: Rc<Queue>,
    pub connection: Connection,
    decoder: Decoder,
    framing: Framing,
    /// Bytes passed to the connection at once.
    pub pieces: usize,
    cid: u16,
}

impl Host {
    /// Opens a connection without sending anything.
    pub fn open(target: &Rc<Target>) -> Host {
        Host::open_at(target, Reached::default())
    }

    /// As above, at this port.
    pub fn open_at(target: &Rc<Target>, reached: Reached) -> Host {
        let queue = Rc::new(Queue::at(target, reached));
        let limits = Limits { plen_max: 1 << 20, maxh2cdata: 1 << 20, dwords: false };
        Host {
            connection: Connection::new(queue.clone(), 8192),
            queue,
            decoder: Decoder::new(End::Host, limits),
            framing: Framing::INITIAL,
            pieces: usize::MAX,
            cid: 0,
        }
    }

    /// Opens a connection, and initializes it with these digests.
    pub fn initialized(target: &Rc<Target>, digests: Digests) -> Host {
        Host::open(target).initialize(digests)
    }

    fn initialize(mut self, digests: Digests) -> Host {
        let host = &mut self;
        let request = IcReq::new(0, digests, 0);
        host.say(&Pdu::IcReq(request), &[]).unwrap();
        let [Pdu::IcResp(response)] = host.hear()[..] else { panic!("no ICResp") };
        let agreed = Agreement::new(&request, &response).unwrap();
        host.decoder.establish(agreed.framing_to(End::Host));
        host.framing = agreed.framing_to(End::Controller);
        self
    }

    /// A connected and enabled admin queue of the Discovery Service, of a host that came through this port.
    pub async fn discovery(target: &Rc<Target>, name: &str, reached: Reached) -> Host {
        let mut host = Host::open_at(target, reached).initialize(Digests::new());
        let (host_nqn, subsystem) = (Nqn::new(name).unwrap().field(), Nqn::discovery().field());
        let connected = host.connect(0, 0xFFFF, 32, |data| {
            data.subnqn = subsystem;
            data.hostnqn = host_nqn;
        });
        assert_eq!(connected.await.cqe.status(), Status::SUCCESS);
        host.configure(true).await;
        host
    }

    /// A connected admin queue with an enabled controller.
    pub async fn admin(target: &Rc<Target>) -> Host {
        Host::admin_at(target, Reached::default()).await
    }

    /// As above, of a host that came through this port.
    pub async fn admin_at(target: &Rc<Target>, reached: Reached) -> Host {
        let mut host = Host::open_at(target, reached).initialize(Digests::new());
        let connected = host.connect(0, 0xFFFF, 32, |_| ()).await;
        assert_eq!(connected.cqe.status(), Status::SUCCESS);
        host.configure(true).await;
        host
    }

    /// An I/O queue of the same controller.
    pub async fn io(target: &Rc<Target>, admin: &Host, qid: u16, digests: Digests) -> Host {
        let mut host = Host::initialized(target, digests);
        let id = admin.queue.controller().unwrap().id();
        let connected = host.connect(qid, id, 32, |_| ()).await;
        assert_eq!(connected.cqe.status(), Status::SUCCESS);
        host
    }

    pub fn next_cid(&mut self) -> u16 {
        self.cid += 1;
        self.cid
    }

    /// Connects; `change` may modify the Connect data.
    pub async fn connect(
        &mut self,
        qid: u16,
        cntlid: u16,
        entries: u16,
        change: impl FnOnce(&mut ConnectData),
    ) -> Answer {
        let attributes = ConnectAttributes::new().with_dissqfc(qid > 0);
        let connect = Connect { qid, sqsize_z: entries - 1, attributes, kato_ms: 5000, ..Connect::default() };
        let mut data =
            ConnectData::new([7; 16], cntlid, &Nqn::new(SUBSYSTEM).unwrap(), &Nqn::new(HOST).unwrap());
        change(&mut data);
        let pointer = DataPointer::InCapsule { offset: 0, bytes: ConnectData::SIZE as u32 };
        let sqe = connect.sqe(0, pointer.descriptor());
        let answer = self.ask(sqe, data.as_bytes()).await;
        if let Some(connected) = Connected::parse(&answer.cqe) {
            assert!(cntlid == 0xFFFF || connected.cntlid == cntlid);
        }
        answer
    }

    /// Enables or disables the controller.
    pub async fn configure(&mut self, enable: bool) {
        let value = Cc::new().with_en(enable).with_iosqes(6).with_iocqes(4).into_bits();
        let set = PropertySet { size: PropertySize::DWORD, offset: CC as u32, value: value.into() };
        assert_eq!(self.ask(set.sqe(0), &[]).await.cqe.status(), Status::SUCCESS);
        let get = PropertyGet { size: PropertySize::DWORD, offset: CSTS as u32 };
        let csts = Csts::from_bits(get.value(&self.ask(get.sqe(0), &[]).await.cqe) as u32);
        assert_eq!(csts.rdy(), enable);
    }

    /// Sends a PDU.
    pub fn say(&mut self, pdu: &Pdu, data: &[u8]) -> Result<(), ConnectionError> {
        let bytes = self.encoded(pdu, data);
        self.say_bytes(&bytes)
    }

    /// Encodes a PDU.
    pub fn encoded(&self, pdu: &Pdu, data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; self.framing.pdu_bytes(pdu, data.len() as u32) as usize];
        self.framing.encode(pdu, data, &mut bytes).unwrap();
        bytes
    }

    /// Sends bytes.
    pub fn say_bytes(&mut self, bytes: &[u8]) -> Result<(), ConnectionError> {
        bytes.chunks(self.pieces.min(bytes.len().max(1))).try_for_each(|piece| self.connection.receive(piece))
    }

    /// The headers of received PDUs, without data.
    pub fn hear(&mut self) -> Vec<Pdu> {
        self.hear_all().into_iter().map(|(pdu, _)| pdu).collect()
    }

    /// The received PDUs.
    pub fn hear_all(&mut self) -> Vec<(Pdu, Vec<u8>)> {
        let bytes = self.connection.unsent().to_vec();
        self.connection.sent(bytes.len());
        let mut rest = &bytes[..];
        let mut heard: Vec<(Pdu, Vec<u8>)> = Vec::new();
        loop {
            match self.decoder.next(&mut rest).unwrap() {
                Event::More => return heard,
                Event::Header { pdu, .. } => heard.push((pdu, Vec::new())),
                Event::Data(part) => heard.last_mut().unwrap().1.extend_from_slice(part),
                Event::End { intact } => assert!(intact),
            }
        }
    }

    /// Sends a command, without waiting for its completion.
    pub fn begin(&mut self, sqe: Sqe) -> CapsuleCommand {
        let sqe = sqe.with_cid(self.next_cid());
        self.say(&Pdu::CapsuleCmd(CapsuleCmd::new(sqe)), &[]).unwrap();
        self.connection.next_command().unwrap()
    }

    /// Executes the commands received so far.
    pub async fn serve(&mut self) {
        while let Some(mut work) = self.connection.next_command() {
            let cqe = match work.refused() {
                Some(status) => Some(Cqe::new(0, status, 0, 0)),
                None => self.queue.execute(&work.sqe, work.movement, &mut work.data).await,
            };
            self.connection.finish(work, cqe);
        }
    }

    /// Executes a command; `data` goes in its capsule, or, according to its pointer, when it is requested.
    pub async fn ask(&mut self, sqe: Sqe, data: &[u8]) -> Answer {
        let sqe = sqe.with_cid(self.next_cid());
        let in_capsule = matches!(DataPointer::parse(&sqe.sgl()), Ok(DataPointer::InCapsule { .. }));
        self.say(&Pdu::CapsuleCmd(CapsuleCmd::new(sqe)), if in_capsule { data } else { &[] }).unwrap();
        let mut brought = Vec::new();
        loop {
            self.serve().await;
            for (pdu, part) in self.hear_all() {
                match pdu {
                    Pdu::R2t(request) => {
                        let (from, to) = (request.r2to as usize, (request.r2to + request.r2tl) as usize);
                        // In two parts, as a host may.
                        let middle = (from + (to - from) / 2) & !3;
                        for (from, to) in [(from, middle), (middle, to)] {
                            let part = &data[from..to];
                            let bytes = part.len() as u32;
                            let is_last = to == (request.r2to + request.r2tl) as usize;
                            let header = H2cData::new(sqe.cid(), request.ttag, from as u32, bytes, is_last);
                            if bytes > 0 {
                                self.say(&Pdu::H2cData(header), part).unwrap();
                            }
                        }
                    }
                    Pdu::C2hData(header) => {
                        assert_eq!(header.cccid, sqe.cid());
                        brought = part;
                        if header.ch.flags.success() {
                            return Answer {
                                cqe: Cqe::new(sqe.cid(), Status::SUCCESS, 0, 0xFFFF),
                                data: brought,
                            };
                        }
                    }
                    Pdu::CapsuleResp(response) => {
                        assert_eq!(response.cqe.cid, sqe.cid());
                        return Answer { cqe: response.cqe, data: brought };
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

/// With the transport's data pointer for `bytes`.
pub fn by_transport(mut sqe: Sqe, bytes: u32) -> Sqe {
    place(&mut sqe, DataPointer::Transport { bytes });
    sqe
}

/// With `bytes` of in-capsule data.
pub fn in_capsule(mut sqe: Sqe, bytes: u32) -> Sqe {
    place(&mut sqe, DataPointer::InCapsule { offset: 0, bytes });
    sqe
}

pub fn place(sqe: &mut Sqe, pointer: DataPointer) {
    let bytes = pointer.descriptor().to_bytes();
    let (low, high) = bytes.split_at(8);
    sqe.prp1 = u64::from_le_bytes(low.try_into().unwrap());
    sqe.prp2 = u64::from_le_bytes(high.try_into().unwrap());
    sqe.set_psdt(1);
}
