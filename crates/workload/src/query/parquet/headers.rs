//! Footers and page headers, walked over before a reader believes them.
//!
//! Both are structures of Thrift's compact protocol. The reader skips fields that it does not know, element by element: a list
//! that says it has 2^31 elements, in a file of 200 bytes, keeps it busy for minutes. Here a collection has at most as many
//! elements as bytes follow, and everything lies where the file says.
//!
//! Source: Apache Thrift, "Thrift Compact protocol encoding"; Apache Parquet, `parquet.thrift` (`PageHeader`).

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use parquet::file::metadata::ParquetMetaData;

/// Levels of structures and collections, at most: a file's have six.
const DEPTH_MAX: u32 = 32;
/// `PageHeader.compressed_page_size`.
const COMPRESSED_PAGE_SIZE: i64 = 3;

const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Bytes of structures, of which `left` follow.
struct Structures<R> {
    reader: R,
    left: u64,
}

impl<R: Read> Structures<R> {
    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.left = self.left.checked_sub(1).ok_or_else(|| invalid("a header goes on beyond its end"))?;
        self.reader.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        self.left =
            self.left.checked_sub(bytes).ok_or_else(|| invalid("a value lies beyond its header's end"))?;
        let skipped = io::copy(&mut self.reader.by_ref().take(bytes), &mut io::sink())?;
        if skipped == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Seven bits a byte, the lowest first.
    fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(invalid("a number has more than 64 bits"))
    }

    /// A varint with the sign in its lowest bit.
    fn zigzag(&mut self) -> io::Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Number of elements, of which each has at least a byte.
    fn elements(&self, elements: u64, kinds: [u8; 2]) -> io::Result<u64> {
        // Written as a byte each, skipped by readers as none: no structure of a footer or a page header has them.
        if elements > 0 && kinds.iter().any(|kind| matches!(*kind, TRUE | FALSE)) {
            return Err(invalid("a list of booleans is in a header"));
        }
        match elements <= self.left {
            true => Ok(elements),
            false => Err(invalid("a list has more elements than its header has bytes")),
        }
    }

    fn value(&mut self, kind: u8, depth: u32) -> io::Result<()> {
        if depth == DEPTH_MAX {
            return Err(invalid("a header is nested too deep"));
        }
        match kind {
            TRUE | FALSE => Ok(()),
            BYTE => self.skip(1),
            I16 | I32 | I64 => self.varint().map(drop),
            DOUBLE => self.skip(8),
            UUID => self.skip(16),
            BINARY => {
                let bytes = self.varint()?;
                self.skip(bytes)
            }
            LIST | SET => {
                let header = self.byte()?;
                let elements = match header >> 4 {
                    15 => self.varint()?,
                    elements => elements.into(),
                };
                let kind = header & 0xf;
                for _ in 0..self.elements(elements, [kind; 2])? {
                    self.value(kind, depth + 1)?;
                }
                Ok(())
            }
            MAP => {
                let elements = self.varint()?;
                if elements == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                let kinds = [kinds >> 4, kinds & 0xf];
                for _ in 0..self.elements(elements, kinds)? {
                    self.value(kinds[0], depth + 1)?;
                    self.value(kinds[1], depth + 1)?;
                }
                Ok(())
            }
            STRUCT => self.structure(depth + 1, COMPRESSED_PAGE_SIZE).map(drop),
            _ => Err(invalid("a header has a value of an unknown type")),
        }
    }

    /// Goes over a structure. Returns its integer field of that number, if it has one.
    fn structure(&mut self, depth: u32, wanted: i64) -> io::Result<Option<i64>> {
        let mut number = 0i64;
        let mut found = None;
        loop {
            let header = self.byte()?;
            let kind = header & 0xf;
            if kind == STOP {
                return Ok(found);
            }
            number = match header >> 4 {
                0 => self.zigzag()?,
                more => number.saturating_add(more.into()),
            };
            match kind {
                I16 | I32 | I64 if number == wanted => found = Some(self.zigzag()?),
                _ => self.value(kind, depth)?,
            }
        }
    }
}

/// Goes over a file's footer, whose length and magic number are the last 8 bytes of the file.
///
/// # Errors
/// It is no footer, or the file cannot be read.
pub fn check_footer(file: &File, file_bytes: u64) -> io::Result<()> {
    let mut tail = [0; 8];
    let end = file_bytes.checked_sub(8).ok_or_else(|| invalid("it is too short"))?;
    let mut file = file;
    file.seek(SeekFrom::Start(end))?;
    file.read_exact(&mut tail)?;
    let bytes = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if &tail[4..] != b"PAR1" {
        return Err(invalid("it does not end with `PAR1`"));
    }
    let begin = end.checked_sub(bytes).ok_or_else(|| invalid("its footer is longer than the file"))?;
    file.seek(SeekFrom::Start(begin))?;
    Structures { reader: BufReader::new(file), left: bytes }.structure(0, COMPRESSED_PAGE_SIZE).map(drop)
}

/// Goes over the headers of all pages. Columns lie within the file.
///
/// # Errors
/// A header is none, or lies beyond its column; the file cannot be read.
pub fn check_pages(mut file: &File, metadata: &ParquetMetaData) -> io::Result<()> {
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let (begin, bytes) = column.byte_range();
        file.seek(SeekFrom::Start(begin))?;
        let mut headers = Structures { reader: BufReader::new(file), left: bytes };
        while headers.left > 0 {
            let page = headers.structure(0, COMPRESSED_PAGE_SIZE)?;
            let page =
                page.and_then(|bytes| i32::try_from(bytes).ok()).and_then(|bytes| u64::try_from(bytes).ok());
            let page = page.ok_or_else(|| invalid("a page has no length"))?;
            headers.left =
                headers.left.checked_sub(page).ok_or_else(|| invalid("a page lies beyond its column"))?;
            headers.reader.seek_relative(page as i64)?;
        }
    }
    Ok(())
}
