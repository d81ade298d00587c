//! Our host at a target that breaks the protocol: what the target sends is cut, stalled, changed, doubled and added to, at bytes all over
//! a session. Every session ends in time, with right data or an error.

use crate::host::{HOST, SUBSYSTEM, with_target};
use byteway_clock::{Clock, Delay, Notify};
use byteway_content::BlockSize;
use byteway_host::fabric::tcp::TcpConnection;
use byteway_host::fabric::{
    Adapter, Connection, Generated, Initiator, InitiatorConfig, Messenger, NoChannel, ToHost, ToTarget,
};
use byteway_host::{BaseState, Oracle};
use byteway_host::{Client, ClientConfig, Driver, DriverConfig, Method, Port, Rules};
use byteway_host::{Completion, QueueConfig};
use byteway_link::Memory;
use byteway_nvmeof::tcp::Connection as TargetConnection;
use byteway_nvmeof::{Queue, Target};
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::tcp::{
    C2hData, CapsuleResp, Digests, End, Fatal, FatalStatus, Framing, Pdu, PduType, R2t, TermReq,
};
use byteway_wire::nvme::{Cqe, Status};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::rc::Rc;

/// Time limit of a command.
const TIMEOUT: Delay = Delay::from_ms(100);
/// Time limit of a session: a command is aborted, its controller reset, and each step of that may take its time.
const SESSION_LIMIT: Delay = Delay::from_ms(1000);
/// Bytes written and read at once: in a capsule, and fetched by the target.
const LENGTHS: [u32; 2] = [4096, 16384];
/// Of the bytes that are not in the header of the first two PDUs of a type, each so many-th is damaged.
const STRIDE: usize = 37;

/// What happens to the stream of bytes that the target sends, over all connections.
#[derive(Clone, Debug)]
enum Damage {
    None,
    /// The connection ends before this byte.
    Cut(usize),
    /// Nothing of the connection arrives from this byte on.
    Stall(usize),
    /// Bits of a byte are changed.
    Flip(usize, u8),
    /// The PDU that begins at this byte arrives twice.
    Double(usize),
    /// Further bytes arrive before this one.
    Invent(usize, Vec<u8>),
}

/// A PDU from the target, by its place in the stream.
#[derive(Clone, Copy)]
struct Sent {
    at: usize,
    header_bytes: usize,
    bytes: usize,
    pdu_type: PduType,
}

/// A network with a damage in it.
#[derive(Clone)]
struct Wire(Rc<Inner>);

struct Inner {
    target: Rc<Target>,
    clock: Clock,
    lines: RefCell<BTreeMap<Connection, Rc<Line>>>,
    damage: Damage,
    is_done: Cell<bool>,
    sent: RefCell<Vec<Sent>>,
    sent_bytes: Cell<usize>,
}

struct Line {
    near: RefCell<TcpConnection>,
    /// Messages of the host while it processes received bytes.
    later: RefCell<Vec<ToTarget>>,
    said: Notify,
    is_closed: Cell<bool>,
    is_stalled: Cell<bool>,
}

impl Messenger for Wire {
    fn secure(&self, _: u16, key: Option<Generated<'_>>) -> Result<(), NoChannel> {
        if key.is_some() { Err(NoChannel) } else { Ok(()) }
    }

    fn send(&self, adapter: &Adapter, connection: Connection, message: ToTarget) {
        let inner = &self.0;
        let mut lines = inner.lines.borrow_mut();
        match message {
            ToTarget::Open => {
                let line = Rc::new(Line {
                    near: RefCell::new(TcpConnection::new(connection, Digests::new())),
                    later: RefCell::default(),
                    said: Notify::new(&inner.clock),
                    is_closed: Cell::default(),
                    is_stalled: Cell::default(),
                });
                lines.insert(connection, line.clone());
                line.said.notify_one();
                inner.clock.spawn("wire", self.clone().carry(line, adapter.clone()));
            }
            ToTarget::Close => {
                if let Some(line) = lines.remove(&connection) {
                    line.is_closed.set(true);
                    line.said.notify_one();
                }
            }
            message => {
                if let Some(line) = lines.get(&connection) {
                    match line.near.try_borrow_mut() {
                        Ok(mut near) => near.send(adapter, message),
                        Err(_) => line.later.borrow_mut().push(message),
                    }
                    line.said.notify_one();
                }
            }
        }
    }
}

