//! A copy-on-write overlay over other files, which stay unchanged: writes go to memory. It lets a drive start
//! from a directory that is only inspected.

use super::files::{File, Files};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

const PAGE: u64 = 4096;

/// Overwritten pages, by number; None for zeroes.
type Pages = BTreeMap<u64, Option<Box<[u8; PAGE as usize]>>>;

/// Files over other files. Changes are held in memory, so it suits drives that write little.
pub struct Overlay {
    below: Arc<dyn Files>,
    /// Files that were made, renamed or opened; None if removed.
    names: Mutex<BTreeMap<String, Option<Arc<OverlayFile>>>>,
}

impl Overlay {
    /// An overlay over `below`.
    pub fn new(below: Arc<dyn Files>) -> Self {
        Overlay { below, names: Mutex::default() }
    }

    /// The file of this name, the same one each time.
    fn named(&self, name: &str) -> io::Result<Option<Arc<OverlayFile>>> {
        let mut names = locked(&self.names);
        if let Some(known) = names.get(name) {
            return Ok(known.clone());
        }
        let Some(below) = self.below.open(name)? else { return Ok(None) };
        let bytes = below.bytes()?;
        let file = Arc::new(OverlayFile { below: Some(below), over: Mutex::new((Pages::new(), bytes)) });
        names.insert(name.to_owned(), Some(file.clone()));
        Ok(Some(file))
    }
}

