//! The file `format`: what a data directory holds, as text that people can read.

use crate::geometry::Geometry;
use std::fmt::Write as _;

/// Of the files as this program writes them. Another one is refused.
pub const VERSION: u32 = 1;

const FIRST_LINE: &str = "byteway medium";

/// What must be the same whenever a directory is opened: the drive's shape, and what it was made as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The shape.
    pub geometry: Geometry,
    /// What else, by name, in order. Neither names nor values hold a line break or a tab.
    pub traits: Vec<(String, String)>,
}

/// Why a directory isn't what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The file is damaged, or something else.
    #[error("its file `format` is damaged: restore the directory from a copy, or choose another one")]
    Damaged,
    /// Another version.
    #[error(
        "its files are of format version {0}, and this program knows version {VERSION}: use the program that made them"
    )]
    Version(u32),
    /// Another drive.
    #[error(
        "it holds another drive: {name} is {found} there and {wanted} here; serve it with the device file that it \
         was made with, or choose another directory"
    )]
    Other {
        /// What differs.
        name: String,
        /// What the directory has.
        found: String,
        /// What was asked for.
        wanted: String,
    },
}

impl Format {
    fn entries(&self) -> Vec<(String, String)> {
        let Geometry { channels, ways, planes, blocks, pages, page_bytes } = self.geometry;
        let shape = [
            ("channels", channels),
            ("ways", ways),
            ("planes", planes),
            ("blocks", blocks),
            ("pages", pages),
            ("page_bytes", page_bytes),
        ];
        let shape = shape.map(|(name, value)| (name.to_owned(), value.to_string()));
        shape.into_iter().chain(self.traits.iter().cloned()).collect()
    }

    /// As a file.
    pub(super) fn to_text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\nversion\t{VERSION}\n");
        for (name, value) in self.entries() {
            let _ = writeln!(text, "{name}\t{value}");
        }
        let crc = crc32c::crc32c(text.as_bytes());
        let _ = writeln!(text, "crc\t{crc:08x}");
        text
    }

    /// From a file.
    pub(super) fn of(text: &str) -> Result<Format, FormatError> {
        let mut lines = text.lines();
        let version = lines.next().filter(|line| *line == FIRST_LINE).and_then(|_| lines.next());
        let version = version.and_then(|line| line.strip_prefix("version\t")?.parse::<u32>().ok());
        match version {
            Some(VERSION) => {}
            Some(other) => return Err(FormatError::Version(other)),
            None => return Err(FormatError::Damaged),
        }
        let (body, crc) = text.rsplit_once("crc\t").ok_or(FormatError::Damaged)?;
        if crc != format!("{:08x}\n", crc32c::crc32c(body.as_bytes())) {
            return Err(FormatError::Damaged);
        }
        let entries: Option<Vec<(String, String)>> = body
            .lines()
            .skip(2)
            .map(|line| line.split_once('\t').map(|(name, value)| (name.to_owned(), value.to_owned())))
            .collect();
        let mut entries = entries.ok_or(FormatError::Damaged)?;
        if entries.len() < 6 {
            return Err(FormatError::Damaged);
        }
        let traits = entries.split_off(6);
        let shape: Vec<u32> = entries.iter().filter_map(|(_, value)| value.parse().ok()).collect();
        let [channels, ways, planes, blocks, pages, page_bytes] = shape[..] else {
            return Err(FormatError::Damaged);
        };
        let geometry = Geometry { channels, ways, planes, blocks, pages, page_bytes };
        geometry.validate().map_err(|_| FormatError::Damaged)?;
        Ok(Format { geometry, traits })
    }

    /// Whether a directory of this format can be that of `wanted`; if not, the first thing that differs.
    pub(super) fn check(&self, wanted: &Format) -> Result<(), FormatError> {
        let (found, wanted) = (self.entries(), wanted.entries());
        let value = |entries: &[(String, String)], name: &str| {
            let found = entries.iter().find(|(other, _)| other == name);
            found.map_or_else(|| "not said".to_owned(), |(_, value)| value.clone())
        };
        for (name, _) in found.iter().chain(&wanted) {
            let (found, wanted) = (value(&found, name), value(&wanted, name));
            if found != wanted {
                return Err(FormatError::Other { name: name.clone(), found, wanted });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry =
        Geometry { channels: 2, ways: 4, planes: 2, blocks: 4, pages: 6, page_bytes: 16384 };

    // Another drive's files would be read as this one's.
    #[test]
    fn another_drive_is_named_by_what_differs() {
        let format = Format { geometry: GEOMETRY, traits: vec![("units".into(), "77".into())] };
        let text = format.to_text();
        let back = Format::of(&text).unwrap();
        assert_eq!(back, format);
        assert_eq!(back.check(&format), Ok(()));
        let larger = Format { traits: vec![("units".into(), "78".into())], ..format.clone() };
        assert!(back.check(&larger).unwrap_err().to_string().contains("units is 77 there and 78 here"));
        let wider = Format { geometry: Geometry { channels: 4, ..GEOMETRY }, ..format };
        assert!(back.check(&wider).unwrap_err().to_string().contains("channels is 2 there and 4 here"));
        let newer = text.replace("version\t1", "version\t2");
        assert_eq!(Format::of(&newer), Err(FormatError::Version(2)));
        for end in 0..text.len() {
            assert_eq!(Format::of(&text[..end]), Err(FormatError::Damaged), "cut at {end}");
        }
        assert_eq!(Format::of(&text.replace("77", "79")), Err(FormatError::Damaged));
    }
}
