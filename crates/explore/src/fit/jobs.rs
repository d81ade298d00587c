//! The job set whose results identify the constants: `byteway fit --jobs`.

use std::fmt::Write as _;

use byteway_text::error::InputError;
use byteway_text::units::{Bytes, Picos};

/// How long and over what the jobs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobSet {
    /// Time of each job.
    pub runtime: Picos,
    /// Time of each job before that, which is not measured.
    pub ramp: Picos,
    /// Part of the drive that is written first, and read; as much behind it is trimmed.
    pub size: Bytes,
    /// Whether random writes in steady state are measured, too.
    pub steady: bool,
}

impl Default for JobSet {
    fn default() -> Self {
        const SECOND: u64 = 1_000_000_000_000;
        JobSet { runtime: Picos(5 * SECOND), ramp: Picos(SECOND), size: Bytes(32 << 30), steady: false }
    }
}

/// Percentiles that tell up to three page types apart, and those that one wants to see.
const PERCENTILES: &str = "1:5:10:17:25:50:75:83:90:95:99:99.9";

/// Limit of the writes that must not fill the write buffer.
const PACE: &str = "20m";

/// fio's time, in whole units.
fn time(time: Picos) -> String {
    let us = (time.0 / 1_000_000).max(1);
    match us {
        us if us.is_multiple_of(1_000_000) => format!("{}s", us / 1_000_000),
        us if us.is_multiple_of(1_000) => format!("{}ms", us / 1_000),
        us => format!("{us}us"),
    }
}

impl JobSet {
    /// These jobs, if they measure anything.
    ///
    /// # Errors
    /// The runtime is below 1 ms, or the size below 64 MiB.
    pub fn checked(self) -> Result<JobSet, InputError> {
        const MILLISECOND: u64 = 1_000_000_000;
        if self.runtime.0 < MILLISECOND {
            let what = format!("a runtime of {} is too short", self.runtime);
            return Err(InputError::new(what, "give each job 1 ms or more; a real drive 1 s or more"));
        }
        if self.size.0 < 64 << 20 {
            let what = format!("a size of {} is too small", self.size);
            return Err(InputError::new(
                what,
                "name 64 MiB or more; for a real drive more than its caches hold",
            ));
        }
        Ok(self)
    }

