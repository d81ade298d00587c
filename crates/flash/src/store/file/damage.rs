//! Damage of a drive's files, as rotting disks, full disks and careless people do it; for tests.
//!
//! Each damage is of one file. What a drive, or a store on it, makes of it is right or an error, never another version.

use super::files::Files;
use super::simulated::SimulatedFiles;
use std::fmt;
use std::io;

/// Pieces of which holes are kept when a file is written anew.
const HOLE: usize = 512;

/// A damage of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Bits of a byte are flipped.
    Flip {
        /// The file.
        file: String,
        /// Offset of the byte.
        at: u64,
        /// The bits.
        mask: u8,
    },
    /// The file ends early.
    Cut {
        /// The file.
        file: String,
        /// Its length then.
        to: usize,
    },
    /// A part of the file is zeroes.
    Clear {
        /// The file.
        file: String,
        /// First byte of it.
        from: usize,
        /// End of it.
        to: usize,
    },
    /// The file is gone.
    Remove {
        /// The file.
        file: String,
    },
    /// The file is that of an earlier state of the drive.
    Replace {
        /// The file.
        file: String,
        /// Which earlier state.
        age: usize,
        /// The name that it had there.
        from: String,
        /// What it held.
        bytes: Vec<u8>,
    },
}

impl Damage {
    /// Flips in a file, at these offsets: of low, high, middle and all bits in turn.
    pub fn flips(file: &str, offsets: impl IntoIterator<Item = u64>) -> Vec<Damage> {
        let masks = [1, 0x80, 0x10, 0xff].into_iter().cycle();
        let flip = |(at, mask)| Damage::Flip { file: file.to_owned(), at, mask };
        offsets.into_iter().zip(masks).map(flip).collect()
    }

    /// Cuts, clearings, the removal of a file, and its replacement by each of `older`.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn strikes(files: &dyn Files, file: &str, older: &[&SimulatedFiles]) -> io::Result<Vec<Damage>> {
        let (name, length) = (file.to_owned(), bytes_of(files, file)?.map_or(0, |bytes| bytes.len()));
        let mut all = Vec::new();
        let ends = (0..16).map(|part| length * part / 16).chain([1, 63, 64, length.saturating_sub(1)]);
        all.extend(ends.filter(|end| *end < length).map(|to| Damage::Cut { file: name.clone(), to }));
        all.extend((0..8).map(|part| Damage::Clear {
            file: name.clone(),
            from: length * part / 8,
            to: length * (part + 1) / 8,
        }));
        all.push(Damage::Remove { file: name.clone() });
        for (age, older) in older.iter().enumerate() {
            // A journal has another number in each state.
            let names = older.names()?;
            let is_like = |other: &&String| match name.starts_with("journal-") {
                true => other.starts_with("journal-"),
                false => **other == name,
            };
            let Some(from) = names.iter().find(is_like) else { continue };
            let bytes = bytes_of(*older, from)?.unwrap_or_default();
            all.push(Damage::Replace { file: name.clone(), age, from: from.clone(), bytes });
        }
        Ok(all)
    }

    /// Does it.
    ///
    /// # Errors
    /// The file is not there, or cannot be written.
    pub fn apply(&self, files: &dyn Files) -> io::Result<()> {
        let whole = |name: &str| -> io::Result<Vec<u8>> {
            Ok(bytes_of(files, name)?.ok_or(io::ErrorKind::NotFound)?)
        };
        match self {
            Damage::Flip { file, at, mask } => {
                let file = files.open(file)?.ok_or(io::ErrorKind::NotFound)?;
                let mut byte = [0];
                file.read_at(&mut byte, *at)?;
                file.write_at(&[byte[0] ^ mask], *at)
            }
            Damage::Cut { file, to } => {
                let bytes = whole(file)?;
                put(files, file, &bytes[..*to])
            }
            Damage::Clear { file, from, to } => {
                let mut bytes = whole(file)?;
                bytes[*from..*to].fill(0);
                put(files, file, &bytes)
            }
            Damage::Remove { file } => files.remove(file),
            Damage::Replace { file, bytes, .. } => put(files, file, bytes),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Flip { file, at, mask } => write!(f, "`{file}` byte {at} ^ {mask:#x}"),
            Damage::Cut { file, to } => write!(f, "`{file}` cut at {to}"),
            Damage::Clear { file, from, to } => write!(f, "`{file}` zeroed from {from} to {to}"),
            Damage::Remove { file } => write!(f, "`{file}` removed"),
            Damage::Replace { file, age, from, .. } => {
                write!(f, "`{file}` replaced by `{from}` of state {age}")
            }
        }
    }
}

/// All bytes of a file, if it is there.
///
/// # Errors
/// It cannot be read.
pub fn bytes_of(files: &dyn Files, name: &str) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = files.open(name)? else { return Ok(None) };
    let mut bytes = vec![0; file.bytes()? as usize];
    file.read_at(&mut bytes, 0)?;
    Ok(Some(bytes))
}

/// A copy of all files as they are, as after the end of the process.
///
/// # Errors
/// A file cannot be read.
pub fn copy(files: &dyn Files) -> io::Result<SimulatedFiles> {
    let to = SimulatedFiles::new();
    for name in files.names()? {
        put(&to, &name, &bytes_of(files, &name)?.unwrap_or_default())?;
    }
    Ok(to)
}

/// Writes a file anew; zeroes stay holes.
fn put(files: &dyn Files, name: &str, bytes: &[u8]) -> io::Result<()> {
    let file = files.create(name)?;
    for (at, chunk) in (0..).step_by(HOLE).zip(bytes.chunks(HOLE)) {
        let is_last = at + chunk.len() as u64 == bytes.len() as u64;
        if is_last || chunk.iter().any(|byte| *byte != 0) {
            file.write_at(chunk, at)?;
        }
    }
    Ok(())
}
