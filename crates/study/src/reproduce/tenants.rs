//! Tenants: the same job on each of several drives of a box, for a time.

use std::fmt::Write as _;
use std::ops::Range;

/// A job of tenants, each of whom has a drive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tenants {
    name: String,
    /// Their drives, by number.
    drives: (u16, u16),
    /// Keys of the job and their values in TOML.
    keys: Vec<(String, String)>,
    /// Virtual time that is not measured, until drives have borrowed and caches are warm.
    ramp_ns: u64,
    /// Virtual time that is: for each payload that points of other papers have, and at least.
    each_ns: u64,
    least_ns: u64,
    /// Until all is done that its keys say, whatever that takes.
    is_whole: bool,
}

/// Until drives have borrowed: a few periods of 10 ms.
const RAMP_NS: u64 = 60_000_000;
/// 10,000 payloads come to 40 ms.
const EACH_NS: u64 = 4_000;
const LEAST_NS: u64 = 20_000_000;

impl Tenants {
    /// Of these drives, each with `rw` as a scenario has it, I/Os of one size, so many at once.
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

    /// With a key of the job.
    pub fn key(mut self, key: &str, value: impl ToString) -> Tenants {
        self.keys.retain(|(other, _)| other != key);
        self.keys.push((key.to_owned(), value.to_string()));
        self
    }

    /// Without one.
    pub fn without(mut self, key: &str) -> Tenants {
        self.keys.retain(|(other, _)| other != key);
        self
    }

    /// After so long that is not measured.
    pub fn ramp(self, ramp_ns: u64) -> Tenants {
        Tenants { ramp_ns, ..self }
    }

    /// For so long, for each payload and at least.
    pub fn lasting(self, each_ns: u64, least_ns: u64) -> Tenants {
        Tenants { each_ns, least_ns, ..self }
    }

    /// Until all is done that its keys say.
    pub fn whole(self) -> Tenants {
        Tenants { is_whole: true, ..self }
    }

    /// In words.
    pub(super) fn name(&self) -> String {
        let (from, to) = self.drives;
        let keys = self.keys.iter().map(|(key, value)| format!("{key} = {}", value.trim_matches('"')));
        format!("{} on {} drives ({})", self.name, to - from, keys.collect::<Vec<_>>().join(", "))
    }

    /// Adds its job to a scenario of so many payloads.
    pub(super) fn write(&self, payloads: u64, text: &mut String) {
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
