//! How long the array's verbs take.

use crate::priority::Priority;
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
    /// Sensing a translation page ([`Priority::Map`]), where firmware keeps these in pages that read faster than
    /// others; whatever the page type.
    pub map_read: Option<Delay>,
    /// Whether and how programs and erases are suspended for reads that a host waits for.
    pub suspend: Option<Suspend>,
    /// Whether a die senses the next read while the data of one waits for the channel or moves out.
    pub cache_read: bool,
    /// Which of the dies that wait for a channel it serves first.
    pub channel_order: ChannelOrder,
    /// Times of superblocks whose cells hold one bit; without them no superblock can.
    pub slc: Option<SlcTiming>,
}

/// Which of the dies that wait for a channel it serves first. ONFI has no rule for it: the choice is the flash controller's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelOrder {
    /// Commands of reads and erases, then the data of reads, then programs with their data. Otherwise a die would stand idle
    /// for the microseconds of another's data, for want of a command that takes a tenth of one.
    #[default]
    CommandsFirst,
    /// The data of reads, then what begins an operation, first come, first served. On a busy channel the dies fall into step:
    /// all of them sense, then all of them send.
    DataOutFirst,
}

/// Suspension of programs and erases ([`Timing::suspend`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspend {
    /// From the request, or from when the cells begin if that is later, until the die can sense. The cells end the step
    /// that they are at meanwhile, so this time is not lost to the operation; an operation that ends sooner is not
    /// suspended.
    pub latency: Delay,
    /// What taking the operation up again costs, before its cells go on where they were.
    pub resume: Delay,
    /// Suspensions of one operation, at most: then it goes on to its end.
    pub most: u32,
}

/// Times of a superblock in one-bit mode ([`Timing::slc`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlcTiming {
    /// Sensing a page.
    pub read: Delay,
    /// Programming a stripe.
    pub program: Delay,
    /// Erasing a superblock.
    pub erase: Delay,
}

/// How many bits the cells of a superblock hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// As many as there are page types.
    #[default]
    Full,
    /// One, in a stripe for each wordline: fewer stripes, but faster and longer-lived.
    OneBit,
}

/// An array that takes no time, with none of what is optional; for what a profile doesn't set.
impl Default for Timing {
    fn default() -> Self {
        Timing {
            read: vec![Delay::ZERO],
            program: vec![Delay::ZERO],
            erase: Delay::ZERO,
            channel: Rate::per_second(1_000_000_000),
            command: Delay::ZERO,
            partial_read: None,
            map_read: None,
            suspend: None,
            cache_read: false,
            channel_order: ChannelOrder::CommandsFirst,
            slc: None,
        }
    }
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
    /// A suspension that never is.
    #[error("suspend.most is 0, it must be at least 1; leave suspend out for none")]
    NoSuspend,
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
        let map = self.map_read.unwrap_or(Delay::ZERO);
        let single = [("erase", self.erase), ("command", self.command), ("map_read", map)];
        let suspend = self
            .suspend
            .map(|suspend| [("suspend.latency", suspend.latency), ("suspend.resume", suspend.resume)]);
        let slc = self
            .slc
            .map(|slc| [("slc.read", slc.read), ("slc.program", slc.program), ("slc.erase", slc.erase)]);
        let all = lists.flat_map(|(name, times)| times.iter().map(move |time| (name, *time))).chain(single);
        let all = all.chain(suspend.into_iter().flatten()).chain(slc.into_iter().flatten());
        for (name, time) in all {
            if time > Self::DELAY_MAX {
                return Err(TimingError::TooLong(name, time));
            }
        }
        if self.channel.units_per_second() < Self::CHANNEL_MIN {
            return Err(TimingError::Channel(self.channel.units_per_second()));
        }
        if self.suspend.is_some_and(|suspend| suspend.most == 0) {
            return Err(TimingError::NoSuspend);
        }
        Ok(())
    }

    /// Stripes whose bits share cells: as many as there are page types. A program that is cut off takes the earlier ones
    /// of its wordline with it.
    pub fn stripes_per_wordline(&self) -> u32 {
        self.read.len().max(self.program.len()) as u32
    }

    /// Sensing a stripe; `partial` when at most one unit of each of its pages is wanted.
    pub(crate) fn read_time(&self, stripe: u32, partial: bool, mode: Mode) -> Delay {
        match (&self.slc, &self.partial_read) {
            (Some(slc), _) if mode == Mode::OneBit => slc.read,
            (_, Some(times)) if partial => by_page_type(times, stripe),
            _ => by_page_type(&self.read, stripe),
        }
    }

    /// The same for a read of this priority.
    pub(crate) fn read_time_for(&self, priority: Priority, stripe: u32, partial: bool, mode: Mode) -> Delay {
        match self.map_read {
            Some(time) if priority == Priority::Map && mode == Mode::Full => time,
            _ => self.read_time(stripe, partial, mode),
        }
    }

    /// Programming a stripe.
    pub(crate) fn program_time(&self, stripe: u32, mode: Mode) -> Delay {
        match &self.slc {
            Some(slc) if mode == Mode::OneBit => slc.program,
            _ => by_page_type(&self.program, stripe),
        }
    }

    /// Erasing a superblock.
    pub(crate) fn erase_time(&self, mode: Mode) -> Delay {
        match &self.slc {
            Some(slc) if mode == Mode::OneBit => slc.erase,
            _ => self.erase,
        }
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
            suspend: Some(Suspend { latency: us(5), resume: us(5), most: 16 }),
            slc: Some(SlcTiming { read: us(20), program: us(100), erase: us(1000) }),
            ..Timing::default()
        };
        assert_eq!(good.validate(), Ok(()));
        assert_eq!(Timing::default().validate(), Ok(()));
        let read = |page| good.read_time(page, true, Mode::Full);
        assert_eq!([0, 1, 2, 3].map(read), [us(30), us(45), us(60), us(30)]);
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
            message(Timing { channel: Rate::per_second(0), ..good.clone() }),
            "channel is 1 bytes a second, at least 100000 are needed"
        );
        let suspend = Some(Suspend { latency: us(5), resume: Delay::from_s(20), most: 1 });
        assert_eq!(
            message(Timing { suspend, ..good.clone() }),
            "suspend.resume is 20.000 s, at most 10.000 s is possible"
        );
        let suspend = Some(Suspend { latency: us(5), resume: us(5), most: 0 });
        assert_eq!(
            message(Timing { suspend, ..good.clone() }),
            "suspend.most is 0, it must be at least 1; leave suspend out for none"
        );
        let slc = Some(SlcTiming { read: us(20), program: Delay::from_s(11), erase: us(1) });
        assert_eq!(message(Timing { slc, ..good }), "slc.program is 11.000 s, at most 10.000 s is possible");
    }
}
