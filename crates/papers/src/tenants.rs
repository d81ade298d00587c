//! Tenants: the same timed job on each of several drives of a JBOF.

use std::fmt::Write as _;
use std::ops::Range;

/// A job of several tenants, each on its own drive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tenants {
    name: String,
    /// Range of their drives' indices.
    drives: (u16, u16),
    /// Keys of the job, and their values in TOML.
    keys: Vec<(String, String)>,
    /// Ramp, until drives have borrowed and caches are warm.
    ramp_ns: u64,
    /// Measured virtual time: per payload of other papers' points, and minimum.
    each_ns: u64,
    least_ns: u64,
    /// Whether the job runs until its keys end it, instead of for a time.
    is_whole: bool,
}

/// Ramp until drives have borrowed: a few periods of 10 ms.
const RAMP_NS: u64 = 60_000_000;
/// 10,000 payloads correspond to 40 ms.
const EACH_NS: u64 = 4_000;
const LEAST_NS: u64 = 20_000_000;

impl Tenants {
    /// Tenants of these drives, with a pattern in the notation of `rw`, one size and queue depth.
    pub fn new(name: &str, drives: Range<u16>, rw: &str, bytes: u64, depth: u32) -> Tenants {
        let tenants = Tenants {
            name: name.to_owned(),
            drives: (drives.start, drives.end),
            keys: Vec::new(),
            ramp_ns: RAMP_NS,
            each_ns: EACH_NS,
            least_ns: LEAST_NS,
            is_whole: false,
        };
        tenants.key("rw", format!("{rw:?}")).key("bs", format!("\"{bytes} B\"")).key("iodepth", depth)
    }

    /// Sets a key of the job.
    pub fn key(mut self, key: &str, value: impl ToString) -> Tenants {
        self.keys.retain(|(other, _)| other != key);
        self.keys.push((key.to_owned(), value.to_string()));
        self
    }

    /// Removes a key of the job.
    pub fn without(mut self, key: &str) -> Tenants {
        self.keys.retain(|(other, _)| other != key);
        self
    }

    /// Sets the ramp.
    pub fn ramp(self, ramp_ns: u64) -> Tenants {
        Tenants { ramp_ns, ..self }
    }

    /// Sets the measured time per payload, and its minimum.
    pub fn lasting(self, each_ns: u64, least_ns: u64) -> Tenants {
        Tenants { each_ns, least_ns, ..self }
    }

    /// Runs until the job's keys end it.
    pub fn whole(self) -> Tenants {
        Tenants { is_whole: true, ..self }
    }

    /// Name in messages.
    pub(crate) fn name(&self) -> String {
        let (from, to) = self.drives;
        let keys = self.keys.iter().map(|(key, value)| format!("{key} = {}", value.trim_matches('"')));
        format!("{} on {} drives ({})", self.name, to - from, keys.collect::<Vec<_>>().join(", "))
    }

    /// Adds its job to a scenario with this number of payloads.
    pub(crate) fn write(&self, payloads: u64, text: &mut String) {
        let (from, to) = self.drives;
        if from == to {
            return;
        }
        let drives: Vec<String> = (from..to).map(|drive| format!("\"ssd{drive}\"")).collect();
        let _ = write!(text, "\n[[job]]\nname = {:?}\ndrive = [{}]\n", self.name, drives.join(", "));
        for (key, value) in &self.keys {
            let _ = writeln!(text, "{key} = {value}");
        }
        if self.is_whole {
            return;
        }
        let runtime = self.ramp_ns + payloads.saturating_mul(self.each_ns).max(self.least_ns);
        let _ = write!(text, "ramp_time = \"{} ns\"\nruntime = \"{runtime} ns\"\n", self.ramp_ns);
    }
}
