//! TLS's way to a socket: two functions that the library calls, with the socket's descriptor.
#![allow(unsafe_code, reason = "the library is C; every block says why it is sound")]

use s2n_tls::connection::Connection;
use s2n_tls::error::Error;
use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;

/// Has a connection read and write this descriptor. A descriptor that is closed meanwhile is an error to who reads or writes.
pub(super) fn attach(connection: &mut Connection, descriptor: RawFd) -> Result<(), Error> {
    let context = std::ptr::without_provenance_mut(descriptor as usize);
    connection.set_receive_callback(Some(receive))?.set_send_callback(Some(send))?;
    // SAFETY: the context is a number, which nothing is read through.
    unsafe { connection.set_receive_context(context)?.set_send_context(context)? };
    Ok(())
}

unsafe extern "C" fn receive(context: *mut c_void, buffer: *mut u8, bytes: u32) -> c_int {
    // SAFETY: the library gives memory of its own, of that many bytes; the rest is for the system to check.
    unsafe { libc::recv(context.addr() as RawFd, buffer.cast(), bytes as usize, 0) as c_int }
}

unsafe extern "C" fn send(context: *mut c_void, buffer: *const u8, bytes: u32) -> c_int {
    const FLAGS: c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the library gives that many bytes of its own memory; the rest is for the system to check.
    unsafe { libc::send(context.addr() as RawFd, buffer.cast(), bytes as usize, FLAGS) as c_int }
}