impl Files for Overlay {
    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn File>>> {
        Ok(self.named(name)?.map(|file| file as Arc<dyn File>))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = Arc::new(OverlayFile { below: None, over: Mutex::default() });
        locked(&self.names).insert(name.to_owned(), Some(file.clone()));
        Ok(file)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let file = self.named(from)?.ok_or(io::ErrorKind::NotFound)?;
        let mut names = locked(&self.names);
        names.insert(from.to_owned(), None);
        names.insert(to.to_owned(), Some(file));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        locked(&self.names).insert(name.to_owned(), None);
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut all: BTreeMap<String, bool> =
            self.below.names()?.into_iter().map(|name| (name, true)).collect();
        all.extend(locked(&self.names).iter().map(|(name, file)| (name.clone(), file.is_some())));
        Ok(all.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

struct OverlayFile {
    /// None for a file that was made here.
    below: Option<Arc<dyn File>>,
    /// Overwritten pages, and the length of the file.
    over: Mutex<(Pages, u64)>,
}

impl OverlayFile {
    /// A page as it is below.
    fn page_below(&self, page: u64) -> io::Result<Box<[u8; PAGE as usize]>> {
        let mut bytes = Box::new([0; PAGE as usize]);
        if let Some(below) = &self.below {
            below.read_at(&mut bytes[..], page * PAGE)?;
        }
        Ok(bytes)
    }

    /// Writes the range page by page, or clears it if `bytes` is None.
    fn change(&self, offset: u64, count: u64, bytes: Option<&[u8]>) -> io::Result<()> {
        let (pages, end) = &mut *locked(&self.over);
        let stop = match bytes {
            Some(_) => offset + count,
            None => (offset + count).min(*end),
        };
        let mut at = offset;
        while at < stop {
            let (page, within) = (at / PAGE, (at % PAGE) as usize);
            let length = (PAGE as usize - within).min((stop - at) as usize);
            if bytes.is_none() && length == PAGE as usize {
                pages.insert(page, None);
            } else {
                let known = match pages.remove(&page) {
                    Some(known) => known,
                    None => Some(self.page_below(page)?),
                };
                let mut known = known.unwrap_or_else(|| Box::new([0; PAGE as usize]));
                match bytes {
                    Some(bytes) => known[within..within + length]
                        .copy_from_slice(&bytes[(at - offset) as usize..(at - offset) as usize + length]),
                    None => known[within..within + length].fill(0),
                }
                pages.insert(page, Some(known));
            }
            at += length as u64;
        }
        *end = (*end).max(stop);
        Ok(())
    }
}

impl File for OverlayFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        match &self.below {
            Some(below) => below.read_at(bytes, offset)?,
            None => bytes.fill(0),
        }
        let (pages, _) = &*locked(&self.over);
        let end = offset + bytes.len() as u64;
        for (page, known) in pages.range(offset / PAGE..end.div_ceil(PAGE)) {
            let (from, to) = (offset.max(page * PAGE), end.min((page + 1) * PAGE));
            let place = &mut bytes[(from - offset) as usize..(to - offset) as usize];
            match known {
                Some(known) => {
                    place.copy_from_slice(&known[(from - page * PAGE) as usize..(to - page * PAGE) as usize])
                }
                None => place.fill(0),
            }
        }
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.change(offset, bytes.len() as u64, Some(bytes))
    }

    fn clear(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.change(offset, bytes, None)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(locked(&self.over).1)
    }

    fn bytes_used(&self) -> io::Result<u64> {
        Ok(locked(&self.over).0.values().flatten().count() as u64 * PAGE)
    }

    fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
        let below = match &self.below {
            Some(below) => below.next_data(offset)?,
            None => None,
        };
        let over = locked(&self.over);
        let mut written = over.0.range(offset / PAGE..).filter(|(_, known)| known.is_some());
        let written = written.next().map(|(page, _)| offset.max(page * PAGE));
        Ok(below.into_iter().chain(written).min())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::file::SimulatedFiles;
    use byteway_clock::random::Rng;

    fn all(file: &dyn File) -> Vec<u8> {
        let mut bytes = vec![7; 40_000];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    }

    // Otherwise an inspected drive would be changed, or would appear as something else.
    #[test]
    fn what_is_done_above_is_seen_there_and_not_below() {
        let mut stream = Rng::new(1).stream("overlay");
        let (below, plain) = (SimulatedFiles::new(), SimulatedFiles::new());
        for files in [&below, &plain] {
            files.create("kept").unwrap().write_at(&[5; 20_000], 3000).unwrap();
            files.create("gone").unwrap().write_at(b"gone", 0).unwrap();
        }
        let steps = below.steps();
        let over = Overlay::new(Arc::new(below.clone()));
        let (file, model) = (over.open("kept").unwrap().unwrap(), plain.open("kept").unwrap().unwrap());
        for step in 0..400 {
            let (offset, count) = (stream.below(30_000), stream.below(9000));
            let bytes = vec![step as u8 | 1; count as usize];
            for file in [&file, &model] {
                match step % 3 {
                    0 => file.clear(offset, count).unwrap(),
                    _ => file.write_at(&bytes, offset).unwrap(),
                }
            }
            assert_eq!(all(&*file), all(&*model), "step {step}");
            assert_eq!(file.bytes().unwrap(), model.bytes().unwrap(), "step {step}");
            // It may name a page that holds zeroes, but leaves none out that doesn't.
            let (found, first) = (file.next_data(offset).unwrap(), all(&*model)[offset as usize..].to_vec());
            let first = first.iter().position(|byte| *byte != 0).map(|at| offset + at as u64);
            assert!(first.is_none() || found.is_some_and(|found| Some(found) <= first), "step {step}");
        }
        for files in [&over as &dyn Files, &plain] {
            files.remove("gone").unwrap();
            files.create("new.new").unwrap().write_at(b"new", 0).unwrap();
            files.rename("new.new", "new").unwrap();
            assert!(files.open("gone").unwrap().is_none() && files.open("new.new").unwrap().is_none());
        }
        assert_eq!(over.names().unwrap(), plain.names().unwrap());
        assert_eq!(all(&*over.open("new").unwrap().unwrap()), all(&*plain.open("new").unwrap().unwrap()));
        assert_eq!((below.steps(), below.names().unwrap().len()), (steps, 2), "below nothing was done");
    }
}
