//! A SIGBUS handler that survives the loss of mapped memory. The other process can truncate a mapped file; an
//! access to the lost pages then raises SIGBUS, which by default ends this process.
//!
//! The handler replaces the lost page by a page of zeroes, so that the access continues, and marks the
//! mapping as lost. The accessing code checks the mark afterwards and discards what it read.
//!
//! The handler is installed with the first mapping. A SIGBUS outside these mappings goes to the previous
//! handler. A library that installs a SIGBUS handler later disables this protection.
#![allow(unsafe_code, reason = "signal handlers are; every block says why it is sound")]

use std::io;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

/// Maximum number of guarded mappings in the process.
const RANGES_MAX: usize = 8192;

/// Addresses of a mapping. Written by the thread that maps, read by the handler on any thread.
struct Range {
    is_taken: AtomicBool,
    /// Zero if the entry is free: nothing is ever mapped at address zero.
    start: AtomicUsize,
    end: AtomicUsize,
    page_bytes: AtomicUsize,
    is_lost: AtomicBool,
}

impl Range {
    const fn free() -> Range {
        Range {
            is_taken: AtomicBool::new(false),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            page_bytes: AtomicUsize::new(0),
            is_lost: AtomicBool::new(false),
        }
    }

    /// Start and length of the page that holds `address`, if this mapping covers it.
    fn page_of(&self, address: usize) -> Option<(usize, usize)> {
        let start = self.start.load(Ordering::Acquire);
        let (end, page_bytes) = (self.end.load(Ordering::Acquire), self.page_bytes.load(Ordering::Acquire));
        // Another thread may have reused the entry meanwhile; then the address was not in this thread's
        // mapping.
        let is_same = self.start.load(Ordering::Acquire) == start;
        let is_here = start != 0 && is_same && (start..end).contains(&address);
        is_here.then_some((address & !page_bytes.wrapping_sub(1), page_bytes))
    }
}

/// Lock-free, because a signal handler must not wait for a lock.
static RANGES: [Range; RANGES_MAX] = [const { Range::free() }; RANGES_MAX];
/// Entries at and after this index have never been used.
static RANGES_USED: AtomicUsize = AtomicUsize::new(0);
/// The previous SIGBUS handler.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();
/// Result of installing the handler: the errno on failure.
static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();

/// Guards a mapping while it lives. Drop it before the mapping.
pub(super) struct Guard(&'static Range);

impl Guard {
    /// Guards the `bytes` mapped at `start`, in pages of `page_bytes`, a power of two. None if the limit of
    /// guarded mappings is reached.
    pub(super) fn new(start: *const u8, bytes: usize, page_bytes: usize) -> io::Result<Option<Guard>> {
        debug_assert!(page_bytes.is_power_of_two());
        install()?;
        let claim = |range: &&Range| {
            range.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let Some(index) = RANGES.iter().position(|range| claim(&range)) else { return Ok(None) };
        RANGES_USED.fetch_max(index + 1, Ordering::Release);
        let range = &RANGES[index];
        range.is_lost.store(false, Ordering::Relaxed);
        range.page_bytes.store(page_bytes, Ordering::Release);
        range.end.store(start as usize + bytes, Ordering::Release);
        range.start.store(start as usize, Ordering::Release);
        Ok(Some(Guard(range)))
    }

    /// Whether a page of the mapping was lost. Check after each access, because that access may be the one
    /// that finds out.
    #[inline]
    pub(super) fn is_lost(&self) -> bool {
        // The handler runs on the accessing thread, so only the compiler could move this check before the
        // access.
        compiler_fence(Ordering::SeqCst);
        self.0.is_lost.load(Ordering::Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.start.store(0, Ordering::Release);
        self.0.end.store(0, Ordering::Release);
        self.0.is_taken.store(false, Ordering::Release);
    }
}

fn install() -> io::Result<()> {
    let installed = INSTALLED.get_or_init(|| {
        // SAFETY: `sigaction` is integers, for which zeroes are a value, and the two are valid for the calls.
        // The handler has the type that SA_SIGINFO asks for, and does only what a handler may.
        unsafe {
            let mut previous: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGBUS, ptr::null(), &mut previous) != 0 {
                return Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL));
            }
            PREVIOUS.get_or_init(|| previous); // before the handler can need it
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_bus_error;
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&mut action.sa_mask);
            if libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL));
            }
        }
        Ok(())
    });
    installed.map_err(io::Error::from_raw_os_error)
}

/// Signal handler of SIGBUS. Uses only atomics and system calls, and preserves errno.
extern "C" fn on_bus_error(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `info`, whose address field is there for a SIGBUS; errno is this
    // thread's.
    unsafe {
        // Positive codes come from the kernel; a SIGBUS sent by a process has no address.
        let is_fault = (*info).si_code > 0;
        let errno = *libc::__errno_location();
        let is_replaced = is_fault && replace((*info).si_addr() as usize);
        *libc::__errno_location() = errno;
        if !is_replaced {
            pass_on(signal, info, context, is_fault);
        }
    }
}

/// Replaces the page that holds `address` by zeroes, if it belongs to a guarded mapping. Returns whether it
/// did.
fn replace(address: usize) -> bool {
    let used = RANGES_USED.load(Ordering::Acquire).min(RANGES_MAX);
    let found = RANGES[..used].iter().find_map(|range| Some((range, range.page_of(address)?)));
    let Some((range, (page, page_bytes))) = found else { return false };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the page is a whole page of a mapping of this module's user, which is mapped in such pages and
    // accessed through raw pointers only, by the thread that just did. No reference into it exists.
    let mapped = unsafe { libc::mmap(page as *mut _, page_bytes, protection, flags, -1, 0) };
    range.is_lost.store(true, Ordering::Relaxed);
    mapped != libc::MAP_FAILED
}

/// Treats a SIGBUS as if this module did not exist.
///
/// # Safety
/// Call only from the handler, with its arguments.
unsafe fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void, is_fault: bool) {
    let previous = PREVIOUS.get();
    let handler = previous.map_or(libc::SIG_DFL, |action| action.sa_sigaction);
    // SAFETY: what stood as the handler of SIGBUS is called as the kernel would have called it; the default
    // action is put in place as it was.
    unsafe {
        match handler {
            libc::SIG_IGN if !is_fault => {}
            libc::SIG_DFL | libc::SIG_IGN => {
                // On return the faulting instruction runs again, and a sent signal is sent again.
                libc::signal(signal, libc::SIG_DFL);
                if !is_fault {
                    libc::raise(signal);
                }
            }
            _ if previous.is_some_and(|action| action.sa_flags & libc::SA_SIGINFO != 0) => {
                let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
            _ => {
                let handler: extern "C" fn(i32) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}
