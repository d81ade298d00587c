//! The TCP transport (NVMe/TCP Transport 1.0) of one queue: bytes come in and commands go out; completions come in and bytes go
//! out. What waits to be sent, and what is kept of a host's data, grows only with what the host has sent, or with commands that its
//! queue has room for.

use crate::host_usage::Credit;
use crate::path::{Errand, Movement};
use crate::queue::{Misuse, Queue};
use byteway_wire::fabrics::tcp::{
    ADMIN_CAPSULE_DATA_BYTES, Agreement, C2hData, CapsuleResp, Decoder, End, Event, Fatal, FatalStatus,
    Framing, H2cData, IcReq, IcResp, Limits, Outgoing, Pdu, PduError, R2t, TermReq,
};
use byteway_wire::fabrics::{DataPointer, FabricsCommand};
use byteway_wire::nvme::{Cqe, Sqe, Status};
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;

/// Data that is taken in one H2CData PDU (MAXH2CDATA).
const H2C_DATA_BYTES_MAX: u32 = 128 << 10;
/// What a PDU has beside its data, at most.
const OVERHEAD_BYTES: u32 = 256;
/// What may wait to be sent before the host's further commands are left unread.
const UNSENT_BYTES_MAX: usize = 1 << 20;
/// Buffers that are kept for later commands, and how long they are together.
const SPARE_MAX: usize = 32;
const SPARE_BYTES_MAX: usize = 1 << 20;

/// Why a connection is to be closed, once what waits was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// What came is no NVMe/TCP; the host was told, if that makes sense.
    #[error(transparent)]
    Pdu(#[from] PduError),
    /// The host breaks the rules of queues.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// The host has found a fatal error.
    #[error("it has ended the connection: {0}")]
    Told(Fatal),
}

impl From<Fatal> for Broken {
    fn from(fatal: Fatal) -> Self {
        Broken::Pdu(fatal.into())
    }
}

/// A command with its data, if that goes to the drive. To be executed, and given back.
pub struct Work {
    /// The command.
    pub sqe: Sqe,
    /// What data it has.
    pub movement: Movement,
    /// The data.
    pub data: Vec<u8>,
    /// It has ended with this already.
    status: Option<Status>,
    /// Of its host, for the data that it was asked for, or that was read for it.
    credit: Option<Credit>,
}

impl Work {
    /// The status with which it ends without being executed.
    pub fn refused(&self) -> Option<Status> {
        self.status
    }

    /// Has its queue execute it, unless it is refused. None: no completion is to be sent.
    pub async fn execute(&mut self, queue: &Queue) -> Option<Cqe> {
        let Work { sqe, movement, data, credit, .. } = self;
        queue.execute_for(Errand::NONE, sqe, *movement, data, credit).await
    }
}

/// A command that waits for its data.
struct Write {
    work: Work,
    /// Bytes that the host was asked for.
    asked: u32,
    /// Of these, those that are there.
    came: u32,
    /// A part came that is not what was sent.
    is_spoilt: bool,
    /// Where the R2T ends, of all bytes to the host.
    asked_at: u64,
}

/// The PDU whose data is coming.
enum Coming {
    /// A command's own data; its length as the host describes it.
    Capsule(Work),
    /// What was asked for under this tag.
    Asked(u16),
    /// Nothing that is kept.
    Nothing,
}

/// A connection.
pub struct Connection {
    queue: Rc<Queue>,
    decoder: Decoder,
    /// Of what goes to the host.
    framing: Framing,
    coming: Coming,
    /// By transfer tag.
    writes: Vec<Option<Write>>,
    works: VecDeque<Work>,
    /// Commands whose data is not asked for yet, and how much that is.
    waiting: VecDeque<(Work, u32)>,
    pdus: u64,
    is_within: bool,
    out: Outgoing,
    /// Bytes that were sent.
    sent: u64,
    /// Credit for data that waits to be sent, and where that ends, of all bytes to the host.
    lent: VecDeque<(u64, Credit)>,
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    is_closing: bool,
    is_draining: bool,
    is_gone: bool,
    /// Commands that were given out to be executed, and not given back.
    executing: usize,
}

