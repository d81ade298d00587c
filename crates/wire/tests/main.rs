//! Structures and lists, by what a peer reads of them.

mod fabrics;
mod lists;
mod nvme_tcp;
mod nvme_tcp_faults;
mod round_trip;
