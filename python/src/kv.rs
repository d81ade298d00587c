//! A key-value drive that stays attached: simulated, in a directory, or served.

use crate::error::invalid;
use crate::session::{Requests, Session};
use byteway_host::{Method, StoreIf};
use byteway_serving::error::AttachedError;
use byteway_serving::location::{DriveLocation, DriveSource};
use byteway_serving::pairs::{Answer, PairsOptions, PairsSession, Request, with_drive};
use byteway_text::error::{InputError, suggest};
use byteway_text::units::Bytes;
use byteway_wire::nvme::kv::Key;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;

/// Where a drive is, as Python names it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Location {
    vfio_user: Option<PathBuf>,
    device: Option<PathBuf>,
    data: Option<PathBuf>,
    profile: String,
    capacity: String,
    method: String,
    pub(crate) namespace: Option<u32>,
    pub(crate) read_only: bool,
}

impl Location {
    pub(crate) fn source(&self, programs: bool) -> Result<DriveSource, InputError> {
        Ok(match (&self.vfio_user, &self.device, &self.data) {
            (Some(folder), None, None) => DriveSource::At(DriveLocation::Served(folder.clone())),
            (None, Some(device), Some(data)) => {
                DriveSource::At(DriveLocation::Directory { device: device.clone(), data: data.clone() })
            }
            (None, None, None) => {
                let capacity: Bytes =
                    self.capacity.parse().map_err(|error: byteway_text::units::UnitError| {
                        InputError::new(format!("`capacity`: {}", error.what), error.help)
                    })?;
                DriveSource::Simulated { profile: self.profile.clone(), capacity, programs }
            }
            _ => {
                let what = "the drive's location is ambiguous";
                let help = "give `vfio_user`, or `device` and `data`, or none of them for a simulated drive";
                return Err(InputError::new(what, help));
            }
        })
    }

    pub(crate) fn method(&self) -> Result<Method, InputError> {
        Method::ALL.into_iter().find(|method| method.name() == self.method).ok_or_else(|| {
            let names = Method::ALL.map(Method::name);
            let what = format!("no such transfer method: `{}`", self.method);
            InputError::new(what, suggest(&self.method, &names))
        })
    }
}

/// What the session's thread is asked.
enum Ask {
    Attached,
    Do(Request),
    Flush,
}

/// A key-value drive that stays attached.
#[pyclass(frozen, module = "byteway._native")]
pub(crate) struct KvDrive(Session<Ask, Answer>);

/// Executes requests until the session is closed.
async fn serve(mut session: PairsSession, requests: Requests<Ask, Answer>) -> Result<(), AttachedError> {
    while let Some((request, answer)) = requests.next() {
        let done = match request {
            Ask::Attached => Ok(Answer::Done),
            Ask::Do(request) => session.ask(request).await,
            Ask::Flush => session.flush().await.map(|()| Answer::Done),
        };
        // After Ctrl-C there may be no reader.
        let _ = answer.send(done);
    }
    Ok(())
}

fn key(py: Python<'_>, key: &[u8]) -> PyResult<Key> {
    Key::new(key).ok_or_else(|| {
        let what = format!("a key must have 1 to 16 bytes; this one has {}", key.len());
        invalid(py, &InputError::new(what, "use a shorter key, such as a hash of a longer one"))
    })
}

impl KvDrive {
    fn ask(&self, py: Python<'_>, request: Request) -> PyResult<Answer> {
        self.0.ask(py, Ask::Do(request))
    }
}

#[pymethods]
impl KvDrive {
    #[new]
    fn open(py: Python<'_>, location: Location) -> PyResult<KvDrive> {
        let made = location.source(false).and_then(|source| {
            let (nsid, is_read_only) = (location.namespace, location.read_only);
            Ok((source, PairsOptions { nsid, method: location.method()?, is_read_only }))
        });
        let (source, options) = made.map_err(|error| invalid(py, &error))?;
        let serving = move |requests| with_drive(&source, options, move |session| serve(session, requests));
        Ok(KvDrive(Session::open(py, Ask::Attached, serving)?))
    }

    /// Stores a value. Returns false if the condition ("exists", "absent", or none) did not hold.
    fn put(&self, py: Python<'_>, name: &[u8], value: &[u8], condition: Option<&str>) -> PyResult<bool> {
        let when = match condition {
            Some("exists") => StoreIf::Exists,
            Some("absent") => StoreIf::Absent,
            _ => StoreIf::Any,
        };
        let request = Request::Put { key: key(py, name)?, value: value.to_vec(), when };
        Ok(self.ask(py, request)? == Answer::Done)
    }

    fn get<'py>(&self, py: Python<'py>, name: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = self.ask(py, Request::Get(key(py, name)?))?;
        Ok(match found {
            Answer::Value(value) => Some(PyBytes::new(py, &value)),
            _ => None,
        })
    }

    fn delete(&self, py: Python<'_>, name: &[u8]) -> PyResult<bool> {
        Ok(self.ask(py, Request::Delete(key(py, name)?))? == Answer::Done)
    }

    fn exists(&self, py: Python<'_>, name: &[u8]) -> PyResult<bool> {
        Ok(self.ask(py, Request::Exist(key(py, name)?))? == Answer::Done)
    }

    /// Up to `count` keys in order, from `first` on.
    fn keys<'py>(
        &self,
        py: Python<'py>,
        first: Option<&[u8]>,
        count: u64,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let from = first.map(|first| key(py, first)).transpose()?;
        Ok(match self.ask(py, Request::List { from, count })? {
            Answer::Keys(keys) => keys.iter().map(|key| PyBytes::new(py, key.as_bytes())).collect(),
            _ => Vec::new(),
        })
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.0.ask(py, Ask::Flush).map(drop)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.close(py)
    }
}
