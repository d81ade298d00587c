//! Errors of all crates as exceptions of `byteway.errors`, which have file, line and help as attributes.

use byteway::cli::{is_interrupted, wrong_input};
use byteway_serving::error::AttachedError;
use byteway_text::error::InputError;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// An exception of `byteway.errors`, or what stopped it from being made.
fn exception(py: Python<'_>, class: &str, text: &str, about: &Bound<'_, PyDict>) -> PyErr {
    let made = py
        .import("byteway.errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call((text,), Some(about)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// The exception for invalid input.
pub(crate) fn invalid(py: Python<'_>, error: &InputError) -> PyErr {
    let about = PyDict::new(py);
    let place = error.place.as_deref();
    let position = place.and_then(|place| place.position);
    let filled = about
        .set_item("what", &error.what)
        .and_then(|()| about.set_item("help", &error.help))
        .and_then(|()| about.set_item("file", place.map(|place| place.source.as_str())))
        .and_then(|()| about.set_item("line", position.map(|(line, _)| line)))
        .and_then(|()| about.set_item("column", position.map(|(_, column)| column)));
    match filled {
        Ok(()) => exception(py, "InputError", &error.to_string(), &about),
        Err(error) => error,
    }
}

/// The exception for an error of any crate.
pub(crate) fn raised(py: Python<'_>, error: impl Into<anyhow::Error>) -> PyErr {
    let error = error.into();
    if let Some(input) = wrong_input(&error) {
        return invalid(py, input);
    }
    let class = match error.downcast_ref::<AttachedError>() {
        _ if is_interrupted(&error) => "Interrupted",
        Some(AttachedError::Gone) => "DriveGoneError",
        Some(_) => "DriveError",
        None => "RunError",
    };
    exception(py, class, &format!("{error:#}"), &PyDict::new(py))
}

/// The exception for work that was stopped before it had any result: `Interrupted` for Ctrl-C, else what stopped it.
pub(crate) fn stopped(py: Python<'_>, by: PyErr) -> PyErr {
    if !by.is_instance_of::<PyKeyboardInterrupt>(py) {
        return by;
    }
    let error = exception(py, "Interrupted", "interrupted: there is no result", &PyDict::new(py));
    error.set_cause(py, Some(by));
    error
}

/// The exception for a panic of the simulator, which is a defect of it.
pub(crate) fn panicked(what: &(dyn std::any::Any + Send)) -> PyErr {
    let text = what.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| what.downcast_ref::<String>().cloned()).unwrap_or_default();
    PyRuntimeError::new_err(format!("byteway panicked, which is a defect: please report it: {text}"))
}
