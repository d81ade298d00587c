//! vfio-user: the protocol between a host's process and the process that serves a device.
//!
//! | file | what |
//! |---|---|
//! | [`message`] | the header, what each command carries, capabilities |
//! | [`channel`] | a socket that carries messages and descriptors |
//! | [`peer`] | which process is at the other end, and whether it shares its memory |
//! | [`remote`] | memory of the client that is not shared: reached by messages |
//! | [`session`] | one client's messages, acted on |
//! | [`server`] | the socket, and which client is served |
//! | [`client`] | the host's end, blocking |
//!
//! As QEMU 11.1 and SPDK's host use it. Not here: migration, dirty pages, a second socket for the server's requests,
//! descriptors for single registers.

pub mod channel;
pub mod client;
pub mod message;
pub mod peer;
pub mod remote;
pub mod server;
pub mod session;

pub use client::Client;
pub use server::Server;
