//! Structures and lists, as a peer reads them.

mod fabrics;
mod lists;
mod nvme_tcp;
mod nvme_tcp_faults;
mod round_trip;
