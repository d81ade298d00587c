//! Detection of a trace's format by its first lines, or by the first records of a binary one.
//!
//! Every text format is matched against each of the first lines, and the format with the most matches is
//! selected. Formats that could match the same line exclude each other: DiskSim's times have a decimal point,
//! MQSim's have none. A binary format must find all of the first records plausible: version, times,
//! references. A tie is an error.

use super::buffer::LINE_BYTES_MAX;
use super::format::field::shown;
use super::format::{Columns, Format, is_blktrace};
use byteway_text::error::{InputError, SourceLocation};

/// Bytes of a file used for detection.
pub(super) const DETECT_BYTES: usize = 64 << 10;
const DETECT_LINES: usize = 20;
const DETECT_RECORDS: usize = 64;

/// The formats with the most matches in `head`, the beginning of a file.
fn candidates(head: &[u8]) -> Vec<Format> {
    if is_blktrace(head) {
        return vec![Format::Blktrace];
    }
    let mut votes = [0usize; Format::ALL.len()];
    for line in lines(head).map(|(_, line)| line).take(DETECT_LINES) {
        for (count, format) in votes.iter_mut().zip(Format::ALL) {
            *count += usize::from(format.votes(line));
        }
    }
    // The header of a fio log or of named columns decides, and occurs once.
    if let Some(log) = [Format::Iolog2, Format::Iolog3]
        .into_iter()
        .find(|format| lines(head).next().is_some_and(|(_, line)| format.votes(line)))
    {
        return vec![log];
    }
    if header(head).is_some() {
        return vec![Format::Columns];
    }
    // Text contains no zero bytes; binary numbers are full of them.
    if votes.iter().all(|count| *count == 0) && head.contains(&0) {
        for (count, format) in votes.iter_mut().zip(Format::ALL) {
            // A version and an operation code in each record are stronger evidence than ordered times and
            // references.
            let weight = if format == Format::OracleGeneral { 1 } else { 2 };
            *count = weight * usize::from(plausible(format, head));
        }
    }
    let most = votes.iter().copied().max().unwrap_or(0);
    let chosen = votes.iter().zip(Format::ALL).filter(|(count, _)| **count > 0 && **count == most);
    chosen.map(|(_, format)| format).collect()
}

/// Whether all of the first records are plausible.
fn plausible(format: Format, head: &[u8]) -> bool {
    let Some(bytes) = format.spec().record_bytes else { return false };
    let mut latest = 0;
    let records = head.chunks_exact(bytes).take(DETECT_RECORDS);
    let count = records.len();
    for (index, record) in records.enumerate() {
        match format.plausible(record, index as u64, latest) {
            Some(time) => latest = time,
            None => return false,
        }
    }
    count > 0
}

/// The columns named by the first line, or by a comment before it.
pub(super) fn header(head: &[u8]) -> Option<Columns> {
    for line in head.split(|byte| *byte == b'\n') {
        let line = without_mark(&line[..line.len().min(LINE_BYTES_MAX)]).trim_ascii();
        let names = line.strip_prefix(b"#");
        let columns = Columns::of_header(names.unwrap_or(line).trim_ascii());
        if columns.is_some() || (names.is_none() && !line.is_empty()) {
            return columns;
        }
    }
    None
}

/// The text with every number brought into range: without its sign, and with at most nine digits.
fn tamed(head: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(head.len());
    let mut digits = 0;
    for (at, byte) in head.iter().enumerate() {
        let begins = |byte: Option<&u8>| byte.is_none_or(|byte| !byte.is_ascii_alphanumeric());
        let is_sign = *byte == b'-'
            && begins(at.checked_sub(1).map(|before| &head[before]))
            && head.get(at + 1).is_some_and(u8::is_ascii_digit);
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        if !is_sign && digits <= 9 {
            out.push(*byte);
        }
    }
    out
}

/// The lines that are neither empty nor comments, with their numbers from 1.
pub(super) fn lines(head: &[u8]) -> impl Iterator<Item = (usize, &[u8])> + Clone {
    let all = head.split(|byte| *byte == b'\n').enumerate();
    all.filter_map(|(index, line)| {
        let line = without_mark(&line[..line.len().min(LINE_BYTES_MAX)]).trim_ascii();
        (!line.is_empty() && line[0] != b'#').then_some((index + 1, line))
    })
}

