//! The TCP transport (NVMe/TCP Transport 1.0) of one queue: bytes to commands, and completions to bytes.
//! Memory for pending output and for host data is bounded by what the host has sent, and by the number of
//! commands that its queue has entries for.

use crate::host_usage::Credit;
use crate::movement::Movement;
use crate::path::CommandContext;
use crate::queue::{Queue, QueueViolation};
use byteway_wire::fabrics::tcp::{
    ADMIN_CAPSULE_DATA_BYTES, Agreement, C2hData, CapsuleResp, Decoder, End, Event, Fatal, FatalStatus,
    Framing, H2cData, IcReq, IcResp, Limits, Outgoing, Pdu, PduError, R2t, TermReq,
};
use byteway_wire::fabrics::{DataPointer, FabricsCommand};
use byteway_wire::nvme::{Cqe, Sqe, Status};
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;

/// Data accepted in one H2CData PDU (MAXH2CDATA).
const H2C_DATA_BYTES_MAX: u32 = 128 << 10;
/// Bytes of a PDU in addition to its data, at most.
const OVERHEAD_BYTES: u32 = 256;
/// Offset of FLAGS in a PDU.
const FLAGS: u32 = 1;
/// Pending output beyond which further commands of the host are left unread.
const UNSENT_BYTES_MAX: usize = 1 << 20;
/// Spare buffers for later commands, and their total size.
const SPARE_MAX: usize = 32;
const SPARE_BYTES_MAX: usize = 256 << 10;

