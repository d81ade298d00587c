//! Public measurements of real drives that are built in: the files in `measured/`.

use crate::fit::{Measurements, read_csv};
use byteway_text::error::InputError;

/// Measurements of a drive by the same people, with the same software.
#[derive(Clone, Copy, Debug)]
pub struct Dataset {
    /// Its name: that of its file in `measured/`.
    pub name: &'static str,
    /// The profile that stands for the drive.
    pub profile: &'static str,
    /// The host that measured.
    pub host: &'static str,
    /// What was measured, and by what.
    pub about: &'static str,
    /// Where the figures are published.
    pub source: &'static str,
    /// I/Os a second at which a worker of that host ends, whatever the drive: rows from 85 % of it on are aside.
    pub host_limit: Option<f64>,
    /// Keys of the scenario that the load had besides: `KEY=VALUE`.
    pub sets: &'static [&'static str],
    /// The file.
    text: &'static str,
}

const ZNS_STUDY: &str = "ZNS-Study, 2022";
const NVME_BENCHMARKS: &str = "NVMeBenchmarks, 2023";
const SSD_IQ: &str = "SSD-iq, 2025; data sheet";

/// libaio, all on one core of the authors' machine.
const LIBAIO_LIMIT: Option<f64> = Some(295e3);

/// A load of several threads, so that no core of the host is its limit.
const THREADS: &[&str] = &["job.0.numjobs=7"];

/// All of them, those of a profile in a row.
pub const DATASETS: [Dataset; 18] = [
    Dataset {
        name: "zn540-spdk",
        profile: "wd-zn540",
        host: "spdk",
        about: "its conventional namespace, SPDK",
        source: NVME_BENCHMARKS,
        host_limit: None,
        sets: &["job.0.size=\"2 GiB\""],
        text: include_str!("../../../../measured/zn540-spdk.csv"),
    },
    Dataset {
        name: "zn540-spdk-reads",
        profile: "wd-zn540",
        host: "spdk",
        about: "reads of a full zone, SPDK",
        source: NVME_BENCHMARKS,
        host_limit: None,
        sets: &["job.0.size=\"1 GiB\""],
        text: include_str!("../../../../measured/zn540-spdk-reads.csv"),
    },
    Dataset {
        name: "zn540-libaio",
        profile: "wd-zn540-512",
        host: "libaio",
        about: "its conventional namespace, libaio on one core",
        source: ZNS_STUDY,
        host_limit: LIBAIO_LIMIT,
        // Linux queues deeper jobs before the drive's queue: one that takes all has the same latency.
        sets: &["job.0.size=\"4 GiB\"", "drive.override.controller.max_queue_entries=2048"],
        text: include_str!("../../../../measured/zn540-libaio.csv"),
    },
    Dataset {
        name: "samsung-evo-2tb",
        profile: "samsung-evo-2tb",
        host: "libaio",
        about: "libaio on one core",
        source: ZNS_STUDY,
        host_limit: LIBAIO_LIMIT,
        sets: &["job.0.size=\"100 GiB\""],
        text: include_str!("../../../../measured/samsung-evo-2tb.csv"),
    },
    Dataset {
        name: "optane",
        profile: "optane-118gb",
        host: "libaio",
        about: "libaio on one core",
        source: ZNS_STUDY,
        host_limit: LIBAIO_LIMIT,
        sets: &[],
        text: include_str!("../../../../measured/optane.csv"),
    },
    Dataset {
        name: "nvme-a",
        profile: "nvme-a",
        host: "spdk",
        about: "writes of blocks of 4 KiB, SPDK",
        source: NVME_BENCHMARKS,
        host_limit: None,
        sets: &["job.0.size=\"40 GB\""],
        text: include_str!("../../../../measured/nvme-a.csv"),
    },
    Dataset {
        name: "nvme-a-512",
        profile: "nvme-a",
        host: "spdk",
        about: "writes of blocks of 512 B, SPDK",
        source: NVME_BENCHMARKS,
        host_limit: None,
        sets: &["job.0.size=\"40 GB\"", "drive.lba_size=\"512 B\""],
        text: include_str!("../../../../measured/nvme-a-512.csv"),
    },
    Dataset {
        name: "p5520-reads",
        profile: "solidigm-p5520",
        host: "linux-interrupt",
        about: "reads beside random writes at set rates, io_uring",
        source: SSD_IQ,
        host_limit: None,
        sets: THREADS,
        text: include_str!("../../../../measured/p5520-reads.csv"),
    },
    Dataset {
        name: "p5520-writes",
        profile: "solidigm-p5520",
        host: "linux-interrupt",
        about: "random writes at set rates, io_uring",
        source: SSD_IQ,
        host_limit: None,
        sets: THREADS,
        text: include_str!("../../../../measured/p5520-writes.csv"),
    },
    Dataset {
        name: "p5520-rates",
        profile: "solidigm-p5520",
        host: "linux-interrupt",
        about: "rates, some of the data sheet",
        source: SSD_IQ,
        host_limit: None,
        sets: &[],
        text: include_str!("../../../../measured/p5520-rates.csv"),
    },
    Dataset {
        name: "cm7-r-reads",
        profile: "kioxia-cm7-r",
        host: "linux-interrupt",
        about: "reads beside random writes at set rates, io_uring",
        source: SSD_IQ,
        host_limit: None,
        sets: THREADS,
        text: include_str!("../../../../measured/cm7-r-reads.csv"),
    },
    Dataset {
        name: "cm7-r-writes",
        profile: "kioxia-cm7-r",
        host: "linux-interrupt",
        about: "random writes at set rates, io_uring",
        source: SSD_IQ,
        host_limit: None,
        sets: THREADS,
        text: include_str!("../../../../measured/cm7-r-writes.csv"),
    },
    Dataset {
        name: "cm7-r-rates",
        profile: "kioxia-cm7-r",
        host: "linux-interrupt",
        about: "rates, some of the data sheet",
        source: SSD_IQ,
        host_limit: None,
        sets: &[],
        text: include_str!("../../../../measured/cm7-r-rates.csv"),
    },
    Dataset {
        name: "samsung-980-pro",
        profile: "samsung-980-pro",
        host: "linux-interrupt",
        about: "random reads of one to eight workers, io_uring",
        source: "ICPE 2024, study of I/O schedulers",
        host_limit: Some(383e3),
        // What all workers reach is the rate of such a link.
        sets: &["drive.override.link.generation=3"],
        text: include_str!("../../../../measured/samsung-980-pro.csv"),
    },
    Dataset {
        name: "samsung-980-pro-writes",
        profile: "samsung-980-pro",
        host: "linux-interrupt",
        about: "writes into its SLC cache, and past it",
        source: "TechPowerUp; data sheet",
        host_limit: None,
        sets: &[],
        text: include_str!("../../../../measured/samsung-980-pro-writes.csv"),
    },
    Dataset {
        name: "intel-660p",
        profile: "intel-660p",
        host: "linux-interrupt",
        about: "rates into its SLC cache",
        source: "data sheet; Tom's Hardware",
        host_limit: None,
        sets: &[],
        text: include_str!("../../../../measured/intel-660p.csv"),
    },
    Dataset {
        name: "p4500",
        profile: "p4500",
        host: "linux-polled",
        about: "rates and latencies of its product guide",
        source: "Lenovo's product guide",
        host_limit: None,
        sets: &[],
        text: include_str!("../../../../measured/p4500.csv"),
    },
    Dataset {
        name: "samsung-970-pro",
        profile: "samsung-970-pro",
        host: "linux-polled",
        about: "rates of its data sheet",
        source: "data sheet",
        host_limit: None,
        sets: &[],
        text: include_str!("../../../../measured/samsung-970-pro.csv"),
    },
];

