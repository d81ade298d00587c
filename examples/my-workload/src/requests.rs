//! The trace format `requests`, of a log that some server of one's own writes: `at=1.5us write 0x2000+4096`.

use byteway::{FieldError, Kind, TraceFormat, TraceLine};

pub struct Requests;

impl TraceFormat for Requests {
    fn parse(&mut self, line: &str) -> Result<Option<TraceLine>, FieldError> {
        let mut words = line.split_whitespace();
        let time = words.next().ok_or_else(|| FieldError::missing("time"))?;
        // What the server says besides is no request.
        let Some(time) = time.strip_prefix("at=") else { return Ok(None) };
        let us: f64 = time
            .strip_suffix("us")
            .and_then(|us| us.parse().ok())
            .filter(|us| (0.0..1e15).contains(us))
            .ok_or_else(|| FieldError::of("time", time, "is not a time such as 1.5us"))?;
        let kind = match words.next().ok_or_else(|| FieldError::missing("operation"))? {
            "read" => Kind::Read,
            "write" => Kind::Write,
            "discard" => Kind::Trim,
            other => return Err(FieldError::of("operation", other, "is none of read, write and discard")),
        };
        let extent = words.next().ok_or_else(|| FieldError::missing("extent"))?;
        let (offset, bytes) = extent
            .strip_prefix("0x")
            .and_then(|extent| extent.split_once('+'))
            .and_then(|(offset, bytes)| Some((u64::from_str_radix(offset, 16).ok()?, bytes.parse().ok()?)))
            .ok_or_else(|| {
                FieldError::of("extent", extent, "is not an address and a length such as 0x2000+4096")
            })?;
        Ok(Some(TraceLine {
            time_ns: (us * 1000.0).round() as u64,
            device: 0,
            offset_bytes: offset,
            bytes,
            kind,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_requests_or_not() {
        let found = Requests.parse("at=1.5us write 0x2000+4096").unwrap().unwrap();
        assert_eq!(
            (found.time_ns, found.kind, found.offset_bytes, found.bytes),
            (1500, Kind::Write, 8192, 4096)
        );
        assert_eq!(Requests.parse("server started"), Ok(None));
        for (line, what) in [
            ("at=1.5 read 0x0+512", "the time `1.5` is not"),
            ("at=1us write", "the extent is missing"),
            ("at=1us copy 0x0+512", "the operation `copy` is none of"),
            ("at=1us read 2000+4096", "the extent `2000+4096` is not"),
        ] {
            assert!(Requests.parse(line).unwrap_err().to_string().contains(what), "{line}");
        }
    }
}