impl Connection {
    /// One that a host has just opened. `in_capsule_bytes`: the most that any subsystem of the target takes with a command.
    pub fn new(queue: Rc<Queue>, in_capsule_bytes: u32) -> Self {
        let data_max = in_capsule_bytes.max(ADMIN_CAPSULE_DATA_BYTES);
        // Hosts in use send data of any length.
        let limits =
            Limits { plen_max: data_max + OVERHEAD_BYTES, maxh2cdata: H2C_DATA_BYTES_MAX, dwords: false };
        Connection {
            queue,
            decoder: Decoder::new(End::Controller, limits),
            framing: Framing::INITIAL,
            coming: Coming::Nothing,
            writes: Vec::new(),
            works: VecDeque::new(),
            waiting: VecDeque::new(),
            pdus: 0,
            is_within: false,
            out: Outgoing::default(),
            sent: 0,
            lent: VecDeque::new(),
            spare: Vec::new(),
            spare_bytes: 0,
            is_closing: false,
            is_draining: false,
            is_gone: false,
            executing: 0,
        }
    }

    /// Takes bytes that have come.
    ///
    /// # Errors
    /// The connection is to be closed. What is to be sent before lies in [`Connection::unsent`].
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<(), Broken> {
        let received = self.decode(&mut bytes);
        if let Err(Broken::Pdu(PduError::Fatal(fatal))) = received {
            let wrong = self.decoder.header().to_vec();
            self.push(&Pdu::TermReq(TermReq::new(End::Controller, fatal)), &wrong);
        }
        received
    }

    fn decode(&mut self, bytes: &mut &[u8]) -> Result<(), Broken> {
        loop {
            let came = bytes.len();
            let event = self.decoder.next(bytes)?;
            match event {
                Event::More => {
                    // Some of a header has come.
                    self.pdus += u64::from(came > 0 && !self.is_within);
                    self.is_within |= came > 0;
                    return Ok(());
                }
                Event::Header { pdu, data_bytes } => {
                    self.pdus += u64::from(!self.is_within);
                    self.is_within = data_bytes > 0;
                    self.header(&pdu, data_bytes)?;
                }
                Event::Data(part) => match &mut self.coming {
                    Coming::Capsule(work) => work.data.extend_from_slice(part),
                    Coming::Asked(tag) => {
                        if let Some(Some(write)) = self.writes.get_mut(usize::from(*tag)) {
                            write.work.data.extend_from_slice(part);
                            write.came += part.len() as u32;
                        }
                    }
                    Coming::Nothing => {}
                },
                Event::End { intact } => {
                    self.is_within = false;
                    self.data_ends(intact);
                }
            }
        }
    }

    fn header(&mut self, pdu: &Pdu, data_bytes: u32) -> Result<(), Broken> {
        self.coming = Coming::Nothing;
        match pdu {
            Pdu::IcReq(request) => self.initialize(request)?,
            // The host will find the connection closed, and knows then that it has to send the command again.
            Pdu::CapsuleCmd(_) if self.is_draining || self.is_closing => {}
            Pdu::CapsuleCmd(capsule) => {
                let work = self.command(&capsule.sqe, data_bytes)?;
                match work {
                    Some(work) if data_bytes == 0 => self.works.push_back(work),
                    Some(work) => self.coming = Coming::Capsule(work),
                    None => {}
                }
            }
            Pdu::H2cData(data) => self.coming = Coming::Asked(self.asked(data)?),
            Pdu::TermReq(term) => return Err(Broken::Told(term.fatal())),
            // What only a controller sends the decoder refuses.
            Pdu::IcResp(_) | Pdu::CapsuleResp(_) | Pdu::C2hData(_) | Pdu::R2t(_) => {}
        }
        Ok(())
    }

    fn initialize(&mut self, request: &IcReq) -> Result<(), Broken> {
        let response = IcResp::new(0, request.dgst, H2C_DATA_BYTES_MAX);
        let agreed = Agreement::new(request, &response)?;
        self.push(&Pdu::IcResp(response), &[]);
        self.decoder.establish(agreed.framing_to(End::Controller));
        self.framing = agreed.framing_to(End::Host);
        Ok(())
    }

