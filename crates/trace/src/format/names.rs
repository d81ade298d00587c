//! Numbers for devices that a format names by words.
//!
//! Names are numbered from 0 in order of appearance; `device-7`, as the writers here call it, is device 7.

use rustc_hash::{FxHashMap, FxHashSet};

use super::field::{FieldError, number32, put, shown};

/// Names in a trace, at most.
const NAMES_MAX: usize = 1 << 16;

const OWN: &[u8] = b"device-";

/// The names that a parser has met.
#[derive(Default)]
pub(super) struct Names {
    numbers: FxHashMap<Box<[u8]>, u32>,
    taken: FxHashSet<u32>,
    next: u32,
}

impl Names {
    /// The number of this name, which is a `noun` in messages.
    pub(super) fn number(&mut self, name: &[u8], noun: &str) -> Result<u32, FieldError> {
        if let Some(known) = self.numbers.get(name) {
            return Ok(*known);
        }
        if self.numbers.len() >= NAMES_MAX {
            return Err(FieldError::new(format!("`{}` is one {noun} more than {NAMES_MAX}", shown(name))));
        }
        let own = name.strip_prefix(OWN).filter(|digits| !digits.starts_with(b"0") || *digits == b"0");
        let own = own.and_then(|digits| number32(Some(digits), "").ok());
        let device = match own {
            Some(device) if !self.taken.contains(&device) => device,
            _ => {
                while self.taken.contains(&self.next) {
                    self.next += 1;
                }
                self.next
            }
        };
        self.taken.insert(device);
        self.numbers.insert(name.into(), device);
        Ok(device)
    }
}

/// Appends the name by which [`Names`] finds this device again, and a separator.
pub(super) fn put_name(out: &mut Vec<u8>, device: u32, separator: &[u8]) {
    out.extend_from_slice(OWN);
    put(out, u64::from(device), separator);
}

#[cfg(test)]
mod tests {
    use super::*;

    // Two names with one number would be two disks laid over each other.
    #[test]
    fn no_number_is_given_twice() {
        let mut names = Names::default();
        let mut number = |name: &str| names.number(name.as_bytes(), "disk").unwrap();
        assert_eq!((number("sda"), number("device-1"), number("sdb"), number("device-0")), (0, 1, 2, 3));
        assert_eq!((number("device-4294967295"), number("device-4294967296")), (u32::MAX, 4));
        assert_eq!((number("device-07"), number("device-"), number("sda")), (5, 6, 0));
    }

    // A trace may name a new disk in each of a billion lines: the table must not fill memory.
    #[test]
    fn there_is_an_end_of_names() {
        let mut names = Names::default();
        for index in 0..NAMES_MAX {
            names.number(format!("d{index}").as_bytes(), "disk").unwrap();
        }
        let error = names.number(b"another", "disk").unwrap_err();
        assert_eq!(error.to_string(), "`another` is one disk more than 65536");
        assert_eq!(names.number(b"d7", "disk"), Ok(7));
    }
}
