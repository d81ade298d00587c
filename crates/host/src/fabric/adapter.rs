//! A host's adapter: the end of a network, simulated or of sockets, and the associations that use it.

use super::initiator::Initiator;
use super::message::{Connection, ToHost, ToTarget};
use byteway_auth::GeneratedPsk;
use byteway_clock::{Clock, Delay};
use byteway_link::{NetworkEnd, Parcel};
use byteway_wire::fabrics::Nqn;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// The host's end of a simulated network.
pub type HostNetwork = NetworkEnd<(Connection, ToTarget), (Connection, ToHost)>;

/// What brings messages to a target that is none of this simulation's.
pub trait Messenger {
    /// Sends a message. What comes back is given to [`Adapter::deliver`].
    fn send(&self, adapter: &Adapter, connection: Connection, message: ToTarget);

    /// An association's connections that are opened from now on lie in TLS with a key that authentication has generated for this
    /// host and subsystem; with none, they are as they were before.
    ///
    /// # Errors
    /// TLS cannot be used.
    fn secure(&self, association: u16, key: Option<Generated<'_>>) -> Result<(), NoChannel>;
}

/// A generated key, and for whom it is.
#[derive(Clone, Copy, Debug)]
pub struct Generated<'a> {
    /// The key.
    pub psk: &'a GeneratedPsk,
    /// This host.
    pub host: Nqn,
    /// The subsystem.
    pub subsystem: Nqn,
}

/// There is no TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoChannel;

/// Where messages go.
enum Network {
    Simulated(HostNetwork),
    Real(Clock, Box<dyn Messenger>),
}

struct Inner {
    network: Network,
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
    pub fn new(network: HostNetwork) -> Adapter {
        let clock = network.clock().clone();
        let adapter = Adapter::of(Network::Simulated(network.clone()));
        let receiving = adapter.clone();
        clock.spawn("host's adapter", async move {
            loop {
                let (connection, message) = network.receive().await;
                receiving.deliver(connection, message);
            }
        });
        adapter
    }

    /// With a messenger, in real time.
    pub fn real(clock: &Clock, messenger: Box<dyn Messenger>) -> Adapter {
        Adapter::of(Network::Real(clock.clone(), messenger))
    }

    fn of(network: Network) -> Adapter {
        Adapter(Rc::new(Inner {
            network,
            associations: RefCell::default(),
            strays: Cell::default(),
            spare: RefCell::default(),
        }))
    }

    /// Gives a message that has come to its association.
    pub fn deliver(&self, connection: Connection, message: ToHost) {
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
        match &self.0.network {
            Network::Simulated(network) => network.clock(),
            Network::Real(clock, _) => clock,
        }
    }

    /// The end of the simulated network; none: it is a real one.
    pub fn network(&self) -> Option<&HostNetwork> {
        match &self.0.network {
            Network::Simulated(network) => Some(network),
            Network::Real(..) => None,
        }
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
        match &self.0.network {
            Network::Simulated(network) => {
                network.send(parcel, bytes, |queued| (connection, message(queued)));
            }
            Network::Real(_, messenger) => messenger.send(self, connection, message(Delay::ZERO)),
        }
    }

    /// Has an association's connections lie in TLS from now on, or not any more.
    pub(crate) fn secure(&self, association: u16, key: Option<Generated<'_>>) -> Result<(), NoChannel> {
        match &self.0.network {
            Network::Simulated(_) if key.is_some() => Err(NoChannel),
            Network::Simulated(_) => Ok(()),
            Network::Real(_, messenger) => messenger.secure(association, key),
        }
    }

    /// An empty buffer for data.
    pub fn buffer(&self) -> Vec<u8> {
        self.0.spare.borrow_mut().pop().unwrap_or_default()
    }

    /// It is not needed any more.
    pub fn reuse(&self, mut data: Vec<u8>) {
        let mut spare = self.0.spare.borrow_mut();
        if spare.len() < SPARE_MAX {
            data.clear();
            spare.push(data);
        }
    }
}
