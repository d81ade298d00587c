//! A scripted host at a socket: sends what a test tells it to, and waits for the responses.

use byteway_wire::IntoBytes;
use byteway_wire::fabrics::connect::{CNTLID_DYNAMIC, ConnectAttributes};
use byteway_wire::fabrics::tcp::{
    Agreement, CapsuleCmd, Decoder, Digests, End, Event, Framing, H2cData, IcReq, Limits, Pdu,
};
use byteway_wire::fabrics::{Connect, ConnectData, Connected, DataPointer, Nqn, PropertySet, PropertySize};
use byteway_wire::nvme::register::{CC, Cc};
use byteway_wire::nvme::{Cqe, Sqe, Status};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555";

/// Time limit for a response.
const PATIENCE: Duration = Duration::from_secs(20);

/// A response received by a host.
#[derive(Clone, Debug)]
pub struct Answer {
    pub cqe: Cqe,
    pub data: Vec<u8>,
}

/// One connection of a host.
pub struct Client {
    pub stream: TcpStream,
    decoder: Decoder,
    framing: Framing,
    came: Vec<u8>,
    heard: Vec<(Pdu, Vec<u8>)>,
    cid: u16,
    pub cntlid: u16,
}

impl Client {
    /// Opens a connection without sending anything.
    pub fn open(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let limits = Limits { plen_max: 1 << 20, maxh2cdata: 1 << 20, dwords: false };
        Client {
            stream,
            decoder: Decoder::new(End::Host, limits),
            framing: Framing::INITIAL,
            came: Vec::new(),
            heard: Vec::new(),
            cid: 0,
            cntlid: CNTLID_DYNAMIC,
        }
    }

    /// Opens a connection, and initializes it.
    pub fn initialized(address: SocketAddr) -> Client {
        let mut client = Client::open(address);
        let request = IcReq::new(0, Digests::new(), 0);
        client.say(&Pdu::IcReq(request), &[]);
        let Some((Pdu::IcResp(response), _)) = client.hear() else { panic!("no ICResp") };
        let agreed = Agreement::new(&request, &response).unwrap();
        client.decoder.establish(agreed.framing_to(End::Host));
        client.framing = agreed.framing_to(End::Controller);
        client
    }

    /// A connected and enabled admin queue for this NQN, or the reason for the failure.
    pub fn admin(address: SocketAddr, nqn: &Nqn, host: &str) -> Result<Client, Status> {
        let mut client = Client::connected(address, nqn, host)?;
        client.enable();
        Ok(client)
    }

    /// As above, connected only.
    pub fn connected(address: SocketAddr, nqn: &Nqn, host: &str) -> Result<Client, Status> {
        let mut client = Client::initialized(address);
        client.connect(0, CNTLID_DYNAMIC, nqn, host)?;
        Ok(client)
    }

