//! The TLS library's socket I/O: two functions that it calls, with the socket's descriptor.
#![allow(unsafe_code, reason = "the library is C; every block says why it is sound")]

use s2n_tls::connection::Connection;
use s2n_tls::error::Error;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;
use std::rc::Rc;

/// A socket, and how many bytes the library may still receive: empty records would otherwise keep it busy for
/// as long as the other end sends them.
pub(super) struct Descriptor {
    number: RawFd,
    left: Cell<usize>,
}

impl Descriptor {
    /// Refers to a socket that outlives this; I/O on a closed one returns an error.
    pub fn new(number: RawFd) -> Rc<Self> {
        Rc::new(Descriptor { number, left: Cell::new(0) })
    }

    /// Sets the number of bytes that may be received until the next call.
    pub fn allow(&self, bytes: usize) {
        self.left.set(bytes);
    }
}

/// Makes a connection use a descriptor, which has to be dropped after the connection.
pub(super) fn attach(connection: &mut Connection, descriptor: &Rc<Descriptor>) -> Result<(), Error> {
    let context = Rc::as_ptr(descriptor).cast_mut().cast();
    connection.set_receive_callback(Some(receive))?.set_send_callback(Some(send))?;
    // SAFETY: what is behind it outlives the connection, is not moved, and is only ever shared.
    unsafe { connection.set_receive_context(context)?.set_send_context(context)? };
    Ok(())
}

unsafe extern "C" fn receive(context: *mut c_void, buffer: *mut u8, bytes: u32) -> c_int {
    // SAFETY: the context is that of `attach`.
    let descriptor = unsafe { &*context.cast::<Descriptor>() };
    let left = descriptor.left.get();
    if left == 0 {
        // SAFETY: errno is this thread's. It tells the library that the call would block.
        unsafe { *libc::__errno_location() = libc::EAGAIN };
        return -1;
    }
    let bytes = left.min(bytes as usize);
    // SAFETY: the library gives memory of its own, of at least that many bytes; the rest is for the system to check.
    let taken = unsafe { libc::recv(descriptor.number, buffer.cast(), bytes, 0) };
    descriptor.left.set(left - usize::try_from(taken).unwrap_or(0));
    taken as c_int
}

unsafe extern "C" fn send(context: *mut c_void, buffer: *const u8, bytes: u32) -> c_int {
    const FLAGS: c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the context is that of `attach`.
    let descriptor = unsafe { &*context.cast::<Descriptor>() };
    // SAFETY: the library gives that many bytes of its own memory; the rest is for the system to check.
    unsafe { libc::send(descriptor.number, buffer.cast(), bytes as usize, FLAGS) as c_int }
}
