//! Extracts the instructions from an object file that `clang --target=bpf -O2 -c` wrote: the executable section of a 64-bit little-endian
//! ELF file for eBPF. A file that needs a linker is refused: instructions with relocations (maps, global variables, calls of functions that
//! were not inlined) have no meaning on their own. If it has symbols, the program is the one function that others could call, and its name says what
//! it is for.

use crate::verify::{Program, ProgramError};

/// First bytes of an ELF file.
pub const MAGIC: [u8; 4] = *b"\x7fELF";
/// Machine type of eBPF.
const EM_BPF: u16 = 247;
/// Section types: program bits, relocations with and without addends.
const SHT_PROGBITS: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHT_STRTAB: u32 = 3;
const SHT_RELA: u32 = 4;
const SHT_REL: u32 = 9;
/// Flag of an executable section.
const SHF_EXECINSTR: u64 = 4;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
/// Kind of a symbol: a function. Binding of one that others can't call.
const STT_FUNC: u8 = 2;
const STB_LOCAL: u8 = 0;
/// Characters of a function's name in a message at most.
const NAME_SHOWN_MAX: usize = 64;

/// Why no instructions can be extracted from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// The file is of another kind.
    #[error("not a 64-bit little-endian ELF object for eBPF (compile with clang --target=bpf -c)")]
    Kind,
    /// A part extends beyond the end of the file.
    #[error("the file is truncated: its {0} lie beyond its end")]
    CutOff(&'static str),
    /// The number of sections with instructions is not one.
    #[error("the file has {0} sections with instructions, expected 1: put a single function into it")]
    Sections(usize),
    /// It is not known where the program begins.
    #[error(
        "the file has {0} functions, expected 1: make the others `static inline __attribute__((always_inline))`, so that they become a part of it"
    )]
    Functions(usize),
    /// The instructions need a linker.
    #[error(
        "the instructions have relocations: use no maps and no global variables, and make all functions but one `static inline __attribute__((always_inline))`"
    )]
    Relocated,
}

