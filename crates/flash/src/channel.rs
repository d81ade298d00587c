//! A channel: the bus that the dies of one column share, one passage at a time.

use crate::line::Line;
use crate::timing::ChannelOrder;
use byteway_clock::{Delay, Time};

/// What a die wants the channel for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// The command of a read or an erase.
    Command,
    /// The data of a read.
    DataOut,
    /// The command and the data of a program.
    DataIn,
}

impl Use {
    /// Its class in the line of a channel, 0 first.
    pub(crate) fn class(self, order: ChannelOrder) -> usize {
        match (order, self) {
            // A command keeps a die at work, data that has moved out sets one free, data that moves in only begins a program.
            (ChannelOrder::CommandsFirst, Use::Command) => 0,
            (ChannelOrder::CommandsFirst, Use::DataOut) => 1,
            (ChannelOrder::CommandsFirst, Use::DataIn) => 2,
            (ChannelOrder::DataOutFirst, Use::DataOut) => 0,
            (ChannelOrder::DataOutFirst, Use::Command | Use::DataIn) => 1,
        }
    }
}

/// A die that waits for the channel.
pub(crate) struct Request {
    pub(crate) die: u32,
    /// Which of its two operations.
    pub(crate) work: u8,
    pub(crate) usage: Use,
    pub(crate) duration: Delay,
}

/// Its state; [`array`](mod@crate::array) moves it. While dies wait, one of them or the one that is served looks at the
/// channel again at `free_at`.
#[derive(Default)]
pub(crate) struct Channel {
    pub(crate) free_at: Time,
    /// A die will look at the channel at `free_at`.
    pub(crate) watched: bool,
    pub(crate) line: Line<Request, 3>,
    busy: Delay,
}

impl Channel {
    /// Whether a die that comes now is served at once.
    pub(crate) fn is_idle(&self, now: Time) -> bool {
        now >= self.free_at && self.line.is_empty()
    }

    /// Serves one from `now` on. One that moves data out has no other business when it is through, so it will look
    /// after the channel then.
    pub(crate) fn serve(&mut self, now: Time, usage: Use, duration: Delay) {
        self.free_at = now + duration;
        self.watched = usage == Use::DataOut;
        self.busy += duration;
    }

    /// How long it was in use up to `now`.
    pub(crate) fn busy(&self, now: Time) -> Delay {
        self.busy.saturating_sub(self.free_at.since(now))
    }
}