/// Why a connection has to close, after pending output is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// The host sent something other than NVMe/TCP; it receives a termination request where the protocol has
    /// one.
    #[error(transparent)]
    Pdu(#[from] PduError),
    /// The host violated the rules of queues.
    #[error(transparent)]
    Violation(#[from] QueueViolation),
    /// The host reported a fatal error.
    #[error("it has ended the connection: {0}")]
    Told(Fatal),
}

impl From<Fatal> for ConnectionError {
    fn from(fatal: Fatal) -> Self {
        ConnectionError::Pdu(fatal.into())
    }
}

/// A command, with its data if that goes to the drive: to be executed, then returned with
/// [`Connection::finish`].
pub struct CapsuleCommand {
    /// The command.
    pub sqe: Sqe,
    /// Direction and length of its data.
    pub movement: Movement,
    /// The data.
    pub data: Vec<u8>,
    /// Status with which it has already ended.
    status: Option<Status>,
    /// Credit of its host for data that was requested from the host, or read for it.
    credit: Option<Credit>,
}

impl CapsuleCommand {
    /// The status with which it ends without execution.
    pub fn refused(&self) -> Option<Status> {
        self.status
    }

    /// Executes it on its queue, unless it is refused. `None`: send no completion.
    pub async fn execute(&mut self, queue: &Queue) -> Option<Cqe> {
        let CapsuleCommand { sqe, movement, data, credit, .. } = self;
        queue.execute_for(CommandContext::NONE, sqe, *movement, data, credit).await
    }
}

/// A command that waits for its data.
struct Write {
    command: CapsuleCommand,
    /// Bytes requested from the host.
    asked: u32,
    /// Bytes received.
    came: u32,
    /// A data digest was wrong.
    is_spoilt: bool,
    /// Position at which the R2T ends in the stream of bytes to the host.
    asked_at: u64,
}

/// The PDU whose data is being received.
enum PduData {
    /// A command with in-capsule data; its length as the host describes it.
    Capsule(CapsuleCommand),
    /// Data requested with this transfer tag.
    Asked(u16),
    /// Data to discard.
    Nothing,
}

/// A connection: the state of the protocol, without the socket.
pub struct Connection {
    queue: Rc<Queue>,
    decoder: Decoder,
    /// Framing of PDUs to the host.
    framing: Framing,
    pdu_data: PduData,
    /// By transfer tag.
    writes: Vec<Option<Write>>,
    commands: VecDeque<CapsuleCommand>,
    /// Commands whose data is not yet requested, and its length.
    waiting: VecDeque<(CapsuleCommand, u32)>,
    pdus: u64,
    is_within: bool,
    out: Outgoing,
    /// Bytes sent so far.
    sent: u64,
    /// Credit for data that is pending, and where that data ends in the stream of bytes to the host.
    lent: VecDeque<(u64, Credit)>,
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    is_closing: bool,
    is_draining: bool,
    is_gone: bool,
    /// Commands handed out for execution and not yet returned.
    executing: usize,
}

impl Connection {
    /// A newly opened connection. `in_capsule_bytes`: the largest in-capsule data of any subsystem of the
    /// target.
    pub fn new(queue: Rc<Queue>, in_capsule_bytes: u32) -> Self {
        let data_max = in_capsule_bytes.max(ADMIN_CAPSULE_DATA_BYTES);
        // Hosts send H2CData PDUs of any length.
        let limits =
            Limits { plen_max: data_max + OVERHEAD_BYTES, maxh2cdata: H2C_DATA_BYTES_MAX, dwords: false };
        Connection {
            queue,
            decoder: Decoder::new(End::Controller, limits),
            framing: Framing::INITIAL,
            pdu_data: PduData::Nothing,
            writes: Vec::new(),
            commands: VecDeque::new(),
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

    /// Processes received bytes.
    ///
    /// # Errors
    /// The connection has to close, after the bytes in [`Connection::unsent`] are sent.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<(), ConnectionError> {
        let received = self.decode(&mut bytes);
        if let Err(ConnectionError::Pdu(PduError::Fatal(fatal))) = received {
            let wrong = self.decoder.header().to_vec();
            self.push(&Pdu::TermReq(TermReq::new(End::Controller, fatal)), &wrong);
        }
        received
    }

    fn decode(&mut self, bytes: &mut &[u8]) -> Result<(), ConnectionError> {
        loop {
            let came = bytes.len();
            let event = self.decoder.next(bytes)?;
            match event {
                Event::More => {
                    // Part of a header has arrived.
                    self.pdus += u64::from(came > 0 && !self.is_within);
                    self.is_within |= came > 0;
                    return Ok(());
                }
                Event::Header { pdu, data_bytes } => {
                    self.pdus += u64::from(!self.is_within);
                    self.is_within = data_bytes > 0;
                    self.header(&pdu, data_bytes)?;
                }
                Event::Data(part) => match &mut self.pdu_data {
                    PduData::Capsule(command) => command.data.extend_from_slice(part),
                    PduData::Asked(tag) => {
                        if let Some(Some(write)) = self.writes.get_mut(usize::from(*tag)) {
                            write.command.data.extend_from_slice(part);
                            write.came += part.len() as u32;
                            debug_assert!(write.came <= write.asked, "`asked` has checked the PDU's extent");
                        }
                    }
                    PduData::Nothing => {}
                },
                Event::End { intact } => {
                    self.is_within = false;
                    self.data_ends(intact);
                }
            }
        }
    }

    fn header(&mut self, pdu: &Pdu, data_bytes: u32) -> Result<(), ConnectionError> {
        self.pdu_data = PduData::Nothing;
        match pdu {
            Pdu::IcReq(request) => self.initialize(request)?,
            // Commands dropped while draining get no response; the host retries them when it finds the
            // connection closed.
            Pdu::CapsuleCmd(_) if self.is_draining || self.is_closing => {}
            Pdu::CapsuleCmd(capsule) => {
                let command = self.command(&capsule.sqe, data_bytes)?;
                match command {
                    Some(command) if data_bytes == 0 => self.commands.push_back(command),
                    Some(command) => self.pdu_data = PduData::Capsule(command),
                    None => {}
                }
            }
            Pdu::H2cData(data) => self.pdu_data = PduData::Asked(self.asked(data)?),
            Pdu::TermReq(term) => return Err(ConnectionError::Told(term.fatal())),
            // The decoder refuses PDUs that only a controller sends.
            Pdu::IcResp(_) | Pdu::CapsuleResp(_) | Pdu::C2hData(_) | Pdu::R2t(_) => {}
        }
        Ok(())
    }

    fn initialize(&mut self, request: &IcReq) -> Result<(), ConnectionError> {
        let response = IcResp::new(0, request.dgst, H2C_DATA_BYTES_MAX);
        let agreed = Agreement::new(request, &response)?;
        self.push(&Pdu::IcResp(response), &[]);
        self.decoder.establish(agreed.framing_to(End::Controller));
        self.framing = agreed.framing_to(End::Host);
        Ok(())
    }

    /// Handles a command with `data_bytes` of in-capsule data. `None`: it waits for data requested from the
    /// host.
    fn command(&mut self, sqe: &Sqe, data_bytes: u32) -> Result<Option<CapsuleCommand>, ConnectionError> {
        let begun = self.queue.begin(sqe)?;
        let movement = begun.unwrap_or(Movement::None);
        let data = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= data.capacity();
        let mut command = CapsuleCommand { sqe: *sqe, movement, data, status: begun.err(), credit: None };
        if command.status.is_some() || movement == Movement::None {
            return Ok(Some(command));
        }
        command.status = match (movement, DataPointer::parse(&sqe.sgl())) {
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
                    self.ask_in_turn(command, given);
                    return Ok(None);
                }
                Some(Status::DATA_SGL_LENGTH_INVALID.with_dnr())
            }
            _ => Some(Status::SGL_TYPE_INVALID.with_dnr()),
        };
        Ok(Some(command))
    }

    /// Requests `bytes` of data from the host, as soon as the host has credit for it.
    fn ask_in_turn(&mut self, mut command: CapsuleCommand, bytes: u32) {
        if let Some(usage) = self.queue.usage() {
            command.credit = usage.try_bytes(bytes);
            if command.credit.is_none() {
                self.waiting.push_back((command, bytes));
                return;
            }
        }
        self.ask(command, bytes);
    }

    /// Whether commands wait for credit of their host: then await [`Connection::credit`].
    pub fn waits_for_credit(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Waits for the credit of the next waiting command; pass it to [`Connection::grant`].
    pub fn credit(&self) -> impl Future<Output = Option<Credit>> + use<> {
        let wanted = self.queue.usage().zip(self.waiting.front().map(|(_, bytes)| *bytes));
        async move {
            match wanted {
                Some((usage, bytes)) => Some(usage.bytes(bytes).await),
                None => None,
            }
        }
    }

    /// Assigns credit to the next waiting command, and requests its data.
    pub fn grant(&mut self, credit: Option<Credit>) {
        if let Some((mut command, bytes)) = self.waiting.pop_front() {
            command.credit = credit;
            self.ask(command, bytes);
        }
    }

    /// Whether output is backed up: the host has to receive before more of its commands are read.
    pub fn is_full(&self) -> bool {
        self.unsent().len() > UNSENT_BYTES_MAX
    }

    /// Number of PDUs started, and whether the last one is incomplete.
    pub fn progress(&self) -> (u64, bool) {
        (self.pdus, self.is_within)
    }

    /// Requests `bytes` of data from the host (R2T).
    fn ask(&mut self, command: CapsuleCommand, bytes: u32) {
        let tag = self.writes.iter().position(Option::is_none).unwrap_or(self.writes.len());
        debug_assert!(
            tag <= usize::from(u16::MAX),
            "the queue limits outstanding commands, and so transfer tags"
        );
        let request = R2t::new(command.sqe.cid(), tag as u16, 0, bytes);
        self.push(&Pdu::R2t(request), &[]);
        let write = Some(Write { command, asked: bytes, came: 0, is_spoilt: false, asked_at: self.pushed() });
        match self.writes.get_mut(tag) {
            Some(free) => *free = write,
            None => self.writes.push(write),
        }
    }

    /// Whether data is requested from the host and incomplete, or about to be requested.
    pub fn awaits_data(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Stream position of the oldest R2T that was sent and is not yet answered in full; identifies the request.
    pub fn oldest_request(&self) -> Option<u64> {
        let asked = self.writes.iter().flatten().map(|write| write.asked_at);
        asked.filter(|asked_at| *asked_at <= self.sent).min()
    }

    /// Handles the loss of the connection: commands not yet at the drive are dropped, and the host's credit
    /// is returned except for received data. Pending output is dropped, too, unless it `tells` the host the
    /// reason.
    pub fn abandon(&mut self, tells: bool) {
        self.is_gone = true;
        self.forget_all();
        if !tells {
            self.sent(self.unsent().len());
        }
    }

    /// Handles an H2CData header: returns its transfer tag. Its data has to continue where the last ended.
    fn asked(&self, data: &H2cData) -> Result<u16, Fatal> {
        let write = self.writes.get(usize::from(data.ttag)).and_then(Option::as_ref);
        let write = write.ok_or(Fatal::field(10))?;
        if write.command.sqe.cid() != data.cccid {
            return Err(Fatal::field(8));
        }
        if data.datao != write.came || data.datal > write.asked - write.came {
            return Err(Fatal::of(FatalStatus::OUT_OF_RANGE));
        }
        // The rest would never come, and its command would wait for it.
        if data.ch.flags.last_pdu() && data.datal < write.asked - write.came {
            return Err(Fatal::field(FLAGS));
        }
        Ok(data.ttag)
    }

    fn data_ends(&mut self, intact: bool) {
        let spoilt = (!intact).then_some(Status::TRANSIENT_TRANSPORT_ERROR);
        match std::mem::replace(&mut self.pdu_data, PduData::Nothing) {
            PduData::Capsule(mut command) => {
                command.status = command.status.or(spoilt);
                self.ready(command);
            }
            PduData::Asked(tag) => {
                let Some(entry) = self.writes.get_mut(usize::from(tag)) else { return };
                let Some(write) = entry else { return };
                write.is_spoilt |= !intact;
                if write.came == write.asked
                    && let Some(Write { mut command, is_spoilt, .. }) = entry.take()
                {
                    // Trailing free tags are removed, so that `awaits_data` is exact when nothing is outstanding.
                    while self.writes.pop_if(|last| last.is_none()).is_some() {}
                    command.status = is_spoilt.then_some(Status::TRANSIENT_TRANSPORT_ERROR);
                    self.ready(command);
                }
            }
            PduData::Nothing => {}
        }
    }

    /// The data of a command is complete.
    fn ready(&mut self, mut command: CapsuleCommand) {
        if let Movement::ToDrive(bytes) = command.movement {
            command.data.truncate(bytes as usize); // a host may send more than the command takes
        }
        self.commands.push_back(command);
    }

    /// The next command to execute.
    pub fn next_command(&mut self) -> Option<CapsuleCommand> {
        let command = self.commands.pop_front();
        self.executing += usize::from(command.is_some());
        command
    }

    /// Starts no further command; outstanding ones complete, including their requested data.
    pub fn drain(&mut self) {
        self.is_draining = true;
    }

    /// Whether all commands except held Asynchronous Event Requests have completed and their responses are
    /// sent.
    pub fn is_drained(&self) -> bool {
        let is_waiting =
            !self.waiting.is_empty() || self.awaits_data() || matches!(self.pdu_data, PduData::Capsule(_));
        let executing = self.executing > self.queue.held();
        !is_waiting && self.commands.is_empty() && !executing && self.unsent().is_empty()
    }

    /// Ends a command; without a completion, the host gets no response.
    pub fn finish(&mut self, command: CapsuleCommand, cqe: Option<Cqe>) {
        let CapsuleCommand { sqe, movement, mut data, credit, .. } = command;
        let cqe = cqe.filter(|_| !self.is_gone && !self.is_closing);
        debug_assert!(self.executing > 0, "each finished command comes from `next_command`");
        self.executing -= 1;
        if cqe.is_none() {
            self.queue.forget(&sqe);
        }
        if let Some(cqe) = cqe {
            let cqe = self.queue.end(&sqe, cqe);
            let succeeds = cqe.status().is_success();
            let mut replaces_response = false;
            if let (Movement::ToHost(bytes), true) = (movement, succeeds) {
                data.truncate(bytes as usize);
                // C2H_SUCCESS replaces the response capsule if the response has nothing else to report.
                replaces_response =
                    !self.queue.controls_flow() && (cqe.dw0, cqe.dw1) == (0, 0) && !data.is_empty();
                let header = C2hData::new(sqe.cid(), 0, data.len() as u32, true, replaces_response);
                if !data.is_empty() {
                    self.push(&Pdu::C2hData(header), &data);
                    // The host's credit is returned when this is sent.
                    self.lent.extend(credit.map(|credit| (self.pushed(), credit)));
                }
            }
            if !replaces_response {
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

    /// Handles Disconnect (NVMe Base 2.1, 6.4): deletes the queue before its response is sent, so that the
    /// host finds its identifier free. Outstanding commands get no response.
    fn disconnect(&mut self) {
        // Close before the response is pushed to the socket: a host may reconnect as soon as it has the response.
        self.is_closing = true;
        self.queue.close();
        self.forget_all();
    }

    fn forget_all(&mut self) {
        self.pdu_data = PduData::Nothing;
        self.writes.clear();
        self.waiting.clear();
        self.commands.clear();
    }

    /// Whether the connection has to close once everything is sent: the host has disconnected the queue.
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Pending output.
    pub fn unsent(&self) -> &[u8] {
        self.out.unsent()
    }

    /// Removes `bytes` sent bytes from the pending output.
    pub fn sent(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.unsent().len(), "only pending bytes can be sent");
        self.out.sent(bytes);
        self.sent += bytes as u64;
        while self.lent.front().is_some_and(|(end, _)| *end <= self.sent) {
            self.lent.pop_front();
        }
    }

    /// Bytes produced for the host, sent or pending.
    fn pushed(&self) -> u64 {
        self.sent + self.unsent().len() as u64
    }

    fn push(&mut self, pdu: &Pdu, data: &[u8]) {
        self.out.push(self.framing, pdu, data);
    }
}
