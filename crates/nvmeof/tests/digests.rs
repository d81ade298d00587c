//! Our host over NVMe/TCP with PDUs damaged in transit: which damage ends a command, and which ends a
//! connection.

use crate::host::with_target;
use crate::simulated::attach;
use byteway_clock::{Clock, Notify};
use byteway_host::QueueConfig;
use byteway_host::fabric::tcp::TcpConnection;
use byteway_host::fabric::{Adapter, Connection, Generated, Messenger, NoChannel, ToHost, ToTarget};
use byteway_host::{Client, ClientConfig, HostCosts, IoError, Method, Port, Rules};
use byteway_nvmeof::tcp::Connection as TargetConnection;
use byteway_nvmeof::{Queue, Target};
use byteway_wire::fabrics::tcp::{Digests, PduType};
use byteway_wire::nvme::{Cqe, Status};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Index of the byte to change in the next C2HData PDU.
type Harm = Rc<Cell<Option<usize>>>;

/// Both ends of NVMe/TCP connections, and the wires between them.
#[derive(Clone)]
pub struct Wires(Rc<Inner>);

struct Inner {
    target: Rc<Target>,
    clock: Clock,
    lines: RefCell<BTreeMap<Connection, Rc<Line>>>,
    harm: Harm,
    is_cut: Cell<bool>,
}

impl Wires {
    pub fn new(target: &Rc<Target>, clock: &Clock) -> Wires {
        Wires(Rc::new(Inner {
            target: target.clone(),
            clock: clock.clone(),
            lines: RefCell::default(),
            harm: Harm::default(),
            is_cut: Cell::default(),
        }))
    }

    pub fn adapter(&self) -> Adapter {
        Adapter::real(&self.0.clock, Box::new(self.clone()))
    }

    /// Ends all connections, and prevents new ones.
    pub fn cut(&self) {
        self.0.is_cut.set(true);
        for line in self.0.lines.take().into_values() {
            line.is_cut.set(true);
            line.said.notify_one();
        }
    }
}

struct Line {
    near: RefCell<TcpConnection>,
    /// Bytes that the host sends while it processes received bytes.
    later: RefCell<Vec<ToTarget>>,
    said: Notify,
    is_closed: Cell<bool>,
    is_cut: Cell<bool>,
}

impl Messenger for Wires {
    fn secure(&self, _: u16, key: Option<Generated<'_>>) -> Result<(), NoChannel> {
        if key.is_some() { Err(NoChannel) } else { Ok(()) }
    }

    fn send(&self, adapter: &Adapter, connection: Connection, message: ToTarget) {
        let inner = &self.0;
        let mut lines = inner.lines.borrow_mut();
        match message {
            ToTarget::Open if inner.is_cut.get() => {
                let (clock, adapter) = (inner.clock.clone(), adapter.clone());
                inner.clock.spawn("refused connection", async move {
                    clock.yield_now().await;
                    adapter.deliver(connection, ToHost::Closed);
                });
            }
            ToTarget::Open => {
                let digests = Digests::new().with_header(true).with_data(true);
                let line = Rc::new(Line {
                    near: RefCell::new(TcpConnection::new(connection, digests)),
                    later: RefCell::default(),
                    said: Notify::new(&inner.clock),
                    is_closed: Cell::default(),
                    is_cut: Cell::default(),
                });
                lines.insert(connection, line.clone());
                let carried = carry(line.clone(), inner.target.clone(), adapter.clone(), inner.harm.clone());
                line.said.notify_one();
                inner.clock.spawn("wire", carried);
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

/// Carries bytes both ways until an end gives up the connection.
async fn carry(line: Rc<Line>, target: Rc<Target>, adapter: Adapter, harm: Harm) {
    let queue = Rc::new(Queue::new(&target));
    let mut far = TargetConnection::new(queue.clone(), 8192);
    let connection = line.near.borrow().connection();
    loop {
        line.said.notified().await;
        let bytes = take(&line);
        if line.is_closed.get() || line.is_cut.get() || far.receive(&bytes).is_err() {
            break;
        }
        while let Some(mut work) = far.next_command() {
            let cqe = match work.refused() {
                Some(status) => Some(Cqe::new(0, status, 0, 0)),
                None => queue.execute(&work.sqe, work.movement, &mut work.data).await,
            };
            far.finish(work, cqe);
        }
        let mut bytes = far.unsent().to_vec();
        far.sent(bytes.len());
        if bytes.first() == Some(&PduType::C2H_DATA.0)
            && let Some(at) = harm.take()
        {
            bytes[at] ^= 1;
        }
        let received = line.near.borrow_mut().receive(&adapter, &bytes);
        for message in line.later.take() {
            line.near.borrow_mut().send(&adapter, message);
        }
        if received.is_err() {
            // The target understands the host's report.
            assert!(far.receive(&take(&line)).is_err());
            break;
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

fn take(line: &Line) -> Vec<u8> {
    let mut near = line.near.borrow_mut();
    let bytes = near.unsent().to_vec();
    near.sent(bytes.len());
    bytes
}

/// Result of a read with a changed data byte, and the number of controllers lost.
fn damaged(byte: usize) -> (Result<(), Status>, u64, bool) {
    with_target(
        |_| {},
        async move |target, clock| {
            let wires = Wires::new(&target, &clock);
            let (adapter, harm) = (wires.adapter(), wires.0.harm.clone());
            let driver = attach(&adapter, HostCosts::default()).await;
            let config = QueueConfig { vector: Some(1), ..QueueConfig::new(16) };
            let queue = driver.create_queue_pair(config).await.unwrap();
            let config = ClientConfig {
                rules: Rules::only(Method::Sgl),
                bytes_max: 8192,
                oracle: None,
                verify_bytes: false,
            };
            let client = Client::new(queue, driver.namespaces()[0], config).unwrap();
            let mut buffer = client.buffer().unwrap();
            let blocks = 8192 / driver.namespaces()[0].block_bytes;
            client.write(&mut buffer, 0, blocks).await.unwrap();
            harm.set(Some(byte));
            let read = client.read(&mut buffer, 0, blocks).await.map(drop);
            assert_eq!(harm.get(), None, "nothing was damaged");
            let read = read.map_err(|error| match error {
                IoError::Status(status) => status,
                IoError::Lost(_) => Status::HOST_PATHING_ERROR,
                other => panic!("{other}"),
            });
            let again = client.read(&mut buffer, 0, blocks).await.is_ok();
            assert!(matches!(driver.port(), Port::Fabric(_)));
            let resets = driver.resets();
            driver.shutdown().await.unwrap();
            (read, resets, again)
        },
    )
}

// TCP Transport 1.0, 3.5: without this one wrong data bit would end all outstanding commands, or be returned
// as data.
#[test]
fn a_wrong_data_digest_is_the_end_of_its_command_alone() {
    // Header, digest, then data: the first byte, and one in the second half.
    for byte in [28, 28 + 5000] {
        assert_eq!(damaged(byte), (Err(Status::TRANSIENT_TRANSPORT_ERROR), 0, true));
    }
}

// A wrong header may be any header: nothing after it can be trusted.
#[test]
fn a_wrong_header_digest_is_the_end_of_its_connection() {
    assert_eq!(damaged(12), (Err(Status::HOST_PATHING_ERROR), 1, true));
}
