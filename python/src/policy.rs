//! Policies in Python: a function that is called for each decision, in the thread of the run.

use byteway::Priority;
use byteway_firmware::policy::{
    Candidate, Filler, OperationKind, Policies, Schedule, SchedulePolicy, ScheduleView, Source, Stream,
    StreamCounts, StreamPolicy, StreamView, Suspend, SuspendPolicy, SuspendView, Victim, VictimPolicy,
    VictimView,
};
use byteway_text::interrupt::Interrupt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex, PoisonError};

/// A policy that the user gave: what it decides, its name, its version, and a function (`byteway/_policies.py` wraps what the user gave).
pub(crate) type Given = (String, String, String, Py<PyAny>);

/// How a policy in Python ends what runs: by an interrupt, after which the exception is raised where the user called.
#[derive(Clone, Default)]
pub(crate) struct Ending {
    raised: Arc<Mutex<Option<PyErr>>>,
    interrupt: Interrupt,
}

impl Ending {
    pub(crate) fn by(interrupt: &Interrupt) -> Ending {
        Ending { raised: Arc::default(), interrupt: interrupt.clone() }
    }

    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// Keeps the first exception: later ones may follow from it.
    fn end(&self, error: PyErr) {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.interrupt.raise();
    }

    /// # Errors
    /// A policy has raised this.
    pub(crate) fn check(&self) -> PyResult<()> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

/// Gives all drives what the user gave, whatever their profiles name. An exception in it is an end by `ending`.
pub(crate) fn added(policies: &Policies, given: Vec<Given>, ending: &Ending) -> Policies {
    given.into_iter().fold(policies.clone(), |policies, (kind, name, hash, function)| {
        let (function, ending) = (Arc::new(function), ending.clone());
        match &*kind {
            "victim" => policies.with_of_all(victim(name, hash, function, ending)),
            "stream" => policies.with_of_all(stream(name, hash, function, ending)),
            "schedule" => policies.with_of_all(schedule(name, hash, function, ending)),
            _ => policies.with_of_all(suspend(name, hash, function, ending)),
        }
    })
}

/// A victim policy. The function gets valid units and ages of the candidates, each as bytes of 32-bit little-endian numbers, the die, the
/// units of a superblock and a random number, and returns the place of one of them.
struct PythonVictim {
    function: Arc<Py<PyAny>>,
    ending: Ending,
    indices: Vec<u32>,
}

fn victim(name: String, hash: String, function: Arc<Py<PyAny>>, ending: Ending) -> VictimPolicy {
    VictimPolicy::new(name, Some(hash), move || {
        Box::new(PythonVictim { function: function.clone(), ending: ending.clone(), indices: Vec::new() })
    })
}

impl Victim for PythonVictim {
    fn choose(&mut self, view: &mut VictimView<'_>) -> u32 {
        self.indices.clear();
        self.indices.extend(view.candidates().map(|candidate| candidate.index));
        let bytes = 4 * self.indices.len();
        let random = view.random();
        let chosen = Python::attach(|py| -> PyResult<usize> {
            // Written once, straight into what Python reads.
            let fill = |of: &dyn Fn(Candidate) -> u32| {
                PyBytes::new_with(py, bytes, |into| {
                    for (into, candidate) in into.as_chunks_mut().0.iter_mut().zip(view.candidates()) {
                        *into = of(candidate).to_le_bytes();
                    }
                    Ok(())
                })
            };
            let valid = fill(&|candidate| candidate.valid)?;
            let age = fill(&|candidate| candidate.age)?;
            self.function.call1(py, (valid, age, view.die(), view.units(), random))?.extract(py)
        });
        match chosen {
            Ok(place) => self.indices.get(place).copied().unwrap_or(u32::MAX),
            Err(error) => {
                self.ending.end(error);
                u32::MAX
            }
        }
    }
}

/// A stream policy, as the function made it for a drive: streams of the host and of the collector, whether it asks for the last write, what
/// places a unit, and what is told of superblocks that are emptied, if anything is. None if the function raised.
struct PythonStream {
    made: Option<Made>,
    ending: Ending,
}

type Made = (u32, u32, bool, Py<PyAny>, Option<Py<PyAny>>);

fn stream(name: String, hash: String, function: Arc<Py<PyAny>>, ending: Ending) -> StreamPolicy {
    StreamPolicy::new(name, Some(hash), move || {
        let made = Python::attach(|py| function.call0(py)?.extract(py));
        let made = made.map_err(|error| ending.end(error)).ok();
        Box::new(PythonStream { made, ending: ending.clone() })
    })
}

/// Who filled a superblock, in a word, with which stream; and when it was opened.
fn told(source: Source) -> (Option<&'static str>, u32, u64) {
    let (filled_by, stream) = match source.filled_by {
        None => (None, 0),
        Some(Filler::Host(stream)) => (Some("host"), stream),
        Some(Filler::Collector(stream)) => (Some("collector"), stream),
    };
    (filled_by, stream, source.opened_at)
}

impl Stream for PythonStream {
    fn counts(&self) -> StreamCounts {
        let counts = self.made.as_ref().map(|(host, collector, ..)| (*host, *collector));
        counts.map_or(StreamCounts::SEPARATE, |(host, collector)| StreamCounts { host, collector })
    }

