//! Policies in files: eBPF programs.

use byteway_program::elf::{self, ElfError, MAGIC};
use byteway_program::{Program, ProgramError};
use std::sync::Arc;

/// Why a file holds no policy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoProgram {
    /// Its instructions can't be found.
    #[error(transparent)]
    File(#[from] ElfError),
    /// They are not valid.
    #[error(transparent)]
    Instructions(#[from] ProgramError),
    /// What it answers, before there is a drive, is no policy's.
    #[error("{asked}, {answer}")]
    Answer {
        /// What it was asked, as the beginning of a sentence.
        asked: &'static str,
        /// What came of it.
        answer: String,
    },
}

/// Verifies a file with a program: an object file, or bare instructions.
///
/// # Errors
/// It needs a linker, or the verifier refuses it.
pub(in crate::policy) fn verified(file: &[u8]) -> Result<Arc<Program>, NoProgram> {
    let code = if file.starts_with(&MAGIC) { elf::instructions(file)? } else { file };
    Ok(Arc::new(Program::verify(code)?))
}
