//! Times of the array's operations.

use crate::draw;
use crate::geometry::BlockId;
use crate::policy::{SchedulePolicy, SuspendPolicy};
use crate::priority::Priority;
use crate::quantiles::Quantiles;
use crate::throttle::Throttle;
use byteway_clock::{Delay, Rate, Time};

/// Times of a die and of its channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Sensing time of a page (tR), by page type; page p is of type p modulo their number.
    pub read: Vec<Delay>,
    /// Distribution of the factor by which each sensing of a page, in any mode, takes longer than its time here; None for exactly that
    /// time. A factor is drawn for each sensing, not for each place: quantiles are measured over reads.
    pub read_quantiles: Option<Quantiles>,
    /// Program time of a stripe (tPROG), by page type as above.
    pub program: Vec<Delay>,
    /// How far the program time of a wordline may be from that of its type, in millionths of it. Wordlines lie evenly between the
    /// ends, each always at the same place: layers and blocks of a die differ by how they were made.
    pub program_spread_ppm: u32,
    /// Erase time of a superblock (tBERS).
    pub erase: Delay,
    /// Bandwidth of a channel in bytes a second.
    pub channel: Rate,
    /// Command and address cycles of an operation on the channel.
    pub command: Delay,
    /// Sensing time if at most one unit of each page is read, by page type, for parts that sense less than a
    /// page faster.
    pub partial_read: Option<Vec<Delay>>,
    /// Sensing time of a translation page ([`Priority::Map`]) of any page type, where firmware keeps these in
    /// faster pages.
    pub map_read: Option<Delay>,
    /// Suspension of programs and erases for reads that a host waits for; None for none.
    pub suspend: Option<SuspendTiming>,
    /// Which of them are suspended.
    pub suspend_policy: SuspendPolicy,
    /// Which of a die's waiting operations is next.
    pub schedule: SchedulePolicy,
    /// Whether a die senses the next read while the data of one wait for the channel or move out.
    pub cache_read: bool,
    /// Which waiting die a channel serves first.
    pub channel_order: ChannelOrder,
    /// Times in one-bit mode; None if superblocks have no such mode.
    pub slc: Option<SlcTiming>,
    /// Rests of all dies in a hot drive; None for none.
    pub throttle: Option<Throttle>,
}

/// Which waiting die a channel serves first. ONFI has no rule: the choice is the flash controller's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelOrder {
    /// Commands of reads and erases, then the data of reads, then programs with their data. Otherwise a die
    /// would idle for the microseconds of another's data, waiting for a command that takes a tenth of one.
    #[default]
    CommandsFirst,
    /// The data of reads first, then all commands in order of arrival. On a busy channel the dies fall into
    /// step: all of them sense, then all of them transfer.
    DataOutFirst,
}

/// Suspension of programs and erases ([`Timing::suspend`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuspendTiming {
    /// Delay from the request, or from the start of the cells' work if that is later, until the die can
    /// sense. The cells finish their current step meanwhile, so the operation loses none of this time; an
    /// operation that ends sooner is not suspended.
    pub latency: Delay,
    /// Cost of resuming the operation, before its cells continue where they were.
    pub resume: Delay,
    /// Maximum suspensions of one operation; after that it runs to its end.
    pub most: u32,
    /// Steps of the cells' work, a pulse and its verification, at whose ends alone it can be interrupted; zero: anywhere.
    pub step: Delay,
}

impl SuspendTiming {
    /// The next instant from `now` on at which cells that work since `from` can be interrupted.
    pub(crate) fn next_end(&self, from: Time, now: Time) -> Time {
        if now <= from || self.step == Delay::ZERO {
            return now.max(from);
        }
        from + self.step * now.since(from).ps().div_ceil(self.step.ps())
    }
}

/// Times of a superblock in one-bit mode ([`Timing::slc`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlcTiming {
    /// Sensing time of a page.
    pub read: Delay,
    /// Program time of a stripe.
    pub program: Delay,
    /// Erase time of a superblock.
    pub erase: Delay,
}

/// Bits a cell in a superblock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// One bit per page type.
    #[default]
    Full,
    /// One bit per cell, one stripe per wordline: less capacity, but faster and more durable.
    OneBit,
}

/// An array that takes no time and has no options: the default for fields that a profile does not set.
impl Default for Timing {
    fn default() -> Self {
        Timing {
            read: vec![Delay::ZERO],
            read_quantiles: None,
            program: vec![Delay::ZERO],
            program_spread_ppm: 0,
            erase: Delay::ZERO,
            channel: Rate::per_second(1_000_000_000),
            command: Delay::ZERO,
            partial_read: None,
            map_read: None,
            suspend: None,
            suspend_policy: SuspendPolicy::default(),
            schedule: SchedulePolicy::default(),
            cache_read: false,
            channel_order: ChannelOrder::CommandsFirst,
            slc: None,
            throttle: None,
        }
    }
}

