//! Events in the Chrome trace event format, written as JSON through a buffer.

use byteway_clock::{Awaited, Detail, SpanTrail, Stage, Time, Usage};
use std::io::{self, Write};

/// Size of the buffer, exceeded by at most one event.
const BUFFER_BYTES: usize = 64 << 10;

/// A string as JSON, with quotes.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Writes events.
pub struct Events {
    out: Box<dyn Write>,
    buffer: Vec<u8>,
    failure: Option<io::Error>,
    origin: Time,
    is_first: bool,
    /// A bit for each I/O that has a slice on some track: its next slice is linked to that one.
    linked: Vec<u64>,
}

impl Events {
    /// Writes to `out`.
    pub fn new(out: Box<dyn Write>) -> Self {
        Events {
            out,
            buffer: Vec::with_capacity(BUFFER_BYTES + 4096),
            failure: None,
            origin: Time::ZERO,
            is_first: true,
            linked: Vec::new(),
        }
    }

    /// Sets the instant that is 0 in the file.
    pub fn set_origin(&mut self, origin: Time) {
        self.origin = origin;
    }

    /// Names a process; viewers sort processes by `place`.
    pub fn name_process(&mut self, process: u32, name: &str, place: u32) {
        let name = quoted(name);
        self.put(|out, _| {
            write!(
                out,
                "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{process},\"args\":{{\"name\":{name}}}}}"
            )
        });
        self.put(|out, _| {
            write!(
                out,
                "{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{process},\"args\":{{\"sort_index\":{place}}}}}"
            )
        });
    }

    /// Names a thread. Threads are sorted by number; numbers are unique over all processes.
    pub fn name_thread(&mut self, process: u32, thread: u32, name: &str) {
        let name = quoted(name);
        self.put(|out, _| {
            write!(
                out,
                "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{process},\"tid\":{thread},\"args\":{{\"name\":{name}}}}}"
            )
        });
        self.put(|out, _| {
            write!(
                out,
                "{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{process},\"tid\":{thread},\
                 \"args\":{{\"sort_index\":{thread}}}}}"
            )
        });
    }

    /// A use of the resource that this thread represents, for these I/Os.
    pub fn usage(&mut self, process: u32, thread: u32, usage: &Usage<'_>, ios: &[u32]) {
        let link = match ios {
            [io] => Some((*io, self.link(*io))),
            _ => None,
        };
        self.put(|out, origin| {
            write!(
                out,
                "{{\"ph\":\"X\",\"name\":\"{}\",\"pid\":{process},\"tid\":{thread},\"ts\":",
                usage.what
            )?;
            us(out, usage.begin.since(origin).0)?;
            out.write_all(b",\"dur\":")?;
            us(out, usage.end.since(usage.begin).0)?;
            match link {
                Some((io, true)) => write!(out, ",\"bind_id\":{io},\"flow_in\":true,\"flow_out\":true")?,
                Some((io, false)) => write!(out, ",\"bind_id\":{io},\"flow_out\":true")?,
                None => {}
            }
            out.write_all(b",\"args\":{")?;
            let mut separator = "";
            match ios {
                [] => {}
                [io] => write!(out, "\"io\":{io}")?,
                [first, others @ ..] => {
                    write!(out, "\"ios\":[{first}")?;
                    others.iter().try_for_each(|io| write!(out, ",{io}"))?;
                    out.write_all(b"]")?;
                }
            }
            if !ios.is_empty() {
                separator = ",";
            }
            for (name, detail) in usage.details {
                match detail {
                    Detail::Number(number) => write!(out, "{separator}\"{name}\":{number}")?,
                    Detail::Word(word) => write!(out, "{separator}\"{name}\":\"{word}\"")?,
                }
                separator = ",";
            }
            out.write_all(b"}}")
        });
    }

    /// Whether the I/O has had a slice before; marks it.
    fn link(&mut self, io: u32) -> bool {
        let (word, bit) = ((io / 64) as usize, 1 << (io % 64));
        if self.linked.len() <= word {
            self.linked.resize(word + 1, 0);
        }
        let before = self.linked[word];
        self.linked[word] = before | bit;
        before & bit != 0
    }

