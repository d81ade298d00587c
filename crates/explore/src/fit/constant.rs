//! The constants of a profile that can be fitted: key, physical bounds, and the loads that depend on them.

use super::measurement::{Load, State};
use byteway_scenario::profile::Profile;
use byteway_text::units::{Percent, Picos, Rate};
use byteway_workload::Kind;

/// A constant, or several of one kind that change by a common factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Constant {
    /// `firmware.latency.read`: nanoseconds that a read of at most 4 KiB takes besides flash, link and cores.
    ReadLatency,
    /// `firmware.latency.read_large`: the same for longer reads.
    ReadLargeLatency,
    /// `firmware.latency.write`: the same for writes.
    WriteLatency,
    /// `firmware.cycles.{fetch,parse,complete}`: their sum, in cycles a command.
    CommandCycles,
    /// `firmware.cycles.translate`: cycles for 4 KiB.
    TranslateCycles,
    /// `firmware.cycles.buffer`: cycles for 4 KiB that are written.
    BufferCycles,
    /// `flash.read` of a page type, in nanoseconds; `read_partial` keeps its ratio to it.
    FlashRead(usize),
    /// `flash.channel_rate` in bytes per second.
    ChannelRate,
    /// `flash.program`: the mean of the page types, in nanoseconds.
    Program,
    /// `flash.erase` in nanoseconds.
    Erase,
    /// `firmware.op` in percent.
    OverProvisioning,
    /// `firmware.merge.command`: nanoseconds that the merge of a write of a part of a unit takes.
    MergeCommand,
    /// `firmware.merge.search`: the same for each other that waits.
    MergeSearch,
    /// `flash.program_spread` in percent.
    ProgramSpread,
    /// `firmware.housekeeping.time`: nanoseconds for which programs stop.
    HousekeepingTime,
}

use Constant::{
    BufferCycles, ChannelRate, CommandCycles, Erase, FlashRead, HousekeepingTime, MergeCommand, MergeSearch,
    OverProvisioning, Program, ProgramSpread, ReadLargeLatency, ReadLatency, TranslateCycles, WriteLatency,
};

/// The range that physics and products leave for a constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Lowest value.
    pub low: f64,
    /// Highest value.
    pub high: f64,
    /// Why these.
    pub why: &'static str,
}

/// The unit of a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstantUnit {
    /// Nanoseconds.
    Nanoseconds,
    /// Core cycles.
    Cycles,
    /// Bytes per second.
    BytesPerSecond,
    /// Percent.
    Percent,
}

/// Significant digits of a fitted value: what is simulated is what the profile says.
const DIGITS: i32 = 5;

impl Constant {
    /// All constants of a drive with this profile. A mechanism that it does not have is none that a drive is taken to have: what percentiles
    /// it would explain, others might.
    pub fn all(profile: &Profile) -> Vec<Constant> {
        let mut all =
            vec![ReadLatency, ReadLargeLatency, WriteLatency, CommandCycles, TranslateCycles, BufferCycles];
        all.extend((0..profile.flash.read.len()).map(FlashRead));
        all.extend([ChannelRate, Program, Erase, OverProvisioning]);
        let (firmware, flash) = (&profile.firmware, &profile.flash);
        let merge = firmware.merge.as_ref();
        let optional = [
            (MergeCommand, merge.is_some()),
            (MergeSearch, merge.is_some_and(|merge| merge.search.0 > 0)),
            (ProgramSpread, flash.program_spread.0 > 0.0),
            (HousekeepingTime, firmware.housekeeping.is_some()),
        ];
        all.extend(optional.into_iter().filter(|(_, is_there)| *is_there).map(|(constant, _)| constant));
        all
    }

