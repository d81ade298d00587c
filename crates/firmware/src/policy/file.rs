//! Policies in files: eBPF programs.

use byteway_program::elf::FileError;

/// Why a file holds no policy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoProgram {
    /// It holds no program.
    #[error(transparent)]
    File(#[from] FileError),
    /// What it answers, before there is a drive, is no policy's.
    #[error("{asked}, {answer}")]
    Answer {
        /// What it was asked, as the beginning of a sentence.
        asked: &'static str,
        /// What came of it.
        answer: String,
    },
}
