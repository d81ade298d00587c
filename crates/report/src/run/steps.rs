//! The time series of a report, reduced to as many steps as a chart can show.

use byteway_results::results::{Crossing, DrivePoint, Flow, JobPoint, Point, Series};

/// Steps, at most: about the pixels of a chart of half a page.
const STEPS_MAX: usize = 480;

/// The steps of the charts: those of the series, merged until there are few enough.
pub(super) struct Steps {
    /// Names of the jobs, in the order of each point's jobs.
    pub jobs: Vec<String>,
    /// Start of measuring, in nanoseconds.
    pub measured_from_ns: f64,
    /// Width of a step, in nanoseconds.
    pub width_ns: f64,
    /// Number of the series' steps in one of these.
    pub joined: usize,
    /// The steps.
    pub points: Vec<Point>,
}

impl Steps {
    pub fn of(series: &Series) -> Steps {
        let joined = series.points.len().div_ceil(STEPS_MAX).max(1);
        let mut points: Vec<Point> = series.points.chunks(joined).map(join).collect();
        let width_ns = series.interval_ns * joined as f64;
        // The end of the run truncates the last step: the rate over a short interval is mostly chance.
        let last = points.len().saturating_sub(2);
        if points.len() > 1 && points[last + 1].end_ns - points[last + 1].begin_ns < width_ns / 2.0 {
            let merged = join(&points[last..]);
            points.truncate(last);
            points.push(merged);
        }
        points.retain(|point| point.end_ns > point.begin_ns);
        Steps {
            jobs: series.jobs.clone(),
            measured_from_ns: series.measured_from_ns,
            width_ns,
            joined,
            points,
        }
    }

    /// A value for each step as points of a stepped line; the last one is repeated at its end.
    pub fn line(&self, value: impl Fn(&Point) -> f64) -> Vec<(f64, f64)> {
        let mut line: Vec<(f64, f64)> =
            self.points.iter().map(|point| (point.begin_ns, value(point))).collect();
        if let (Some(last), Some(&(_, value))) = (self.points.last(), line.last()) {
            line.push((last.end_ns, value));
        }
        line
    }

    /// The same for a value that some steps do not have: from the first to the last that has it, the line goes on through the others. Broken
    /// there, the latencies of a job that waits for collection would be scraps. Before and behind there is none, on the same axis.
    pub fn line_of_those(&self, value: impl Fn(&Point) -> Option<f64>) -> Vec<(f64, f64)> {
        let has = |point: &Point| value(point).is_some();
        let ends = self.points.iter().position(has).zip(self.points.iter().rposition(has));
        let mut line = Vec::new();
        for (at, point) in self.points.iter().enumerate() {
            let is_within = ends.is_some_and(|(first, last)| (first..=last).contains(&at));
            match value(point) {
                Some(value) => line.push((point.begin_ns, value)),
                None if is_within => {}
                None => line.push((point.begin_ns, f64::NAN)),
            }
            if let (Some((_, last)), Some(&(_, value))) = (ends, line.last())
                && at == last
            {
                line.push((point.end_ns, value));
            }
        }
        line.extend(self.points.last().map(|point| (point.end_ns, f64::NAN)));
        line
    }

    /// [`line`](Steps::line) for a band.
    pub fn band(&self, ends: impl Fn(&Point) -> (f64, f64)) -> Vec<(f64, f64, f64)> {
        let low = self.line(|point| ends(point).0);
        let high = self.line(|point| ends(point).1);
        low.into_iter().zip(high).map(|((x, low), (_, high))| (x, low, high)).collect()
    }

    /// A rate per second, from a count.
    pub fn per_second(&self, count: impl Fn(&Point) -> u64) -> Vec<(f64, f64)> {
        self.line(|point| count(point) as f64 / (point.end_ns - point.begin_ns) * 1e9)
    }

    /// Whether there are figures of the drive.
    pub fn has_drive(&self) -> bool {
        self.points.iter().any(|point| point.drive.is_some())
    }
}

/// Merges neighbours: counts are added; shares are averaged by time, the median by I/Os; of 99th percentiles
/// and maxima the largest is kept.
fn join(points: &[Point]) -> Point {
    let [first, rest @ ..] = points else { return Point::default() };
    let mut whole = first.clone();
    for next in rest {
        let (before, after) = (whole.end_ns - whole.begin_ns, next.end_ns - next.begin_ns);
        let total = before + after;
        let mean = |a: f64, b: f64| if total > 0.0 { (a * before + b * after) / total } else { a };
        for (job, other) in whole.jobs.iter_mut().zip(&next.jobs) {
            *job = join_jobs(job, other);
        }
        if let (Some(drive), Some(other)) = (&mut whole.drive, &next.drive) {
            join_drives(drive, other, mean);
        }
        whole.end_ns = next.end_ns;
    }
    whole
}

/// Number of a job's I/Os in a step.
pub(super) fn ios(job: &JobPoint) -> u64 {
    job.read.ios + job.write.ios + job.trim.ios
}

