//! NVMe over Fabrics (NVMe Base 2.1, chapters 2.2, 3.3.2 and 6; NVMe-oF 1.1) and its TCP transport (TCP Transport 1.0).
//!
//! | file | what |
//! |---|---|
//! | [`fabrics_type`] | the kinds of Fabrics commands |
//! | [`command`] | a Fabrics command, parsed; Disconnect |
//! | [`connect`] | Connect: command, data, response |
//! | [`property`] | Property Get and Property Set |
//! | [`status`] | status codes of Fabrics commands |
//! | [`nqn`] | NVMe Qualified Names |
//! | [`data`] | SGL descriptors specific to fabrics |
//! | [`discovery`] | Discovery log page: header, entries, referrals |
//! | [`auth`] | Authentication Send and Receive; DH-HMAC-CHAP messages |
//! | [`tcp`] | NVMe/TCP PDUs: headers, digests, decoder and encoder |
//!
//! A capsule is a 64-byte submission queue entry followed by data, or a 16-byte completion queue entry (NVMe Base 2.1,
//! 2.2.4): [`Sqe`](crate::nvme::Sqe) and [`Cqe`](crate::nvme::Cqe) serve for both. The fabrics fields of Identify
//! Controller are in [`IdentifyController`](crate::nvme::IdentifyController).
//!
//! What it does not do: it has no sockets, no queue or association state, no cryptography and no TLS. Parsers check
//! structure and lengths; controllers check values.

pub mod auth;
pub mod command;
pub mod connect;
pub mod data;
pub mod discovery;
pub mod fabrics_type;
pub mod nqn;
pub mod property;
pub mod status;
pub mod tcp;

pub use command::{Disconnect, FabricsCommand};
pub use connect::{AuthRequirements, Connect, ConnectAttributes, ConnectData, Connected, InvalidParameter};
pub use data::DataPointer;
pub use fabrics_type::FabricsType;
pub use nqn::{Nqn, NqnError};
pub use property::{PropertyGet, PropertySet, PropertySize};
