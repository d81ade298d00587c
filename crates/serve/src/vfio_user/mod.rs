//! vfio-user: the protocol between a host's process and the process that serves a device.
//!
//! | file | what |
//! |---|---|
//! | [`message`] | header, payload of each command, capabilities |
//! | [`channel`] | a socket that carries messages and descriptors |
//! | [`peer`] | the process at the other end, and whether it shares its memory |
//! | [`remote`] | client memory that is not shared: reached by messages |
//! | [`session`] | the handler of one client's messages |
//! | [`server`] | the socket, and which client it serves |
//! | [`client`] | the host's end; its calls block |
//!
//! Compatible with QEMU 11.1 and SPDK's host. Not supported: migration, dirty page tracking, a second socket
//! for the server's requests, descriptors for single registers.

pub mod channel;
pub mod client;
pub mod message;
pub mod peer;
pub mod remote;
pub mod server;
pub mod session;

pub use client::Client;
pub use server::Server;