impl Dataset {
    /// Its points.
    ///
    /// # Errors
    /// Its file is invalid, which a test excludes.
    pub fn measurements(&self) -> Result<Measurements, InputError> {
        read_csv(&format!("measured/{}.csv", self.name), self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::fnv::Fnv;
    use crate::fit::{Figure, Role};

    // Who may choose the points that judge a model after he has seen its residuals can make it look right.
    #[test]
    fn what_a_point_is_for_follows_from_its_row_alone() {
        let mut judging = 0;
        for dataset in DATASETS {
            let points = dataset.measurements().unwrap().points;
            let rows: Vec<&str> =
                dataset.text.lines().filter(|line| !line.starts_with('#')).skip(1).collect();
            assert_eq!(points.len(), rows.len(), "{}: a row is lost", dataset.name);
            for (row, point) in rows.into_iter().zip(points) {
                let (row, said) = row.rsplit_once(',').unwrap();
                let iops = point.figures.iter().find(|(figure, _)| matches!(figure, Figure::Iops(_)));
                let limit = dataset.host_limit.map(|limit| 0.85 * limit * f64::from(point.load.numjobs));
                let mut hash = Fnv::default();
                hash.add(row.as_bytes());
                let role = match u128::from_str_radix(&hash.hex(), 16).unwrap() % 3 {
                    // What comes near the host's limit says nothing of the drive.
                    _ if iops.zip(limit).is_some_and(|((_, iops), limit)| *iops >= limit) => Role::Aside,
                    0 => Role::Judge,
                    _ => Role::Fit,
                };
                assert_eq!((said, point.role), (role.name(), Some(role)), "{}: {row}", dataset.name);
                judging += usize::from(role == Role::Judge);
            }
        }
        assert_eq!(judging, 175);
    }
}