/// Error of validating a [`Timing`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// The list of page types is empty.
    #[error("{0} has no time, it needs one for each page type")]
    NoPageType(&'static str),
    /// A time exceeds [`Timing::DELAY_MAX`].
    #[error("{0} is {1}, at most {max} is possible", max = Timing::DELAY_MAX)]
    TooLong(&'static str, Delay),
    /// The channel is slower than [`Timing::CHANNEL_MIN`].
    #[error("channel is {0} bytes a second, at least {min} are needed", min = Timing::CHANNEL_MIN)]
    Channel(u64),
    /// A wordline would take no time, or less.
    #[error("program_spread_ppm is {0}, it must be below 1,000,000")]
    Spread(u32),
    /// Suspension is enabled with a maximum of zero.
    #[error("suspend.most is 0, it must be at least 1; leave suspend out for none")]
    NoSuspend,
    /// A throttle has no period, rests that fill it, or steps out of order.
    #[error("throttle: steps must ascend, and each rest must be shorter than the period")]
    Throttle,
}

/// A sensing of a page, one of all that there ever are: what [`Timing::read_quantiles`] draw by.
#[derive(Clone, Copy)]
pub(crate) struct Sensing {
    /// Seed of the drive.
    pub(crate) seed: u64,
    pub(crate) block: BlockId,
    pub(crate) stripe: u32,
    /// Erases of the superblock, and its sensings since.
    pub(crate) erases: u32,
    pub(crate) reads: u32,
}

impl Sensing {
    fn draw(self) -> u32 {
        let Sensing { seed, block: BlockId(block), stripe, erases, reads } = self;
        let place = draw::mixed(seed ^ (u64::from(block) << 32 | u64::from(stripe)));
        (draw::mixed(place ^ (u64::from(erases) << 32 | u64::from(reads))) >> 32) as u32
    }
}

impl Timing {
    /// Maximum time of an operation: a handful of longer ones would exceed the range of time.
    pub const DELAY_MAX: Delay = Delay::from_s(10);
    /// Minimum bandwidth of a channel in bytes a second.
    pub const CHANNEL_MIN: u64 = 100_000;

    /// Checks all times, which may come from a file.
    ///
    /// # Errors
    /// [`TimingError`] for the first value that is out of range.
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
            let is_read = matches!(name, "read" | "partial_read" | "map_read" | "slc.read");
            let longest = match &self.read_quantiles {
                Some(quantiles) if is_read => quantiles.longest(time),
                _ => time,
            };
            if longest > Self::DELAY_MAX {
                return Err(TimingError::TooLong(name, longest));
            }
        }
        if self.channel.units_per_second() < Self::CHANNEL_MIN {
            return Err(TimingError::Channel(self.channel.units_per_second()));
        }
        if self.program_spread_ppm >= 1_000_000 {
            return Err(TimingError::Spread(self.program_spread_ppm));
        }
        if self.suspend.is_some_and(|suspend| suspend.most == 0) {
            return Err(TimingError::NoSuspend);
        }
        if self.throttle.as_ref().is_some_and(|throttle| !throttle.is_valid()) {
            return Err(TimingError::Throttle);
        }
        Ok(())
    }

    /// Stripes whose bits share cells: one per page type. An interrupted program destroys the earlier stripes
    /// of its wordline.
    pub fn stripes_per_wordline(&self) -> u32 {
        self.read.len().max(self.program.len()) as u32
    }

    /// Sensing time of a stripe; `partial` if at most one unit of each of its pages is read.
    pub(crate) fn read_time(&self, stripe: u32, partial: bool, mode: Mode) -> Delay {
        match (&self.slc, &self.partial_read) {
            (Some(slc), _) if mode == Mode::OneBit => slc.read,
            (_, Some(times)) if partial => by_page_type(times, stripe),
            _ => by_page_type(&self.read, stripe),
        }
    }

    /// Sensing time for a read of this priority.
    pub(crate) fn read_time_for(&self, priority: Priority, stripe: u32, partial: bool, mode: Mode) -> Delay {
        match self.map_read {
            Some(time) if priority == Priority::Map && mode == Mode::Full => time,
            _ => self.read_time(stripe, partial, mode),
        }
    }

    /// The time that this sensing of a page takes, whose time is `time` otherwise.
    #[inline]
    pub(crate) fn sensed_in(&self, time: Delay, sensing: impl FnOnce() -> Sensing) -> Delay {
        match &self.read_quantiles {
            None => time,
            Some(quantiles) => quantiles.draw(time, sensing().draw()),
        }
    }

    /// Program time of a stripe of a superblock.
    pub(crate) fn program_time(&self, block: BlockId, stripe: u32, mode: Mode) -> Delay {
        // In one-bit mode each stripe is a wordline.
        let (time, stripes) = match &self.slc {
            Some(slc) if mode == Mode::OneBit => (slc.program, 1),
            _ => (by_page_type(&self.program, stripe), self.stripes_per_wordline()),
        };
        match self.program_spread_ppm {
            0 => time,
            spread => spread_over(time, spread, block, stripe / stripes),
        }
    }

    /// Erase time of a superblock.
    pub(crate) fn erase_time(&self, mode: Mode) -> Delay {
        match &self.slc {
            Some(slc) if mode == Mode::OneBit => slc.erase,
            _ => self.erase,
        }
    }
}