impl Wire {
    /// Carries bytes both ways until an end gives up the connection.
    async fn carry(self, line: Rc<Line>, adapter: Adapter) {
        let queue = Rc::new(Queue::new(&self.0.target));
        let mut far = TargetConnection::new(queue.clone(), 8192);
        let connection = line.near.borrow().connection();
        'open: loop {
            line.said.notified().await;
            let bytes = take(&line);
            if line.is_closed.get() || far.receive(&bytes).is_err() {
                break;
            }
            while let Some(mut work) = far.next_command() {
                let cqe = match work.refused() {
                    Some(status) => Some(Cqe::new(0, status, 0, 0)),
                    None => queue.execute(&work.sqe, work.movement, &mut work.data).await,
                };
                far.finish(work, cqe);
            }
            let bytes = far.unsent().to_vec();
            far.sent(bytes.len());
            let (bytes, goes_on) = self.pass(&line, bytes);
            if line.is_closed.get() {
                break;
            }
            let received = line.near.borrow_mut().receive(&adapter, &bytes);
            for message in line.later.take() {
                line.near.borrow_mut().send(&adapter, message);
            }
            if received.is_err() || !goes_on {
                break 'open;
            }
            if !line.near.borrow().unsent().is_empty() {
                line.said.notify_one();
            }
        }
        queue.close();
        if !line.is_closed.get() {
            adapter.deliver(connection, ToHost::Closed);
        }
    }

    /// What arrives of bytes that the target sends, and whether the connection goes on.
    fn pass(&self, line: &Line, mut bytes: Vec<u8>) -> (Vec<u8>, bool) {
        let inner = &self.0;
        let first = inner.sent_bytes.replace(inner.sent_bytes.get() + bytes.len());
        self.note(first, &bytes);
        if line.is_stalled.get() {
            return (Vec::new(), true);
        }
        let here = |at: &usize| !inner.is_done.get() && (first..first + bytes.len()).contains(at);
        match &inner.damage {
            Damage::Cut(at) if here(at) => {
                bytes.truncate(at - first);
                inner.is_done.set(true);
                return (bytes, false);
            }
            Damage::Stall(at) if here(at) => {
                bytes.truncate(at - first);
                line.is_stalled.set(true);
            }
            Damage::Flip(at, bits) if here(at) => bytes[at - first] ^= bits,
            Damage::Double(at) if here(at) => {
                let sent = inner.sent.borrow();
                let pdu = sent.iter().find(|pdu| pdu.at == *at).expect("a PDU begins there");
                let from = at - first;
                let copy = bytes[from..from + pdu.bytes].to_vec();
                bytes.splice(from..from, copy);
            }
            Damage::Invent(at, more) if here(at) => {
                bytes.splice(at - first..at - first, more.iter().copied());
            }
            _ => return (bytes, true),
        }
        inner.is_done.set(true);
        (bytes, true)
    }

    /// Notes the PDUs in `bytes`, which are whole.
    fn note(&self, first: usize, bytes: &[u8]) {
        let mut from = 0;
        while from < bytes.len() {
            let header = &bytes[from..];
            let length = u32::from_le_bytes(header[4..8].try_into().unwrap()) as usize;
            let (pdu_type, header_bytes) = (PduType(header[0]), usize::from(header[2]));
            let at = first + from;
            self.0.sent.borrow_mut().push(Sent { at, header_bytes, bytes: length, pdu_type });
            from += length;
        }
    }
}

fn take(line: &Line) -> Vec<u8> {
    let mut near = line.near.borrow_mut();
    let bytes = near.unsent().to_vec();
    near.sent(bytes.len());
    bytes
}

fn text(error: impl Display) -> String {
    error.to_string()
}

/// Attaches, writes, reads what was written, and shuts down.
async fn session(adapter: Adapter) -> Result<(), String> {
    let config = InitiatorConfig {
        subsystem: Nqn::new(SUBSYSTEM).unwrap(),
        host: Nqn::new(HOST).unwrap(),
        host_id: [7; 16],
        admin_entries: 32,
        in_capsule_bytes: 4096,
        authenticator: None,
        timeout: Some(TIMEOUT),
    };
    let initiator = Initiator::connect(&adapter, Memory::simulated(), config).await.map_err(text)?;
    let config = DriverConfig {
        completion: Completion::Interrupt,
        timeout: Some(TIMEOUT),
        timeout_period: Delay::from_ms(10),
        ..DriverConfig::default()
    };
    let driver = Driver::attach(Port::Fabric(initiator), config).await.map_err(text)?;
    let ended = write_and_read(&driver).await;
    driver.shutdown().await.map_err(text).and(ended)
}

async fn write_and_read(driver: &Driver) -> Result<(), String> {
    let config = QueueConfig { vector: Some(1), ..QueueConfig::new(16) };
    let queue = driver.create_queue_pair(config).await.map_err(text)?;
    let namespaces = driver.namespaces();
    let namespace = namespaces.first().ok_or("there is no namespace")?;
    let block = BlockSize::from_bytes(namespace.block_bytes.into()).ok_or("blocks of an odd size")?;
    let oracle = Oracle::new(namespace.blocks, block, 1, BaseState::Zeroes);
    let config = ClientConfig {
        rules: Rules::only(Method::Sgl),
        bytes_max: 16384,
        oracle: Some(Rc::new(RefCell::new(oracle))),
        verify_bytes: true,
    };
    let client = Client::new(queue, *namespace, config).map_err(text)?;
    let mut buffer = client.buffer().map_err(text)?;
    for bytes in LENGTHS {
        let blocks = bytes / namespace.block_bytes;
        client.write(&mut buffer, 8, blocks).await.map_err(text)?;
        client.read(&mut buffer, 8, blocks).await.map_err(text)?;
    }
    Ok(())
}