    /// Enables its controller.
    pub fn enable(&mut self) {
        let cc = Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).into_bits();
        let enable = PropertySet { size: PropertySize::DWORD, offset: CC as u32, value: cc.into() };
        assert_eq!(self.ask(enable.sqe(0), &[]).unwrap().cqe.status(), Status::SUCCESS);
    }

    /// An I/O queue of the controller of `admin`.
    pub fn io(address: SocketAddr, admin: &Client, nqn: &Nqn, qid: u16) -> Result<Client, Status> {
        let mut client = Client::initialized(address);
        client.connect(qid, admin.cntlid, nqn, HOST)?;
        Ok(client)
    }

    /// As above, of another host.
    pub fn io_of(address: SocketAddr, admin: &Client, nqn: &Nqn, host: &str) -> Result<Client, Status> {
        let mut client = Client::initialized(address);
        client.connect(1, admin.cntlid, nqn, host)?;
        Ok(client)
    }

    fn connect(&mut self, qid: u16, cntlid: u16, nqn: &Nqn, host: &str) -> Result<(), Status> {
        let attributes = ConnectAttributes::new().with_dissqfc(qid > 0);
        let connect = Connect { qid, sqsize_z: 127, attributes, kato_ms: 30_000, ..Connect::default() };
        let data = ConnectData::new([7; 16], cntlid, nqn, &Nqn::new(host).unwrap());
        let pointer = DataPointer::InCapsule { offset: 0, bytes: ConnectData::SIZE as u32 };
        let cqe = self.ask(connect.sqe(0, pointer.descriptor()), data.as_bytes()).unwrap().cqe;
        self.cntlid = Connected::parse(&cqe).ok_or(cqe.status())?.cntlid;
        Ok(())
    }

    /// Sends a PDU, which is lost if the other end is gone.
    pub fn say(&mut self, pdu: &Pdu, data: &[u8]) {
        let bytes = self.encoded(pdu, data);
        let _ = self.stream.write_all(&bytes);
    }

    /// Encodes a PDU.
    pub fn encoded(&self, pdu: &Pdu, data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; self.framing.pdu_bytes(pdu, data.len() as u32) as usize];
        self.framing.encode(pdu, data, &mut bytes).unwrap();
        bytes
    }

    /// The next PDU and its data; `None`: the connection is closed.
    pub fn hear(&mut self) -> Option<(Pdu, Vec<u8>)> {
        let mut is_complete = false;
        while !is_complete || self.heard.is_empty() {
            let mut rest = &self.came[..];
            let event = self.decoder.next(&mut rest).unwrap();
            let mut more = false;
            match event {
                Event::More => more = true,
                Event::Header { pdu, data_bytes } => {
                    self.heard.push((pdu, Vec::new()));
                    is_complete = data_bytes == 0;
                }
                Event::Data(part) => self.heard.last_mut().unwrap().1.extend_from_slice(part),
                Event::End { intact } => {
                    assert!(intact);
                    is_complete = true;
                }
            }
            let left = rest.len();
            self.came.drain(..self.came.len() - left);
            if more {
                let mut chunk = [0; 16 << 10];
                match self.stream.read(&mut chunk) {
                    Ok(0) => return None,
                    Ok(bytes) => self.came.extend_from_slice(&chunk[..bytes]),
                    Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                    Err(error) => panic!("nothing has come: {error}"),
                }
            }
        }
        Some(self.heard.remove(0))
    }

    /// Sends commands without in-capsule data in one write; returns their identifiers.
    pub fn begin_together(&mut self, commands: &[Sqe]) -> Vec<u16> {
        let (mut bytes, mut sent) = (Vec::new(), Vec::new());
        for sqe in commands {
            self.cid = self.cid % 1000 + 1;
            sent.push(self.cid);
            bytes.extend(self.encoded(&Pdu::CapsuleCmd(CapsuleCmd::new(sqe.with_cid(self.cid))), &[]));
        }
        let _ = self.stream.write_all(&bytes);
        sent
    }

    /// Sends a command, with its in-capsule data, if any; returns its identifier.
    pub fn begin(&mut self, sqe: Sqe, data: &[u8]) -> u16 {
        self.cid = self.cid % 1000 + 1;
        let sqe = sqe.with_cid(self.cid);
        let in_capsule = matches!(DataPointer::parse(&sqe.sgl()), Ok(DataPointer::InCapsule { .. }));
        self.say(&Pdu::CapsuleCmd(CapsuleCmd::new(sqe)), if in_capsule { data } else { &[] });
        self.cid
    }

    /// Executes a command; `None`: the connection is closed.
    pub fn ask(&mut self, sqe: Sqe, data: &[u8]) -> Option<Answer> {
        let cid = self.begin(sqe, data);
        self.answer(cid, data)
    }

    /// The outcome of a command that was sent; its data is sent when requested.
    pub fn answer(&mut self, cid: u16, data: &[u8]) -> Option<Answer> {
        let mut brought = Vec::new();
        loop {
            match self.hear()? {
                (Pdu::R2t(request), _) => {
                    assert_eq!(request.cccid, cid);
                    let (from, to) = (request.r2to as usize, (request.r2to + request.r2tl) as usize);
                    let header = H2cData::new(cid, request.ttag, request.r2to, request.r2tl, true);
                    self.say(&Pdu::H2cData(header), &data[from..to]);
                }
                (Pdu::C2hData(header), part) => {
                    assert_eq!(header.cccid, cid);
                    brought.extend_from_slice(&part);
                    if header.ch.flags.success() {
                        return Some(Answer {
                            cqe: Cqe::new(cid, Status::SUCCESS, 0, 0xFFFF),
                            data: brought,
                        });
                    }
                }
                (Pdu::CapsuleResp(response), _) => {
                    assert_eq!(response.cqe.cid, cid);
                    return Some(Answer { cqe: response.cqe, data: brought });
                }
                (other, _) => panic!("{other:?}"),
            }
        }
    }
}

/// With the transport's data pointer for `bytes`.
pub fn by_transport(sqe: Sqe, bytes: u32) -> Sqe {
    place(sqe, DataPointer::Transport { bytes })
}

/// With `bytes` of in-capsule data.
pub fn in_capsule(sqe: Sqe, bytes: u32) -> Sqe {
    place(sqe, DataPointer::InCapsule { offset: 0, bytes })
}

fn place(mut sqe: Sqe, pointer: DataPointer) -> Sqe {
    let bytes = pointer.descriptor().to_bytes();
    let (low, high) = bytes.split_at(8);
    sqe.prp1 = u64::from_le_bytes(low.try_into().unwrap());
    sqe.prp2 = u64::from_le_bytes(high.try_into().unwrap());
    sqe.set_psdt(1);
    sqe
}