fn join_jobs(a: &JobPoint, b: &JobPoint) -> JobPoint {
    let (before, after) = (ios(a), ios(b));
    let mean = |x: f64, y: f64| match before + after {
        0 => 0.0,
        total => (x * before as f64 + y * after as f64) / total as f64,
    };
    JobPoint {
        read: add(a.read, b.read),
        write: add(a.write, b.write),
        trim: add(a.trim, b.trim),
        mean_ns: mean(a.mean_ns, b.mean_ns),
        p50_ns: mean(a.p50_ns, b.p50_ns),
        p99_ns: a.p99_ns.max(b.p99_ns),
        max_ns: a.max_ns.max(b.max_ns),
    }
}

fn add(a: Flow, b: Flow) -> Flow {
    Flow { ios: a.ios + b.ios, bytes: a.bytes.saturating_add(b.bytes) }
}

fn join_drives(drive: &mut DrivePoint, other: &DrivePoint, mean: impl Fn(f64, f64) -> f64) {
    for (shares, others) in [(&mut drive.dies, &other.dies), (&mut drive.channels, &other.channels)] {
        for (share, next) in shares.iter_mut().zip(others) {
            *share = mean(*share, *next);
        }
    }
    drive.cores = mean(drive.cores, other.cores);
    let cross = |a: Crossing, b: Crossing| Crossing {
        busy: mean(a.busy, b.busy),
        payload_bytes: a.payload_bytes + b.payload_bytes,
        wire_bytes: a.wire_bytes + b.wire_bytes,
    };
    drive.link_down = cross(drive.link_down, other.link_down);
    drive.link_up = cross(drive.link_up, other.link_up);
    drive.host_written_bytes += other.host_written_bytes;
    drive.programmed_bytes += other.programmed_bytes;
    drive.erases += other.erases;
}

#[cfg(test)]
mod tests {
    use super::*;

    // A stall of collection is no end of a job: its line goes on, and ends where the job does, on the axis of all others.
    #[test]
    fn a_line_goes_on_through_steps_that_have_no_value() {
        let values = [None, Some(1.0), None, Some(3.0), None];
        let point = |index: usize| Point {
            begin_ns: index as f64 * 10.0,
            end_ns: index as f64 * 10.0 + 10.0,
            ..Point::default()
        };
        let points = (0..values.len()).map(point).collect();
        let steps = Steps { jobs: Vec::new(), measured_from_ns: 0.0, width_ns: 10.0, joined: 1, points };
        let line = steps.line_of_those(|point| values[(point.begin_ns / 10.0) as usize]);
        let shown: Vec<(f64, f64)> = line.iter().copied().filter(|(_, value)| !value.is_nan()).collect();
        assert_eq!(shown, [(10.0, 1.0), (30.0, 3.0), (40.0, 3.0)]);
        assert_eq!((line[0].0, line.last().unwrap().0), (0.0, 50.0));
        assert!(steps.line_of_those(|_| None).iter().all(|(_, value)| value.is_nan()));
    }

    // Without merging, a run of a million steps would make a page that no browser opens; merging must
    // preserve the sums.
    #[test]
    fn joined_steps_keep_their_sums_and_means() {
        let point = |index: usize| Point {
            begin_ns: index as f64 * 10.0,
            end_ns: index as f64 * 10.0 + if index == 1000 { 1.0 } else { 10.0 },
            jobs: vec![JobPoint {
                read: Flow { ios: 1, bytes: 4096 },
                p50_ns: (index % 2 * 100) as f64,
                max_ns: index as f64,
                ..JobPoint::default()
            }],
            drive: Some(DrivePoint { dies: vec![(index % 2) as f64], erases: 1, ..DrivePoint::default() }),
        };
        let series = Series {
            interval_ns: 10.0,
            measured_from_ns: 0.0,
            jobs: vec!["a".to_owned()],
            points: (0..=1000).map(point).collect(),
        };
        let steps = Steps::of(&series);
        assert_eq!((steps.joined, steps.width_ns, steps.points.len()), (3, 30.0, 333));
        let reads: u64 = steps.points.iter().map(|point| point.jobs[0].read.ios).sum();
        let erases: u64 = steps.points.iter().map(|point| point.drive.as_ref().unwrap().erases).sum();
        assert_eq!((reads, erases), (1001, 1001));
        let second = &steps.points[1];
        assert_eq!((second.begin_ns, second.end_ns, second.jobs[0].max_ns), (30.0, 60.0, 5.0));
        assert!((second.jobs[0].p50_ns - 200.0 / 3.0).abs() < 1e-9, "{}", second.jobs[0].p50_ns);
        assert!((second.drive.as_ref().unwrap().dies[0] - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(steps.line(|_| 1.0).last(), Some(&(10001.0, 1.0)));
        assert!(Steps::of(&Series::default()).line(|_| 1.0).is_empty());
    }
}