/// The line without a byte order mark.
pub(super) fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// Known file types that are not traces: signature, offset, description.
const FOREIGN: [(usize, &[u8], &str); 4] = [
    (257, b"ustar", "a tar archive: unpack it and name a file in it"),
    (0, b"BZh", "packed by bzip2: pack it by gzip, xz or zstd, or not at all"),
    (0, b"PK\x03\x04", "a zip archive: unpack it"),
    (0, b"PAR1", "a Parquet file, which no trace format is"),
];

/// Detects the format of the trace `name` that begins with `head`.
pub(super) fn detect(head: &[u8], name: &str) -> Result<Format, InputError> {
    if let [format] = candidates(head)[..] {
        return Ok(format);
    }
    let place = |line| SourceLocation { source: name.to_owned(), position: Some((line, 1)), excerpt: None };
    let names =
        |formats: &[Format]| formats.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ");
    let force = "with `format = \"...\"` in a scenario, or --from on the command line";
    if let several @ [_, _, ..] = &candidates(head)[..] {
        let what = format!("the trace `{name}` can be of several formats: {}", names(several));
        return Err(InputError::new(what, format!("name its format, {force}")));
    }
    if let Some((_, _, what)) =
        FOREIGN.iter().find(|(at, magic, _)| head.get(*at..).is_some_and(|rest| rest.starts_with(magic)))
    {
        let (is, help) = what.split_once(": ").unwrap_or((what, "name another file"));
        return Err(InputError::new(format!("the trace `{name}` is {is}"), help));
    }
    // An address of -1, or of 2^64 - 1, is reported as such by the format that the line has without it.
    if let [format] = candidates(&tamed(head))[..]
        && format.is_text()
    {
        return Ok(format);
    }
    let Some((line, text)) = lines(head).next() else {
        let what = format!("the trace `{name}` has no record in its first {} KiB", DETECT_BYTES >> 10);
        return Err(InputError::new(what, "name a trace that is not empty, or its `format`"));
    };
    let what =
        format!("cannot tell the format of the trace: `{}` is not a record of any known format", shown(text));
    let help = format!(
        "a line of MQSim or SSDSim reads `{}`, one of MSR Cambridge `{}`; the formats are {}; force one {force}, and \
         skip broken lines with --skip-bad-lines",
        Format::Mqsim.spec().shape,
        Format::Msr.spec().shape,
        names(&Format::ALL)
    );
    let help =
        format!("{help}; or name the columns, as in `columns = \"time_us,op,offset,bytes\"` or --columns");
    Err(InputError::new(what, help).at(place(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(head: impl AsRef<[u8]>) -> Result<Format, InputError> {
        detect(head.as_ref(), "t.trace")
    }

    // A wrong guess would silently replay nonsense.
    #[test]
    fn every_text_format_is_told_by_its_lines() {
        let examples = [
            ("938513000 4 264719034 16 0\n", Format::Mqsim),
            ("0.000000 0 264719034 16 1\n", Format::Disksim),
            ("128166372003061629,hm,1,Read,383496192,32768,413\r\n", Format::Msr),
            ("419,W,8792731648,16384,1577808144360767\n", Format::Alibaba),
            ("1538323200,12910952,128,0,1063\n", Format::Tencent),
            (
                "Timestamp,Response,IOType,LUN,Offset,Size\n1455592022.04,0.001,R,3,157253447680,4096\n",
                Format::Systor,
            ),
            ("89968195792462 20782 gzip 283193184 8 R 6 0 56f11b711d91a065a2b6458eca924523\n", Format::Fiu),
            ("  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]\n", Format::Blkparse),
            ("0,21741712,24576,R,0.000774\n", Format::Spc),
            ("128166372003061629,hm,1,R,383496192,32768,413\n", Format::Msr),
            ("version,time,op,size,lbn\n1,5633898,2a,512,42932745\n", Format::CloudPhysics),
            ("1,5633898,28,512,42932745\n", Format::CloudPhysics),
            ("0.000004001 supervise 1950 xvda1 W 13092560 4096 0.74\n", Format::Biosnoop),
            (
                "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  QUE(ms) LAT(ms)\n\
                 1.000021    Web Content    71      nvme0n1   R 4096       512      -1.000   0.084\n",
                Format::Biosnoop,
            ),
            ("time_us,op,offset,bytes\n1,R,0,512\n", Format::Columns),
            ("fio version 2 iolog\n/dev/sda add\n", Format::Iolog2),
            ("fio version 3 iolog\n0 /dev/sda add\n", Format::Iolog3),
        ];
        for (text, format) in examples {
            assert_eq!(detected(text).unwrap(), format, "{text}");
            assert_eq!(detected(format!("\u{feff}# a comment\n\n{text}")).unwrap(), format, "{text}");
        }
    }

    // Without its unit and its columns such a file was refused, though its first line says both.
    #[test]
    fn a_comment_may_name_the_columns() {
        let named = |head: &str| header(head.as_bytes()).map(|columns| columns.to_string());
        let columns = Some("time_ms,op,offset,size".to_owned());
        for (head, found) in [
            ("# timestamp (ms), op type, offset, size\n0,R,4096,8192\n", columns.clone()),
            (
                "\u{feff}\n# made by x, y, z\n#timestamp (ms),op,offset,size\r\n0,R,4096,8192\n",
                columns.clone(),
            ),
            ("timestamp (ms),op,offset,size\n0,R,4096,8192\n", columns),
            ("0,R,4096,8192\n# timestamp (ms), op type, offset, size\n", None),
            ("# timestamp, op type, offset, size\n0,R,4096,8192\n", None),
        ] {
            assert_eq!(named(head), found, "{head}");
            assert_eq!(detected(head).ok() == Some(Format::Columns), found.is_some(), "{head}");
        }
    }

    // An address of -1 in the first record was "not a record of any known format".
    #[test]
    fn an_impossible_address_does_not_hide_the_format() {
        for address in
            ["-1", "-512", "18446744073709551615", "99999999999999999999999999", "9223372036854775807"]
        {
            for (line, format) in [
                (format!("938513000 4 {address} 16 0\n"), Format::Mqsim),
                (format!("0.000000 0 {address} 16 1\n"), Format::Disksim),
                (format!("128166372003061629,hm,1,Read,{address},32768,413\n"), Format::Msr),
                (format!("419,W,{address},16384,1577808144360767\n"), Format::Alibaba),
                (format!("0,{address},24576,R,0.000774\n"), Format::Spc),
                (format!("8,0 3 1 0.000000000 697 Q W {address} + 8 [kjournald]\n"), Format::Blkparse),
            ] {
                assert_eq!(detected(&line).unwrap(), format, "{line}");
                let mut reader = crate::Reader::new(
                    std::io::Cursor::new(line.clone()),
                    "t".to_owned(),
                    &Default::default(),
                )
                .unwrap();
                let error = reader.next_record().unwrap_err().to_string();
                let says = ["is negative", "is too large", "where addresses end"];
                assert!(says.iter().any(|what| error.contains(what)), "{line}: {error}");
                assert!(error.starts_with("t:1:1: not a record"), "{line}: {error}");
            }
        }
        assert!(detected("-1 what\n").is_err());
    }

    // A file with two formats in equal parts is ambiguous.
    #[test]
    fn a_tie_is_an_error_that_names_the_candidates() {
        let error = detected("1 0 8 8 1\n419,W,8192,512,7\n").unwrap_err();
        assert!(error.what.contains("mqsim, alibaba") && error.help.contains("--from"), "{error}");
        assert_eq!(detected("1 0 8 8 1\n419,W,8192,512,7\n2 0 8 8 1\n").unwrap(), Format::Mqsim);
    }

    // Its first bytes say what it is; a binary file without them must not be taken for it.
    #[test]
    fn blktrace_is_told_by_its_magic_number() {
        let mut event = [0; 48];
        event[..4].copy_from_slice(&[0x07, b't', b'a', b'e']);
        assert_eq!(detected(event).unwrap(), Format::Blktrace);
        event[..4].reverse();
        assert_eq!(detected(event).unwrap(), Format::Blktrace);
        event[1] = b'x';
        assert!(detected(event).is_err());
    }

    // An archive must be reported as an archive, not as an invalid record.
    #[test]
    fn what_is_no_trace_is_said_to_be_what_it_is() {
        let mut tar = vec![0; 1024];
        tar[257..262].copy_from_slice(b"ustar");
        assert!(detected(tar).unwrap_err().what.contains("a tar archive"));
        assert!(detected("BZh91AY").unwrap_err().help.contains("gzip"));
        assert!(detected("hello\n").unwrap_err().help.contains("oraclegeneral"));
        assert!(detected("").unwrap_err().what.contains("no record"));
        assert!(detected(vec![0; 4096]).is_err());
    }
}
