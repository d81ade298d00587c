//! Compression of trace files: none, gzip, xz or zstd, detected by the first bytes and decompressed as a
//! stream.
//!
//! Memory is bounded: an xz or zstd file with a window larger than 128 MiB is refused. Several members
//! (gzip), streams (xz) or frames (zstd) in sequence form one file. A truncated file is an error, at the
//! point where it ends.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Cursor, Read, Write};
use std::path::Path;
use std::rc::Rc;

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use liblzma::read::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use liblzma::write::XzEncoder;

/// Compression format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Not compressed.
    Plain,
    /// gzip (RFC 1952).
    Gzip,
    /// The .xz format.
    Xz,
    /// Zstandard (RFC 8878).
    Zstd,
}

/// The largest window of an archive, as a power of two: 128 MiB.
const WINDOW_LOG_MAX: u32 = 27;

/// Memory limit of liblzma: the window, and its other needs.
const XZ_BYTES_MAX: u64 = (1 << WINDOW_LOG_MAX) + (16 << 20);

const READ_BYTES: usize = 256 << 10;

impl Packing {
    /// Detects the format by the first bytes.
    fn of(head: &[u8]) -> Packing {
        match head {
            [0x1f, 0x8b, ..] => Packing::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Packing::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
            _ => Packing::Plain,
        }
    }

    /// The format by the extension of a file name.
    pub fn named(path: &Path) -> Packing {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Packing::Gzip,
            Some("xz") => Packing::Xz,
            Some("zst") => Packing::Zstd,
            _ => Packing::Plain,
        }
    }

    /// The name in the user interface.
    pub fn name(self) -> &'static str {
        match self {
            Packing::Plain => "plain",
            Packing::Gzip => "gzip",
            Packing::Xz => "xz",
            Packing::Zstd => "zstd",
        }
    }
}

/// A reader that counts the bytes that were read.
struct Counted<R> {
    inner: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.count.set(self.count.get() + bytes as u64);
        Ok(bytes)
    }
}

/// The decompressed bytes of a trace.
pub struct Unpacked {
    /// The decompressed stream.
    pub input: Box<dyn Read>,
    /// The detected compression format.
    pub packing: Packing,
    /// Compressed bytes read so far.
    pub count: Rc<Cell<u64>>,
}