    fn needs_last_write(&self) -> bool {
        self.made.as_ref().is_some_and(|(_, _, needs, ..)| *needs)
    }

    fn place(&mut self, view: &mut StreamView<'_>) -> u32 {
        let Some((.., place, _)) = &self.made else { return u32::MAX };
        let random = view.random();
        let source = view.source().map(told);
        let arguments = (view.unit(), view.units(), view.now(), view.last_write(), source, random);
        let placed = Python::attach(|py| place.call1(py, arguments)?.extract(py));
        placed.unwrap_or_else(|error| {
            self.ending.end(error);
            u32::MAX
        })
    }

    fn collects(&mut self, source: Source, now: u64) {
        let Some((.., Some(collects))) = &self.made else { return };
        let (filled_by, stream, opened_at) = told(source);
        if let Err(error) = Python::attach(|py| collects.call1(py, (filled_by, stream, opened_at, now))) {
            self.ending.end(error);
        }
    }
}

/// A priority, in words.
fn priority(priority: Priority) -> &'static str {
    match priority {
        Priority::HostRead => "host-read",
        Priority::Map => "map",
        Priority::HostProgram => "host-program",
        Priority::Collector => "collector",
        Priority::Background => "background",
    }
}

/// A schedule, or a policy of suspension. The function of a schedule gets what waits of each priority, the die and a random number, and
/// returns the place of one; that of suspension gets what it is asked about, and returns whether it is suspended.
struct PythonDie {
    function: Arc<Py<PyAny>>,
    ending: Ending,
}

fn schedule(name: String, hash: String, function: Arc<Py<PyAny>>, ending: Ending) -> SchedulePolicy {
    SchedulePolicy::new(name, Some(hash), move || {
        Box::new(PythonDie { function: function.clone(), ending: ending.clone() })
    })
}

fn suspend(name: String, hash: String, function: Arc<Py<PyAny>>, ending: Ending) -> SuspendPolicy {
    SuspendPolicy::new(name, Some(hash), move || {
        Box::new(PythonDie { function: function.clone(), ending: ending.clone() })
    })
}

impl Schedule for PythonDie {
    fn choose(&mut self, view: &mut ScheduleView<'_>) -> Priority {
        let random = view.random();
        let waiting: Vec<_> = view
            .waiting()
            .iter()
            .map(|waiting| {
                let first = match waiting.first {
                    OperationKind::Read => "read",
                    OperationKind::Program => "program",
                    OperationKind::Erase => "erase",
                };
                (priority(waiting.priority), waiting.count, first, waiting.waited.0, waiting.passed)
            })
            .collect();
        let arguments = (waiting, view.die(), random);
        let chosen = Python::attach(|py| self.function.call1(py, arguments)?.extract::<usize>(py));
        let chosen = chosen.map_err(|error| self.ending.end(error)).ok();
        // After an exception any will do: the run ends.
        chosen
            .and_then(|place| view.waiting().get(place))
            .map_or(view.waiting()[0].priority, |found| found.priority)
    }
}

impl Suspend for PythonDie {
    fn suspends(&mut self, view: &mut SuspendView<'_>) -> bool {
        let random = view.random();
        let times = (view.remaining().0, view.latency().0, view.resume().0, view.waited().0);
        let (suspends, reads) = (view.suspends(), view.reads());
        let arguments =
            (view.is_erase(), priority(view.priority()), times, suspends, reads, view.die(), random);
        let decided = Python::attach(|py| self.function.call1(py, arguments)?.extract(py));
        decided.unwrap_or_else(|error| {
            self.ending.end(error);
            true
        })
    }
}
