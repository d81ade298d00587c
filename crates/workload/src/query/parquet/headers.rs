//! Validates footers and page headers before the Parquet reader parses them.
//!
//! Both are structures of Thrift's compact protocol. The reader skips unknown fields element by element: a
//! list that claims 2^31 elements in a file of 200 bytes would keep it busy for minutes. Here a collection
//! has at most as many elements as bytes follow, and everything must lie where the file says. The reader
//! parses known fields by their expected type, whatever type the file states, and would then advance
//! differently from this check. Known fields must therefore state the expected type ([`shapes`]).
//!
//! Source: Apache Thrift, "Thrift Compact protocol encoding"; Apache Parquet, `parquet.thrift` (`PageHeader`).

mod shapes;

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use parquet::file::metadata::ParquetMetaData;

use shapes::{Field, Type, invalid};

/// Maximum nesting of structures and collections; a valid file has six levels.
const DEPTH_MAX: u32 = 32;
/// `PageHeader.compressed_page_size`.
const COMPRESSED_PAGE_SIZE: i64 = 3;

/// A walk over structures; `left` is the number of remaining bytes.
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

    /// Decodes a varint: seven bits per byte, least significant first.
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

    /// Decodes a varint with the sign in its lowest bit.
    fn zigzag(&mut self) -> io::Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Checks a number of elements: each takes at least one byte.
    fn elements(&self, elements: u64, types: &[Type]) -> io::Result<u64> {
        // Booleans are written as one byte each, but readers skip none. No structure of a footer or page
        // header contains lists of them.
        if elements > 0 && types.contains(&Type::Bool) {
            return Err(invalid("a list of booleans is in a header"));
        }
        match elements <= self.left {
            true => Ok(elements),
            false => Err(invalid("a list has more elements than its header has bytes")),
        }
    }

    /// Skips a value. `known` are the fields of a structure, or of the structures in a list.
    fn value(&mut self, of: Type, known: &[Field], depth: u32) -> io::Result<()> {
        if depth == DEPTH_MAX {
            return Err(invalid("a header is nested too deep"));
        }
        match of {
            Type::Bool => Ok(()),
            Type::Byte => self.skip(1),
            Type::Integer => self.varint().map(drop),
            Type::Double => self.skip(8),
            Type::Uuid => self.skip(16),
            Type::Binary => {
                let bytes = self.varint()?;
                self.skip(bytes)
            }
            Type::List(expected) => {
                let header = self.byte()?;
                let elements = match header >> 4 {
                    15 => self.varint()?,
                    elements => elements.into(),
                };
                // Some writers state no element type for an empty list.
                if elements == 0 {
                    return Ok(());
                }
                let of = Type::from_code(header)?;
                if expected.is_some_and(|expected| *expected != of.as_element()) {
                    return Err(invalid("a list in a header has elements of another type"));
                }
                for _ in 0..self.elements(elements, &[of])? {
                    self.value(of, known, depth + 1)?;
                }
                Ok(())
            }
            Type::Map => {
                let elements = self.varint()?;
                if elements == 0 {
                    return Ok(());
                }
                let codes = self.byte()?;
                let types = [Type::from_code(codes >> 4)?, Type::from_code(codes)?];
                for _ in 0..self.elements(elements, &types)? {
                    self.value(types[0], &[], depth + 1)?;
                    self.value(types[1], &[], depth + 1)?;
                }
                Ok(())
            }
            Type::Struct => self.structure(known, depth + 1).map(drop),
        }
    }

    /// Skips a structure with these known fields. Returns the integer field [`COMPRESSED_PAGE_SIZE`], if
    /// present.
    fn structure(&mut self, known: &[Field], depth: u32) -> io::Result<Option<i64>> {
        let (mut number, mut found) = (0i64, None);
        loop {
            let header = self.byte()?;
            if header & 0xf == 0 {
                return Ok(found);
            }
            let of = Type::from_code(header)?;
            number = match header >> 4 {
                0 => self.zigzag()?,
                more => number.saturating_add(more.into()),
            };
            let field = known.iter().find(|field| i64::from(field.number) == number);
            if field.is_some_and(|field| field.of.as_element() != of.as_element()) {
                return Err(invalid("a field of a header has another type than it should"));
            }
            match (of, field) {
                (Type::Integer, _) if number == COMPRESSED_PAGE_SIZE => found = Some(self.zigzag()?),
                (_, Some(field)) => self.value(field.of, field.fields, depth)?,
                (_, None) => self.value(of, &[], depth)?,
            }
        }
    }
}

/// Checks a file's footer. Its length and magic number are the last 8 bytes of the file.
///
/// # Errors
/// [`io::Error`] if the footer is invalid or the file cannot be read.
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
    Structures { reader: BufReader::new(file), left: bytes }.structure(shapes::FOOTER, 0).map(drop)
}

/// Checks the headers of all pages. Columns must lie within the file.
///
/// # Errors
/// [`io::Error`] if a header is invalid or extends beyond its column, or the file cannot be read.
pub fn check_pages(mut file: &File, metadata: &ParquetMetaData) -> io::Result<()> {
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let (begin, bytes) = column.byte_range();
        file.seek(SeekFrom::Start(begin))?;
        let mut headers = Structures { reader: BufReader::new(file), left: bytes };
        while headers.left > 0 {
            let page = headers.structure(shapes::PAGE, 0)?;
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
