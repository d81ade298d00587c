//! Stream policies under their names.

use super::built_in::BUILT_IN;
use super::view::{STREAMS_MAX, Stream, StreamCounts, StreamView};
use byteway_policy::{BuiltIn, Kind, Made, Named, WrongArgument};

/// A stream policy that was made, or what is wrong with its argument.
pub type MadeStream = Made<dyn Stream>;

/// A stream policy under its name.
pub type StreamPolicy = Named<dyn Stream>;

/// The streams that a policy declares; those of a drive without one, if its code fails, which the drive finds when it asks.
pub(crate) fn counts_of(policy: &StreamPolicy) -> StreamCounts {
    policy.says(|streams| streams.counts()).unwrap_or(StreamCounts::SEPARATE)
}

impl Kind for dyn Stream {
    fn built_in() -> &'static [BuiltIn<Self>] {
        &BUILT_IN
    }

    fn unmade(why: WrongArgument) -> Box<Self> {
        Box::new(Unmade(why))
    }

    fn wrong(&self) -> Option<WrongArgument> {
        let StreamCounts { host, collector } = self.counts();
        (!self.counts().is_valid()).then(|| WrongArgument {
            what: format!("declares {host} streams of the host and {collector} of the collector"),
            help: format!("there is at least one of each, and there are at most {STREAMS_MAX} in all"),
        })
    }
}

/// A policy that could not be made again: it chooses nothing, and says why.
struct Unmade(WrongArgument);

impl Stream for Unmade {
    fn counts(&self) -> StreamCounts {
        StreamCounts::SEPARATE
    }

    fn place(&mut self, _view: &mut StreamView<'_>) -> u32 {
        u32::MAX
    }

    fn fault(&self) -> Option<String> {
        Some(format!("it {}", self.0.what))
    }
}
