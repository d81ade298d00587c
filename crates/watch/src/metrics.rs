//! The figures of all drives as OpenMetrics text.
//!
//! Every metric is listed in [`NAMES`], with its help; `docs/tasks/watch-a-served-drive.md` explains them. Labels are
//! bounded: purposes, stages and verbs are fixed, hosts and namespaces are limited by the drive's ledger.

use crate::drives::{DriveState, Drives};
use crate::state::warnings;
use byteway_clock::Stage;
use byteway_content::UNIT_BYTES;
use byteway_link::ios::{BUCKETS, HOSTS_MAX, bucket_ns};
use byteway_link::{Direction, IoFigures, IoRow, LatencyCounts, Purpose, Verb};
use byteway_serve::watch::DriveFigures;
use byteway_wire::nvme::SmartLog;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows. Its samples have the suffix `_total`.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts by bucket.
    Histogram,
}

const C: Kind = Kind::Counter;
const G: Kind = Kind::Gauge;
const H: Kind = Kind::Histogram;

/// All metrics, without the suffixes of their samples: name, kind, help.
pub const NAMES: [(&str, Kind, &str); 33] = [
    ("byteway_up", G, "Whether the drive is served and answers"),
    ("byteway_served_seconds", G, "Time since hosts can attach to the drive"),
    ("byteway_capacity_bytes", G, "Capacity of the drive"),
    ("byteway_ios", C, "Reads and writes that moved data"),
    ("byteway_io_bytes", C, "Bytes that reads and writes moved"),
    (
        "byteway_io_latency_seconds",
        H,
        "Time from the doorbell, or the arrival at the target, to the completion",
    ),
    ("byteway_stage_latency_seconds", H, "Part of that time by the resource that it went to"),
    ("byteway_commands", C, "Commands fetched, including admin commands"),
    ("byteway_outstanding_commands", G, "I/O commands in the drive: submitted and not completed"),
    ("byteway_clients", C, "Clients that have attached, and controllers that hosts have created"),
    ("byteway_controller_resets", C, "Controller resets"),
    ("byteway_link_payload_bytes", C, "Payload bytes that crossed the link"),
    ("byteway_link_wire_bytes", C, "Bytes that crossed the link, with headers and framing"),
    ("byteway_link_tlps", C, "Packets that crossed the link"),
    ("byteway_link_faults", C, "Posted writes to memory that the host had unmapped"),
    ("byteway_interrupts_lost", C, "Interrupts that could not be delivered"),
    ("byteway_host_written_bytes", C, "Bytes of the units that hosts wrote to the translation layer"),
    ("byteway_flash_programmed_bytes", C, "Bytes programmed to flash by cause"),
    ("byteway_write_amplification_ratio", G, "Bytes programmed for each byte written, since the start"),
    ("byteway_free_superblocks", G, "Erased superblocks"),
    ("byteway_erase_cycles", G, "Program/erase cycles of the blocks"),
    ("byteway_endurance_used_ratio", G, "Percentage Used of the health log"),
    ("byteway_spare_ratio", G, "Available Spare of the health log"),
    ("byteway_spare_threshold_ratio", G, "Available Spare Threshold of the health log"),
    ("byteway_critical_warning", G, "Critical Warning of the health log, by bit"),
    ("byteway_media_errors", C, "Media and Data Integrity Errors of the health log"),
    ("byteway_error_log_entries", C, "Error Information Log Entries of the health log"),
    ("byteway_power_cycles", C, "Power Cycles of the health log"),
    ("byteway_unsafe_shutdowns", C, "Unsafe Shutdowns of the health log"),
    ("byteway_modeled_waits", C, "Modeled times waited for"),
    ("byteway_modeled_waits_late", C, "Of these, later than 10 us"),
    ("byteway_lateness_seconds", C, "Lateness of all modeled waits"),
    ("byteway_clock_slip_seconds", C, "Modeled time given up because the machine fell behind"),
];

