//! The file `format`: identity of a data directory, as text.

use crate::geometry::Geometry;
use std::fmt::Write as _;

/// Version of the files as this program writes them. Older ones are readable, too, and become this one at a
/// start: those before 4 have no file `mark`, and no units of the map that are marked as lost, which older
/// programs would read as zeroes. The `format` file of version 1 lacks some keys (bits a cell, and which
/// superblocks are in one-bit mode). A newer version is refused.
const VERSION: u32 = 4;

/// Version of the files of a drive whose addresses exceed 32 bits.
const WIDE_VERSION: u32 = 5;

/// The same before [`MARKED_VERSION`].
const OLD_WIDE_VERSION: u32 = 3;

/// From this version on there is a file `mark`.
pub(super) const MARKED_VERSION: u32 = 4;

const OLDEST_VERSION: u32 = 1;

const FIRST_LINE: &str = "byteway medium";

/// Identity of a drive: its geometry and the parameters that it was made with. It must be the same at every
/// open, because the files mean something else otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Geometry of the array.
    pub geometry: Geometry,
    /// Further parameters by name, in order. Names and values contain no line break or tab.
    pub traits: Vec<(String, String)>,
}

/// A format as parsed from a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParsedFormat {
    pub(super) format: Format,
    /// Version of the files.
    pub(super) version: u32,
}

/// Error of matching a directory's format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The file is damaged, or not a format file.
    #[error("the file `format` is damaged: restore the directory from a copy, or choose another one")]
    Damaged,
    /// An unknown version.
    #[error(
        "the files have format version {0}, and this program knows versions {OLDEST_VERSION} to \
         {WIDE_VERSION}: use the program that made them"
    )]
    Version(u32),
    /// A parameter differs.
    #[error(
        "the directory holds another drive: {name} is {found} there and {wanted} here; serve it with the \
         device file that it was made with, or choose another directory"
    )]
    Other {
        /// Name of the parameter.
        name: String,
        /// Value in the directory.
        found: String,
        /// Value in the request.
        wanted: String,
    },
}

impl Format {
    /// Version that this program writes for it.
    pub fn version(&self) -> u32 {
        if self.geometry.is_wide() { WIDE_VERSION } else { VERSION }
    }

    /// A parameter of the drive, by name.
    pub fn quality(&self, name: &str) -> Option<&str> {
        self.traits.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

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

    /// Encodes as a file.
    pub(super) fn to_text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\nversion\t{}\n", self.version());
        for (name, value) in self.entries() {
            let _ = writeln!(text, "{name}\t{value}");
        }
        let crc = crc32c::crc32c(text.as_bytes());
        let _ = writeln!(text, "crc\t{crc:08x}");
        text
    }
}

impl ParsedFormat {
    /// Parses a file.
    ///
    /// # Errors
    /// [`FormatError::Damaged`] or [`FormatError::Version`].
    pub(super) fn of(text: &str) -> Result<ParsedFormat, FormatError> {
        let mut lines = text.lines();
        let version = lines.next().filter(|line| *line == FIRST_LINE).and_then(|_| lines.next());
        let version = version.and_then(|line| line.strip_prefix("version\t")?.parse::<u32>().ok());
        let version = version.ok_or(FormatError::Damaged)?;
        if !(OLDEST_VERSION..=WIDE_VERSION).contains(&version) {
            return Err(FormatError::Version(version));
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
        if geometry.is_wide() != [OLD_WIDE_VERSION, WIDE_VERSION].contains(&version) {
            return Err(FormatError::Damaged);
        }
        Ok(ParsedFormat { format: Format { geometry, traits }, version })
    }

    /// Checks that a directory with this format can be that of `wanted`. A parameter that version 1 does not
    /// have counts as matching.
    ///
    /// # Errors
    /// [`FormatError::Other`] with the first parameter that differs.
    pub(super) fn check(&self, wanted: &Format) -> Result<(), FormatError> {
        let (found, mut wanted) = (self.format.entries(), wanted.entries());
        if self.version == OLDEST_VERSION {
            wanted.retain(|(name, _)| found.iter().any(|(other, _)| other == name));
        }
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
        let back = ParsedFormat::of(&text).unwrap();
        assert_eq!(back, ParsedFormat { format: format.clone(), version: VERSION });
        assert_eq!(back.check(&format), Ok(()));
        let larger = Format { traits: vec![("units".into(), "78".into())], ..format.clone() };
        assert!(back.check(&larger).unwrap_err().to_string().contains("units is 77 there and 78 here"));
        let wider = Format { geometry: Geometry { channels: 4, ..GEOMETRY }, ..format };
        assert!(back.check(&wider).unwrap_err().to_string().contains("channels is 2 there and 4 here"));
        for version in [0, 6] {
            let other = text.replace("version\t4", &format!("version\t{version}"));
            assert_eq!(ParsedFormat::of(&other), Err(FormatError::Version(version)));
        }
        // An older program must refuse what it would read as a smaller drive's, and no other drive claims to
        // be so large.
        let large =
            Format { geometry: Geometry { blocks: 1 << 18, pages: 1024, ..GEOMETRY }, traits: vec![] };
        let text_large = large.to_text();
        assert!(text_large.contains("version\t5\n"), "{text_large}");
        assert_eq!(ParsedFormat::of(&text_large).map(|said| said.format), Ok(large));
        let of_version = |version: u32| {
            let text = text.replace("version\t4", &format!("version\t{version}"));
            let body = text.rsplit_once("crc").unwrap().0;
            ParsedFormat::of(&format!("{body}crc\t{:08x}\n", crc32c::crc32c(body.as_bytes())))
        };
        for version in [OLD_WIDE_VERSION, WIDE_VERSION] {
            assert_eq!(of_version(version), Err(FormatError::Damaged));
        }
        // One without a parameter is no older one's that lacks it.
        let more =
            Format { traits: vec![("units".into(), "77".into()), ("more".into(), "1".into())], ..format };
        assert_eq!(of_version(1).unwrap().check(&more), Ok(()));
        assert!(of_version(2).unwrap().check(&more).is_err() && back.check(&more).is_err());
        for end in 0..text.len() {
            assert_eq!(ParsedFormat::of(&text[..end]), Err(FormatError::Damaged), "cut at {end}");
        }
        assert_eq!(ParsedFormat::of(&text.replace("77", "79")), Err(FormatError::Damaged));
    }

    // A drive that was made by an older program would be lost to its owner, or taken for another one.
    #[test]
    fn what_an_older_version_does_not_say_is_as_wanted() {
        let quality = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let format = Format { geometry: GEOMETRY, traits: vec![quality("units", "77")] };
        let of = |units, bits| Format {
            geometry: GEOMETRY,
            traits: vec![quality("units", units), quality("bits", bits)],
        };
        let more = |bits| of("77", bits);
        let old = ParsedFormat { format: format.clone(), version: 1 };
        assert_eq!(old.check(&more("3")), Ok(()));
        let other = of("78", "3");
        assert!(old.check(&other).unwrap_err().to_string().contains("units is 77 there and 78 here"));
        let new = ParsedFormat { format: more("3"), version: VERSION };
        assert_eq!(new.check(&more("3")), Ok(()));
        assert!(new.check(&more("2")).unwrap_err().to_string().contains("bits is 3 there and 2 here"));
        let silent = ParsedFormat { format, version: VERSION };
        assert!(
            silent.check(&more("2")).unwrap_err().to_string().contains("bits is not said there and 2 here")
        );
    }
}
