//! The send queue of a connection.

use super::framing::{Framing, HEADER_BYTES_MAX, digest};
use super::pdu::Pdu;

/// Sent bytes are discarded once there are this many, even if others still wait.
const SENT_BYTES_MAX: usize = 64 << 10;
/// Capacity in bytes that is kept while the queue is empty.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// Encoded PDUs in order, of which a part was sent.
#[derive(Default)]
pub struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    /// Adds a PDU with its data.
    ///
    /// # Panics
    /// Same as [`Framing::encode_header`].
    pub fn push(&mut self, framing: Framing, pdu: &Pdu, data: &[u8]) {
        let data_bytes = u32::try_from(data.len()).expect("a PDU has less than 4 GiB of data");
        self.bytes.reserve(HEADER_BYTES_MAX + data.len());
        let mut header = [0; HEADER_BYTES_MAX];
        let header_bytes = framing.encode_header(pdu, data_bytes, &mut header);
        self.bytes.extend_from_slice(&header[..header_bytes]);
        self.bytes.extend_from_slice(data);
        if !data.is_empty() && framing.has_data_digest(pdu) {
            self.bytes.extend_from_slice(&digest(data));
        }
    }

    /// Bytes to be sent.
    pub fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Notes that `bytes` bytes were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_BYTES_MAX);
            self.sent = 0;
        } else if self.sent >= SENT_BYTES_MAX && self.sent >= self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pdu::{CapsuleResp, R2t};
    use super::*;
    use crate::nvme::{Cqe, Status};

    // For a host that reads slightly slower than data is queued, the queue must not keep everything sent since the
    // connection began.
    #[test]
    fn what_was_sent_is_given_up() {
        let mut outgoing = Outgoing::default();
        let framing = Framing::INITIAL;
        let pdu = Pdu::CapsuleResp(CapsuleResp::new(Cqe::new(1, Status::SUCCESS, 0, 0)));
        let (mut came, mut pushed) = (Vec::new(), Vec::new());
        for round in 0..100_000u32 {
            let request = Pdu::R2t(R2t::new(round as u16, 1, 0, round));
            for pdu in [&pdu, &request] {
                outgoing.push(framing, pdu, &[]);
                let from = pushed.len();
                pushed.resize(from + framing.pdu_bytes(pdu, 0) as usize, 0);
                framing.encode(pdu, &[], &mut pushed[from..]).unwrap();
            }
            let most = outgoing.unsent().len() - 1;
            came.extend_from_slice(&outgoing.unsent()[..most]);
            outgoing.sent(most);
        }
        came.extend_from_slice(outgoing.unsent());
        assert!(came == pushed);
        assert!(outgoing.bytes.capacity() < 4 * SENT_BYTES_MAX);
    }
}