/// Labels of a sample.
type Labels = Vec<(&'static str, String)>;

enum Value {
    Count(u64),
    Number(f64),
    Times(Box<LatencyCounts>, usize),
}

/// A metric with its samples.
struct Family {
    name: &'static str,
    samples: Vec<(Labels, Value)>,
}

/// The metrics of one moment.
struct Metrics(Vec<Family>);

/// The figures of all drives.
pub fn text(drives: &Drives) -> String {
    let figures: Vec<_> = drives.list().iter().map(|drive| drive.figures()).collect();
    let mut metrics = Metrics::new();
    for (drive, figures) in drives.list().iter().zip(&figures) {
        metrics.drive(&drive.name, drive.state(), figures.as_deref());
    }
    metrics.text()
}

impl Metrics {
    fn new() -> Metrics {
        Metrics(NAMES.map(|(name, ..)| Family { name, samples: Vec::new() }).into())
    }

    fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::with_capacity(64 << 10);
        // Writing to a string does not fail.
        let _ = encode(&mut text, &registry);
        text
    }

    fn add(&mut self, name: &'static str, labels: Labels, value: Value) {
        let family = self.0.iter_mut().find(|family| family.name == name);
        family.expect("every metric is listed").samples.push((labels, value));
    }

    fn count(&mut self, name: &'static str, labels: Labels, count: u64) {
        self.add(name, labels, Value::Count(count));
    }

    fn number(&mut self, name: &'static str, labels: Labels, number: f64) {
        self.add(name, labels, Value::Number(number));
    }

    /// All metrics of a drive.
    fn drive(&mut self, name: &str, state: DriveState, figures: Option<&DriveFigures>) {
        let own = || vec![("drive", name.to_owned())];
        self.number("byteway_up", own(), f64::from(u8::from(state == DriveState::Serving)));
        let Some(figures) = figures else { return };
        self.number("byteway_served_seconds", own(), figures.at.as_secs_f64());
        self.number("byteway_capacity_bytes", own(), figures.capacity_bytes as f64);
        self.ios(name, &figures.ios);
        let report = &figures.report;
        self.count("byteway_commands", own(), report.commands);
        self.number("byteway_outstanding_commands", own(), figures.outstanding as f64);
        self.count("byteway_clients", own(), report.clients);
        self.count("byteway_controller_resets", own(), report.resets);
        self.link(name, figures);
        self.count("byteway_link_faults", own(), report.faults);
        self.count("byteway_interrupts_lost", own(), report.interrupts_lost);
        self.flash(name, figures);
        self.health(name, &figures.smart);
        if let Some(pace) = &report.pace {
            let seconds = |delay: byteway_clock::Delay| delay.0 as f64 / 1e12;
            self.count("byteway_modeled_waits", own(), pace.waits);
            self.count("byteway_modeled_waits_late", own(), pace.late);
            self.number("byteway_lateness_seconds", own(), seconds(pace.lateness));
            self.number("byteway_clock_slip_seconds", own(), seconds(pace.slipped));
        }
    }

    fn ios(&mut self, name: &str, ios: &IoFigures) {
        for row in &ios.rows {
            let of = |verb: Verb| -> Labels {
                let host = ios.hosts.get(row.host).map_or("other", String::as_str);
                let namespace = row.nsid.map_or_else(|| "other".to_owned(), |nsid| nsid.to_string());
                vec![
                    ("drive", name.to_owned()),
                    ("namespace", namespace),
                    ("host", host.to_owned()),
                    ("verb", verb.name().to_owned()),
                ]
            };
            // The row of those beyond the limits is there once they are.
            if is_unused(row) && row.host == HOSTS_MAX {
                continue;
            }
            for (verb, (count, bytes)) in [(Verb::Read, row.reads), (Verb::Write, row.writes)] {
                self.count("byteway_ios", of(verb), count);
                self.count("byteway_io_bytes", of(verb), bytes);
            }
            for verb in Verb::ALL {
                let times = &row.latencies[verb as usize];
                if times.count() > 0 {
                    let times = Value::Times(Box::new(times.clone()), 2);
                    self.add("byteway_io_latency_seconds", of(verb), times);
                }
            }
        }
        for (verb, stages) in Verb::ALL.into_iter().zip(&ios.stages) {
            for (stage, times) in Stage::ALL.into_iter().zip(stages) {
                if times.count() > 0 {
                    let labels = vec![
                        ("drive", name.to_owned()),
                        ("verb", verb.name().to_owned()),
                        ("stage", stage.name().to_owned()),
                    ];
                    self.add(
                        "byteway_stage_latency_seconds",
                        labels,
                        Value::Times(Box::new(times.clone()), 1),
                    );
                }
            }
        }
    }

    fn link(&mut self, name: &str, figures: &DriveFigures) {
        for (protocol, ledger) in &figures.ports {
            for purpose in Purpose::ALL {
                for direction in Direction::ALL {
                    let entry = ledger.entry(purpose, direction);
                    if entry == Default::default() {
                        continue;
                    }
                    let labels = || {
                        vec![
                            ("drive", name.to_owned()),
                            ("port", protocol.name().to_owned()),
                            ("purpose", purpose.name().to_owned()),
                            ("direction", direction.name().to_owned()),
                        ]
                    };
                    self.count("byteway_link_payload_bytes", labels(), entry.payload);
                    self.count("byteway_link_wire_bytes", labels(), entry.wire);
                    self.count("byteway_link_tlps", labels(), entry.tlps);
                }
            }
        }
    }

    fn flash(&mut self, name: &str, figures: &DriveFigures) {
        let own = || vec![("drive", name.to_owned())];
        let ftl = &figures.ftl;
        let bytes = |units: u64| units * UNIT_BYTES as u64;
        self.count("byteway_host_written_bytes", own(), bytes(ftl.user_units_written));
        for (cause, units) in [
            ("host", ftl.units_programmed_host),
            ("collector", ftl.units_programmed_collector),
            ("levelling", ftl.units_programmed_levelling),
            ("refresh", ftl.units_programmed_refresh),
            ("folding", ftl.units_programmed_folding),
            ("retirement", ftl.units_programmed_retirement),
            ("map", ftl.units_programmed_map),
            ("padding", ftl.units_programmed_padding),
        ] {
            let labels = vec![("drive", name.to_owned()), ("cause", cause.to_owned())];
            self.count("byteway_flash_programmed_bytes", labels, bytes(units));
        }
        // Before anything was written there is none.
        if ftl.user_units_written > 0 {
            self.number("byteway_write_amplification_ratio", own(), ftl.write_amplification());
        }
        self.number("byteway_free_superblocks", own(), ftl.blocks_free as f64);
        for (statistic, cycles) in [
            ("min", figures.wear.min as f64),
            ("mean", figures.wear.mean()),
            ("max", figures.wear.max as f64),
        ] {
            let labels = vec![("drive", name.to_owned()), ("statistic", statistic.to_owned())];
            self.number("byteway_erase_cycles", labels, cycles);
        }
    }

    fn health(&mut self, name: &str, smart: &SmartLog) {
        let own = || vec![("drive", name.to_owned())];
        let share = |percent: u8| f64::from(percent) / 100.0;
        self.number("byteway_endurance_used_ratio", own(), share(smart.percentage_used));
        self.number("byteway_spare_ratio", own(), share(smart.available_spare));
        self.number("byteway_spare_threshold_ratio", own(), share(smart.available_spare_threshold));
        let raised = warnings(smart);
        for warning in ["spare", "read-only"] {
            let labels = vec![("drive", name.to_owned()), ("warning", warning.to_owned())];
            let is_raised = f64::from(u8::from(raised.contains(&warning)));
            self.number("byteway_critical_warning", labels, is_raised);
        }
        for (metric, count) in [
            ("byteway_media_errors", smart.media_errors.get()),
            ("byteway_error_log_entries", smart.error_log_entries.get()),
            ("byteway_power_cycles", smart.power_cycles.get()),
            ("byteway_unsafe_shutdowns", smart.unsafe_shutdowns.get()),
        ] {
            self.count(metric, own(), u64::try_from(count).unwrap_or(u64::MAX));
        }
    }
}