/// Why a file holds no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// Its instructions can't be found.
    #[error(transparent)]
    Object(#[from] ElfError),
    /// They are not valid.
    #[error(transparent)]
    Instructions(#[from] ProgramError),
    /// They are for something else.
    #[error("its function is `{found}`, expected `{expected}`: the name says what a program is for")]
    Purpose {
        /// The function's name, as it can be shown.
        found: String,
        /// The name that it should have.
        expected: &'static str,
    },
    /// It is not known what they are for.
    #[error("it names no function, expected `{0}`: keep the symbols of the object file")]
    Nameless(&'static str),
}

/// Verifies a file with a program: an object file, or bare instructions.
///
/// # Errors
/// It needs a linker, or the verifier refuses it.
pub fn verified(file: &[u8]) -> Result<Program, FileError> {
    let code = if is_object(file) { instructions(file)? } else { file };
    Ok(Program::verify(code)?)
}

/// The same of a program that is for one thing only, as the name of its function says. Bare instructions have no names, and are taken as they are.
///
/// # Errors
/// It is for something else, it does not say what it is for, it needs a linker, or the verifier refuses it.
pub fn verified_as(file: &[u8], expected: &'static str) -> Result<Program, FileError> {
    if !is_object(file) {
        return verified(file);
    }
    let function = function(file)?;
    match function.name {
        Some(name) if name == expected.as_bytes() => Ok(Program::verify(function.code)?),
        Some(name) => Err(FileError::Purpose { found: shown(name), expected }),
        None => Err(FileError::Nameless(expected)),
    }
}

/// Whether a file is an object file, and no bare instructions.
pub fn is_object(file: &[u8]) -> bool {
    file.starts_with(&MAGIC)
}

/// A name from a file that may hold anything.
fn shown(name: &[u8]) -> String {
    let printed = name
        .iter()
        .take(NAME_SHOWN_MAX)
        .map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '?' });
    printed.collect()
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    field(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    field(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    field(bytes, at).map(u64::from_le_bytes)
}

struct Section {
    kind: u32,
    flags: u64,
    offset: u64,
    bytes: u64,
    /// For a table of symbols: the index of the section with their names.
    link: u32,
    /// For a relocation section: the index of the section it applies to.
    info: u32,
}

impl Section {
    fn parse(header: &[u8]) -> Option<Section> {
        Some(Section {
            kind: u32_at(header, 4)?,
            flags: u64_at(header, 8)?,
            offset: u64_at(header, 24)?,
            bytes: u64_at(header, 32)?,
            link: u32_at(header, 40)?,
            info: u32_at(header, 44)?,
        })
    }
}

/// The one function of an object file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function<'f> {
    /// Its name, if the file has symbols.
    pub name: Option<&'f [u8]>,
    /// The bytes of its instructions.
    pub code: &'f [u8],
}

/// The bytes of an object file's instructions.
///
/// # Errors
/// As [`function`].
pub fn instructions(file: &[u8]) -> Result<&[u8], ElfError> {
    function(file).map(|function| function.code)
}

/// The function of an object file.
///
/// # Errors
/// Not an eBPF object file, truncated, not exactly one section of instructions, several functions, or relocations.
pub fn function(file: &[u8]) -> Result<Function<'_>, ElfError> {
    // Class 2 is 64 bits, data encoding 1 is little-endian.
    if file.get(..6) != Some(&[0x7f, b'E', b'L', b'F', 2, 1]) || u16_at(file, 18) != Some(EM_BPF) {
        return Err(ElfError::Kind);
    }
    let header = || {
        let start = usize::try_from(u64_at(file, 40)?).ok()?;
        let (size, count) = (usize::from(u16_at(file, 58)?), usize::from(u16_at(file, 60)?));
        let all = file.get(start..start.checked_add(size.checked_mul(count)?)?)?;
        (size >= SECTION_BYTES).then_some((all, size))
    };
    let (all, size) = header().ok_or(ElfError::CutOff("section headers"))?;
    let sections: Vec<Section> = all.chunks_exact(size).filter_map(Section::parse).collect();
    let is_code = |section: &Section| {
        section.kind == SHT_PROGBITS && section.flags & SHF_EXECINSTR != 0 && section.bytes > 0
    };
    let found: Vec<(usize, &Section)> =
        sections.iter().enumerate().filter(|(_, section)| is_code(section)).collect();
    let [(index, code)] = found[..] else { return Err(ElfError::Sections(found.len())) };
    let is_relocated = |section: &Section| {
        matches!(section.kind, SHT_REL | SHT_RELA) && section.info as usize == index && section.bytes > 0
    };
    if sections.iter().any(is_relocated) {
        return Err(ElfError::Relocated);
    }
    let code = part(file, code.offset, code.bytes).ok_or(ElfError::CutOff("instructions"))?;
    let mut functions = Vec::new();
    for table in sections.iter().filter(|section| section.kind == SHT_SYMTAB) {
        let symbols = part(file, table.offset, table.bytes).ok_or(ElfError::CutOff("symbols"))?;
        let global = symbols.chunks_exact(SYMBOL_BYTES).filter(|symbol| {
            let (kind, binding) = (symbol[4] & 0xf, symbol[4] >> 4);
            kind == STT_FUNC && binding != STB_LOCAL && u16_at(symbol, 6).map(usize::from) == Some(index)
        });
        let names = sections.get(table.link as usize).filter(|section| section.kind == SHT_STRTAB);
        let names = names.and_then(|names| part(file, names.offset, names.bytes)).unwrap_or_default();
        functions.extend(global.filter_map(|symbol| {
            Some((text_at(names, u32_at(symbol, 0)?), u64_at(symbol, 8)?, u64_at(symbol, 16)?))
        }));
    }
    match functions[..] {
        // Without symbols, all of it.
        [] => Ok(Function { name: None, code }),
        [(name, start, bytes)] => {
            let code = part(code, start, bytes).ok_or(ElfError::CutOff("instructions of its function"))?;
            Ok(Function { name, code })
        }
        _ => Err(ElfError::Functions(functions.len())),
    }
}

/// The text that begins at `at`, up to the zero behind it; `None` if it is empty, as that of a symbol without a name.
fn text_at(names: &[u8], at: u32) -> Option<&[u8]> {
    let text = names.get(at as usize..)?.split(|byte| *byte == 0).next()?;
    (!text.is_empty()).then_some(text)
}

fn part(bytes: &[u8], start: u64, length: u64) -> Option<&[u8]> {
    let start = usize::try_from(start).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(length).ok()?)?)
}
