//! The generator of key-value operations, drawn from named streams or read from a trace.

use std::rc::Rc;
use std::sync::Arc;

use byteway_clock::random::{Rng, Stream};

use super::histogram::Popularity;
use super::key::Keys;
use super::mixgraph::{self, Prefixes};
use super::op::{KvOp, Verb};
use super::plan::{KvChoice, KvDraws, KvPlan, KvScans, KvSource};
use super::trace::KvReader;
use super::value::Ruler;
use super::ycsb::{Chooser, Inserted, ScanRuler};
use crate::distribution::Spread;
use crate::settings::JobSettings;
use byteway_text::error::InputError;

/// Yields a worker's operations. Does not allocate while doing so.
pub struct KvGenerator {
    inner: Inner,
    inserted: Rc<Inserted>,
    /// Why a trace ended early.
    error: Option<InputError>,
}

enum Inner {
    Draws(Box<Draws>),
    Trace { reader: Box<KvReader>, worker: u64, workers: u64 },
}

struct Draws {
    keys: Keys,
    choose: Choose,
    /// Cumulative shares of the verbs, up to 1.
    mix: Vec<(Verb, f64)>,
    scans: Scans,
    ruler: Ruler,
    mix_stream: Stream,
    key_stream: Stream,
    scan_stream: Stream,
    inserted: Rc<Inserted>,
    left: u64,
}

enum Choose {
    /// Numbers of the worker's slice, repeatedly.
    Sequential {
        first: u64,
        end: u64,
        next: u64,
    },
    /// Draws offsets from `first`.
    Spread {
        first: u64,
        spread: Box<Spread>,
    },
    Prefixes(Prefixes),
    Records(Chooser),
    /// If there are fewer key-value pairs than objects, less popular objects share them.
    Popular {
        popularity: Arc<Popularity>,
        keys: u64,
    },
}

enum Scans {
    Fixed(u32),
    MixGraph(mixgraph::Scans),
    Ycsb(ScanRuler),
}

impl KvGenerator {
    /// The generator of one worker (from 0) of a job; all workers share `inserted`.
    ///
    /// # Errors
    /// The trace can no longer be read, or the parameters contradict each other.
    pub fn new(
        job: &JobSettings,
        plan: &KvPlan,
        worker: u32,
        rng: &Rng,
        inserted: &Rc<Inserted>,
    ) -> Result<Self, InputError> {
        let inner = match &plan.source {
            KvSource::Draws(draws) => {
                Inner::Draws(Box::new(Draws::new(job, plan, draws, worker, rng, inserted)?))
            }
            KvSource::Trace(trace) => Inner::Trace {
                reader: Box::new(KvReader::open(&trace.path)?),
                worker: worker.into(),
                workers: job.workers.max(1).into(),
            },
        };
        Ok(KvGenerator { inner, inserted: inserted.clone(), error: None })
    }

    /// The next operation; `None` at the end.
    fn draw(&mut self) -> Option<KvOp> {
        match &mut self.inner {
            Inner::Draws(draws) => draws.next(),
            Inner::Trace { reader, worker, workers } => loop {
                match reader.next() {
                    // All operations on one key go to one worker, which keeps them in order.
                    Ok(Some(op)) if hash(op.key.as_slice()) % *workers == *worker => break Some(op),
                    Ok(Some(_)) => {}
                    Ok(None) => break None,
                    Err(error) => {
                        self.error = Some(error);
                        break None;
                    }
                }
            },
        }
    }

    /// Must be notified of the end of every [`Verb::Insert`].
    pub fn inserted(&self) -> &Rc<Inserted> {
        &self.inserted
    }

    /// Why a trace ended early: the file changed or broke after it was checked.
    pub fn error(&self) -> Option<&InputError> {
        self.error.as_ref()
    }
}

impl Iterator for KvGenerator {
    type Item = KvOp;

    fn next(&mut self) -> Option<KvOp> {
        self.draw()
    }
}

