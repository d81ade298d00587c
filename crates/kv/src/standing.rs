//! Whether a store can be read and changed, and what its operations ask of the upkeep task.

use super::config::KvError;
use byteway_firmware::MediaError;

/// Why a step can't be taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Wait for a change of the state, then try again.
    Wait,
    /// The look-up is no longer current: repeat it.
    Stale,
    /// The step needs a look-up first.
    Look,
    Error(KvError),
}

/// Whether the store can be read and changed.
#[derive(Default)]
pub(super) struct Standing {
    /// Flash has failed: the store only reads.
    failed: Option<MediaError>,
    /// The contents are unknown: the store can't be read either.
    is_lost: bool,
    is_stopped: bool,
    is_formatting: bool,
}

impl Standing {
    /// Whether the store can be read.
    pub(super) fn check_known(&self) -> Result<(), KvError> {
        match self.failed {
            _ if self.is_stopped => Err(KvError::Stopped),
            Some(error) if self.is_lost => Err(KvError::Media(error)),
            _ => Ok(()),
        }
    }

    /// Whether the store can be changed.
    pub(super) fn check(&self) -> Result<(), KvError> {
        match self.failed {
            _ if self.is_stopped => Err(KvError::Stopped),
            Some(error) => Err(KvError::Media(error)),
            None => Ok(()),
        }
    }

    /// Whether a step that changes contents can be taken now.
    pub(super) fn accepts(&self) -> Result<(), Refusal> {
        self.check().map_err(Refusal::Error)?;
        if self.is_formatting { Err(Refusal::Wait) } else { Ok(()) }
    }

    /// Flash has failed. The first error is the one reported.
    pub(super) fn fail(&mut self, error: MediaError) {
        self.failed.get_or_insert(error);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// The contents are unknown from now on.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// A format begins or ends. While it runs, no step changes contents.
    pub(super) fn set_formatting(&mut self, is_formatting: bool) {
        debug_assert_ne!(self.is_formatting, is_formatting, "one format at a time, by the upkeep task");
        self.is_formatting = is_formatting;
    }

    pub(super) fn is_formatting(&self) -> bool {
        self.is_formatting
    }

    /// A format is durable: the contents are known again, and nothing of them has failed.
    pub(super) fn renew(&mut self) {
        debug_assert!(self.is_formatting, "only a format forgets a failure");
        (self.failed, self.is_lost) = (None, false);
    }
}

/// Requests to the upkeep task.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wants {
    pool: bool,
    space: bool,
    sums: bool,
    /// The next sequence number at the time when nothing could be reclaimed.
    exhausted_at: Option<u64>,
}

impl Wants {
    /// Asks for more segments in the pool of the value log.
    pub(super) fn ask_for_pool(&mut self) {
        self.pool = true;
    }

    /// Asks for free segments.
    pub(super) fn ask_for_space(&mut self) {
        self.space = true;
    }

    /// Asks for exact sums: that everything is merged.
    pub(super) fn ask_for_sums(&mut self) {
        self.sums = true;
    }

    /// Takes the request for the pool.
    pub(super) fn take_pool(&mut self) -> bool {
        std::mem::take(&mut self.pool)
    }

    pub(super) fn wants_space(&self) -> bool {
        self.space
    }

    pub(super) fn wants_sums(&self) -> bool {
        self.sums
    }

    pub(super) fn has_any(&self) -> bool {
        self.pool || self.space || self.sums
    }

    /// The requests for segments have their answer.
    pub(super) fn answer_space(&mut self) {
        self.space = false;
    }

    /// The sums are exact.
    pub(super) fn answer_sums(&mut self) {
        self.sums = false;
    }

    /// No segment can be had, neither free nor for the pool.
    pub(super) fn deny(&mut self) {
        (self.space, self.pool) = (false, false);
    }

    /// Nothing can be reclaimed until an entry with sequence number `next` or a greater one changes that.
    pub(super) fn exhaust(&mut self, next: u64) {
        debug_assert!(self.exhausted_at.is_none_or(|before| before <= next), "sequence numbers rise");
        self.exhausted_at = Some(next);
    }

    /// Something can be reclaimed again, whatever was stored meanwhile.
    pub(super) fn replenish(&mut self) {
        self.exhausted_at = None;
    }

    /// Whether nothing could be reclaimed, and nothing has changed since.
    pub(super) fn is_exhausted(&self, next: u64) -> bool {
        self.exhausted_at == Some(next)
    }
}
