//! A channel: the bus that the dies of one column share, one transfer at a time.

use crate::line::Line;
use crate::timing::ChannelOrder;
use byteway_clock::{Delay, Time};

/// Kind of transfer that a die needs the channel for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Command cycles of a read or an erase.
    Command,
    /// Data of a read.
    DataOut,
    /// Command cycles and data of a program.
    DataIn,
}

impl Use {
    /// Class in the channel's queue, 0 first.
    pub(crate) fn class(self, order: ChannelOrder) -> usize {
        match (order, self) {
            // A command keeps a die busy and data out frees one, while data in only starts a program.
            (ChannelOrder::CommandsFirst, Use::Command) => 0,
            (ChannelOrder::CommandsFirst, Use::DataOut) => 1,
            (ChannelOrder::CommandsFirst, Use::DataIn) => 2,
            (ChannelOrder::DataOutFirst, Use::DataOut) => 0,
            (ChannelOrder::DataOutFirst, Use::Command | Use::DataIn) => 1,
        }
    }
}

/// A die's request for the channel.
pub(crate) struct Request {
    pub(crate) die: u32,
    /// Index of the die's operation, 0 or 1.
    pub(crate) work: u8,
    pub(crate) usage: Use,
    pub(crate) duration: Delay,
}

/// State of a channel, which `sequencer` drives. While dies wait, one of them or the one being served checks
/// the channel again at `free_at`.
#[derive(Default)]
pub(crate) struct Channel {
    pub(crate) free_at: Time,
    /// A die will check the channel at `free_at`.
    pub(crate) watched: bool,
    pub(crate) line: Line<Request, 3>,
    busy: Delay,
}

impl Channel {
    /// Whether a request made now is served at once.
    pub(crate) fn is_idle(&self, now: Time) -> bool {
        now >= self.free_at && self.line.is_empty()
    }

    /// Occupies the channel from `now` on. A die that transfers data out is woken at the end anyway, so it
    /// also dispatches the channel then.
    pub(crate) fn serve(&mut self, now: Time, usage: Use, duration: Delay) {
        self.free_at = now + duration;
        self.watched = usage == Use::DataOut;
        self.busy += duration;
    }

    /// Time in use up to `now`.
    pub(crate) fn busy(&self, now: Time) -> Delay {
        self.busy.saturating_sub(self.free_at.since(now))
    }
}
