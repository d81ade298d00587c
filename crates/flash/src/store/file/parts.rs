//! One logical file made of several: the limit of common file systems (16 TiB for ext4) is below the size of
//! the largest drives.

use super::files::{File, Files};
use std::io;
use std::sync::Arc;

/// Parts of one logical file, in order; all but the last have the same length.
pub(super) struct Parts {
    parts: Vec<Arc<dyn File>>,
    /// Bytes of a part.
    length: u64,
}

/// Names of the `count` parts of the file `name`; the first part has the plain name.
pub(super) fn names(name: &str, count: u64) -> impl Iterator<Item = String> {
    (1..=count).map(move |part| if part == 1 { name.to_owned() } else { format!("{name}-{part}") })
}

/// Whether `other` is a part of the file `name`.
pub(super) fn is_part(other: &str, name: &str) -> bool {
    other == name
        || other.strip_prefix(name).and_then(|rest| rest.strip_prefix('-')).is_some_and(|part| {
            part.parse::<u64>().is_ok_and(|number| number > 1 && number.to_string() == part)
        })
}

impl Parts {
    /// Opens the file `name` with `count` parts of `length` bytes.
    ///
    /// # Errors
    /// The system's error. If a part is missing, returns its name.
    pub(super) fn open(
        files: &dyn Files,
        name: &str,
        count: u64,
        length: u64,
    ) -> io::Result<Result<Arc<dyn File>, String>> {
        let mut parts = Vec::new();
        for name in names(name, count) {
            match files.open(&name)? {
                Some(file) => parts.push(file),
                None => return Ok(Err(name)),
            }
        }
        Ok(Ok(match <[Arc<dyn File>; 1]>::try_from(parts) {
            Ok([only]) => only,
            Err(parts) => Arc::new(Parts { parts, length }),
        }))
    }

    /// Calls `part` for each part of a range, with the file, the offset in it, and the bytes of the range.
    fn each(
        &self,
        offset: u64,
        bytes: u64,
        mut part: impl FnMut(&dyn File, u64, std::ops::Range<u64>) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let last = self.parts.len() - 1;
            let number = ((at / self.length) as usize).min(last);
            let begin = number as u64 * self.length;
            let stop = if number == last { end } else { end.min(begin + self.length) };
            part(&*self.parts[number], at - begin, at - offset..stop - offset)?;
            at = stop;
        }
        Ok(())
    }
}

impl File for Parts {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.each(offset, bytes.len() as u64, |file, at, range| {
            file.read_at(&mut bytes[range.start as usize..range.end as usize], at)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.each(offset, bytes.len() as u64, |file, at, range| {
            file.write_at(&bytes[range.start as usize..range.end as usize], at)
        })
    }

    fn clear(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.each(offset, bytes, |file, at, range| file.clear(at, range.end - range.start))
    }

    fn sync(&self) -> io::Result<()> {
        self.parts.iter().try_for_each(|file| file.sync())
    }

    fn bytes(&self) -> io::Result<u64> {
        let mut end = 0;
        for (begin, file) in (0..).step_by(self.length as usize).zip(&self.parts) {
            let bytes = file.bytes()?;
            end = if bytes > 0 { begin + bytes } else { end };
        }
        Ok(end)
    }

    fn bytes_used(&self) -> io::Result<u64> {
        self.parts.iter().try_fold(0, |sum, file| Ok(sum + file.bytes_used()?))
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        for (begin, file) in (0..).step_by(self.length as usize).zip(&self.parts) {
            if offset < begin + self.length
                && let Some(at) = file.next_data(offset.saturating_sub(begin))?
            {
                return Ok(Some(begin + at));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::SimulatedFiles;
    use super::*;
    use byteway_clock::random::Rng;

    fn all(file: &dyn File) -> Vec<u8> {
        let mut bytes = vec![7; 40_000];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    }

    // Bytes across the end of a part would be lost, or overwrite those of the next part.
    #[test]
    fn parts_are_as_one_file() {
        let (many, one) = (SimulatedFiles::new(), SimulatedFiles::new());
        names("data", 3).for_each(|name| _ = many.create(&name).unwrap());
        one.create("data").unwrap();
        let joined = Parts::open(&many, "data", 3, 10_000).unwrap().unwrap_or_else(|name| panic!("{name}"));
        let plain = Parts::open(&one, "data", 1, 10_000).unwrap().unwrap_or_else(|name| panic!("{name}"));
        let mut stream = Rng::new(1).stream("parts");
        for step in 0..400 {
            let (offset, count) = (stream.below(30_000), stream.below(9000) + 1);
            let bytes = vec![step as u8 | 1; count as usize];
            for file in [&joined, &plain] {
                match step % 3 {
                    0 => file.clear(offset, count).unwrap(),
                    _ => file.write_at(&bytes, offset).unwrap(),
                }
            }
            assert_eq!(all(&*joined), all(&*plain), "step {step}");
            assert_eq!(joined.bytes().unwrap(), plain.bytes().unwrap(), "step {step}");
            let (found, first) =
                (joined.next_data(offset).unwrap(), all(&*plain)[offset as usize..].to_vec());
            let first = first.iter().position(|byte| *byte != 0).map(|at| offset + at as u64);
            assert!(first.is_none() || found.is_some_and(|found| Some(found) <= first), "step {step}");
        }
        joined.sync().unwrap();
        assert!(joined.bytes_used().unwrap() > 0);
        assert_eq!(Parts::open(&many, "data", 4, 10_000).unwrap().err(), Some("data-4".to_owned()));
    }

    // A foreign file would be taken for an interrupted creation of a drive.
    #[test]
    fn parts_are_known_by_their_names() {
        assert!(names("data", 12).all(|name| is_part(&name, "data")));
        for other in ["data-1", "data-0", "data-02", "data-", "data-x", "data2", "dat", "spare-2x"] {
            assert!(!is_part(other, "data"), "{other}");
        }
    }
}
