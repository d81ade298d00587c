//! Jobs of a key-value drive: from the section `[[kv]]` to the plan.

use std::path::Path;
use std::sync::Arc;

use byteway_clock::random::Rng;
use byteway_wire::nvme::vendor::kv::BulkLimits;
use byteway_wire::nvme::vendor::kv::pair_bytes;

use super::drive::DrivePlan;
use super::kv_section::{EngineName, KvSection, Order, Shares};
use super::plan::{COUNT_MAX, HostPlan, RUNTIME_MAX, check_name};
use super::wrong::SectionError;
use crate::profile::{KeyError, fault, within};
use crate::source::Index;
use byteway_text::units::{Bytes, Picos};
use byteway_workload::kv::{
    Engine, Histogram, Inserted, KvChoice, KvDraws, KvGenerator, KvPlan, KvScans, KvSource, KvTrace, Lengths,
    Popularity, Preset, ValueSizes, Verb, Ycsb,
};
use byteway_workload::kv::{KEY_BYTES_MAX, KeyOrder};
use byteway_workload::{JobPlan, JobSettings, Source};

/// Maximum number of key-value pairs in a bulk command.
const BULK_PAIRS_MAX: u32 = 1 << 20;
/// Maximum number of key-value pairs of a job.
const KEYS_MAX: u64 = 1 << 40;

/// A section being turned into a plan.
pub(super) struct KvDraft<'a> {
    pub section: &'a KvSection,
    /// Path of the section, such as `kv.0`.
    pub path: &'a str,
    pub index: &'a Index,
    pub drive: &'a DrivePlan,
    pub host: &'a HostPlan,
    /// Directory to which paths of files are relative.
    pub folder: &'a Path,
}

