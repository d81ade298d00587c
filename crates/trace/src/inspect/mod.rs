//! Statistics of a trace: shares, sizes, addresses, arrivals, footprint, updates, reuse, and the miss-ratio
//! curve.
//!
//! | file | what |
//! |---|---|
//! | `arrivals` | rates, gaps, bursts |
//! | `sizes` | lengths of I/Os |
//! | `devices` | devices, addresses, sequential access |
//! | `footprint` | distinct units read and written, update distances |
//! | `figures` | rounding and limits |
//! | `inspection` | the result, printed by `--format json` |
//! | `tables` | the result as tables for the terminal |
//!
//! The trace is read once, and memory is bounded for any trace; where a limit makes a figure an estimate, the
//! figure says so.
//!
//! A *unit* is a piece of a device's address space, 4 KiB by default. An I/O accesses every unit that it
//! touches. Footprint and curve cover the units that are read and written; trims access none.

mod arrivals;
mod devices;
mod figures;
mod footprint;
mod inspection;
mod sizes;
mod tables;

pub use inspection::{
    Addresses, Arrivals, Curve, CurvePoint, DeviceRow, Footprint, Gaps, Inspection, KindRow, Method, Peak,
    Reuse, SizeRow, Sizes, Updates,
};

use byteway_clock::random::mix;

use figures::{KINDS, saturated, six_decimals};

use super::{Reader, Record};
use crate::Kind;
use byteway_reuse::Shards;
use byteway_reuse::{Exact, MissRatioCurve};
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::number::{ns, ratio};
use byteway_text::units::Bytes;

/// Options of an inspection.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of a unit, in bytes: 512 B to 1 GiB.
    pub unit_bytes: u64,
    /// Units sampled for the miss-ratio curve: 64 to 16 Mi.
    pub samples: usize,
    /// Seed that selects the sampled units.
    pub seed: u64,
    /// Include every unit in the curve, in memory that grows with their number.
    pub exact: bool,
    /// Limit of units for an exact curve; more are an error.
    pub exact_units_max: usize,
    /// The device that the reader selects, if any.
    pub device: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            unit_bytes: 4096,
            samples: SAMPLES,
            seed: 1,
            exact: false,
            exact_units_max: EXACT_UNITS_MAX,
            device: None,
        }
    }
}

/// Default number of samples, for which the error is known.
pub const SAMPLES: usize = 16 << 10;

const UNIT_BYTES_MIN: u64 = 512;
const UNIT_BYTES_MAX: u64 = 1 << 30;
const SAMPLES_MIN: usize = 64;
const SAMPLES_MAX: usize = 1 << 24;

/// Limit of units for an exact curve, which then takes about a gigabyte.
const EXACT_UNITS_MAX: usize = 1 << 24;

/// Units accessed by one I/O, at most: 32 MiB of 4 KiB, far more than a drive transfers in one command.
/// Without a limit a line that claims 2^63 bytes would take years.
const UNITS_PER_IO_MAX: u64 = 1 << 13;

/// Smallest cache size of the curve, in units.
const CURVE_UNITS_MIN: u64 = 16;

impl Options {
    /// Validates the options.
    pub fn check(&self) -> Result<(), InputError> {
        if !(UNIT_BYTES_MIN..=UNIT_BYTES_MAX).contains(&self.unit_bytes) {
            let what = format!("--footprint-unit {} is out of range", Bytes(self.unit_bytes));
            return Err(InputError::new(what, "choose 512 B to 1 GiB; the usual one is 4 KiB"));
        }
        if !(SAMPLES_MIN..=SAMPLES_MAX).contains(&self.samples) {
            let what = format!("--samples {} is out of range", self.samples);
            let help =
                format!("choose {SAMPLES_MIN} to {SAMPLES_MAX}, or --exact; the usual number is {SAMPLES}");
            return Err(InputError::new(what, help));
        }
        Ok(())
    }
}

