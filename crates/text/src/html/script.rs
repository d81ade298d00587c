//! The chart library in a report: Plotly's published build for Cartesian charts, compressed.
//!
//! `assets/README.md` has its source. It stays compressed in the report and is inflated by the browser, which
//! saves two thirds of a report's size. The bytes are those of the asset, so that no version of a compressor
//! can change a report.

/// The script, compressed by gzip (RFC 1952).
const PACKED: &[u8] = include_bytes!("../../assets/plotly-cartesian-4.1.1.min.js.gz");

/// Inflates the script in the browser: `fflate.gunzipSync`.
pub const INFLATE: &str = include_str!("../../assets/fflate-gunzip-0.8.2.min.js");

/// Licence notice in the source of the page.
pub const NOTICE: &str = "plotly.js (cartesian - minified) v4.1.1, compressed. Copyright 2012-2026, Plotly, Inc. \
                                 Licensed under the MIT license.";

/// Writes the compressed script in base 64 (RFC 4648, 4).
pub fn write(out: &mut String) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.reserve(PACKED.len().div_ceil(3) * 4);
    for group in PACKED.chunks(3) {
        let byte = |at: usize| group.get(at).map_or(0, |byte| u32::from(*byte));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            // A group of n bytes has n + 1 digits; padding replaces the rest.
            out.push(match digit <= group.len() {
                true => char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]),
                false => '=',
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    // A replaced or truncated asset would be found only by the reader of a report.
    #[test]
    fn the_script_is_the_one_that_the_notice_names() {
        let mut script = String::new();
        flate2::read::GzDecoder::new(PACKED).read_to_string(&mut script).unwrap();
        assert_eq!(script.len(), 1_500_041);
        assert!(script.starts_with("/**\n* plotly.js (cartesian - minified) v4.1.1\n"));
        assert!(NOTICE.starts_with("plotly.js (cartesian - minified) v4.1.1"));
        // The page's policy forbids these: they would cause an error in the browser.
        for forbidden in ["new Function(", "eval("] {
            assert!(!script.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn base_64_is_padded_to_whole_groups() {
        let mut out = String::new();
        write(&mut out);
        assert_eq!(out.len(), PACKED.len().div_ceil(3) * 4);
        assert!(out.starts_with("H4sI"), "the magic number of gzip");
        assert_eq!(out.bytes().rev().take_while(|byte| *byte == b'=').count(), (3 - PACKED.len() % 3) % 3);
    }
}