impl KvDraft<'_> {
    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    fn fault(&self, key: &str, what: impl std::fmt::Display, help: impl Into<String>) -> KeyError {
        fault(self.key(key), format!("`{}`: {what}", self.key(key)), help)
    }

    /// The job's plan, in phase 0.
    pub(super) fn plan(&self, name: &str) -> Result<JobPlan, SectionError> {
        let section = self.section;
        let name = section.name.clone().unwrap_or_else(|| name.to_owned());
        check_name(&self.key("name"), &name)?;
        let controller = &self.drive.profile.controller;
        let engine = self.engine()?;
        let nsids = match engine {
            Engine::Drive => self.drive.pairs_nsids(),
            Engine::Leveldb { .. } => self.drive.blocks_nsids(),
        };
        let nsid = section.namespace.unwrap_or(*nsids.start());
        if nsids.is_empty() && engine == Engine::Drive {
            let what = "`kv`: the drive has no KV namespace";
            let help = "set `personality = \"kv\"` in [drive], or `kv_capacity = \"1 GiB\"`; or `engine = \"leveldb\"` here, \
                        for an LSM tree on the host; or write `[[job]]`";
            return Err(fault(self.path, what, help).into());
        }
        if nsids.is_empty() {
            let help = "leave `personality` out of [drive], or `engine` out here";
            return Err(self.fault("engine", "an LSM tree on the host needs a block device", help).into());
        }
        within(&self.key("namespace"), nsid, *nsids.start(), *nsids.end())?;
        within(&self.key("numjobs"), section.numjobs, 1, 1024)?;
        let iodepth = section.iodepth.unwrap_or(1);
        within(&self.key("iodepth"), iodepth, 1, (controller.max_queue_entries - 1).min(65535))?;
        for (key, count, most) in [("count", section.count, COUNT_MAX), ("keys", section.keys, KEYS_MAX)] {
            within(&self.key(key), count.unwrap_or(1), 1, most)?;
        }
        let times = [
            ("runtime", section.runtime, Picos(1)),
            ("ramp_time", section.ramp_time, Picos(0)),
            ("startdelay", section.startdelay, Picos(0)),
        ];
        for (key, time, least) in times {
            within(&self.key(key), time.unwrap_or(least), least, RUNTIME_MAX)?;
        }
        self.check_keys()?;
        let (mut plan, count) = self.source()?;
        let value_bytes_max = self.drive.profile.kv.value_max.0.min(controller.mdts.0);
        if plan.engine == Engine::Drive && u64::from(plan.value_bytes_max()) > value_bytes_max {
            let key = if section.value.is_some() { "value" } else { "workload" };
            let what = format!(
                "values of up to {} exceed the drive's maximum",
                Bytes(plan.value_bytes_max().into())
            );
            let help = format!(
                "at most {}: the least of `kv.value_max` and `controller.mdts` in [drive.override]",
                Bytes(value_bytes_max)
            );
            return Err(self.fault(key, what, help).into());
        }
        plan.bulk = self.bulk(&plan)?;
        let settings = JobSettings {
            nsid,
            iodepth,
            workers: section.numjobs,
            start_delay: section.startdelay.unwrap_or_default(),
            ramp: section.ramp_time.unwrap_or_default(),
            verify: self.host.verify,
            count,
            runtime: section.runtime,
            ..plan.settings(&name)
        };
        if settings.count.is_none() && settings.runtime.is_none() && plan.operations().is_none() {
            let what = format!("`{}` never ends", self.path);
            let help = "add `count = 100000`, or `runtime = \"1 s\"`";
            return Err(fault(self.path, what, help).into());
        }
        // Errors that only the generator finds are also reported before the run, at their location.
        for worker in [0, settings.workers - 1] {
            KvGenerator::new(&settings, &plan, worker, &Rng::new(0), &Inserted::new(plan.records()))
                .map_err(|error| fault(self.key("workload"), error.what, error.help))?;
        }
        Ok(JobPlan { settings, source: Source::Pairs(Box::new(plan)) })
    }

    /// The store of the key-value pairs.
    fn engine(&self) -> Result<Engine, KeyError> {
        let section = self.section;
        if section.engine.unwrap_or_default() == EngineName::Drive {
            return match section.sync {
                None => Ok(Engine::Drive),
                Some(_) => Err(self.fault("sync", "has no effect with `engine = \"drive\"`", "leave it out")),
            };
        }
        for (key, count) in [("iodepth", section.iodepth.unwrap_or(1)), ("numjobs", section.numjobs)] {
            if count > 1 {
                let what =
                    format!("{count} with `engine = \"leveldb\"`, which executes one operation at a time");
                return Err(self.fault(key, what, "leave it out"));
            }
        }
        Ok(Engine::Leveldb { sync: section.sync.unwrap_or(true) })
    }

    /// The limits of a batch, if stores are batched.
    fn bulk(&self, plan: &KvPlan) -> Result<Option<BulkLimits>, KeyError> {
        let section = self.section;
        let key = match (section.bulk_pairs, section.bulk_bytes) {
            (None, None) => return Ok(None),
            (Some(_), None) => "bulk_pairs",
            (_, Some(_)) => "bulk_bytes",
        };
        if plan.engine != Engine::Drive {
            return Err(self.fault(key, "an LSM tree on the host does not batch stores", "leave it out"));
        }
        if !plan.only_stores() {
            let what = format!("`workload = \"{}\"` does more than store pairs", section.workload.name());
            return Err(self.fault(key, what, "leave it out: only stores are gathered"));
        }
        let pairs = section.bulk_pairs.unwrap_or(BULK_PAIRS_MAX);
        within(&self.key("bulk_pairs"), pairs, 1, BULK_PAIRS_MAX)?;
        let pair = pair_bytes(KEY_BYTES_MAX, plan.value_bytes_max() as usize) as u64;
        let mdts = self.drive.profile.controller.mdts.0.min(u32::MAX.into());
        let usual = pair.saturating_mul(pairs.into()).min(mdts);
        let bytes = section.bulk_bytes.map_or(usual, |bytes| bytes.0);
        if bytes < pair || bytes > mdts {
            let what = format!("a command of {} is not possible", Bytes(bytes));
            let help = format!(
                "from {}, the longest key-value pair with its header, to {}, `controller.mdts` in [drive.override]",
                Bytes(pair),
                Bytes(mdts)
            );
            return Err(self.fault(key, what, help));
        }
        Ok(Some(BulkLimits { pairs, bytes: bytes as u32 }))
    }

    /// Checks for keys that the workload does not use, or that it requires.
    fn check_keys(&self) -> Result<(), KeyError> {
        let (section, preset) = (self.section, self.section.workload);
        let of = preset.name();
        let is_cachelib = preset == Preset::Cachelib;
        let has_shares = is_cachelib || preset == Preset::Mixed;
        let is_listed = preset.wants_file() || is_cachelib;
        let rules = [
            (
                "value",
                section.value.is_some(),
                preset.wants_lengths(),
                preset.wants_lengths(),
                "value = \"128 B\"",
            ),
            (
                "file",
                section.file.is_some(),
                preset.wants_file(),
                preset.wants_file(),
                "file = \"workloada\"",
            ),
            ("sizes", section.sizes.is_some(), is_cachelib, is_cachelib, "sizes = \"sizes.json\""),
            (
                "popularity",
                section.popularity.is_some(),
                is_cachelib,
                is_cachelib,
                "popularity = \"pop.json\"",
            ),
            (
                "shares",
                section.shares.is_some(),
                has_shares,
                has_shares,
                "shares = { store = 0.5, retrieve = 0.5 }",
            ),
            (
                "random_distribution",
                section.random_distribution.is_some(),
                preset.takes_distribution(),
                false,
                "",
            ),
            ("order", section.order.is_some(), !is_listed, false, ""),
            ("key_bytes", section.key_bytes.is_some(), preset != Preset::Trace, false, ""),
            (
                "scan_length",
                section.scan_length.is_some(),
                has_shares || preset == Preset::Scanrandom,
                false,
                "",
            ),
            ("keys", section.keys.is_some(), !preset.wants_file(), false, ""),
        ];
        for (key, is_there, is_used, is_needed, example) in rules {
            if is_there && !is_used {
                let what = format!("has no effect with `workload = \"{of}\"`");
                return Err(self.fault(key, what, "leave it out"));
            }
            if is_needed && !is_there {
                let what = format!("`{}`: `workload = \"{of}\"` needs `{key}`", self.path);
                return Err(fault(self.path, what, format!("add `{example}`")));
            }
        }
        let stores =
            |shares: &Shares| shares.0.iter().any(|(verb, share)| *verb == Verb::Scan && *share > 0.0);
        if self.index.has(&self.key("scan_length")) {
            within(&self.key("scan_length"), section.scan_length.unwrap_or(1), 1, 1 << 20)?;
            if section.shares.as_ref().is_some_and(|shares| !stores(shares)) {
                return Err(self.fault("scan_length", "has no effect without scans", "leave it out"));
            }
        }
        if let Some(shares) = &section.shares {
            let wrong = |share: &f64| !(0.0..=1e9).contains(share);
            let none = shares.0.iter().all(|(_, share)| *share == 0.0);
            if none || shares.0.iter().any(|(_, share)| wrong(share)) {
                let help = "write numbers from 0 on, not all 0: { store = 0.1, retrieve = 0.9 }";
                return Err(self.fault("shares", "these are no shares", help));
            }
        }
        Ok(())
    }

    /// The source of operations, and their number.
    fn source(&self) -> Result<(KvPlan, Option<u64>), SectionError> {
        let (section, preset) = (self.section, self.section.workload);
        let path = |key: &str, of: &Option<String>| {
            (self.key(key), self.folder.join(of.as_deref().unwrap_or_default()))
        };
        let is_papers = matches!(
            preset,
            Preset::WA
                | Preset::WB
                | Preset::WC
                | Preset::WD
                | Preset::WM
                | Preset::MixgraphAllRandom
                | Preset::MixgraphPrefixDist
        );
        let key_bytes = section.key_bytes.unwrap_or(if is_papers { 4 } else { 8 });
        within(&self.key("key_bytes"), key_bytes, 1, KEY_BYTES_MAX as u32)?;
        let order = section.order.map(|order| match order {
            Order::Scattered => KeyOrder::Scattered,
            Order::Rising => KeyOrder::Rising,
        });
        let scan = section.scan_length.unwrap_or(100);
        let draws = |draws: KvDraws| KvSource::Draws(draws);
        let engine = self.engine()?;
        Ok(match preset {
            Preset::Trace => {
                let (key, path) = path("file", &section.file);
                let trace = KvTrace::scan(&path).map_err(|error| SectionError::File(key, error))?;
                (
                    KvPlan { keys: 1, key_bytes, source: KvSource::Trace(trace), engine, bulk: None },
                    section.count,
                )
            }
            Preset::Ycsb | Preset::YcsbLoad => {
                let (key, path) = path("file", &section.file);
                let ycsb = Ycsb::load(&path).map_err(|error| SectionError::File(key, error))?;
                let usual = if preset == Preset::Ycsb { ycsb.operations } else { ycsb.records };
                let count = section.count.or((section.runtime.is_none()).then_some(usual));
                (
                    KvPlan {
                        keys: ycsb.records,
                        key_bytes,
                        source: draws(preset.ycsb(&ycsb)),
                        engine,
                        bulk: None,
                    },
                    count,
                )
            }
            Preset::Cachelib => {
                let (key, path_of_sizes) = path("sizes", &section.sizes);
                let sizes =
                    Histogram::sizes(&path_of_sizes).map_err(|error| SectionError::File(key, error))?;
                let (key, path_of_objects) = path("popularity", &section.popularity);
                let objects =
                    Popularity::load(&path_of_objects).map_err(|error| SectionError::File(key, error))?;
                let keys = section.keys.unwrap_or(objects.objects());
                let source = KvDraws {
                    mix: section.shares.clone().unwrap_or_default().0,
                    choice: KvChoice::Popular(Arc::new(objects)),
                    order: KeyOrder::Scattered,
                    lengths: Lengths::Measured(sizes),
                    scans: KvScans::Fixed(scan),
                };
                (KvPlan { keys, key_bytes, source: draws(source), engine, bulk: None }, section.count)
            }
            _ => {
                let Some(keys) = section.keys.or(section.count) else {
                    let what = format!("`{}` has neither `keys` nor `count`", self.path);
                    return Err(
                        fault(self.path, what, "add `keys = 100000`: the pairs to choose from").into()
                    );
                };
                let value = section.value.clone().unwrap_or(ValueSizes::Fixed(0));
                let spread = section.random_distribution.clone().unwrap_or_default();
                let mut source = preset.draws(value, spread, scan);
                source.order = order.unwrap_or(source.order);
                if let Some(shares) = &section.shares {
                    source.mix = shares.0.clone();
                }
                (KvPlan { keys, key_bytes, source: draws(source), engine, bulk: None }, section.count)
            }
        })
    }
}