fn hash(key: &[u8]) -> u64 {
    key.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Draws {
    fn new(
        job: &JobSettings,
        plan: &KvPlan,
        draws: &KvDraws,
        worker: u32,
        rng: &Rng,
        inserted: &Rc<Inserted>,
    ) -> Result<Self, InputError> {
        let name = &job.name;
        let stream = |purpose: &str| rng.stream(&format!("kv/{name}/{worker}/{purpose}"));
        let wrong = |error: &dyn std::fmt::Display| {
            InputError::new(format!("job `{name}`: {error}"), "change `keys` or the distribution")
        };
        let keys = plan.keys.max(1);
        let (number, workers) = (u64::from(worker), u64::from(job.workers.max(1)));
        let part = |of: u64| (u128::from(keys) * u128::from(of) / u128::from(workers)) as u64;
        let (first, end) = (part(number), part(number + 1));
        let choose = match &draws.choice {
            KvChoice::Sequential if first == end => {
                return Err(wrong(&format!("{keys} keys are too few for {workers} workers")));
            }
            KvChoice::Sequential => Choose::Sequential { first, end, next: first },
            KvChoice::Once => {
                // Every worker covers its own slice.
                let key = rng.stream(&format!("kv/{name}/{worker}/order")).next_u64();
                let slice = (end - first).max(1);
                let spread = Spread::once(slice, key).map_err(|error| wrong(&error))?;
                Choose::Spread { first, spread: Box::new(spread) }
            }
            KvChoice::Spread(distribution) => {
                // All workers of a job share the popular pairs.
                let key = rng.stream(&format!("kv/{name}/scatter")).next_u64();
                let spread = Spread::new(distribution, keys, 1, key).map_err(|error| wrong(&error))?;
                if spread.has_empty_zone() {
                    return Err(wrong(&"a zone of its `distribution` has no key"));
                }
                Choose::Spread { first: 0, spread: Box::new(spread) }
            }
            KvChoice::Prefixes => Choose::Prefixes(Prefixes::new(keys, rng, name)),
            KvChoice::Records(choice) => {
                let inserts = job.count.unwrap_or(0) as f64 * draws.share(Verb::Insert);
                // Twice the expected number, because random draws may exceed their share.
                Choose::Records(Chooser::new(*choice, inserted.clone(), (2.0 * inserts) as u64))
            }
            KvChoice::Popular(popularity) => Choose::Popular { popularity: popularity.clone(), keys },
        };
        let whole: f64 = draws.mix.iter().map(|(_, share)| share).sum();
        let mut sum = 0.0;
        let mix = draws.mix.iter().filter(|(_, share)| *share > 0.0).map(|(verb, share)| {
            sum += share / whole;
            (*verb, sum)
        });
        let mix: Vec<(Verb, f64)> = mix.collect();
        if mix.is_empty() {
            return Err(wrong(&"nothing is to be done: every share is 0"));
        }
        let scans = match &draws.scans {
            KvScans::Fixed(count) => Scans::Fixed(*count),
            KvScans::MixGraph => Scans::MixGraph(mixgraph::Scans::new()),
            KvScans::Ycsb { range, lengths } => Scans::Ycsb(ScanRuler::new(*range, *lengths)),
        };
        let share = |count: u64| count / workers + u64::from(number < count % workers);
        // Ordered passes end after one pass, by default.
        let once = matches!(draws.choice, KvChoice::Sequential | KvChoice::Once).then_some(end - first);
        Ok(Draws {
            keys: Keys::new(plan.key_bytes, plan.keys_max(job.count), draws.order)?,
            choose,
            mix,
            scans,
            ruler: Ruler::new(&draws.lengths, stream("length")),
            mix_stream: stream("mix"),
            key_stream: stream("key"),
            scan_stream: stream("scan"),
            inserted: inserted.clone(),
            left: job.count.map(share).or(once.filter(|_| job.runtime.is_none())).unwrap_or(u64::MAX),
        })
    }

    fn next(&mut self) -> Option<KvOp> {
        self.left = self.left.checked_sub(1)?;
        let verb = match self.mix.as_slice() {
            [(verb, _)] => *verb,
            mix => {
                let at = self.mix_stream.unit();
                let last = mix.len() - 1;
                mix[mix.partition_point(|(_, sum)| *sum <= at).min(last)].0
            }
        };
        let number = match verb {
            Verb::Insert => self.inserted.take(),
            _ => self.choose(),
        };
        let bytes = match verb {
            Verb::Store | Verb::Insert | Verb::Modify => self.ruler.draw(),
            _ => 0,
        };
        let count = match (verb, &self.scans) {
            (Verb::Scan, Scans::Fixed(count)) => *count,
            (Verb::Scan, Scans::MixGraph(scans)) => scans.draw(&mut self.scan_stream),
            (Verb::Scan, Scans::Ycsb(ruler)) => ruler.draw(&mut self.scan_stream),
            _ => 0,
        };
        Some(KvOp { verb, key: self.keys.of(number), bytes, count, number })
    }

    fn choose(&mut self) -> u64 {
        let stream = &mut self.key_stream;
        match &mut self.choose {
            Choose::Sequential { first, end, next } => {
                let number = *next;
                *next = if number + 1 == *end { *first } else { number + 1 };
                number
            }
            Choose::Spread { first, spread } => *first + spread.draw(stream),
            Choose::Prefixes(prefixes) => prefixes.draw(stream),
            Choose::Records(chooser) => chooser.draw(stream),
            Choose::Popular { popularity, keys } => popularity.draw(stream) % *keys,
        }
    }
}
