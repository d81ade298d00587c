//! Policies in Python: a function that is called for each decision, in the thread of the run.

use byteway_firmware::policy::{Victim, VictimPolicy, VictimView};
use byteway_text::interrupt::Interrupt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex, PoisonError};

/// What a policy raised, if it did: the first of it.
pub(crate) type Raised = Arc<Mutex<Option<PyErr>>>;

/// A victim policy. The function gets valid units and ages of the candidates, each as bytes of 32-bit little-endian numbers, and returns
/// the place of one of them (`byteway/_policies.py` wraps what the user gave).
struct PythonVictim {
    function: Arc<Py<PyAny>>,
    raised: Raised,
    interrupt: Interrupt,
    indices: Vec<u32>,
}

/// A policy of this name and version. An exception ends the run, by `interrupt`, and is in `raised`.
pub(crate) fn victim(
    (name, hash): (String, String),
    function: Py<PyAny>,
    interrupt: &Interrupt,
    raised: &Raised,
) -> VictimPolicy {
    let (function, interrupt, raised) = (Arc::new(function), interrupt.clone(), raised.clone());
    VictimPolicy::new(name, Some(hash), move || {
        Box::new(PythonVictim {
            function: function.clone(),
            raised: raised.clone(),
            interrupt: interrupt.clone(),
            indices: Vec::new(),
        })
    })
}

impl Victim for PythonVictim {
    fn choose(&mut self, view: &mut VictimView<'_>) -> u32 {
        self.indices.clear();
        self.indices.extend(view.candidates().map(|candidate| candidate.index));
        let bytes = 4 * self.indices.len();
        let chosen = Python::attach(|py| -> PyResult<usize> {
            // Written once, straight into what Python reads.
            let fill = |of: &dyn Fn(byteway_firmware::policy::Candidate) -> u32| {
                PyBytes::new_with(py, bytes, |into| {
                    for (into, candidate) in into.as_chunks_mut().0.iter_mut().zip(view.candidates()) {
                        *into = of(candidate).to_le_bytes();
                    }
                    Ok(())
                })
            };
            let valid = fill(&|candidate| candidate.valid)?;
            let age = fill(&|candidate| candidate.age)?;
            self.function.call1(py, (valid, age))?.extract(py)
        });
        match chosen {
            Ok(place) => self.indices.get(place).copied().unwrap_or(u32::MAX),
            Err(error) => {
                self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                self.interrupt.raise();
                u32::MAX
            }
        }
    }
}
