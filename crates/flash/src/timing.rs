//! How long the array's verbs take.

use byteway_clock::{Delay, Rate};

/// Times of a die and of its channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Sensing a page (tR), for each page type; page p is of type p modulo their number.
    pub read: Vec<Delay>,
    /// Programming a stripe (tPROG), for each page type likewise.
    pub program: Vec<Delay>,
    /// Erasing a superblock (tBERS).
    pub erase: Delay,
    /// Bytes a second on a channel.
    pub channel: Rate,
    /// Command and address cycles of an operation, on the channel.
    pub command: Delay,
    /// Sensing when no more than one unit of each page is wanted, for parts that do that faster than a page; for each
    /// page type.
    pub partial_read: Option<Vec<Delay>>,
}

/// What is wrong with a [`Timing`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// No page type.
    #[error("{0} has no time, it needs one for each page type")]
    NoPageType(&'static str),
    /// Longer than [`Timing::DELAY_MAX`].
    #[error("{0} is {1}, at most {max} is possible", max = Timing::DELAY_MAX)]
    TooLong(&'static str, Delay),
    /// Slower than [`Timing::CHANNEL_MIN`].
    #[error("channel is {0} bytes a second, at least {min} are needed", min = Timing::CHANNEL_MIN)]
    Channel(u64),
}

impl Timing {
    /// The longest time of an operation: beyond it a handful of them would reach the end of time.
    pub const DELAY_MAX: Delay = Delay::from_s(10);
    /// The slowest channel, in bytes a second.
    pub const CHANNEL_MIN: u64 = 100_000;

    /// Whether an array can work so, and if not, what is wrong. The numbers may come from a file.
    pub fn validate(&self) -> Result<(), TimingError> {
        let partial = self.partial_read.as_ref().map(|times| ("partial_read", times));
        let lists = [("read", &self.read), ("program", &self.program)].into_iter().chain(partial);
        if let Some((name, _)) = lists.clone().find(|(_, times)| times.is_empty()) {
            return Err(TimingError::NoPageType(name));
        }
        let single = [("erase", self.erase), ("command", self.command)];
        let all = lists.flat_map(|(name, times)| times.iter().map(move |time| (name, *time))).chain(single);
        for (name, time) in all {
            if time > Self::DELAY_MAX {
                return Err(TimingError::TooLong(name, time));
            }
        }
        if self.channel.units_per_second() < Self::CHANNEL_MIN {
            return Err(TimingError::Channel(self.channel.units_per_second()));
        }
        Ok(())
    }

    /// Sensing a stripe; `partial` when at most one unit of each of its pages is wanted.
    pub(crate) fn read_time(&self, stripe: u32, partial: bool) -> Delay {
        match &self.partial_read {
            Some(times) if partial => by_page_type(times, stripe),
            _ => by_page_type(&self.read, stripe),
        }
    }

    /// Programming a stripe.
    pub(crate) fn program_time(&self, stripe: u32) -> Delay {
        by_page_type(&self.program, stripe)
    }
}

fn by_page_type(times: &[Delay], page: u32) -> Delay {
    match times {
        [one] => *one,
        many => many[page as usize % many.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // An empty list would divide by zero, an endless erase would run into the end of time: both come from files.
    #[test]
    fn impossible_times_are_named() {
        let us = Delay::from_us;
        let good = Timing {
            read: vec![us(30), us(45), us(60)],
            program: vec![us(200)],
            erase: us(3000),
            channel: Rate::per_second(800_000_000),
            command: Delay::from_ns(100),
            partial_read: None,
        };
        assert_eq!(good.validate(), Ok(()));
        assert_eq!([0, 1, 2, 3].map(|page| good.read_time(page, true)), [us(30), us(45), us(60), us(30)]);
        let message = |timing: Timing| timing.validate().unwrap_err().to_string();
        assert_eq!(
            message(Timing { program: vec![], ..good.clone() }),
            "program has no time, it needs one for each page type"
        );
        assert_eq!(
            message(Timing { erase: Delay::from_s(11), ..good.clone() }),
            "erase is 11.000 s, at most 10.000 s is possible"
        );
        assert_eq!(
            message(Timing { channel: Rate::per_second(0), ..good }),
            "channel is 1 bytes a second, at least 100000 are needed"
        );
    }
}
