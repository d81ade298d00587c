//! Progress of a rebuild.

use byteway_clock::Time;

/// Progress of the present or last rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuild {
    /// The slot being rebuilt.
    pub slot: usize,
    /// Total stripes of the member.
    pub stripes: u64,
    /// Stripes already present at the start: nonzero after a power cut.
    pub before: u64,
    /// Stripes present now.
    pub done: u64,
    /// Start of the rebuild.
    pub began: Time,
    /// End of the rebuild; None while it runs, or if it failed.
    pub ended: Option<Time>,
}

impl Rebuild {
    /// Expected end at the average speed until `now`; None if it has ended, or has made no progress.
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
