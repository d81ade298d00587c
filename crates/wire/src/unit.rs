//! The bytes of a unit, shared: 4 KiB that come, and go back, to memory which the system is asked for in huge pages. A drive that
//! keeps every byte touches new memory with nearly every write, and a fault of the processor for each 4 KiB costs more than all
//! the rest of a write.

use crate::content::UNIT_BYTES;
use memmap2::{Advice, MmapMut};
use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

type Bytes = [u8; UNIT_BYTES];

/// The bytes of a unit. Cloning shares.
#[derive(Clone, PartialEq, Eq)]
pub struct UnitBytes(Rc<Frame>);

impl UnitBytes {
    /// A copy of `bytes`.
    pub fn copied(bytes: &Bytes) -> UnitBytes {
        let frame = take();
        frame.copy_from_slice(bytes);
        UnitBytes(Rc::new(Frame(Some(frame))))
    }

    /// The bytes, to be changed: a copy of them if they are shared.
    pub fn make_mut(&mut self) -> &mut Bytes {
        if Rc::get_mut(&mut self.0).is_none() {
            *self = UnitBytes::copied(self);
        }
        let frame = Rc::get_mut(&mut self.0).and_then(|frame| frame.0.as_deref_mut());
        frame.expect("it is not shared, and holds a frame until it is dropped")
    }

    /// Whether both are the same memory.
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

/// Memory for a unit, which goes back to where it came from.
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
            left().extend(frame); // the thread ends
        }
    }
}

/// Asked of the system at once. It gives memory as it is touched, 2 MiB at a time where it has huge pages.
const CHUNK_BYTES: usize = 32 << 20;

/// A thread's free frames. The one that was free last, and is in the cache, is taken first.
#[derive(Default)]
struct Pool {
    free: Vec<&'static mut Bytes>,
    /// Frames that were never used.
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

/// What threads that have ended leave to others.
static LEFT: Mutex<Vec<&'static mut Bytes>> = Mutex::new(Vec::new());

fn left() -> std::sync::MutexGuard<'static, Vec<&'static mut Bytes>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take() -> &'static mut Bytes {
    POOL.with(|pool| pool.borrow_mut().take())
}

/// More frames, all zeroes. Frames live as long as the program: what is free serves again.
#[cold]
fn chunk() -> &'static mut [Bytes] {
    let bytes: &'static mut [u8] = match MmapMut::map_anon(CHUNK_BYTES) {
        Ok(map) => {
            // Only a hint: without huge pages it is as right, and slower.
            let _ = map.advise(Advice::HugePage);
            &mut Box::leak(Box::new(map))[..]
        }
        // The system refuses a mapping of that size: a frame by itself, or the end of all memory.
        Err(_) => Box::leak(vec![0; UNIT_BYTES].into_boxed_slice()),
    };
    bytes.as_chunks_mut().0
}

#[cfg(test)]
mod tests {
    use super::*;

    // Memory that isn't used again would grow with every write; memory that is used while it is shared would change a copy.
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

    // A sweep's threads must not leave their memory to nobody.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a sweep's threads are what this is about")]
    fn what_a_thread_leaves_serves_others() {
        let used = || {
            let pages: Vec<UnitBytes> = (0..100).map(|nth| UnitBytes::from([nth; UNIT_BYTES])).collect();
            pages.iter().map(|page| page.as_ptr() as usize).collect::<Vec<_>>()
        };
        let first = std::thread::spawn(used).join().expect("it doesn't panic");
        // Tests run side by side: another may have taken what was left.
        let again = (0..20).any(|_| {
            let places = std::thread::spawn(used).join().expect("it doesn't panic");
            places.iter().any(|place| first.contains(place))
        });
        assert!(again);
    }
}
