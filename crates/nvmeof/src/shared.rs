//! State shared by the threads of a process: a value with change notification.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A value that any thread may change. Cheap to clone.
pub(crate) struct Shared<T>(Arc<Mutex<Inner<T>>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

struct Inner<T> {
    value: T,
    watchers: BTreeMap<u64, Watcher>,
    next: u64,
}

type Watcher = Arc<dyn Fn() + Send + Sync>;

impl<T: Send + 'static> Shared<T> {
    pub fn new(value: T) -> Self {
        Shared(Arc::new(Mutex::new(Inner { value, watchers: BTreeMap::new(), next: 0 })))
    }

    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        // No code panics while holding the lock, and the value is consistent at any moment, so a poisoned
        // lock is usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.lock().value)
    }

    /// Changes the value, and notifies the watchers.
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let (result, watchers) = {
            let mut inner = self.lock();
            (change(&mut inner.value), inner.watchers.values().cloned().collect::<Vec<_>>())
        };
        watchers.iter().for_each(|watcher| watcher());
        result
    }

    /// Calls `watcher` after each change, from the thread that makes it, until the result is dropped.
    pub fn watch(&self, watcher: impl Fn() + Send + Sync + 'static) -> Watching {
        let mut inner = self.lock();
        let key = inner.next;
        inner.next += 1;
        inner.watchers.insert(key, Arc::new(watcher));
        let shared = self.clone();
        Watching(Some(Box::new(move || _ = shared.lock().watchers.remove(&key))))
    }
}

/// Keeps a watcher registered until it is dropped.
#[must_use = "changes are watched only until it is dropped"]
pub struct Watching(Option<Box<dyn FnOnce() + Send>>);

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}
