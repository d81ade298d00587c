//! A host's NVMe/TCP connection (TCP Transport 1.0), without I/O: converts the initiator's messages to PDUs, and the
//! target's PDUs to messages. Received PDUs are checked: each answers a command in flight, data is accepted in order and
//! only for its buffer, and a command succeeds only once all its data was moved. Anything else ends the connection.

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

/// A command in flight.
struct InFlight {
    /// The buffer of data that is not in its capsule.
    buffer: Option<DataBuffer>,
    /// Number of commands with this identifier: Property Sets, whose responses nothing waits for, share one.
    count: u32,
}

/// The data buffer of a command in flight.
struct DataBuffer {
    address: u64,
    bytes: u32,
    direction: Direction,
    /// Bytes received, or requested by the target, so far.
    moved: u32,
    /// The target has sent the last of the data.
    is_last: bool,
    /// The target has requested data that was not sent yet.
    is_asked: bool,
    /// A data digest was wrong.
    is_damaged: bool,
    /// The command may succeed with less data than that.
    may_be_short: bool,
}

/// Offset of the command identifier in a response, a C2HData and an R2T PDU.
const CID_IN_RESPONSE: u32 = 20;
const CID_IN_DATA: u32 = 8;
/// Offset of the transfer tag in an R2T PDU.
const TAG_IN_R2T: u32 = 10;

impl DataBuffer {
    /// Checks that data of `bytes` bytes from `offset` continues what was moved so far, and notes it.
    fn move_on(&mut self, offset: u32, bytes: u32) -> Result<(), Fatal> {
        if offset != self.moved || bytes > self.bytes - self.moved {
            return Err(Fatal::of(FatalStatus::OUT_OF_RANGE));
        }
        self.moved += bytes;
        Ok(())
    }

    /// Whether the command may succeed now.
    fn is_complete(&self) -> bool {
        match self.direction {
            Direction::ControllerToHost if self.may_be_short => self.is_last || self.moved == 0,
            Direction::ControllerToHost => self.moved == self.bytes && (self.is_last || self.bytes == 0),
            _ => self.moved == self.bytes,
        }
    }
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
    commands: BTreeMap<u16, InFlight>,
    /// Requested data, by transfer tag: the command, and the offset.
    asked: BTreeMap<u16, (u16, u32)>,
    coming: Option<Coming>,
    /// Commands that wait for the initialization.
    early: Vec<(Sqe, Vec<u8>, bool)>,
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
            ToTarget::Command { sqe, data, may_be_short, .. } => match self.framing {
                Some(framing) => self.command(adapter, framing, sqe, data, may_be_short),
                None => self.early.push((sqe, data, may_be_short)),
            },
            ToTarget::Data { tag, data } => {
                if let (Some((cid, offset)), Some(framing)) = (self.asked.remove(&tag), self.framing) {
                    if let Some(buffer) = self.buffer(cid) {
                        buffer.is_asked = false;
                    }
                    self.data(framing, (cid, tag), offset, &data);
                }
                adapter.reuse(data);
            }
        }
    }

    fn command(
        &mut self,
        adapter: &Adapter,
        framing: Framing,
        mut sqe: Sqe,
        data: Vec<u8>,
        may_be_short: bool,
    ) {
        let mut buffer = None;
        if let (true, Ok(DataPointer::Keyed { address, bytes, .. })) =
            (sqe.psdt() != 0, DataPointer::parse(&sqe.sgl()))
        {
            let own = FabricsType::of(&sqe).map(FabricsType::direction);
            let direction = own.unwrap_or(Direction::of(sqe.opcode()));
            let (moved, is_last, is_asked, is_damaged) = (0, false, false, false);
            buffer = Some(DataBuffer {
                address,
                bytes,
                direction,
                moved,
                is_last,
                is_asked,
                is_damaged,
                may_be_short,
            });
            sqe = sqe.with_sgl(DataPointer::Transport { bytes }.descriptor());
        }
        let in_flight = self.commands.entry(sqe.cid()).or_insert(InFlight { buffer: None, count: 0 });
        (in_flight.buffer, in_flight.count) = (buffer, in_flight.count + 1);
        self.out.push(framing, &Pdu::CapsuleCmd(CapsuleCmd::new(sqe)), &data);
        adapter.reuse(data);
    }

    /// The data buffer of a command in flight.
    fn buffer(&mut self, cid: u16) -> Option<&mut DataBuffer> {
        self.commands.get_mut(&cid)?.buffer.as_mut()
    }

    /// The buffer of a command in flight to which, or from which, data may go.
    fn buffer_for(&mut self, cid: u16, direction: Direction) -> Result<&mut DataBuffer, Fatal> {
        let buffer = self.buffer(cid).filter(|buffer| buffer.direction == direction);
        buffer.ok_or(Fatal::field(CID_IN_DATA))
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
                    if let (false, Some(buffer)) = (intact, self.buffer(cid)) {
                        buffer.is_damaged = true;
                    }
                    if ends {
                        self.respond(adapter, Cqe::new(cid, Status::SUCCESS, 0, 0))?;
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
                for (sqe, data, may_be_short) in std::mem::take(&mut self.early) {
                    self.command(adapter, framing, sqe, data, may_be_short);
                }
            }
            Pdu::CapsuleResp(response) => self.respond(adapter, response.cqe)?,
            Pdu::C2hData(header) => {
                let buffer = self.buffer_for(header.cccid, Direction::ControllerToHost)?;
                if buffer.is_last {
                    return Err(Fatal::of(FatalStatus::SEQUENCE));
                }
                buffer.move_on(header.datao, data_bytes)?;
                buffer.is_last = header.ch.flags.last_pdu();
                let address = buffer.address + u64::from(header.datao);
                self.coming = Some(Coming { cid: header.cccid, address, ends: header.ch.flags.success() });
            }
            Pdu::R2t(request) => {
                if self.asked.contains_key(&request.ttag) {
                    return Err(Fatal::field(TAG_IN_R2T));
                }
                let buffer = self.buffer_for(request.cccid, Direction::HostToController)?;
                // One R2T of a command at a time: MAXR2T of the ICReq.
                if std::mem::replace(&mut buffer.is_asked, true) {
                    return Err(Fatal::of(FatalStatus::LIMIT_EXCEEDED));
                }
                buffer.move_on(request.r2to, request.r2tl)?;
                let address = buffer.address + u64::from(request.r2to);
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

    fn respond(&mut self, adapter: &Adapter, mut cqe: Cqe) -> Result<(), Fatal> {
        let in_flight = self.commands.get_mut(&cqe.cid).ok_or(Fatal::field(CID_IN_RESPONSE))?;
        in_flight.count -= 1;
        if let Some(buffer) = in_flight.buffer.take() {
            if cqe.status().is_success() && !buffer.is_complete() {
                return Err(Fatal::of(FatalStatus::SEQUENCE));
            }
            if cqe.status().is_success() && buffer.is_damaged {
                cqe = Cqe::new(cqe.cid, Status::TRANSIENT_TRANSPORT_ERROR, cqe.sqid, cqe.sqhd);
            }
            if buffer.is_asked {
                self.asked.retain(|_, (cid, _)| *cid != cqe.cid);
            }
        }
        if in_flight.count == 0 {
            self.commands.remove(&cqe.cid);
        }
        let response = ToHost::Response { span: SpanId::NONE, queued: Delay::ZERO, cqe };
        adapter.deliver(self.connection, response);
        Ok(())
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
