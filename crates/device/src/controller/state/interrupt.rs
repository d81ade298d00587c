//! Interrupt messages and their coalescing (NVMe Base 2.1, 5.1.25.2.2 and 5.1.25.2.3).

use byteway_clock::{Clock, Delay, Mailbox, Time};
use byteway_link::DeviceEnd;
use byteway_wire::nvme::feature::InterruptCoalescing;
use std::cell::{Cell, RefCell};

#[derive(Clone, Copy, Default)]
struct Vector {
    /// Completions that no message has announced.
    unannounced: u32,
    /// Number of messages sent, so that a deadline can tell whether one was sent since.
    messages: u64,
    /// Coalescing is disabled for this vector.
    uncoalesced: bool,
    /// A message is due but masked.
    pending: bool,
}

/// Decides when the message of a vector is sent.
pub struct Interrupts {
    clock: Clock,
    port: DeviceEnd,
    coalescing: Cell<InterruptCoalescing>,
    vectors: RefCell<Vec<Vector>>,
    deadlines: Mailbox<(u16, u64, Time)>,
}

/// The unit of the aggregation time.
const AGGREGATION_TIME: Delay = Delay::from_us(100);

impl Interrupts {
    /// State for `vectors` vectors, none coalesced.
    pub fn new(port: &DeviceEnd, vectors: u16) -> Self {
        Interrupts {
            clock: port.clock().clone(),
            port: port.clone(),
            coalescing: Cell::new(InterruptCoalescing::new()),
            vectors: RefCell::new(vec![Vector::default(); vectors as usize]),
            deadlines: Mailbox::new(port.clock()),
        }
    }

    /// Resets to the state after power-on.
    pub fn reset(&self) {
        self.coalescing.set(InterruptCoalescing::new());
        for vector in self.vectors.borrow_mut().iter_mut() {
            *vector = Vector { messages: vector.messages + 1, ..Vector::default() };
        }
    }

    /// Sets threshold and time. Waiting completions are announced at once: deadlines are kept in order, so an
    /// earlier new deadline would have to wait for an old one.
    pub fn set_coalescing(&self, coalescing: InterruptCoalescing, mask: u32) {
        self.coalescing.set(coalescing);
        self.deadlines.clear();
        let count = self.vectors.borrow().len();
        for vector in 0..count {
            if self.vectors.borrow()[vector].unannounced > 0 {
                self.announce(vector as u16, mask);
            }
        }
    }

    /// Current threshold and time.
    pub fn coalescing(&self) -> InterruptCoalescing {
        self.coalescing.get()
    }

    /// Enables or disables coalescing for a vector. Returns false if the vector does not exist.
    pub fn set_uncoalesced(&self, vector: u16, uncoalesced: bool) -> bool {
        match self.vectors.borrow_mut().get_mut(vector as usize) {
            Some(vector) => {
                vector.uncoalesced = uncoalesced;
                true
            }
            None => false,
        }
    }

    /// Whether coalescing is disabled for a vector; `None` if the vector does not exist.
    pub fn uncoalesced(&self, vector: u16) -> Option<bool> {
        self.vectors.borrow().get(vector as usize).map(|vector| vector.uncoalesced)
    }

    /// Notes a completion in a queue of `vector`. Completions of the admin queue are never coalesced.
    pub fn completion(&self, vector: u16, admin: bool, mask: u32) {
        let send = {
            let mut vectors = self.vectors.borrow_mut();
            let Some(state) = vectors.get_mut(vector as usize) else { return };
            state.unannounced += 1;
            let coalescing = self.coalescing.get();
            let at_once = admin || state.uncoalesced || coalescing.time() == 0 || coalescing.thr_z() == 0;
            if !at_once && state.unannounced == 1 {
                let deadline = self.clock.now() + AGGREGATION_TIME * u64::from(coalescing.time());
                self.deadlines.send_at(deadline, (vector, state.messages, deadline));
            }
            at_once || state.unannounced > u32::from(coalescing.thr_z())
        };
        if send {
            self.announce(vector, mask);
        }
    }

    /// The vector of the next deadline that passes without a message.
    pub async fn expired(&self) -> u16 {
        loop {
            let (vector, messages, deadline) = self.deadlines.receive().await;
            // Where posted writes arrive in no time this deadline passes at once, too; but its time is real.
            let early = deadline.since(self.clock.now());
            if early > Delay::ZERO {
                self.clock.timer(early).await;
            }
            let waits = self
                .vectors
                .borrow()
                .get(vector as usize)
                .is_some_and(|state| state.messages == messages && state.unannounced > 0);
            if waits {
                return vector;
            }
        }
    }

    /// Sends the message of `vector`, or holds it while the vector is masked.
    pub fn announce(&self, vector: u16, mask: u32) {
        {
            let mut vectors = self.vectors.borrow_mut();
            let Some(state) = vectors.get_mut(vector as usize) else { return };
            if vector < 32 && mask & 1 << vector != 0 {
                state.pending = true;
                return;
            }
            state.unannounced = 0;
            state.pending = false;
            state.messages += 1;
        }
        self.port.interrupt(vector);
    }

    /// Vectors were unmasked: sends held messages.
    pub fn unmasked(&self, mask: u32) {
        let count = self.vectors.borrow().len().min(32);
        for vector in 0..count {
            if self.vectors.borrow()[vector].pending {
                self.announce(vector as u16, mask);
            }
        }
    }
}
