//! Access to idle-resource tables over the fabric: the cost of reading a table, and of writing a line.

use super::state::Inner;
use crate::decision::descriptor::TABLE_BYTES;
use crate::fabric::{LINE_BYTES, Node};

/// Why a table was not read: its drive has no power, or its link is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreachable;

impl Inner {
    /// Whether a drive's table can be read from a node.
    pub(super) fn is_reachable(&self, from: Node, of: usize) -> bool {
        let is_there = self.members.get(of).is_some_and(|member| member.present().is_some());
        is_there && self.fabric.reaches(from, Node::Drive(of))
    }

    /// Reads a table over the fabric.
    pub(super) async fn read_table(&self, from: Node, of: usize) -> Result<(), Unreachable> {
        if !self.is_reachable(from, of) {
            return Err(Unreachable);
        }
        let asked = self.fabric.send(from, Node::Drive(of), 0);
        self.clock.sleep_until(asked.arrival).await;
        let table = self.fabric.send(Node::Drive(of), from, TABLE_BYTES as u64);
        self.clock.sleep_until(table.arrival).await;
        if self.is_reachable(from, of) { Ok(()) } else { Err(Unreachable) }
    }

    /// Writes a line of a peer's table. On return it has arrived.
    pub(super) async fn write_table(&self, from: Node, of: usize) -> Result<(), Unreachable> {
        if !self.is_reachable(from, of) {
            return Err(Unreachable);
        }
        let said = self.fabric.send(from, Node::Drive(of), LINE_BYTES);
        self.clock.sleep_until(said.arrival).await;
        if self.is_reachable(from, of) { Ok(()) } else { Err(Unreachable) }
    }
}
