//! Commands of a controller that wait for their turn, which its host may abort. What is at the drive already goes on to its end: another
//! owner of the drive's queue pairs may use the same identifiers, and an Abort is no promise (NVMe Base 2.1, 5.1.1).

use byteway_clock::{Clock, Notify};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// The queue and the identifier of a command, as its host has chosen them, and whether it is aborted.
struct Entry {
    name: (u16, u16),
    is_aborted: Rc<Cell<bool>>,
}

/// Those of one controller.
pub(crate) struct Waiting {
    entries: RefCell<Vec<Entry>>,
    aborted: Notify,
}

impl Waiting {
    pub fn new(clock: &Clock) -> Waiting {
        Waiting { entries: RefCell::default(), aborted: Notify::new(clock) }
    }

    /// Waits for a command's turn. None: it was aborted, and has taken nothing.
    pub async fn unless_aborted<T>(&self, name: (u16, u16), turn: impl Future<Output = T>) -> Option<T> {
        let mut turn = pin!(turn);
        if let Poll::Ready(turn) = poll_fn(|context| Poll::Ready(turn.as_mut().poll(context))).await {
            return Some(turn); // as nearly always
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

    /// Aborts those of a queue, which is gone.
    pub fn abort_queue(&self, qid: u16) {
        let entries = self.entries.borrow();
        entries.iter().filter(|entry| entry.name.0 == qid).for_each(|entry| entry.is_aborted.set(true));
        self.aborted.notify_all();
    }

    /// Aborts a command; false: it does not wait, or there is none.
    pub fn abort(&self, name: (u16, u16)) -> bool {
        let entries = self.entries.borrow();
        let found = entries.iter().find(|entry| entry.name == name && !entry.is_aborted.get());
        let Some(entry) = found else { return false };
        entry.is_aborted.set(true);
        self.aborted.notify_all();
        true
    }
}

/// A command is listed until this is dropped.
struct Listed<'a> {
    waiting: &'a Waiting,
    is_aborted: &'a Rc<Cell<bool>>,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.waiting.entries.borrow_mut().retain(|entry| !Rc::ptr_eq(&entry.is_aborted, self.is_aborted));
    }
}
