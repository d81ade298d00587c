//! The list of papers with measurable claims.

use crate::paper::Paper;
use crate::{bandslim, byteexpress, espresso, nvmeof, pcie_ssd};
use byteway_text::error::{InputError, suggest};

/// All papers.
pub const PAPERS: [&Paper; 5] =
    [&byteexpress::PAPER, &bandslim::PAPER, &nvmeof::PAPER, &pcie_ssd::PAPER, &espresso::PAPER];

/// The paper with this name.
///
/// # Errors
/// The name is unknown.
pub fn paper(name: &str) -> Result<&'static Paper, InputError> {
    PAPERS.into_iter().find(|paper| paper.name == name).ok_or_else(|| {
        let names: Vec<&str> = PAPERS.iter().map(|paper| paper.name).collect();
        InputError::new(
            format!("no such paper: `{}`", byteway_text::units::excerpt(name)),
            suggest(name, &names),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // A mistake in a built-in claims file would otherwise be found by the first user.
    #[test]
    fn the_claims_of_all_papers_can_be_read() {
        for paper in PAPERS {
            let file = paper.read_claims(None).unwrap_or_else(|error| panic!("{error}"));
            let unused = paper.all_recipes().find(|r| file.claims.iter().all(|claim| claim.id != r.id));
            assert!(unused.is_none(), "a recipe for no claim: {unused:?}");
        }
        assert!(crate::paper("byteexpres").unwrap_err().help.contains("did you mean `byteexpress`"));
    }
}