    /// Begins an I/O; `arguments` are JSON without the braces.
    pub fn open(&mut self, process: u32, thread: u32, io: u32, what: &str, at: Time, arguments: &str) {
        self.edge('b', (process, thread, io), what, at, Some(arguments));
    }

    /// Ends an I/O.
    pub fn close(&mut self, process: u32, thread: u32, io: u32, what: &str, at: Time) {
        self.edge('e', (process, thread, io), what, at, None);
    }

    /// The stages of an I/O, including its wait from the due time until it could begin.
    pub fn stages(&mut self, process: u32, thread: u32, trail: &SpanTrail, due: Time) {
        let of = (process, thread, trail.io);
        let mut stage = |stage: Stage, wait: Option<Awaited>, begin: Time, end: Time| {
            let awaited = wait.map(|wait| format!("\"for\":\"{}\"", wait.name()));
            self.edge('b', of, stage.name(), begin, awaited.as_deref());
            self.edge('e', of, stage.name(), end, None);
        };
        if let Some(first) = trail.segments.first()
            && due < first.begin
        {
            stage(Stage::Queueing, Some(Awaited::Depth), due, first.begin);
        }
        for segment in &trail.segments {
            stage(segment.stage, segment.wait, segment.begin, segment.end);
        }
    }

    fn edge(
        &mut self,
        phase: char,
        (process, thread, io): (u32, u32, u32),
        name: &str,
        at: Time,
        arguments: Option<&str>,
    ) {
        self.put(|out, origin| {
            write!(
                out,
                "{{\"ph\":\"{phase}\",\"cat\":\"io\",\"id\":{io},\"name\":\"{name}\",\"pid\":{process},\"tid\":{thread},\"ts\":"
            )?;
            us(out, at.since(origin).0)?;
            match arguments {
                Some(arguments) => write!(out, ",\"args\":{{{arguments}}}}}"),
                None => out.write_all(b"}"),
            }
        });
    }

    /// Ends the file. `cut`: the time from which recording was incomplete.
    pub fn end(&mut self, ios: u64, measured: u64, cut: Option<Time>) {
        let origin = self.origin;
        let version = env!("CARGO_PKG_VERSION");
        let opening = if std::mem::take(&mut self.is_first) { "{\"traceEvents\":[" } else { "" };
        let mut end = || {
            let out = &mut self.buffer;
            write!(
                out,
                "{opening}\n],\"displayTimeUnit\":\"ns\",\"otherData\":{{\"byteway\":\"{version}\",\"ios\":{ios},\
                 \"measured_ios\":{measured},\"complete\":{}",
                cut.is_none()
            )?;
            if let Some(cut) = cut {
                out.write_all(b",\"complete_until_us\":")?;
                us(out, cut.since(origin).0)?;
            }
            out.write_all(b"}}\n")
        };
        let ended: io::Result<()> = end();
        self.keep(ended);
        self.drain();
        if self.failure.is_none() {
            let flushed = self.out.flush();
            self.keep(flushed);
        }
    }

    /// Whether everything could be written.
    ///
    /// # Errors
    /// The first failure.
    pub fn outcome(&mut self) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Appends an event.
    fn put(&mut self, event: impl FnOnce(&mut Vec<u8>, Time) -> io::Result<()>) {
        if self.failure.is_some() {
            return;
        }
        let before: &[u8] = if std::mem::take(&mut self.is_first) { b"{\"traceEvents\":[\n" } else { b",\n" };
        self.buffer.extend_from_slice(before);
        let put = event(&mut self.buffer, self.origin);
        self.keep(put);
        if self.buffer.len() >= BUFFER_BYTES {
            self.drain();
        }
    }

    fn drain(&mut self) {
        if self.failure.is_none() {
            let written = self.out.write_all(&self.buffer);
            self.keep(written);
        }
        self.buffer.clear();
    }

    fn keep(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
    }
}

/// Picoseconds as microseconds, exactly.
fn us(out: &mut Vec<u8>, ps: u64) -> io::Result<()> {
    write!(out, "{}.{:06}", ps / 1_000_000, ps % 1_000_000)
}