    /// A command has come, with `data_bytes` behind it. None: it waits for data that it was asked for.
    fn command(&mut self, sqe: &Sqe, data_bytes: u32) -> Result<Option<Work>, Broken> {
        let begun = self.queue.begin(sqe)?;
        let movement = begun.unwrap_or(Movement::None);
        let data = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= data.capacity();
        let mut work = Work { sqe: *sqe, movement, data, status: begun.err(), credit: None };
        if work.status.is_some() || movement == Movement::None {
            return Ok(Some(work));
        }
        work.status = match (movement, DataPointer::parse(&sqe.sgl())) {
            (_, Err(error)) => Some(error.status().with_dnr()),
            (Movement::ToHost(bytes), Ok(DataPointer::Transport { bytes: given })) => {
                (given < bytes).then_some(Status::DATA_SGL_LENGTH_INVALID.with_dnr())
            }
            (Movement::ToDrive(bytes), Ok(DataPointer::InCapsule { offset: 0, bytes: given })) => {
                let fits = given >= bytes && given == data_bytes && given <= self.queue.in_capsule_bytes();
                (!fits).then_some(Status::DATA_SGL_LENGTH_INVALID.with_dnr())
            }
            (Movement::ToDrive(_), Ok(DataPointer::InCapsule { .. })) => {
                Some(Status::SGL_OFFSET_INVALID.with_dnr())
            }
            (Movement::ToDrive(bytes), Ok(DataPointer::Transport { bytes: given })) => {
                if given >= bytes && given <= self.queue.bytes_max() && data_bytes == 0 {
                    self.ask_in_turn(work, given);
                    return Ok(None);
                }
                Some(Status::DATA_SGL_LENGTH_INVALID.with_dnr())
            }
            _ => Some(Status::SGL_TYPE_INVALID.with_dnr()),
        };
        Ok(Some(work))
    }

    /// Asks the host for `bytes` of data, as soon as it has credit for so much.
    fn ask_in_turn(&mut self, mut work: Work, bytes: u32) {
        if let Some(usage) = self.queue.usage() {
            work.credit = usage.try_bytes(bytes);
            if work.credit.is_none() {
                self.waiting.push_back((work, bytes));
                return;
            }
        }
        self.ask(work, bytes);
    }

