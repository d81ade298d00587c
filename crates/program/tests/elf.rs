//! Extraction of instructions from object files.

use byteway_program::assemble::*;
use byteway_program::elf::{ElfError, FileError, instructions, verified, verified_as};

/// A section header: type, flags, offset, length, and the index of a related section.
fn section(kind: u32, flags: u64, (offset, bytes): (u64, u64), info: u32) -> Vec<u8> {
    let mut header = vec![0; 64];
    header[4..8].copy_from_slice(&kind.to_le_bytes());
    header[8..16].copy_from_slice(&flags.to_le_bytes());
    header[24..32].copy_from_slice(&offset.to_le_bytes());
    header[32..40].copy_from_slice(&bytes.to_le_bytes());
    header[44..48].copy_from_slice(&info.to_le_bytes());
    header
}

/// An object file with `data` at offset 64, followed by these section headers.
fn object(data: &[u8], sections: &[Vec<u8>]) -> Vec<u8> {
    let mut file = vec![0; 64];
    file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    file[16] = 1; // relocatable
    file[18..20].copy_from_slice(&247_u16.to_le_bytes());
    file[40..48].copy_from_slice(&(64 + data.len() as u64).to_le_bytes());
    file[58..60].copy_from_slice(&64_u16.to_le_bytes());
    file[60..62].copy_from_slice(&(sections.len() as u16).to_le_bytes());
    file.extend_from_slice(data);
    sections.iter().for_each(|section| file.extend_from_slice(section));
    file
}

fn code() -> Vec<u8> {
    assemble(&[mov(R0, 1), exit()])
}

/// The typical sections of a compiler: an empty one, names, an empty section of instructions, the function.
fn compiled() -> Vec<u8> {
    let code = code();
    object(
        &code,
        &[
            section(0, 0, (0, 0), 0),
            section(3, 0, (0, 4), 0),
            section(1, 6, (64, 0), 0),
            section(1, 6, (64, 16), 0),
        ],
    )
}

/// A symbol of the first section: kind, binding, value and size.
fn symbol(kind: u8, binding: u8, value: u64, bytes: u64) -> Vec<u8> {
    let mut symbol = vec![0; 24];
    symbol[4] = binding << 4 | kind;
    symbol[8..16].copy_from_slice(&value.to_le_bytes());
    symbol[16..24].copy_from_slice(&bytes.to_le_bytes());
    symbol
}

// A helper that stood before the function was run in its place, and its results were taken for the function's.
#[test]
fn a_helper_is_not_taken_for_the_function() {
    let two = assemble(&[mov(R0, 1), exit(), mov(R0, 2), exit()]);
    let of = |symbols: &[Vec<u8>]| {
        let symbols = symbols.concat();
        let data = [&two[..], &symbols].concat();
        object(&data, &[section(1, 6, (64, 32), 0), section(2, 0, (96, symbols.len() as u64), 0)])
    };
    let (first, second) = (symbol(2, 1, 0, 16), symbol(2, 1, 16, 16));
    assert_eq!(instructions(&of(std::slice::from_ref(&second))), Ok(&two[16..]));
    assert_eq!(
        instructions(&of(&[symbol(2, 0, 0, 16), second.clone()])),
        Ok(&two[16..]),
        "others can't call it"
    );
    assert_eq!(instructions(&of(&[symbol(1, 1, 0, 16), second.clone()])), Ok(&two[16..]), "it is data");
    assert_eq!(instructions(&of(&[first, second])), Err(ElfError::Functions(2)));
    assert_eq!(instructions(&of(&[])), Ok(&two[..]), "without symbols");
    let cut_off = ElfError::CutOff("instructions of its function");
    assert_eq!(instructions(&of(&[symbol(2, 1, 16, 24)])), Err(cut_off));
    assert_eq!(instructions(&of(&[symbol(2, 1, u64::MAX, 8)])), Err(cut_off));
}

// A program for streams was taken for one that chooses victims, and what it returned for a choice.
#[test]
fn a_function_says_by_its_name_what_it_is_for() {
    let code = [mov(R0, 1), exit()];
    let file = byteway_program::assemble::object("victim", &code);
    assert_eq!(instructions(&file), Ok(&assemble(&code)[..]));
    assert_eq!(verified_as(&file, "victim"), verified(&assemble(&code)));
    let purpose = |found: &str| Err(FileError::Purpose { found: found.to_owned(), expected: "victim" });
    let named = |name: &str| verified_as(&byteway_program::assemble::object(name, &code), "victim");
    assert_eq!(named("stream"), purpose("stream"));
    assert_eq!(named("victims"), purpose("victims"));
    assert_eq!(named("a\n\u{e9}"), purpose("a???"), "any bytes may be there");
    assert_eq!(named(&"x".repeat(1000)), purpose(&"x".repeat(64)));
    for nameless in [named(""), verified_as(&compiled(), "victim")] {
        assert_eq!(nameless, Err(FileError::Nameless("victim")));
    }
    // Bare instructions have no names.
    assert_eq!(verified_as(&assemble(&code), "victim"), verified(&assemble(&code)));
    for at in 0..file.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut wrong = file.clone();
            wrong[at] = value;
            let _ = verified_as(&wrong, "victim");
        }
        assert!(verified_as(&file[..at], "victim").is_err(), "{at} bytes");
    }
}

// Instructions of the wrong section would be another program; unresolved relocations would access the wrong addresses.
#[test]
fn the_one_function_is_found() {
    assert_eq!(instructions(&compiled()), Ok(&code()[..]));
    let none = object(&[], &[section(1, 2, (0, 8), 0)]);
    assert_eq!(instructions(&none), Err(ElfError::Sections(0)));
    let of = |more: Vec<u8>| object(&code(), &[section(1, 6, (64, 16), 0), more]);
    assert_eq!(instructions(&of(section(1, 6, (64, 8), 0))), Err(ElfError::Sections(2)));
    assert_eq!(instructions(&of(section(9, 0, (64, 16), 0))), Err(ElfError::Relocated));
    assert_eq!(instructions(&of(section(4, 0, (64, 16), 0))), Err(ElfError::Relocated));
    // A section that relates to another one or to none, such as unwind tables.
    assert_eq!(instructions(&of(section(9, 0, (64, 16), 1))), Ok(&code()[..]));
    assert_eq!(instructions(&of(section(9, 0, (64, 0), 0))), Ok(&code()[..]));
}

// Users pass arbitrary files: truncated ones, other machines or overflowing numbers must be refused without an access beyond the end.
#[test]
fn files_that_lie_are_refused() {
    let whole = compiled();
    for length in 0..whole.len() {
        assert!(instructions(&whole[..length]).is_err(), "{length} bytes");
    }
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut wrong = whole.clone();
            wrong[at] = value;
            let _ = instructions(&wrong);
        }
    }
    for (at, what) in [(4, "class"), (5, "order"), (18, "machine")] {
        let mut wrong = whole.clone();
        wrong[at] ^= 3;
        assert_eq!(instructions(&wrong), Err(ElfError::Kind), "{what}");
    }
    let huge = object(&code(), &[section(1, 6, (u64::MAX - 4, 16), 0)]);
    assert_eq!(instructions(&huge), Err(ElfError::CutOff("instructions")));
    let mut far = whole;
    far[40..48].fill(0xff);
    assert_eq!(instructions(&far), Err(ElfError::CutOff("section headers")));
}