/// The time of a wordline, of those that are `time` on average.
fn spread_over(time: Delay, spread_ppm: u32, BlockId(block): BlockId, wordline: u32) -> Delay {
    const WHOLE_PPM: u128 = 1_000_000;
    let draw = draw::mixed(u64::from(block) << 32 | u64::from(wordline));
    let spread = u128::from(spread_ppm);
    let share = WHOLE_PPM - spread + ((2 * spread * u128::from(draw >> 32)) >> 32);
    Delay::from_ps((u128::from(time.ps()) * share / WHOLE_PPM) as u64)
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

    // Cells that could be interrupted at any instant made reads beside writes wait 100 us at most, where 460 were measured.
    #[test]
    fn cells_are_interrupted_at_the_end_of_a_step() {
        let suspend = |step| SuspendTiming { latency: Delay::ZERO, resume: Delay::ZERO, most: 1, step };
        let ends =
            |step| [0, 100, 101, 390, 391, 1000].map(|now| suspend(step).next_end(Time(100), Time(now)).0);
        assert_eq!(ends(Delay::from_ps(290)), [100, 100, 390, 390, 680, 1260]);
        assert_eq!(ends(Delay::ZERO), [100, 100, 101, 390, 391, 1000]);
    }

    // Wordlines of one speed program in step: a drive that is written at its limit then takes data in bursts, as none does.
    #[test]
    fn wordlines_differ_and_each_keeps_its_time() {
        let us = Delay::from_us;
        let timing = Timing {
            program: vec![us(1), us(1), us(1000)],
            program_spread_ppm: 200_000,
            ..Timing::default()
        };
        let of = |block: u32, stripe: u32| timing.program_time(BlockId(block), stripe, Mode::Full);
        let times: Vec<Delay> = (0..4000).map(|line| of(line / 100, line % 100 * 3 + 2)).collect();
        assert!(times.iter().all(|time| (us(800)..=us(1200)).contains(time)));
        let mean = times.iter().map(|time| time.ps()).sum::<u64>() / 4000;
        assert!((us(995)..us(1005)).contains(&Delay::from_ps(mean)), "{mean}");
        assert!(times.iter().any(|time| *time < us(810)) && times.iter().any(|time| *time > us(1190)));
        // The same on any day: results are.
        assert_eq!(of(3, 5), Delay::from_ps(1_001_609_000));
        let two = Timing { program: vec![us(1000); 3], ..timing.clone() };
        let pages = [3, 4, 5].map(|stripe| two.program_time(BlockId(3), stripe, Mode::Full));
        assert!(pages[0] == pages[1] && pages[1] == pages[2], "pages of a wordline have one speed");
        let one_bit = SlcTiming { read: us(20), program: us(100), erase: us(1000) };
        let fast = Timing { slc: Some(one_bit), ..two };
        let [first, second] = [3, 4].map(|stripe| fast.program_time(BlockId(3), stripe, Mode::OneBit));
        assert!(first != second && first < us(120) && second < us(120), "in one-bit mode each is a wordline");
        let even = Timing { program_spread_ppm: 0, ..timing };
        assert_eq!(even.program_time(BlockId(7), 5, Mode::Full), us(1000));
        assert_eq!(
            Timing { program_spread_ppm: 1_000_000, ..even }.validate(),
            Err(TimingError::Spread(1_000_000))
        );
    }

    // An empty list would divide by zero, an endless erase would run into the end of time: both come from
    // files.
    #[test]
    fn impossible_times_are_named() {
        let us = Delay::from_us;
        let good = Timing {
            read: vec![us(30), us(45), us(60)],
            program: vec![us(200)],
            erase: us(3000),
            channel: Rate::per_second(800_000_000),
            command: Delay::from_ns(100),
            suspend: Some(SuspendTiming { latency: us(5), resume: us(5), most: 16, step: Delay::ZERO }),
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
        let suspend =
            Some(SuspendTiming { latency: us(5), resume: Delay::from_s(20), most: 1, step: Delay::ZERO });
        assert_eq!(
            message(Timing { suspend, ..good.clone() }),
            "suspend.resume is 20.000 s, at most 10.000 s is possible"
        );
        let suspend = Some(SuspendTiming { latency: us(5), resume: us(5), most: 0, step: Delay::ZERO });
        assert_eq!(
            message(Timing { suspend, ..good.clone() }),
            "suspend.most is 0, it must be at least 1; leave suspend out for none"
        );
        let slc = Some(SlcTiming { read: us(20), program: Delay::from_s(11), erase: us(1) });
        assert_eq!(message(Timing { slc, ..good }), "slc.program is 11.000 s, at most 10.000 s is possible");
    }
}
