//! A host's adapter: the end of a network, and the associations that use it.

use super::initiator::Initiator;
use super::message::{Connection, ToHost, ToTarget};
use byteway_clock::{Clock, Delay};
use byteway_link::{NetworkEnd, Parcel};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

struct Inner {
    network: NetworkEnd<(Connection, ToTarget), (Connection, ToHost)>,
    associations: RefCell<Vec<Weak<Initiator>>>,
    /// Messages for associations that are gone.
    strays: Cell<u64>,
    /// Memory of messages that have come, for those that go.
    spare: RefCell<Vec<Vec<u8>>>,
}

/// An adapter. Cheap to clone.
#[derive(Clone)]
pub struct Adapter(Rc<Inner>);

/// Buffers that are kept.
const SPARE_MAX: usize = 256;

impl Adapter {
    /// At this end of a network.
    pub fn new(network: NetworkEnd<(Connection, ToTarget), (Connection, ToHost)>) -> Adapter {
        let clock = network.clock().clone();
        let adapter = Adapter(Rc::new(Inner {
            network,
            associations: RefCell::default(),
            strays: Cell::default(),
            spare: RefCell::default(),
        }));
        let receiving = adapter.clone();
        clock.spawn("host's adapter", async move {
            loop {
                let (connection, message) = receiving.0.network.receive().await;
                receiving.dispatch(connection, message);
            }
        });
        adapter
    }

    fn dispatch(&self, connection: Connection, message: ToHost) {
        let associations = self.0.associations.borrow();
        let found = associations.get(usize::from(connection.association)).and_then(Weak::upgrade);
        drop(associations);
        match found {
            Some(initiator) => initiator.receive(connection, message),
            None => self.0.strays.set(self.0.strays.get() + 1),
        }
    }

    /// Takes an association up: its number.
    pub(crate) fn join(&self, initiator: Weak<Initiator>) -> u16 {
        let mut associations = self.0.associations.borrow_mut();
        associations.push(initiator);
        (associations.len() - 1) as u16
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.0.network.clock()
    }

    /// The network's end.
    pub fn network(&self) -> &NetworkEnd<(Connection, ToTarget), (Connection, ToHost)> {
        &self.0.network
    }

    /// Messages that came for associations that are gone.
    pub fn strays(&self) -> u64 {
        self.0.strays.get()
    }

    pub(crate) fn send(
        &self,
        parcel: Parcel,
        bytes: u64,
        connection: Connection,
        message: impl FnOnce(Delay) -> ToTarget,
    ) {
        self.0.network.send(parcel, bytes, |queued| (connection, message(queued)));
    }

    /// An empty buffer for data.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        self.0.spare.borrow_mut().pop().unwrap_or_default()
    }

    /// It is not needed any more.
    pub(crate) fn reuse(&self, mut data: Vec<u8>) {
        let mut spare = self.0.spare.borrow_mut();
        if spare.len() < SPARE_MAX {
            data.clear();
            spare.push(data);
        }
    }
}
