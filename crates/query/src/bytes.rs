//! Little-endian encoding, with a reader that checks every length.

use thiserror::Error;

/// Malformed bytes: a schema, a row group's metadata, a chunk or a task.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what}: {problem}, at byte {at}")]
pub struct FormatError {
    /// Name of the decoded item, such as "schema" or "chunk of column 3".
    pub what: String,
    /// The invalid value, and the valid range.
    pub problem: String,
    /// Byte offset in the input.
    pub at: usize,
}

/// A read position in untrusted bytes.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    what: &'static str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, bytes, at: 0 }
    }

    pub fn error(&self, problem: impl Into<String>) -> FormatError {
        FormatError { what: self.what.to_owned(), problem: problem.into(), at: self.at }
    }

    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8], FormatError> {
        if count > self.remaining() {
            return Err(self.error(format!("{count} bytes are required, {} are left", self.remaining())));
        }
        let taken = &self.bytes[self.at..self.at + count];
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub fn u8(&mut self) -> Result<u8, FormatError> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16, FormatError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, FormatError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, FormatError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn f64(&mut self) -> Result<f64, FormatError> {
        Ok(f64::from_bits(self.u64()?))
    }

    pub fn flag(&mut self) -> Result<bool, FormatError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.error(format!("flag is {other}, expected 0 or 1"))),
        }
    }

    /// An unsigned LEB128 integer of at most 128 bits (19 bytes), in as few bytes as it takes.
    pub fn varint(&mut self) -> Result<u128, FormatError> {
        let mut value = 0u128;
        for shift in (0..133).step_by(7) {
            let byte = self.u8()?;
            let bits = u128::from(byte & 0x7f);
            if shift > 121 && bits >> (128 - shift) != 0 {
                break;
            }
            value |= bits << shift;
            if byte == 0 && shift > 0 {
                return Err(self.error("integer has more bytes than it needs"));
            }
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.error("integer exceeds 128 bits"))
    }

    /// Decodes a length in LEB128, at most `max`; `of` names what it counts.
    pub fn length(&mut self, of: &str, max: usize) -> Result<usize, FormatError> {
        let length = self.varint()?;
        if length > max as u128 {
            return Err(self.error(format!("{length} {of} exceed the limit of {max}")));
        }
        Ok(length as usize)
    }

    /// A signed integer: zigzag in LEB128.
    pub fn signed(&mut self) -> Result<i128, FormatError> {
        let raw = self.varint()?;
        Ok((raw >> 1) as i128 ^ -((raw & 1) as i128))
    }

    /// UTF-8 text, preceded by its length in bytes.
    pub fn text(&mut self, of: &str, max: usize) -> Result<&'a str, FormatError> {
        let length = self.length(of, max)?;
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map_err(|_| self.error(format!("{of} are not valid UTF-8")))
    }

    pub fn end(&self) -> Result<(), FormatError> {
        match self.remaining() {
            0 => Ok(()),
            more => Err(self.error(format!("{more} unexpected bytes follow the end"))),
        }
    }
}

/// Writes the encodings that [`Reader`] reads.
pub(crate) trait Write {
    fn varint(&mut self, value: u128);
    fn signed(&mut self, value: i128);
    fn text(&mut self, text: &str);
}

impl Write for Vec<u8> {
    fn varint(&mut self, mut value: u128) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    fn signed(&mut self, value: i128) {
        self.varint((value as u128) << 1 ^ (value >> 127) as u128);
    }

    fn text(&mut self, text: &str) {
        self.varint(text.len() as u128);
        self.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A shift that is off by one at the limits would change a constant on its way to the drive.
    #[test]
    fn integers_of_any_size_come_back() {
        for value in
            [0, 1, -1, 63, 64, -64, -65, i128::from(i64::MAX), i128::from(i64::MIN), i128::MAX, i128::MIN]
        {
            let mut bytes = Vec::new();
            bytes.signed(value);
            let mut reader = Reader::new("test", &bytes);
            assert_eq!(reader.signed().unwrap(), value);
            reader.end().unwrap();
        }
        // A value has one encoding, so what is read is what would be written.
        for bytes in [vec![0x97, 0x00], vec![0x80, 0x00]] {
            assert!(Reader::new("test", &bytes).varint().is_err());
        }
        // 19 bytes whose last has bits beyond 128, and 20 bytes.
        for bytes in [[vec![0xff; 18], vec![0x04]].concat(), vec![0x80; 20]] {
            assert!(Reader::new("test", &bytes).varint().is_err(), "{bytes:x?}");
        }
    }
}
