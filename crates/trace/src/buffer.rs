//! A buffer of fixed size that yields lines, or records of fixed length, from a stream. It copies as little
//! as possible, and does not grow with the length of the file or of a line.

use std::io::{self, Read};

use byteway_text::interrupt::{Interrupt, Interrupted};

/// Longest line. Longer lines are cut one byte beyond; a record of any format needs a tenth of it.
pub const LINE_BYTES_MAX: usize = 4096;

const BUFFER_BYTES: usize = 256 << 10;

/// The buffer and its input.
pub struct Buffer {
    input: Box<dyn Read>,
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    ended: bool,
    interrupt: Interrupt,
}

impl Buffer {
    /// An empty buffer in front of `input`.
    pub fn new(input: Box<dyn Read>) -> Self {
        Buffer {
            input,
            bytes: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            ended: false,
            interrupt: Interrupt::default(),
        }
    }

    /// Makes reads fail once `interrupt` is raised, because gigabytes may contain no matching record.
    pub fn end_at(&mut self, interrupt: &Interrupt) {
        self.interrupt = interrupt.clone();
    }

    /// The buffered bytes, at least `wanted` unless the input has ended. `wanted` is at most the buffer's
    /// size.
    pub fn peek(&mut self, wanted: usize) -> io::Result<&[u8]> {
        while self.end - self.start < wanted && !self.ended {
            self.fill()?;
        }
        Ok(&self.bytes[self.start..self.end])
    }

    /// The next line without its terminator; of an overlong line, the beginning. `None` at the end of the
    /// input.
    #[inline]
    pub fn line(&mut self) -> io::Result<Option<&[u8]>> {
        let mut searched = 0;
        loop {
            let found = self.bytes[self.start + searched..self.end].iter().position(|byte| *byte == b'\n');
            if let Some(at) = found {
                let (start, end) = (self.start, self.start + searched + at);
                self.start = end + 1;
                return Ok(Some(&self.bytes[start..end.min(start + LINE_BYTES_MAX + 1)]));
            }
            searched = self.end - self.start;
            if self.ended {
                let start = self.start;
                self.start = self.end;
                return Ok(
                    (searched > 0).then(|| &self.bytes[start..self.end.min(start + LINE_BYTES_MAX + 1)])
                );
            }
            if searched > LINE_BYTES_MAX {
                // Keep one byte beyond the limit, so that the caller sees that the line is too long.
                let keep = LINE_BYTES_MAX + 1;
                self.end = self.start + keep;
                searched = keep;
            }
            self.fill()?;
        }
    }

    /// The next record of `bytes` bytes; shorter at the end of the input; `None` after it.
    #[inline]
    pub fn record(&mut self, bytes: usize) -> io::Result<Option<&[u8]>> {
        let there = self.peek(bytes)?.len().min(bytes);
        let start = self.start;
        self.start += there;
        Ok((there > 0).then(|| &self.bytes[start..start + there]))
    }

    /// Reads once, after moving the buffered bytes to the front.
    fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        loop {
            if self.interrupt.is_raised() {
                return Err(io::Error::other(Interrupted));
            }
            match self.input.read(&mut self.bytes[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(bytes) => self.end += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a fixed number of bytes per read.
    struct Drip(Vec<u8>, usize);

    impl Read for Drip {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let bytes = self.1.min(self.0.len()).min(buffer.len());
            buffer[..bytes].copy_from_slice(&self.0[..bytes]);
            self.0.drain(..bytes);
            Ok(bytes)
        }
    }

    // Such readers fail at a line that spans two reads, or that is longer than the buffer.
    #[test]
    fn lines_are_whole_whatever_the_reads() {
        let long = "x".repeat(3 * BUFFER_BYTES);
        let text = format!("one\n\ntwo\r\n{long}\n{}\nlast", "y".repeat(LINE_BYTES_MAX));
        for step in [7, 4096, usize::MAX] {
            let mut buffer = Buffer::new(Box::new(Drip(text.clone().into_bytes(), step)));
            let mut lines = Vec::new();
            while let Some(line) = buffer.line().unwrap() {
                lines.push(line.len());
            }
            assert_eq!(lines, [3, 0, 4, LINE_BYTES_MAX + 1, LINE_BYTES_MAX, 4], "{step}");
            let mut buffer = Buffer::new(Box::new(Drip(b"aabbc".to_vec(), step)));
            let mut records = Vec::new();
            while let Some(record) = buffer.record(2).unwrap() {
                records.push(record.to_vec());
            }
            assert_eq!(records, [&b"aa"[..], b"bb", b"c"]);
        }
    }
}