/// Reads a trace to its end, or until `interrupt` is raised: then the result is marked as partial. `name` is
/// the trace's name in the result. After each record `progress` receives the number of records, and the time
/// of the last in picoseconds.
///
/// # Errors
/// The options are out of range, a line of the trace is not a record, or there are too many units for an
/// exact curve.
pub fn inspect(
    mut reader: Reader,
    name: &str,
    options: &Options,
    mut progress: impl FnMut(u64, u64),
    interrupt: &Interrupt,
) -> Result<Inspection, InputError> {
    options.check()?;
    let mut inspector = Inspector::new(options);
    let mut partial = false;
    loop {
        let record = match reader.next_record() {
            Err(_) if interrupt.is_raised() => {
                partial = true;
                break;
            }
            Ok(None) => break,
            Ok(Some(record)) => record,
            Err(error) => return Err(error),
        };
        if !inspector.record(&record) {
            let limit = options.exact_units_max;
            let what = format!("--exact: more than {limit} units, which would take too much memory");
            let help = "leave out --exact for an estimate from a sample, or choose a longer --footprint-unit";
            return Err(InputError::new(what, help).at(reader.place()));
        }
        progress(inspector.records, record.time_ps);
        if interrupt.is_raised() {
            partial = true;
            break;
        }
    }
    Ok(inspector.finish(&reader, name, options, partial))
}

/// The counters of an inspection.
struct Inspector {
    unit_bytes: u64,
    records: u64,
    /// I/Os and bytes, by kind.
    kinds: [(u64, u128); KINDS.len()],
    sizes: sizes::Sizes,
    devices: devices::Devices,
    arrivals: arrivals::Arrivals,
    footprint: footprint::Footprint,
    reuse: Distances,
    exact_units_max: usize,
    /// I/Os that exceeded [`UNITS_PER_IO_MAX`].
    cut: u64,
}

enum Distances {
    Exact(Exact),
    Sampled(Shards),
}

impl Inspector {
    fn new(options: &Options) -> Self {
        Inspector {
            unit_bytes: options.unit_bytes,
            records: 0,
            kinds: Default::default(),
            sizes: sizes::Sizes::default(),
            devices: devices::Devices::default(),
            arrivals: arrivals::Arrivals::new(),
            footprint: footprint::Footprint::default(),
            reuse: match options.exact {
                true => Distances::Exact(Exact::default()),
                false => Distances::Sampled(Shards::new(options.samples, options.seed)),
            },
            exact_units_max: options.exact_units_max,
            cut: 0,
        }
    }

    /// Counts a record. Returns false if there are too many units for an exact curve.
    fn record(&mut self, record: &Record) -> bool {
        self.records += 1;
        let (ios, bytes) = &mut self.kinds[record.kind as usize];
        *ios += 1;
        *bytes += u128::from(record.bytes);
        self.sizes.record(record.kind, record.bytes);
        self.devices.record(record);
        self.arrivals.record(record.time_ps);
        record.kind == Kind::Trim || self.access(record)
    }

    /// Counts the units that a read or write accesses.
    fn access(&mut self, record: &Record) -> bool {
        let first = record.offset_bytes / self.unit_bytes;
        let last = (record.offset_bytes + (record.bytes - 1)) / self.unit_bytes;
        let end = last.min(first + (UNITS_PER_IO_MAX - 1));
        self.cut += u64::from(end < last);
        // A unit's key is a hash of unit and device. Within a device keys are unique; in a trace with 100
        // million units on two devices, two keys collide in one of several thousand traces.
        let device = mix(u64::from(record.device));
        for unit in first..=end {
            let key = mix(unit ^ device);
            self.footprint.access(key, record.kind == Kind::Write);
            match &mut self.reuse {
                Distances::Exact(exact) => exact.access(key),
                Distances::Sampled(shards) => shards.access(key),
            }
        }
        match &self.reuse {
            Distances::Exact(exact) => exact.keys() <= self.exact_units_max,
            Distances::Sampled(_) => true,
        }
    }