    /// The key of the profile.
    pub fn key(self) -> String {
        match self {
            ReadLatency => "firmware.latency.read".to_owned(),
            ReadLargeLatency => "firmware.latency.read_large".to_owned(),
            WriteLatency => "firmware.latency.write".to_owned(),
            CommandCycles => "firmware.cycles.{fetch,parse,complete}".to_owned(),
            TranslateCycles => "firmware.cycles.translate".to_owned(),
            BufferCycles => "firmware.cycles.buffer".to_owned(),
            FlashRead(kind) => format!("flash.read[{kind}]"),
            ChannelRate => "flash.channel_rate".to_owned(),
            Program => "flash.program".to_owned(),
            Erase => "flash.erase".to_owned(),
            OverProvisioning => "firmware.op".to_owned(),
            MergeCommand => "firmware.merge.command".to_owned(),
            MergeSearch => "firmware.merge.search".to_owned(),
            ProgramSpread => "flash.program_spread".to_owned(),
            HousekeepingTime => "firmware.housekeeping.time".to_owned(),
        }
    }

    /// Its unit.
    pub fn unit(self) -> ConstantUnit {
        match self {
            CommandCycles | TranslateCycles | BufferCycles => ConstantUnit::Cycles,
            ChannelRate => ConstantUnit::BytesPerSecond,
            OverProvisioning | ProgramSpread => ConstantUnit::Percent,
            _ => ConstantUnit::Nanoseconds,
        }
    }

    /// The range in which it is searched.
    pub fn bounds(self) -> Bounds {
        let bounds = |low, high, why| Bounds { low, high, why };
        match self {
            ReadLatency | ReadLargeLatency => {
                bounds(10.0, 200e3, "less does not show in a latency; more would be slower than flash")
            }
            WriteLatency => {
                bounds(10.0, 200e3, "less does not show; more would be slower than no write cache")
            }
            CommandCycles => bounds(30.0, 100e3, "hardware queues to an interpreter on one slow core"),
            TranslateCycles => bounds(1.0, 20e3, "one look-up in SRAM to several in DRAM and their locks"),
            BufferCycles => bounds(1.0, 20e3, "a descriptor to a copy of 4 KiB by the core"),
            FlashRead(_) => {
                bounds(2e3, 300e3, "one-bit low-latency flash senses in 3 us, four-bit pages in up to 200 us")
            }
            ChannelRate => bounds(40e6, 4.8e9, "asynchronous ONFI to 4800 MT/s of 1 B"),
            Program => bounds(50e3, 20e6, "one-bit low-latency flash to the slowest of four-bit pages"),
            Erase => bounds(0.5e6, 30e6, "data sheets have 1 ms to 20 ms"),
            OverProvisioning => bounds(1.0, 100.0, "the least that a profile accepts, to half of all flash"),
            MergeCommand => bounds(50.0, 100e3, "a comparison in hardware to a read of the rest from flash"),
            MergeSearch => bounds(5.0, 5e3, "an entry of a hardware list to one in DRAM and its lock"),
            ProgramSpread => bounds(1.0, 60.0, "wordlines of published chips differ by up to a half"),
            HousekeepingTime => bounds(10e3, 50e6, "a page of the drive's own to some erases"),
        }
    }

    /// Where a search begins that would begin with `value`: a base that does not charge it at all has a value whose changes no figure
    /// shows, so that it would be taken for one that nothing depends on.
    pub(super) fn visible(self, value: f64) -> f64 {
        let Bounds { low, high, .. } = self.bounds();
        if value < low { libm::sqrt(low * high) } else { value }
    }

    /// Its value in a profile.
    pub fn of(self, profile: &Profile) -> f64 {
        let nanoseconds = |time: Picos| time.0 as f64 / 1e3;
        let (firmware, flash) = (&profile.firmware, &profile.flash);
        let mean =
            |times: &[Picos]| times.iter().copied().map(nanoseconds).sum::<f64>() / times.len().max(1) as f64;
        let latency = &firmware.latency;
        match self {
            ReadLatency => nanoseconds(latency.read),
            ReadLargeLatency => nanoseconds(latency.read_large.unwrap_or(latency.read)),
            WriteLatency => nanoseconds(latency.write),
            CommandCycles => {
                (firmware.cycles.fetch + firmware.cycles.parse + firmware.cycles.complete) as f64
            }
            TranslateCycles => firmware.cycles.translate as f64,
            BufferCycles => firmware.cycles.buffer as f64,
            FlashRead(kind) => flash.read.get(kind).copied().map_or(0.0, nanoseconds),
            ChannelRate => flash.channel_rate.0 as f64,
            Program => mean(&flash.program),
            Erase => nanoseconds(flash.erase),
            OverProvisioning => firmware.op.0,
            MergeCommand => firmware.merge.as_ref().map_or(0.0, |merge| nanoseconds(merge.command)),
            MergeSearch => firmware.merge.as_ref().map_or(0.0, |merge| nanoseconds(merge.search)),
            ProgramSpread => flash.program_spread.0,
            HousekeepingTime => firmware.housekeeping.as_ref().map_or(0.0, |own| nanoseconds(own.time)),
        }
    }

