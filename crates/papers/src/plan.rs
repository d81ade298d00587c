//! The plan of a reproduction: which points run, and how long.

use crate::claim::ClaimsFile;
use crate::paper::Paper;
use crate::point::{Lengths, PAYLOADS_FULL, Spec};
use crate::reproduction::Reproduction;
use crate::work::{ReproduceOptions, specs, twice, work};
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Points;

/// How long each point runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunLength {
    /// The paper's default, which takes minutes.
    #[default]
    Default,
    /// A million PUTs per point of a key-value drive, as in the papers.
    Full,
    /// This number of payloads or PUTs per point, at least 1.
    Payloads(u64),
}

/// All points of a reproduction, ready to run.
pub struct ReproducePlan {
    paper: &'static Paper,
    file: ClaimsFile,
    specs: Vec<Spec>,
    /// Points that run twice.
    pairs: usize,
    lengths: Lengths,
    others: Lengths,
}

impl ReproducePlan {
    /// The points that the claims need, and with `figures` those of the paper's figures only.
    ///
    /// # Errors
    /// There are no claims.
    pub fn new(
        paper: &'static Paper,
        file: ClaimsFile,
        length: RunLength,
        figures: bool,
    ) -> Result<ReproducePlan, InputError> {
        if file.claims.is_empty() {
            return Err(InputError::new(
                "the claims file has no claims",
                "add `[[claim]]` to the claims file",
            ));
        }
        let specs = specs(paper, &file.claims, figures);
        let pairs = twice(paper, &specs).len();
        let lengths = match length {
            RunLength::Default => paper.lengths,
            RunLength::Full => Lengths { puts: PAYLOADS_FULL, ..paper.lengths },
            RunLength::Payloads(payloads) => Lengths::all(payloads),
        };
        // Some points also run with many more payloads, or fewer, to check that their number does not matter.
        let more = |payloads: u64| (payloads * 100).min(PAYLOADS_FULL);
        let others = match length {
            RunLength::Full => Lengths { payloads: PAYLOADS_FULL, puts: paper.lengths.puts },
            _ => Lengths { payloads: more(lengths.payloads), puts: more(lengths.puts) },
        };
        Ok(ReproducePlan { paper, file, specs, pairs, lengths, others })
    }

    /// Number of points to run, for a progress display.
    pub fn points(&self) -> usize {
        self.specs.len() + self.pairs
    }

    /// Runs all points, several in parallel, and judges the claims. The result does not depend on `threads`.
    pub fn run(self, threads: usize, interrupt: &Interrupt, bar: &dyn Points) -> Reproduction {
        let ReproducePlan { paper, file, specs, pairs, lengths, others } = self;
        let options = ReproduceOptions { lengths, others, threads, interrupt, bar };
        let (points, agreements) = work(paper, &specs, &options);
        let is_unpaired = agreements.len() < pairs && interrupt.is_raised();
        Reproduction { is_unpaired, ..Reproduction::new(paper, file, lengths, points, agreements) }
    }
}
