//! The writer: records to a file of any format. Records that the format cannot represent are errors, or are
//! dropped and counted.

use std::io::{self, Write};

use super::archive::{Packer, Packing};
use super::format::{Pen, Spec};
use super::{Format, Record};
use crate::Kind;
use byteway_text::error::InputError;
use byteway_text::units::{Bytes, Picos};

/// Why a record was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The format cannot represent it.
    #[error(transparent)]
    Unfit(#[from] InputError),
    /// The output failed.
    #[error(transparent)]
    Output(#[from] std::io::Error),
}

/// Counts of dropped or rounded information.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Times rounded down to the format's resolution.
    pub times_rounded: u64,
    /// Trims omitted.
    pub trims: u64,
    /// Writes that became reads.
    pub directions: u64,
    /// Records of further devices, mapped to the first.
    pub devices: u64,
    /// Records widened to whole sectors or units.
    pub widened: u64,
}

/// Writes a trace record by record.
pub struct Writer<W: Write> {
    out: Packer<W>,
    format: Format,
    spec: &'static Spec,
    pen: Pen,
    text: Vec<u8>,
    lossy: bool,
    device: Option<u32>,
    records: u64,
    losses: Losses,
}

const TEXT_BYTES: usize = 64 << 10;

impl<W: Write> Writer<W> {
    /// Begins a trace. With `lossy`, what the format cannot represent is dropped and counted; otherwise it is
    /// an error.
    ///
    /// # Errors
    /// The output failed, or the format is one that is not built in: these are only read.
    pub fn new(out: W, format: Format, packing: Packing, lossy: bool) -> io::Result<Self> {
        if let Format::Own(own) = format {
            let what = format!("the format {} is only read", own.name());
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        let spec = format.spec();
        let mut text = Vec::with_capacity(2 * TEXT_BYTES);
        text.extend_from_slice(spec.header);
        Ok(Writer {
            out: Packer::new(out, packing)?,
            format,
            spec,
            pen: Pen::new(format),
            text,
            lossy,
            device: None,
            records: 0,
            losses: Losses::default(),
        })
    }

    /// Writes one record.
    ///
    /// # Errors
    /// The format cannot represent it, or the output failed.
    pub fn write(&mut self, record: &Record) -> Result<(), WriteError> {
        let Some(fitting) = self.fit(record)? else { return Ok(()) };
        let ticks = fitting.time_ps / self.spec.tick_ps;
        self.losses.times_rounded += u64::from(!fitting.time_ps.is_multiple_of(self.spec.tick_ps));
        if ticks > self.spec.ticks_max {
            return Err(self.unfit("its time is later", "shorten it with --head or --time-scale").into());
        }
        self.pen.write(&mut self.text, &fitting, ticks);
        self.records += 1;
        if self.text.len() >= TEXT_BYTES {
            self.out.write_all(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }

    /// The record as the format can represent it; `None` if it is omitted.
    fn fit(&mut self, record: &Record) -> Result<Option<Record>, InputError> {
        let (spec, mut fitting) = (self.spec, *record);
        let others = "choose another format with --to";
        if record.kind == Kind::Trim && !spec.trims {
            if !self.lossy {
                let help = format!(
                    "{others} (blkparse, iolog2, iolog3, biosnoop have them), or leave them out with --lossy"
                );
                return Err(self.unfit("it is a trim, and there are none", &help));
            }
            self.losses.trims += 1;
            return Ok(None);
        }
        if record.kind == Kind::Write && !spec.writes {
            if !self.lossy {
                let help = format!("{others}, or make them reads with --lossy");
                return Err(self.unfit("it is a write, and there is no direction", &help));
            }
            self.losses.directions += 1;
            fitting.kind = Kind::Read;
        }
        if !spec.devices && *self.device.get_or_insert(record.device) != record.device {
            if !self.lossy {
                let help = format!("pick one with --device, {others}, or merge all devices with --lossy");
                return Err(self.unfit("it is a second device, and there is only one", &help));
            }
            self.losses.devices += 1;
        }
        if let Some(whole) = self.align(record)? {
            (fitting.offset_bytes, fitting.bytes) = whole;
        } else {
            self.losses.trims += 1;
            return Ok(None);
        }
        if fitting.bytes > spec.bytes_max {
            let what = format!("its {} are more", Bytes(fitting.bytes));
            return Err(self.unfit(&what, others));
        }
        if fitting.offset_bytes >= spec.offset_end {
            let what = format!("its offset of {} is beyond", Bytes(fitting.offset_bytes));
            return Err(self.unfit(&what, others));
        }
        Ok(Some(fitting))
    }

    /// Offset and length in whole units; `None` for a trim of less than one.
    fn align(&mut self, record: &Record) -> Result<Option<(u64, u64)>, InputError> {
        let spec = self.spec;
        let end = record.offset_bytes + record.bytes;
        if record.offset_bytes.is_multiple_of(spec.offset_unit) && record.bytes.is_multiple_of(spec.size_unit)
        {
            return Ok(Some((record.offset_bytes, record.bytes)));
        }
        if !self.lossy {
            let what = format!(
                "its {} from byte {} are not multiples of {} B",
                Bytes(record.bytes),
                record.offset_bytes,
                spec.offset_unit
            );
            let help = "choose a format in bytes with --to (msr, alibaba, systor, iolog2, iolog3), or widen them with --lossy";
            return Err(self.unfit(&what, help));
        }
        // A widened trim would discard other data, so trims shrink instead.
        let (start, end) = match record.kind {
            Kind::Trim => (
                record.offset_bytes.next_multiple_of(spec.offset_unit),
                end / spec.size_unit * spec.size_unit,
            ),
            Kind::Read | Kind::Write => (
                record.offset_bytes / spec.offset_unit * spec.offset_unit,
                end.next_multiple_of(spec.size_unit),
            ),
        };
        if start >= end {
            return Ok(None);
        }
        self.losses.widened += 1;
        Ok(Some((start, end - start)))
    }

    fn unfit(&self, what: &str, help: &str) -> InputError {
        let what =
            format!("record {} does not fit in the format {}: {what}", self.records + 1, self.format.name());
        InputError::new(what, help)
    }

    /// Completes the trace; returns the output and the losses.
    pub fn finish(mut self) -> io::Result<(W, Losses)> {
        self.out.write_all(&self.text)?;
        Ok((self.out.finish()?, self.losses))
    }

    /// Records written so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Losses so far.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }
}

impl Losses {
    /// The losses in sentences, for a trace in this format.
    pub fn notes(&self, format: Format) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |count: u64, text: String| {
            if count > 0 {
                notes.push(format!("{count} {text}"));
            }
        };
        let spec = format.spec();
        let resolution = Picos(spec.tick_ps);
        note(
            self.times_rounded,
            format!("times were rounded down to the format's resolution of {resolution}"),
        );
        note(self.trims, "trims were left out: the format cannot hold them".to_owned());
        note(self.directions, "writes became reads: the format has no direction".to_owned());
        note(
            self.devices,
            "records of other devices were laid over the first: the format has no devices".to_owned(),
        );
        note(self.widened, format!("records were widened to whole units of {}", Bytes(spec.offset_unit)));
        if format == Format::OracleGeneral {
            notes.push(
                "the next access of an object is not known in a stream, and written as none".to_owned(),
            );
        }
        notes
    }
}