    fn finish(&self, reader: &Reader, name: &str, options: &Options, partial: bool) -> Inspection {
        let bytes: u128 = self.kinds.iter().map(|(_, bytes)| *bytes).sum();
        let kinds = KINDS.iter().zip(&self.kinds).map(|(kind, (ios, kind_bytes))| KindRow {
            kind: *kind,
            records: *ios,
            share: ratio((*ios).into(), self.records.into()),
            bytes: saturated(*kind_bytes),
            bytes_share: ratio(*kind_bytes, bytes),
        });
        let footprint = self.footprint.finish(self.unit_bytes);
        let curve = match &self.reuse {
            Distances::Exact(exact) => exact.curve(),
            Distances::Sampled(shards) => shards.curve(),
        };
        Inspection {
            byteway: env!("CARGO_PKG_VERSION").to_owned(),
            trace: name.to_owned(),
            format: reader.format().name().to_owned(),
            assumption: reader.options().assumption().to_owned(),
            device: options.device,
            partial,
            records: self.records,
            bytes: saturated(bytes),
            duration_ns: ns(self.arrivals.last_ps()),
            kinds: kinds.collect(),
            sizes: self.sizes.finish(),
            addresses: self.devices.addresses(),
            arrivals: self.arrivals.finish(),
            device_count: self.devices.count(),
            devices: self.devices.rows(),
            updates: self.footprint.updates(self.unit_bytes),
            reuse: reuse(&curve, &footprint, self.unit_bytes),
            miss_ratio_curve: self.points(&curve, &footprint, options),
            footprint,
            notes: self.notes(reader),
        }
    }

    /// The curve at cache sizes that double, up to the one in which everything fits.
    fn points(&self, curve: &MissRatioCurve, footprint: &Footprint, options: &Options) -> Option<Curve> {
        if footprint.accesses == 0 {
            return None;
        }
        let (method, rate, sampled) = match &self.reuse {
            Distances::Exact(exact) => (Method::Exact, 1.0, exact.keys() as u64),
            Distances::Sampled(shards) => (Method::Shards, shards.rate(), shards.sampled_keys() as u64),
        };
        let all_sampled = rate >= 1.0;
        let basis = match (method, all_sampled) {
            (Method::Exact, _) => "exact: every unit was looked at".to_owned(),
            (Method::Shards, true) => "exact: there are no more units than samples".to_owned(),
            (Method::Shards, false) => format!(
                "estimated: with {SAMPLES} samples at least 18 of 20 seeds are within 0.02 of the exact curve of the \
                 CloudPhysics trace w106; another --seed shows the spread here"
            ),
        };
        let mut points = Vec::new();
        let mut units = CURVE_UNITS_MIN;
        loop {
            let point = CurvePoint {
                units,
                bytes: units.saturating_mul(self.unit_bytes),
                miss_ratio: six_decimals(curve.at(units)),
            };
            points.push(point);
            if units >= footprint.units {
                break;
            }
            units *= 2;
        }
        Some(Curve {
            method,
            unit_bytes: self.unit_bytes,
            seed: (method == Method::Shards).then_some(options.seed),
            sampled_units: sampled,
            sampling_rate: rate,
            resolution_units: (1.0 / rate).ceil() as u64,
            exact: all_sampled,
            basis,
            points,
        })
    }

    fn notes(&self, reader: &Reader) -> Vec<String> {
        let tally = reader.tally();
        let mut notes = tally.doubts(reader.options());
        if tally.bad_lines > 0 {
            let first = tally.first_bad.as_deref().unwrap_or_default();
            notes.push(format!(
                "lines that are not records, skipped: {}; the first: {first}",
                tally.bad_lines
            ));
        }
        if tally.times_raised > 0 {
            let count = tally.times_raised;
            notes.push(format!(
                "{count} records had earlier times than one before them, and were given its time"
            ));
        }
        if tally.other_devices > 0 {
            notes.push(format!("{} records of other devices were left out", tally.other_devices));
        }
        if self.cut > 0 {
            notes.push(format!(
                "{} I/Os touch more than {UNITS_PER_IO_MAX} units; footprint, updates, reuse and curve look at the first \
                 {UNITS_PER_IO_MAX} of each",
                self.cut
            ));
        }
        notes.extend(self.sizes.note());
        notes.extend(self.devices.note());
        notes
    }
}

fn reuse(curve: &MissRatioCurve, footprint: &Footprint, unit_bytes: u64) -> Option<Reuse> {
    let at = |share: f64| Some(curve.distance_at(share)?.saturating_mul(unit_bytes));
    Some(Reuse {
        first_touch_share: ratio(footprint.units.into(), footprint.accesses.into()).min(1.0),
        p10_bytes: at(0.1)?,
        p50_bytes: at(0.5)?,
        p90_bytes: at(0.9)?,
        p99_bytes: at(0.99)?,
    })
}

#[cfg(test)]
mod tests;
