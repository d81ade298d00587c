//! A client of echoes, and what each number must hold.

use byteway_clock::SpanRecord;
use byteway_device::controller::command_set::echo::{BYTES_MAX, COUNT, GET, PUT};
use byteway_host::{
    Carrier, ClientError, ClientErrorKind, Counts, IoBuffer, IoError, Method, Opened, QueuePair, Rules,
    TransferConfig,
};
use byteway_wire::nvme::{Cqe, Sqe, Status, VendorOpcode};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Errors of echoes, in addition to those of any I/O.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EchoError {
    /// A number has another echo than was put.
    #[error("number {number} has another echo than was put")]
    Mismatch {
        /// The number.
        number: u32,
    },
    /// There are not as many as were put.
    #[error("{counted} numbers have an echo and {expected} were put")]
    Count {
        /// How many the drive counts.
        counted: u32,
        /// How many there must be.
        expected: u32,
    },
}

impl ClientError for EchoError {
    fn kind(&self) -> ClientErrorKind {
        ClientErrorKind::WrongData
    }
}

/// Why an operation of such a client failed.
pub type EchoIoError = IoError<EchoError>;

/// Echoes of one namespace over one queue pair, one operation at a time.
pub struct EchoClient {
    carrier: Carrier,
    nsid: u32,
    expected: Rc<RefCell<BTreeMap<u32, Vec<u8>>>>,
    version: Cell<u8>,
}

impl EchoClient {
    /// Of a namespace that has no echoes.
    pub fn new(queue: QueuePair, nsid: u32, method: Method) -> EchoClient {
        let config = TransferConfig::<()>::new(Rules::only(method), BYTES_MAX);
        let carrier = Carrier::new(queue, &config);
        EchoClient { carrier, nsid, expected: Rc::default(), version: Cell::default() }
    }

    /// Of the same namespace as another, which knows what that has put.
    pub fn sharing(queue: QueuePair, other: &EchoClient, method: Method) -> EchoClient {
        let expected = other.expected.clone();
        EchoClient { expected, ..EchoClient::new(queue, other.nsid, method) }
    }

    pub fn queue(&self) -> &QueuePair {
        self.carrier.queue()
    }

    pub fn counts(&self) -> Counts {
        self.carrier.counts()
    }

    pub fn buffer(&self) -> Result<IoBuffer, IoError> {
        self.carrier.buffer()
    }

    /// How many numbers must have an echo.
    pub fn held(&self) -> u32 {
        self.expected.borrow().len() as u32
    }

    /// Expects nothing stored any more.
    pub fn forget(&self) {
        self.expected.borrow_mut().clear();
    }

    /// Sets the expected content of a number, independent of earlier puts.
    pub fn expect(&self, number: u32, echo: &[u8]) {
        self.expected.borrow_mut().insert(number, echo.to_vec());
    }

    fn sqe(&self, opcode: VendorOpcode, number: u32, bytes: u32) -> Sqe {
        Sqe { cdw10: number, cdw11: bytes, ..Sqe::new(opcode, 0, self.nsid) }
    }

    /// Puts an echo of `bytes`, another than the one before.
    pub async fn put(
        &self,
        buffer: &mut IoBuffer,
        number: u32,
        bytes: u32,
    ) -> Result<SpanRecord, EchoIoError> {
        self.version.set(self.version.get().wrapping_add(1));
        let echo: Vec<u8> = (0..bytes as u8).map(|at| at.wrapping_mul(7) ^ self.version.get()).collect();
        self.carrier.put(buffer, &echo).map_err(IoError::of_client)?;
        let opened = Opened::open(self.queue().port());
        let sqe = self.sqe(PUT, number, bytes);
        let sent = self.carrier.send(opened.span(), sqe, buffer, bytes).await;
        let (record, _) = self.close(opened, sent)?;
        self.expected.borrow_mut().insert(number, echo);
        Ok(record)
    }

    /// Gets what was put, or that nothing was.
    pub async fn get(&self, buffer: &mut IoBuffer, number: u32) -> Result<SpanRecord, EchoIoError> {
        let opened = Opened::open(self.queue().port());
        let sqe = self.sqe(GET, number, BYTES_MAX);
        let received = self.carrier.receive(opened.span(), sqe, buffer, BYTES_MAX).await;
        let expected = self.expected.borrow().get(&number).cloned();
        match received {
            Ok(cqe) if cqe.status().is(Status::KEY_DOES_NOT_EXIST) && expected.is_none() => {
                Ok(opened.close(self.queue().port()))
            }
            received => {
                let (record, cqe) = self.close(opened, received)?;
                let mut got = vec![0; cqe.dw0.min(BYTES_MAX) as usize];
                self.carrier.get(buffer, &mut got).map_err(IoError::of_client)?;
                match Some(got) == expected {
                    true => Ok(record),
                    false => Err(IoError::Client(EchoError::Mismatch { number })),
                }
            }
        }
    }

    /// Counts the numbers that have an echo.
    pub async fn count(&self) -> Result<SpanRecord, EchoIoError> {
        let opened = Opened::open(self.queue().port());
        let executed =
            self.queue().execute(byteway_host::Request::from(self.sqe(COUNT, 0, 0)).within(opened.span()));
        let executed = executed.await.map_err(IoError::Lost);
        let (record, cqe) = self.close(opened, executed)?;
        let (counted, expected) = (cqe.dw0, self.held());
        match counted == expected {
            true => Ok(record),
            false => Err(IoError::Client(EchoError::Count { counted, expected })),
        }
    }

    fn close(&self, opened: Opened, ended: Result<Cqe, IoError>) -> Result<(SpanRecord, Cqe), EchoIoError> {
        let record = opened.close(self.queue().port());
        match ended.map_err(IoError::of_client)? {
            cqe if cqe.status().is_success() => Ok((record, cqe)),
            cqe => Err(IoError::Status(cqe.status())),
        }
    }
}