    /// Whether commands wait for credit of their host's: then [`Connection::credit`] is to be awaited.
    pub fn waits_for_credit(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Waits for the credit of the next command that waits for one; to be given to [`Connection::grant`].
    pub fn credit(&self) -> impl Future<Output = Option<Credit>> + use<> {
        let wanted = self.queue.usage().zip(self.waiting.front().map(|(_, bytes)| *bytes));
        async move {
            match wanted {
                Some((usage, bytes)) => Some(usage.bytes(bytes).await),
                None => None,
            }
        }
    }

    /// The next command that waits has its credit, and its host is asked for its data.
    pub fn grant(&mut self, credit: Option<Credit>) {
        if let Some((mut work, bytes)) = self.waiting.pop_front() {
            work.credit = credit;
            self.ask(work, bytes);
        }
    }

    /// Whether the host has to take some of what is sent to it before more of its commands are read.
    pub fn is_full(&self) -> bool {
        self.unsent().len() > UNSENT_BYTES_MAX
    }

    /// PDUs that have begun, and whether the last has not come to its end.
    pub fn progress(&self) -> (u64, bool) {
        (self.pdus, self.is_within)
    }

    /// Asks the host for `bytes` of data.
    fn ask(&mut self, work: Work, bytes: u32) {
        let tag = self.writes.iter().position(Option::is_none).unwrap_or(self.writes.len());
        let request = R2t::new(work.sqe.cid(), tag as u16, 0, bytes);
        self.push(&Pdu::R2t(request), &[]);
        let write = Some(Write { work, asked: bytes, came: 0, is_spoilt: false, asked_at: self.pushed() });
        match self.writes.get_mut(tag) {
            Some(place) => *place = write,
            None => self.writes.push(write),
        }
    }

    /// Whether the host was asked for data that has not come, or is about to be.
    pub fn awaits_data(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Which of all its requests for data the host has for the longest time without having answered it in full.
    pub fn oldest_request(&self) -> Option<u64> {
        let asked = self.writes.iter().flatten().map(|write| write.asked_at);
        asked.filter(|asked_at| *asked_at <= self.sent).min()
    }

    /// The connection is gone: what has not gone to the drive never will, and the host gets all its credit back, but for what is there.
    /// What waits to be sent is dropped, too, unless it `tells` the host why.
    pub fn abandon(&mut self, tells: bool) {
        self.is_gone = true;
        self.forget_all();
        if !tells {
            self.sent(self.unsent().len());
        }
    }

    /// Data comes that was asked for: its tag. It has to go on where the last has ended.
    fn asked(&self, data: &H2cData) -> Result<u16, Fatal> {
        let write = self.writes.get(usize::from(data.ttag)).and_then(Option::as_ref);
        let write = write.ok_or(Fatal::field(10))?;
        if write.work.sqe.cid() != data.cccid {
            return Err(Fatal::field(8));
        }
        if data.datao != write.came || data.datal > write.asked - write.came {
            return Err(Fatal::of(FatalStatus::OUT_OF_RANGE));
        }
        Ok(data.ttag)
    }

    fn data_ends(&mut self, intact: bool) {
        let spoilt = (!intact).then_some(Status::TRANSIENT_TRANSPORT_ERROR);
        match std::mem::replace(&mut self.coming, Coming::Nothing) {
            Coming::Capsule(mut work) => {
                work.status = work.status.or(spoilt);
                self.ready(work);
            }
            Coming::Asked(tag) => {
                let Some(place) = self.writes.get_mut(usize::from(tag)) else { return };
                let Some(write) = place else { return };
                write.is_spoilt |= !intact;
                if write.came == write.asked
                    && let Some(Write { mut work, is_spoilt, .. }) = place.take()
                {
                    while self.writes.pop_if(|last| last.is_none()).is_some() {}
                    work.status = is_spoilt.then_some(Status::TRANSIENT_TRANSPORT_ERROR);
                    self.ready(work);
                }
            }
            Coming::Nothing => {}
        }
    }

    /// A command's data is there.
    fn ready(&mut self, mut work: Work) {
        if let Movement::ToDrive(bytes) = work.movement {
            work.data.truncate(bytes as usize); // a host may send more than the command takes
        }
        self.works.push_back(work);
    }

    /// The next command that is to be executed.
    pub fn next_work(&mut self) -> Option<Work> {
        let work = self.works.pop_front();
        self.executing += usize::from(work.is_some());
        work
    }

    /// Begins no further command; what has begun goes on to its end, with the data that the host was asked for.
    pub fn drain(&mut self) {
        self.is_draining = true;
    }

    /// Whether all commands have ended and their completions are sent, but for Asynchronous Event Requests, which are held.
    pub fn is_drained(&self) -> bool {
        let is_waiting =
            !self.waiting.is_empty() || self.awaits_data() || matches!(self.coming, Coming::Capsule(_));
        let executing = self.executing > self.queue.held();
        !is_waiting && self.works.is_empty() && !executing && self.unsent().is_empty()
    }

    /// A command has ended; without a completion, nobody is told.
    pub fn finish(&mut self, work: Work, cqe: Option<Cqe>) {
        let Work { sqe, movement, mut data, credit, .. } = work;
        let cqe = cqe.filter(|_| !self.is_gone && !self.is_closing);
        self.executing -= 1;
        if cqe.is_none() {
            self.queue.forget(&sqe);
        }
        if let Some(cqe) = cqe {
            let cqe = self.queue.end(&sqe, cqe);
            let succeeds = cqe.status().is_success();
            let mut is_told = false;
            if let (Movement::ToHost(bytes), true) = (movement, succeeds) {
                data.truncate(bytes as usize);
                // The data says that it is the last word, if nothing else is to be said.
                is_told = !self.queue.controls_flow() && (cqe.dw0, cqe.dw1) == (0, 0) && !data.is_empty();
                let header = C2hData::new(sqe.cid(), 0, data.len() as u32, true, is_told);
                if !data.is_empty() {
                    self.push(&Pdu::C2hData(header), &data);
                    // The host has its credit back when this is sent.
                    self.lent.extend(credit.map(|credit| (self.pushed(), credit)));
                }
            }
            if !is_told {
                self.push(&Pdu::CapsuleResp(CapsuleResp::new(cqe)), &[]);
            }
            if succeeds && matches!(FabricsCommand::parse(&sqe), Some(FabricsCommand::Disconnect(_))) {
                self.disconnect();
            }
        }
        if self.spare.len() < SPARE_MAX && self.spare_bytes + data.capacity() <= SPARE_BYTES_MAX {
            data.clear();
            self.spare_bytes += data.capacity();
            self.spare.push(data);
        }
    }

    /// The queue is deleted before its host can know (NVMe Base 2.1, 6.4): its identifier is free for another connection. Commands
    /// that have not ended have no completion.
    fn disconnect(&mut self) {
        self.is_closing = true;
        self.queue.close();
        self.forget_all();
    }

    fn forget_all(&mut self) {
        self.coming = Coming::Nothing;
        self.writes.clear();
        self.waiting.clear();
        self.works.clear();
    }

    /// Whether the connection is to be closed once everything is sent: the host has disconnected the queue.
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// What waits to be sent.
    pub fn unsent(&self) -> &[u8] {
        self.out.unsent()
    }

    /// So many bytes of it were.
    pub fn sent(&mut self, bytes: usize) {
        self.out.sent(bytes);
        self.sent += bytes as u64;
        while self.lent.front().is_some_and(|(end, _)| *end <= self.sent) {
            self.lent.pop_front();
        }
    }

    /// Bytes to the host, sent or not.
    fn pushed(&self) -> u64 {
        self.sent + self.unsent().len() as u64
    }

    fn push(&mut self, pdu: &Pdu, data: &[u8]) {
        self.out.push(self.framing, pdu, data);
    }
}