    /// Whether a figure of this load can depend on it. Where it can't, nothing is simulated again; a test
    /// holds this against simulations.
    pub fn touches(self, load: &Load) -> bool {
        let reads = load.rw.has_reads();
        let (writes, collects) = (load.has_writes(), load.state == State::Steady);
        match self {
            ReadLatency => reads && load.bs <= 4096,
            ReadLargeLatency => reads && load.bs > 4096,
            WriteLatency | BufferCycles => writes,
            CommandCycles | TranslateCycles => true,
            FlashRead(_) => reads && load.state != State::Unwritten || collects,
            ChannelRate => writes || load.state != State::Unwritten,
            Program | MergeCommand | MergeSearch | ProgramSpread | HousekeepingTime => writes,
            Erase => writes && load.rate.is_none(),
            OverProvisioning => collects,
        }
    }

    /// Which of several constants is kept at the base's value if only their sum shows: the highest. Shares of
    /// the firmware's time are assumed in most profiles; flash has data sheets.
    pub(super) fn kept_first(self) -> u8 {
        match self {
            CommandCycles => 3,
            // Steady writes wait for erasing much less than for what the over-provisioning makes the drive copy.
            TranslateCycles | BufferCycles | Erase | MergeSearch | HousekeepingTime => 2,
            ReadLatency | ReadLargeLatency | WriteLatency | OverProvisioning | MergeCommand
            | ProgramSpread => 1,
            FlashRead(_) | ChannelRate | Program => 0,
        }
    }

    /// Whether it is a time that an I/O waits for, as the sum of such times is.
    pub(super) fn adds_up(self) -> bool {
        matches!(self.unit(), ConstantUnit::Nanoseconds | ConstantUnit::Cycles)
            && !matches!(self, Program | Erase | MergeSearch | HousekeepingTime)
    }
}

/// A value to as many digits as a profile gets.
pub(super) fn rounded(constant: Constant, value: f64) -> f64 {
    let digits = match constant.unit() {
        // Whole cycles, so that it is simulated as it is written.
        ConstantUnit::Cycles => return libm::round(value).max(1.0),
        _ => DIGITS,
    };
    if value <= 0.0 || !value.is_finite() {
        return value;
    }
    let scale = libm::pow(10.0, f64::from(digits - 1) - libm::floor(libm::log10(value)));
    libm::round(value * scale) / scale
}

/// Values of some constants.
pub type Values = Vec<(Constant, f64)>;

/// A time as a profile has it.
fn picos(nanoseconds: f64) -> Picos {
    Picos(libm::round(nanoseconds * 1e3).max(0.0) as u64)
}