/// Opens a file and detects its compression.
pub fn unpack(file: impl Read + 'static) -> io::Result<Unpacked> {
    let count = Rc::new(Cell::new(0));
    let mut file = Counted { inner: file, count: count.clone() };
    let mut head = Vec::with_capacity(8);
    file.by_ref().take(8).read_to_end(&mut head)?;
    let packing = Packing::of(&head);
    let whole = Cursor::new(head).chain(file);
    let input: Box<dyn Read> = match packing {
        Packing::Plain => Box::new(whole),
        Packing::Gzip => Box::new(MultiGzDecoder::new(BufReader::with_capacity(READ_BYTES, whole))),
        Packing::Xz => {
            let stream = Stream::new_stream_decoder(XZ_BYTES_MAX, CONCATENATED)?;
            Box::new(XzDecoder::new_stream(BufReader::with_capacity(READ_BYTES, whole), stream))
        }
        Packing::Zstd => {
            let buffered = BufReader::with_capacity(READ_BYTES, whole);
            let mut decoder = zstd::Decoder::with_buffer(buffered)?;
            decoder.window_log_max(WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
    };
    Ok(Unpacked { input, packing, count })
}

/// Compresses the data written to it.
pub(super) enum Packer<W: Write> {
    Plain(BufWriter<W>),
    Gzip(GzEncoder<W>),
    Xz(XzEncoder<W>),
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Packer<W> {
    pub fn new(out: W, packing: Packing) -> io::Result<Self> {
        Ok(match packing {
            Packing::Plain => Packer::Plain(BufWriter::new(out)),
            Packing::Gzip => Packer::Gzip(GzEncoder::new(out, flate2::Compression::default())),
            Packing::Xz => Packer::Xz(XzEncoder::new(out, 6)),
            Packing::Zstd => {
                let mut encoder = zstd::Encoder::new(out, 3)?;
                encoder.include_checksum(true)?;
                Packer::Zstd(encoder)
            }
        })
    }

    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Packer::Plain(out) => out.write_all(bytes),
            Packer::Gzip(out) => out.write_all(bytes),
            Packer::Xz(out) => out.write_all(bytes),
            Packer::Zstd(out) => out.write_all(bytes),
        }
    }

    /// Completes the archive, and returns the underlying writer.
    pub fn finish(self) -> io::Result<W> {
        let mut out = match self {
            Packer::Plain(out) => out.into_inner().map_err(io::IntoInnerError::into_error)?,
            Packer::Gzip(out) => out.finish()?,
            Packer::Xz(out) => out.finish()?,
            Packer::Zstd(out) => out.finish()?,
        };
        out.flush()?;
        Ok(out)
    }
}

/// Opens a regular file; `None` for other files. Checked before opening, because opening a pipe without a
/// writer blocks indefinitely.
pub fn open_regular(path: &Path) -> io::Result<Option<(File, u64)>> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Ok(None);
    }
    Ok(Some((File::open(path)?, metadata.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(packing: Packing, bytes: &[u8]) -> Vec<u8> {
        let mut packer = Packer::new(Vec::new(), packing).unwrap();
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    fn unpacked(bytes: Vec<u8>) -> io::Result<(Packing, Vec<u8>)> {
        let mut unpacked = unpack(Cursor::new(bytes))?;
        let mut out = Vec::new();
        unpacked.input.read_to_end(&mut out)?;
        Ok((unpacked.packing, out))
    }

    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 1u64;
        (0..bytes)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect()
    }

    // Large traces are compressed in parts; a reader that stops after the first would silently lose the rest.
    #[test]
    fn archives_of_several_parts_are_one_file() {
        for packing in [Packing::Plain, Packing::Gzip, Packing::Xz, Packing::Zstd] {
            let (first, second) = (noise(300_000), b"the end".to_vec());
            let both = [packed(packing, &first), packed(packing, &second)].concat();
            assert_eq!(unpacked(both).unwrap(), (packing, [first, second].concat()));
            assert_eq!(unpacked(packed(packing, b"")).unwrap().1, b"");
        }
    }

    // A partial download would be replayed as if it were complete.
    #[test]
    fn what_is_cut_short_or_damaged_is_an_error() {
        for packing in [Packing::Gzip, Packing::Xz, Packing::Zstd] {
            let whole = packed(packing, &noise(300_000));
            for end in [9, whole.len() / 2, whole.len() - 1] {
                assert!(unpacked(whole[..end].to_vec()).is_err(), "{packing:?} {end}");
            }
            let mut damaged = whole;
            let middle = damaged.len() / 2;
            damaged[middle] ^= 0x10;
            assert!(unpacked(damaged).is_err(), "{packing:?}");
        }
    }

    // A few bytes could otherwise allocate gigabytes.
    #[test]
    fn a_window_beyond_the_limit_is_refused() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(WINDOW_LOG_MAX + 1).unwrap();
        encoder.write_all(b"x").unwrap();
        assert!(unpacked(encoder.finish().unwrap()).is_err());
        let mut options = liblzma::stream::LzmaOptions::new_preset(0).unwrap();
        options.dict_size(256 << 20);
        let mut filters = liblzma::stream::Filters::new();
        filters.lzma2(&options);
        let stream = Stream::new_stream_encoder(&filters, liblzma::stream::Check::Crc32).unwrap();
        let mut encoder = XzEncoder::new_stream(Vec::new(), stream);
        encoder.write_all(b"x").unwrap();
        let error = unpacked(encoder.finish().unwrap()).unwrap_err();
        assert!(error.to_string().contains("memory limit"), "{error}");
    }
}