/// A session with a damage: how it ended, and what the target sent.
fn run(damage: Damage) -> (Result<(), String>, Vec<Sent>) {
    with_target(
        |_| {},
        async move |target, clock| {
            let wire = Wire(Rc::new(Inner {
                target: target.clone(),
                clock: clock.clone(),
                lines: RefCell::default(),
                damage: damage.clone(),
                is_done: Cell::default(),
                sent: RefCell::default(),
                sent_bytes: Cell::default(),
            }));
            let adapter = Adapter::real(&clock, Box::new(wire.clone()));
            let ended = clock.within(SESSION_LIMIT, session(adapter)).await;
            let ended = ended.unwrap_or_else(|| panic!("it is still running: {damage:?}"));
            assert_eq!(wire.0.is_done.get(), !matches!(damage, Damage::None), "{damage:?}");
            // What the host has left behind ends with its connections.
            wire.0.lines.take().into_values().for_each(|line| {
                line.is_closed.set(true);
                line.said.notify_one();
            });
            clock.timer(Delay::from_ms(1)).await;
            (ended, wire.0.sent.take())
        },
    )
}

fn encoded(pdu: &Pdu, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; Framing::INITIAL.pdu_bytes(pdu, data.len() as u32) as usize];
    Framing::INITIAL.encode(pdu, data, &mut bytes).unwrap();
    bytes
}

/// The bytes of the session's PDUs to damage.
fn places(sent: &[Sent]) -> Vec<usize> {
    let mut seen: BTreeMap<PduType, u32> = BTreeMap::new();
    let mut places = Vec::new();
    for pdu in sent {
        let count = seen.entry(pdu.pdu_type).or_default();
        *count += 1;
        let is_first = *count <= 2;
        let all = pdu.at..pdu.at + pdu.bytes;
        places.extend(all.filter(|at| is_first && *at < pdu.at + pdu.header_bytes || at % STRIDE == 0));
    }
    for pdu_type in [PduType::IC_RESP, PduType::CAPSULE_RESP, PduType::C2H_DATA, PduType::R2T] {
        assert!(seen.contains_key(&pdu_type), "the session has no {pdu_type:?}");
    }
    places
}

// Without this a target that is broken, or hostile, would have the host wait for ever, or believe what was never read or written.
#[test]
fn a_session_that_is_cut_stalled_or_changed_anywhere_ends_with_right_data_or_an_error() {
    let (ended, sent) = run(Damage::None);
    assert_eq!(ended, Ok(()));
    let (mut failed, mut passed) = (0, 0);
    for at in places(&sent) {
        let flips = [0x01, 0x80, 0xFF].map(|bits| Damage::Flip(at, bits));
        for damage in [Damage::Cut(at), Damage::Stall(at)].into_iter().chain(flips) {
            let is_cut = !matches!(damage, Damage::Flip(..));
            let (ended, _) = run(damage);
            *if ended.is_ok() { &mut passed } else { &mut failed } += u32::from(!is_cut);
        }
    }
    assert!(failed > 100 && passed > 100, "{failed} failed, {passed} passed");
}

// Without this the second of two equal answers would be taken for that to another command, and an invented one for any.
#[test]
fn what_is_doubled_or_invented_ends_its_connection() {
    let (_, sent) = run(Damage::None);
    let response = |cid, status| Pdu::CapsuleResp(CapsuleResp::new(Cqe::new(cid, status, 0, 0)));
    let fatal = Fatal::of(FatalStatus::SEQUENCE);
    let invented = [
        encoded(&response(999, Status::SUCCESS), &[]),
        encoded(&response(0xFFFE, Status::INTERNAL_ERROR), &[]),
        encoded(&response(0xFFFC, Status::SUCCESS), &[]),
        encoded(&Pdu::C2hData(C2hData::new(999, 0, 512, true, true)), &[0xA5; 512]),
        encoded(&Pdu::R2t(R2t::new(999, 7, 0, 4096)), &[]),
        encoded(&Pdu::TermReq(TermReq::new(End::Controller, fatal)), &[]),
        vec![0xFF; 24],
    ];
    let mut failed = 0;
    for pdu in &sent {
        let more = invented.iter().map(|bytes| Damage::Invent(pdu.at, bytes.clone()));
        for damage in more.chain([Damage::Double(pdu.at)]) {
            failed += u32::from(run(damage).0.is_err());
        }
    }
    assert!(failed as usize > sent.len(), "{failed} of {} failed", sent.len());
}
