//! Shared memory for the bytes of a unit: 4 KiB frames that are taken from, and returned to, memory allocated from the
//! system in huge pages. A drive that stores every byte touches new memory with nearly every write, and a page fault
//! for each 4 KiB costs more than the rest of a write.

use memmap2::{Advice, MmapMut};
use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

/// Bytes of a unit: the granularity at which flash is mapped and contents are kept.
pub const UNIT_BYTES: usize = 4096;

type Bytes = [u8; UNIT_BYTES];

/// The bytes of a unit. Clones share memory.
#[derive(Clone, PartialEq, Eq)]
pub struct UnitBytes(Rc<Frame>);

impl UnitBytes {
    /// A copy of `bytes`.
    pub fn copied(bytes: &Bytes) -> UnitBytes {
        let frame = take();
        frame.copy_from_slice(bytes);
        UnitBytes(Rc::new(Frame(Some(frame))))
    }

    /// Mutable access; copies the bytes if they are shared.
    pub fn make_mut(&mut self) -> &mut Bytes {
        if Rc::get_mut(&mut self.0).is_none() {
            *self = UnitBytes::copied(self);
        }
        let frame = Rc::get_mut(&mut self.0).and_then(|frame| frame.0.as_deref_mut());
        frame.expect("it is not shared, and holds a frame until it is dropped")
    }

    /// Whether both share the same memory.
    pub fn is(&self, other: &UnitBytes) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for UnitBytes {
    type Target = Bytes;

    #[inline]
    fn deref(&self) -> &Bytes {
        self.0.bytes()
    }
}

impl From<Bytes> for UnitBytes {
    fn from(bytes: Bytes) -> UnitBytes {
        UnitBytes::copied(&bytes)
    }
}

impl fmt::Debug for UnitBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

/// Memory for a unit, which is returned to its pool.
struct Frame(Option<&'static mut Bytes>);

impl Frame {
    #[inline]
    fn bytes(&self) -> &Bytes {
        self.0.as_deref().expect("it holds one until it is dropped")
    }
}

impl PartialEq for Frame {
    fn eq(&self, other: &Frame) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Frame {}

impl Drop for Frame {
    fn drop(&mut self) {
        let Some(frame) = self.0.take() else { return };
        let mut frame = Some(frame);
        let kept = POOL.try_with(|pool| pool.borrow_mut().free.extend(frame.take()));
        if kept.is_err() {
            left().extend(frame); // thread exit: the pool is gone
        }
    }
}

/// Bytes mapped at once. The system provides memory when it is touched, 2 MiB at a time if it has huge pages.
const CHUNK_BYTES: usize = 32 << 20;

/// A thread's free frames. The one freed last, which is in the cache, is reused first.
#[derive(Default)]
struct Pool {
    free: Vec<&'static mut Bytes>,
    /// Frames never used.
    fresh: &'static mut [Bytes],
}

impl Pool {
    fn take(&mut self) -> &'static mut Bytes {
        if let Some(frame) = self.free.pop() {
            return frame;
        }
        if self.fresh.is_empty() {
            self.free.append(&mut left());
            if let Some(frame) = self.free.pop() {
                return frame;
            }
            self.fresh = chunk();
        }
        let (first, rest) = std::mem::take(&mut self.fresh).split_first_mut().expect("a chunk has frames");
        self.fresh = rest;
        first
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut left = left();
        left.append(&mut self.free);
        left.extend(std::mem::take(&mut self.fresh));
    }
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// Frames of threads that have ended, for reuse by others.
static LEFT: Mutex<Vec<&'static mut Bytes>> = Mutex::new(Vec::new());

fn left() -> std::sync::MutexGuard<'static, Vec<&'static mut Bytes>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take() -> &'static mut Bytes {
    POOL.with(|pool| pool.borrow_mut().take())
}

/// New frames, all zeroes. Frames live as long as the program and are reused.
#[cold]
fn chunk() -> &'static mut [Bytes] {
    let bytes: &'static mut [u8] = match MmapMut::map_anon(CHUNK_BYTES) {
        Ok(map) => {
            // Only a hint: without huge pages it is just slower.
            let _ = map.advise(Advice::HugePage);
            &mut Box::leak(Box::new(map))[..]
        }
        // The system refuses a mapping of that size: allocate a single frame, or abort out of memory.
        Err(_) => Box::leak(vec![0; UNIT_BYTES].into_boxed_slice()),
    };
    bytes.as_chunks_mut().0
}

#[cfg(test)]
mod tests {
    use super::*;

    // Without reuse memory would grow with every write; reuse while shared would change a copy.
    #[test]
    fn frames_are_used_again_and_never_while_they_are_shared() {
        let first = UnitBytes::from([1; UNIT_BYTES]);
        let mut second = first.clone();
        assert!(second.is(&first));
        second.make_mut()[0] = 7;
        assert_eq!((first[0], second[0], second[1]), (1, 7, 1));
        let place = second.as_ptr();
        drop(second);
        let third = UnitBytes::from([3; UNIT_BYTES]);
        assert_eq!(third.as_ptr(), place);
        assert_eq!((first[4095], third[4095]), (1, 3));
    }

    // The memory of a sweep's threads must not be lost when they end.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a sweep's threads are what this is about")]
    fn what_a_thread_leaves_serves_others() {
        let used = || {
            let pages: Vec<UnitBytes> = (0..100).map(|nth| UnitBytes::from([nth; UNIT_BYTES])).collect();
            pages.iter().map(|page| page.as_ptr() as usize).collect::<Vec<_>>()
        };
        // Tests run concurrently, and another one may have taken the frames of one thread for good; hardly those of each.
        let mut seen = Vec::new();
        let again = (0..20).any(|_| {
            let places = std::thread::spawn(used).join().expect("it doesn't panic");
            let is_again = places.iter().any(|place| seen.contains(place));
            seen.extend(places);
            is_again
        });
        assert!(again);
    }
}