/// The keys of a profile that these values change, each with the TOML of its value. The factor of several
/// values is that of their sum or mean.
pub(super) fn settings(base: &Profile, values: &Values) -> Vec<(String, String, Constant)> {
    let mut out = Vec::new();
    let quoted = |value: &dyn std::fmt::Display| format!("\"{value}\"");
    let list = |times: &[Picos]| {
        let times: Vec<String> = times.iter().map(|time| quoted(time)).collect();
        format!("[{}]", times.join(", "))
    };
    let mut reads = base.flash.read.clone();
    let mut partial = base.flash.read_partial.clone();
    let mut first_read = None;
    for &(constant, value) in values {
        let mut push = |key: &str, text: String| out.push((key.to_owned(), text, constant));
        match constant {
            ReadLatency | ReadLargeLatency | WriteLatency | Erase | MergeCommand | MergeSearch
            | HousekeepingTime => push(&constant.key(), quoted(&picos(value))),
            TranslateCycles | BufferCycles => push(&constant.key(), format!("{}", libm::round(value) as u64)),
            CommandCycles => {
                let cycles = &base.firmware.cycles;
                let sum = constant.of(base);
                let share = |own: u64, else_share: f64| match sum > 0.0 {
                    true => libm::round(own as f64 * value / sum) as u64,
                    false => libm::round(value * else_share) as u64,
                };
                push("firmware.cycles.fetch", share(cycles.fetch, 0.2).to_string());
                push("firmware.cycles.parse", share(cycles.parse, 0.4).to_string());
                push("firmware.cycles.complete", share(cycles.complete, 0.4).to_string());
            }
            FlashRead(kind) => {
                let factor = value / constant.of(base).max(1e-3);
                if let Some(read) = reads.get_mut(kind) {
                    *read = picos(value);
                }
                if let Some(read) = partial.as_mut().and_then(|partial| partial.get_mut(kind)) {
                    *read = Picos(libm::round(read.0 as f64 * factor) as u64);
                }
                first_read.get_or_insert(constant);
            }
            ChannelRate => push("flash.channel_rate", quoted(&Rate(libm::round(value) as u64))),
            Program => {
                let factor = value / constant.of(base).max(1e-3);
                let times: Vec<Picos> =
                    base.flash.program.iter().map(|time| picos(time.0 as f64 / 1e3 * factor)).collect();
                push("flash.program", list(&times));
            }
            OverProvisioning | ProgramSpread => push(&constant.key(), quoted(&Percent(value))),
        }
    }
    if let Some(constant) = first_read {
        out.push(("flash.read".to_owned(), list(&reads), constant));
        if let Some(partial) = partial {
            out.push(("flash.read_partial".to_owned(), list(&partial), constant));
        }
    }
    out
}

/// Whether percentiles of this load tell page types apart: one read at a time, of one page each.
pub(super) fn tells_page_types(load: &Load, profile: &Profile) -> bool {
    load.rw.kinds() == [Kind::Read]
        && load.state == State::Filled
        && load.outstanding() == 1
        && load.bs <= profile.flash.page.0
        && profile.flash.read.len() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    // A built-in profile outside of the bounds could not be recovered from its own measurements.
    #[test]
    fn the_bounds_hold_the_profiles_that_exist() {
        for (name, _) in byteway_scenario::profile::DRIVES {
            let profile = Profile::built_in(name).unwrap();
            for constant in Constant::all(&profile) {
                let (value, bounds) = (constant.of(&profile), constant.bounds());
                // Zero is what a simulator's drive has: its constant is not charged.
                let fits = value == 0.0 || (bounds.low..=bounds.high).contains(&value);
                assert!(fits, "{name}: {} = {value}", constant.key());
            }
        }
    }

    // A value that is written with other digits than it was simulated with would not give the residuals that are reported.
    #[test]
    fn values_have_five_digits_and_cycles_are_whole() {
        assert_eq!(rounded(ReadLatency, 18_965.432), 18_965.0);
        assert_eq!(rounded(ChannelRate, 812_345_678.0), 812_350_000.0);
        assert_eq!(rounded(CommandCycles, 1399.6), 1400.0);
        let base = Profile::built_in("samsung-970-pro").unwrap();
        let values = vec![(FlashRead(1), 50_000.0), (CommandCycles, 2800.0), (ChannelRate, 812_350_000.0)];
        let texts: Vec<(String, String)> =
            settings(&base, &values).into_iter().map(|(key, text, _)| (key, text)).collect();
        let has =
            |key: &str, text: &str| assert!(texts.contains(&(key.into(), text.into())), "{key}: {texts:?}");
        has("flash.read", "[\"30.013 us\", \"50 us\"]");
        has("firmware.cycles.parse", "1200");
        has("flash.channel_rate", "\"812.35 MB/s\"");
        assert!(
            texts.iter().any(|(key, text)| key == "flash.read_partial" && text.starts_with("[\"29.76 us\""))
        );
    }
}
