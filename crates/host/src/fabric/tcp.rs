//! A host's NVMe/TCP connection (TCP Transport 1.0), without I/O: converts the initiator's messages to PDUs, and the
//! target's PDUs to messages. Received PDUs are checked: data is accepted only for the buffer of a command in flight.

use super::adapter::Adapter;
use super::message::{Connection, ToHost, ToTarget};
use byteway_clock::{Delay, SpanId};
use byteway_wire::fabrics::tcp::{
    Agreement, CapsuleCmd, Decoder, Digests, End, Event, Fatal, FatalStatus, Framing, H2cData, IcReq, Limits,
    Outgoing, Pdu, PduError, TermReq,
};
use byteway_wire::fabrics::{DataPointer, FabricsType};
use byteway_wire::nvme::opcode::Direction;
use byteway_wire::nvme::{Cqe, Sqe, Status};
use std::collections::BTreeMap;

/// Maximum data of a received PDU, in bytes.
const DATA_BYTES_MAX: u32 = 16 << 20;

/// A command in flight, and its data buffer.
struct Described {
    address: u64,
    bytes: u32,
    direction: Direction,
    /// A data digest was wrong.
    is_damaged: bool,
}

/// The data of a PDU being received.
struct Coming {
    cid: u16,
    address: u64,
    /// The command ends successfully with it.
    ends: bool,
}

/// A connection.
pub struct TcpConnection {
    connection: Connection,
    decoder: Decoder,
    /// Layout of sent PDUs; `None`: the connection is not initialized yet.
    framing: Option<Framing>,
    request: IcReq,
    /// Maximum data of an H2CData PDU, in bytes.
    h2c_bytes_max: u32,
    /// Outstanding commands by identifier.
    commands: BTreeMap<u16, Described>,
    /// Requested data, by transfer tag: the command, and the offset.
    asked: BTreeMap<u16, (u16, u32)>,
    coming: Option<Coming>,
    /// Commands that wait for the initialization.
    early: Vec<(Sqe, Vec<u8>)>,
    out: Outgoing,
    /// The target has terminated the connection: that gets no answer.
    is_told: bool,
}

impl TcpConnection {
    /// A newly opened connection that requests these digests.
    pub fn new(connection: Connection, digests: Digests) -> Self {
        let limits = Limits { plen_max: DATA_BYTES_MAX, maxh2cdata: u32::MAX, dwords: false };
        let mut opened = TcpConnection {
            connection,
            decoder: Decoder::new(End::Host, limits),
            framing: None,
            request: IcReq::new(0, digests, 0),
            h2c_bytes_max: 0,
            commands: BTreeMap::new(),
            asked: BTreeMap::new(),
            coming: None,
            early: Vec::new(),
            out: Outgoing::default(),
            is_told: false,
        };
        let request = Pdu::IcReq(opened.request);
        opened.out.push(Framing::INITIAL, &request, &[]);
        opened
    }

    /// Identity of the connection.
    pub fn connection(&self) -> Connection {
        self.connection
    }

    /// Sends a message to the target.
    pub fn send(&mut self, adapter: &Adapter, message: ToTarget) {
        match message {
            ToTarget::Open | ToTarget::Close => {}
            ToTarget::Command { sqe, data, .. } => match self.framing {
                Some(framing) => self.command(adapter, framing, sqe, data),
                None => self.early.push((sqe, data)),
            },
            ToTarget::Data { tag, data } => {
                if let (Some((cid, offset)), Some(framing)) = (self.asked.remove(&tag), self.framing) {
                    self.data(framing, (cid, tag), offset, &data);
                }
                adapter.reuse(data);
            }
        }
    }

    fn command(&mut self, adapter: &Adapter, framing: Framing, mut sqe: Sqe, data: Vec<u8>) {
        if let (true, Ok(DataPointer::Keyed { address, bytes, .. })) =
            (sqe.psdt() != 0, DataPointer::parse(&sqe.sgl()))
        {
            let own = FabricsType::of(&sqe).map(FabricsType::direction);
            let direction = own.unwrap_or(Direction::of(sqe.opcode()));
            let described = Described { address, bytes, direction, is_damaged: false };
            self.commands.insert(sqe.cid(), described);
            sqe = sqe.with_sgl(DataPointer::Transport { bytes }.descriptor());
        }
        self.out.push(framing, &Pdu::CapsuleCmd(CapsuleCmd::new(sqe)), &data);
        adapter.reuse(data);
    }

    fn data(&mut self, framing: Framing, (cid, tag): (u16, u16), offset: u32, data: &[u8]) {
        let mut at = 0;
        while at < data.len() {
            let part = (data.len() - at).min(self.h2c_bytes_max.max(4096) as usize & !3);
            let is_last = at + part == data.len();
            let header = H2cData::new(cid, tag, offset + at as u32, part as u32, is_last);
            self.out.push(framing, &Pdu::H2cData(header), &data[at..at + part]);
            at += part;
        }
    }