    /// The text of the fio job file.
    pub fn text(&self) -> String {
        let size = self.size.0 >> 20;
        let mut out = format!(
            "# Measurements for `byteway fit`. THEY DESTROY ALL DATA ON THE DRIVE: the first {size} MiB are written, as much\n\
             # behind them is trimmed. Name the drive in the environment, and keep the JSON:\n\
             #   DRIVE=/dev/nvme0n1 fio --output-format=json --output=results.json fit.fio\n\
             #   byteway fit results.json --base PROFILE --out fitted\n\
             # Every job runs alone. The names say what is read: blocks that were trimmed (`unwritten-`), which need no flash;\n\
             # or what `prepare-fill` wrote. A drive with an SLC cache reads from that until it is folded: let `size` exceed it.\n\
             [global]\nfilename=${{DRIVE}}\ndirect=1\nioengine=libaio\nnorandommap=1\nrandrepeat=1\ngroup_reporting=1\nstonewall\n\
             lat_percentiles=1\npercentile_list={PERCENTILES}\nsize={size}m\n\n\
             # One at a time, so that neighbours in the flash are those of the addresses.\n\
             [prepare-fill]\nrw=write\nbs=128k\niodepth=1\n\n\
             [prepare-trim]\nrw=trim\nbs=1m\niodepth=8\noffset={size}m\n\n\
             # What follows is measured for a time each.\n[global]\ntime_based=1\nruntime={}\nramp_time={}\n",
            time(self.runtime),
            time(self.ramp),
        );
        let mut job = |name: &str, about: &str, keys: &[&str]| {
            let _ = write!(out, "\n# {about}\n[{name}]\n{}\n", keys.join("\n"));
        };
        let offset = format!("offset={size}m");
        // A core of the host submits some hundred thousand I/Os a second, not more.
        let deep = |depth: u32| match depth {
            64.. => vec![format!("iodepth={}", depth / 4), "numjobs=4".to_owned()],
            depth => vec![format!("iodepth={depth}")],
        };
        // Without flash: firmware, cores and link.
        for (bs, about) in [
            ("4k", "no flash: what the firmware takes for a short read"),
            ("16k", "for a longer one"),
            ("64k", "what each 4 KiB takes"),
            ("128k", "and the link"),
        ] {
            let name = format!("unwritten-randread-{bs}-qd1");
            job(&name, about, &["rw=randread", &format!("bs={bs}"), "iodepth=1", &offset]);
        }
        for (bs, depth, about) in [
            ("4k", 8, "several commands at once"),
            ("4k", 32, "more of them"),
            ("4k", 256, "the most commands a second"),
            ("128k", 32, "the most bytes a second"),
        ] {
            let name = format!("unwritten-randread-{bs}-qd{depth}");
            let keys = [
                &["rw=randread".to_owned(), format!("bs={bs}")][..],
                &deep(depth),
                std::slice::from_ref(&offset),
            ]
            .concat();
            job(&name, about, &keys.iter().map(String::as_str).collect::<Vec<_>>());
        }
        for (bs, about) in [
            ("4k", "a part of one page: its percentiles tell page types apart"),
            ("32k", "whole pages over a channel"),
            ("16k", "less of them"),
            ("64k", "several pages"),
            ("128k", "and more"),
        ] {
            let name = format!("randread-{bs}-qd1");
            job(&name, about, &["rw=randread", &format!("bs={bs}"), "iodepth=1"]);
        }
        for (bs, depth, about) in [
            ("4k", 4, "where latency begins to rise"),
            ("4k", 16, "dies and channels at work"),
            ("4k", 64, "most of them"),
            ("4k", 128, "nearly all"),
            ("4k", 256, "all: what a die takes for a read, or the link"),
            ("16k", 8, "the same with more bytes: channels"),
            ("16k", 32, "most channels at work"),
            ("16k", 128, "the lower of channels, dies and link"),
        ] {
            let name = format!("randread-{bs}-qd{depth}");
            let keys = [&["rw=randread".to_owned(), format!("bs={bs}")][..], &deep(depth)].concat();
            job(&name, about, &keys.iter().map(String::as_str).collect::<Vec<_>>());
        }
        job("read-128k-qd32", "the rate of sequential reads", &["rw=read", "bs=128k", "iodepth=32"]);
        for (bs, about) in [
            ("4k", "into an empty write buffer: what the firmware takes for a write"),
            ("16k", "for a longer one"),
            ("64k", "what each 4 KiB takes"),
            ("128k", "and the link"),
        ] {
            let name = format!("write-{bs}-paced");
            job(&name, about, &["rw=randwrite", &format!("bs={bs}"), "iodepth=1", &format!("rate={PACE}")]);
        }
        for (depth, about) in [(4, "sequential writes"), (8, "deeper"), (32, "the buffer is full: programs")]
        {
            job(
                &format!("write-128k-qd{depth}"),
                about,
                &["rw=write", "bs=128k", &format!("iodepth={depth}")],
            );
        }
        job("randwrite-4k-qd32", "the same by short ones", &["rw=randwrite", "bs=4k", "iodepth=32"]);
        job(
            "randrw-4k-qd32",
            "reads that wait for programs",
            &["rw=randrw", "rwmixread=70", "bs=4k", "iodepth=32"],
        );
        if self.steady {
            let _ = write!(
                out,
                "\n# The whole drive is overwritten at random until garbage collection is steady: an hour or more on a real drive.\n\
                 [prepare-steady]\nrw=randwrite\nbs=4k\niodepth=64\nsize=100%\ntime_based=0\nruntime=0\n"
            );
            let mut job = |name: &str, about: &str, keys: &[&str]| {
                let _ = write!(out, "\n# {about}\n[{name}]\n{}\nsize=100%\n", keys.join("\n"));
            };
            for depth in [8, 32, 64] {
                let name = format!("steady-randwrite-4k-qd{depth}");
                job(&name, "garbage collection", &["rw=randwrite", "bs=4k", &format!("iodepth={depth}")]);
            }
        }
        out
    }
}
