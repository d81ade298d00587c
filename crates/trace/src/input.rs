//! Input of a trace: a regular file, or the standard input, which can be read only once.
//!
//! A single pass reads the standard input directly. A replay needs several passes: then all of it is stored,
//! still compressed, in an unnamed temporary file (in `TMPDIR`), which any number of readers share.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::archive::open_regular;
use byteway_text::error::InputError;
use byteway_text::interrupt::{Interrupt, Interrupted};

/// Interval at which a reader that waits for the standard input checks for an interrupt.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Whether a path stands for the standard input.
pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The bytes of a trace, and their number if known.
pub(super) struct Input {
    pub bytes: Box<dyn Read>,
    pub length: u64,
}

/// Opens a trace that is read more than once.
pub(super) fn open(path: &Path) -> Result<Input, InputError> {
    if is_stdin(path) {
        let (file, length) = kept()?;
        return Ok(Input { bytes: Box::new(Shared { file, at: 0 }), length });
    }
    let shown = path.display();
    let opened = open_regular(path).map_err(|error| {
        let what = format!("cannot read the trace `{shown}`: {error}");
        InputError::new(what, "check the path (in a scenario: relative to its file) and its permissions")
    })?;
    let Some((file, length)) = opened else {
        let what = format!("the trace `{shown}` is not a regular file");
        let help = "name a file, or `-` for the standard input";
        return Err(InputError::new(what, help));
    };
    Ok(Input { bytes: Box::new(file), length })
}

/// Opens a trace for a single pass: the standard input is read directly, until `interrupt`.
pub(super) fn open_once(path: &Path, interrupt: &Interrupt) -> Result<Input, InputError> {
    if is_stdin(path) {
        return Ok(Input { bytes: Box::new(Stdin(interrupt.clone())), length: 0 });
    }
    open(path)
}

/// The standard input, whose other end may never write.
struct Stdin(Interrupt);

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let stdin = io::stdin();
        while !self.0.is_raised() {
            match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&LOOK)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(rustix::io::read(stdin.as_fd(), buffer)?),
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other(Interrupted))
    }
}

/// One of several readers of a file, with its own position.
struct Shared {
    file: Arc<File>,
    at: u64,
}

impl Read for Shared {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read_at(buffer, self.at)?;
        self.at += bytes as u64;
        Ok(bytes)
    }
}

/// The complete standard input, in an unnamed file. A process has one standard input, so one such file.
fn kept() -> Result<(Arc<File>, u64), InputError> {
    static KEPT: OnceLock<Result<(Arc<File>, u64), String>> = OnceLock::new();
    let keep = || -> io::Result<(Arc<File>, u64)> {
        let mut file = tempfile::tempfile()?;
        let length = io::copy(&mut io::stdin().lock(), &mut file)?;
        Ok((Arc::new(file), length))
    };
    KEPT.get_or_init(|| keep().map_err(|error| error.to_string())).clone().map_err(|error| {
        let what = format!("cannot keep the standard input in `{}`: {error}", std::env::temp_dir().display());
        InputError::new(what, "set TMPDIR to a folder with enough space, or name a file")
    })
}
