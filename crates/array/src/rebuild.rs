//! How far the rebuilding of a member is.

use byteway_clock::Time;

/// How a member is, or was, rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuild {
    /// Its slot.
    pub slot: usize,
    /// Stripes that it has.
    pub stripes: u64,
    /// Of those, the first so many that were there when this began: not 0 after a power cut.
    pub before: u64,
    /// Stripes that it holds now.
    pub done: u64,
    /// When this began.
    pub began: Time,
    /// When it was whole; none: it is not, or has failed.
    pub ended: Option<Time>,
}

impl Rebuild {
    /// When it will end, as fast as it has been until `now`; none: it has ended, or has not got anywhere yet.
    pub fn expected_end(&self, now: Time) -> Option<Time> {
        let (done, left) =
            (self.done - self.before.min(self.done), self.stripes - self.done.min(self.stripes));
        if self.ended.is_some() || done == 0 {
            return None;
        }
        let taken = u128::from(now.since(self.began).0);
        let rest = taken * u128::from(left) / u128::from(done);
        Some(Time(now.0.checked_add(u64::try_from(rest).ok()?)?))
    }
}