fn is_unused(row: &IoRow) -> bool {
    row.reads.0 == 0 && row.writes.0 == 0 && row.latencies.iter().all(|times| times.count() == 0)
}

/// The counts in fewer buckets, `per_octave` each octave from 1 us to 17 s, as upper bound in seconds and count.
fn buckets(times: &LatencyCounts, per_octave: usize) -> Vec<(f64, u64)> {
    // The first bucket is not an octave; four octaves are below 1 us.
    const FIRST: usize = 1 + 4 * 4;
    const LAST: usize = BUCKETS - 4;
    let step = 4 / per_octave;
    let mut from = 0;
    let mut found = Vec::with_capacity(BUCKETS);
    for end in (FIRST..=LAST).step_by(step) {
        found.push((bucket_ns(end) as f64 / 1e9, times.buckets[from..end].iter().sum()));
        from = end;
    }
    found.push((f64::INFINITY, times.buckets[from..].iter().sum()));
    found
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Metrics").field(&self.0.len()).finish()
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (family, (name, kind, help)) in self.0.iter().zip(NAMES) {
            if family.samples.is_empty() {
                continue;
            }
            let kind = match kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut described = encoder.encode_descriptor(name, help, None, kind)?;
            for (labels, value) in &family.samples {
                let mut sample = described.encode_family(labels)?;
                match (value, kind) {
                    (Value::Times(times, per_octave), _) => {
                        let (sum, buckets) = (times.sum_ps as f64 / 1e12, buckets(times, *per_octave));
                        sample.encode_histogram::<NoLabelSet>(sum, times.count(), &buckets, None)?;
                    }
                    (Value::Count(count), _) => sample.encode_counter::<NoLabelSet, _, u64>(count, None)?,
                    (Value::Number(number), MetricType::Counter) => {
                        sample.encode_counter::<NoLabelSet, _, f64>(number, None)?;
                    }
                    (Value::Number(number), _) => sample.encode_gauge(number)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::{Delay, SpanId, Spans, Time};
    use byteway_link::{IoLabel, IoLedger};

    fn times(all: &[Delay]) -> LatencyCounts {
        let (ledger, spans) = (IoLedger::new(), Spans::default());
        for time in all {
            let label = IoLabel { host: ledger.host("a"), nsid: 1, verb: Some(Verb::Read) };
            let span: SpanId = spans.open_labelled(Time(0), label.bits());
            spans.charge(span, Time(time.0), Stage::Flash);
            ledger.close(&spans, span);
        }
        ledger.figures().rows[1].latencies[Verb::Read as usize].clone()
    }

    // A time that fell between the buckets of Prometheus would be missing in every quantile.
    #[test]
    fn buckets_hold_all_times_below_their_bounds() {
        let all = [
            Delay::from_ns(100),
            Delay::from_ns(1023),
            Delay::from_ns(1024),
            Delay::from_us(70),
            Delay::from_s(60),
        ];
        let times = times(&all);
        for per_octave in [1, 2] {
            let buckets = buckets(&times, per_octave);
            assert_eq!(buckets.iter().map(|bucket| bucket.1).sum::<u64>(), times.count());
            assert_eq!(buckets[0], (1.024e-6, 2), "{per_octave}");
            assert_eq!(buckets[1].1, 1);
            assert_eq!(buckets.last(), Some(&(f64::INFINITY, 1)));
            assert_eq!(buckets.len(), 2 + per_octave * 24);
            for (bound, _) in &buckets[..buckets.len() - 1] {
                let below =
                    all.iter().filter(|time| time.0 / 1000 < (bound * 1e9 + 0.5) as u64).count() as u64;
                let counted: u64 =
                    buckets.iter().filter(|bucket| bucket.0 <= *bound).map(|bucket| bucket.1).sum();
                assert_eq!(counted, below, "{bound}");
            }
        }
    }

    // A host chooses its own name: a quote or line feed in it must not become another sample.
    #[test]
    fn labels_are_escaped() {
        let mut metrics = Metrics::new();
        metrics.drive("a\"} 1\nb\\", DriveState::Starting, None);
        let text = metrics.text();
        let expected = "# HELP byteway_up Whether the drive is served and answers\n# TYPE byteway_up gauge\n\
                        byteway_up{drive=\"a\\\"} 1\\nb\\\\\"} 0.0\n# EOF\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn names_follow_the_conventions() {
        for (name, kind, help) in NAMES {
            assert!(name.starts_with("byteway_") && !help.is_empty() && !help.ends_with('.'), "{name}");
            assert!(
                !name.ends_with("_total") && !name.ends_with("_count") && !name.ends_with("_info"),
                "{name}"
            );
            assert!(kind != Kind::Histogram || name.ends_with("_seconds"), "{name}");
        }
        let mut names = NAMES.map(|(name, ..)| name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
