//! Commands of a controller that wait for their turn, which its host may abort. A command already at the
//! drive runs to its end: another user of the drive's queue pairs may use the same identifier, and an Abort
//! may have no effect (NVMe Base 2.1, 5.1.1).

use byteway_clock::{Clock, Notify};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// Queue identifier and command identifier of a waiting command, and whether it is aborted.
struct Entry {
    name: (u16, u16),
    is_aborted: Rc<Cell<bool>>,
}

/// The waiting commands of one controller.
pub(crate) struct Waiting {
    entries: RefCell<Vec<Entry>>,
    aborted: Notify,
}

impl Waiting {
    pub fn new(clock: &Clock) -> Waiting {
        Waiting { entries: RefCell::default(), aborted: Notify::new(clock) }
    }

    /// Waits for a command's turn. `None`: it was aborted, and holds nothing.
    pub async fn unless_aborted<T>(&self, name: (u16, u16), turn: impl Future<Output = T>) -> Option<T> {
        let mut turn = pin!(turn);
        if let Poll::Ready(turn) = poll_fn(|context| Poll::Ready(turn.as_mut().poll(context))).await {
            return Some(turn); // the common case: no wait
        }
        let is_aborted = Rc::<Cell<bool>>::default();
        self.entries.borrow_mut().push(Entry { name, is_aborted: is_aborted.clone() });
        let _listed = Listed { waiting: self, is_aborted: &is_aborted };
        let mut aborted = pin!(async {
            while !is_aborted.get() {
                self.aborted.notified().await;
            }
        });
        poll_fn(|context| {
            if aborted.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            turn.as_mut().poll(context).map(Some)
        })
        .await
    }

    /// Aborts the waiting commands of a closed queue.
    pub fn abort_queue(&self, qid: u16) {
        let entries = self.entries.borrow();
        entries.iter().filter(|entry| entry.name.0 == qid).for_each(|entry| entry.is_aborted.set(true));
        self.aborted.notify_all();
    }

    /// Aborts a command; false: no such command waits.
    pub fn abort(&self, name: (u16, u16)) -> bool {
        let entries = self.entries.borrow();
        let found = entries.iter().find(|entry| entry.name == name && !entry.is_aborted.get());
        let Some(entry) = found else { return false };
        entry.is_aborted.set(true);
        self.aborted.notify_all();
        true
    }
}

/// Keeps a command listed until it is dropped.
struct Listed<'a> {
    waiting: &'a Waiting,
    is_aborted: &'a Rc<Cell<bool>>,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.waiting.entries.borrow_mut().retain(|entry| !Rc::ptr_eq(&entry.is_aborted, self.is_aborted));
    }
}