    /// Consumes received bytes, and passes the messages to the adapter.
    ///
    /// # Errors
    /// [`PduError`] if the target violates the protocol, or has terminated the connection: close it, once unsent bytes
    /// were sent.
    pub fn receive(&mut self, adapter: &Adapter, mut bytes: &[u8]) -> Result<(), PduError> {
        let received = self.decode(adapter, &mut bytes);
        if let (Err(PduError::Fatal(fatal)), false) = (received, self.is_told) {
            let wrong = self.decoder.header().to_vec();
            let framing = self.framing.unwrap_or(Framing::INITIAL);
            self.out.push(framing, &Pdu::TermReq(TermReq::new(End::Host, fatal)), &wrong);
        }
        received
    }

    fn decode(&mut self, adapter: &Adapter, bytes: &mut &[u8]) -> Result<(), PduError> {
        loop {
            match self.decoder.next(bytes)? {
                Event::More => return Ok(()),
                Event::Header { pdu, data_bytes } => self.header(adapter, &pdu, data_bytes)?,
                Event::Data(part) => {
                    if let Some(coming) = &mut self.coming {
                        let mut data = adapter.buffer();
                        data.extend_from_slice(part);
                        let address = coming.address;
                        coming.address += part.len() as u64;
                        adapter.deliver(self.connection, ToHost::Deliver { address, data });
                    }
                }
                Event::End { intact } => {
                    let Some(Coming { cid, ends, .. }) = self.coming.take() else { continue };
                    // A wrong data digest fails its command, not the connection (TCP Transport 1.0, 3.5).
                    if let (false, Some(described)) = (intact, self.commands.get_mut(&cid)) {
                        described.is_damaged = true;
                    }
                    if ends {
                        self.respond(adapter, Cqe::new(cid, Status::SUCCESS, 0, 0));
                    }
                }
            }
        }
    }

    fn header(&mut self, adapter: &Adapter, pdu: &Pdu, data_bytes: u32) -> Result<(), Fatal> {
        match pdu {
            Pdu::IcResp(response) => {
                let agreed = Agreement::new(&self.request, response)?;
                self.decoder.establish(agreed.framing_to(End::Host));
                self.h2c_bytes_max = response.maxh2cdata;
                let framing = agreed.framing_to(End::Controller);
                self.framing = Some(framing);
                for (sqe, data) in std::mem::take(&mut self.early) {
                    self.command(adapter, framing, sqe, data);
                }
            }
            Pdu::CapsuleResp(response) => self.respond(adapter, response.cqe),
            Pdu::C2hData(header) => {
                let described = self
                    .commands
                    .get(&header.cccid)
                    .filter(|one| one.direction == Direction::ControllerToHost);
                let described = described.ok_or(Fatal::field(8))?;
                let end = u64::from(header.datao) + u64::from(data_bytes);
                if header.datal != data_bytes || end > u64::from(described.bytes) {
                    return Err(Fatal::of(FatalStatus::OUT_OF_RANGE));
                }
                self.coming = Some(Coming {
                    cid: header.cccid,
                    address: described.address + u64::from(header.datao),
                    ends: header.ch.flags.success(),
                });
            }
            Pdu::R2t(request) => {
                let described = self
                    .commands
                    .get(&request.cccid)
                    .filter(|one| one.direction == Direction::HostToController);
                let described = described.ok_or(Fatal::field(8))?;
                let end = u64::from(request.r2to) + u64::from(request.r2tl);
                if end > u64::from(described.bytes) {
                    return Err(Fatal::of(FatalStatus::OUT_OF_RANGE));
                }
                let address = described.address + u64::from(request.r2to);
                self.asked.insert(request.ttag, (request.cccid, request.r2to));
                let fetch = ToHost::Fetch { tag: request.ttag, address, bytes: request.r2tl };
                adapter.deliver(self.connection, fetch);
            }
            Pdu::TermReq(term) => {
                self.is_told = true;
                return Err(term.fatal());
            }
            // The decoder refuses PDUs that only a host sends.
            Pdu::IcReq(_) | Pdu::CapsuleCmd(_) | Pdu::H2cData(_) => {}
        }
        Ok(())
    }

    fn respond(&mut self, adapter: &Adapter, mut cqe: Cqe) {
        let is_damaged = self.commands.remove(&cqe.cid).is_some_and(|described| described.is_damaged);
        if is_damaged && cqe.status().is_success() {
            cqe = Cqe::new(cqe.cid, Status::TRANSIENT_TRANSPORT_ERROR, cqe.sqid, cqe.sqhd);
        }
        let response = ToHost::Response { span: SpanId::NONE, queued: Delay::ZERO, cqe };
        adapter.deliver(self.connection, response);
    }

    /// Bytes to be sent.
    pub fn unsent(&self) -> &[u8] {
        self.out.unsent()
    }

    /// Notes that `bytes` bytes were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.out.sent(bytes);
    }
}
