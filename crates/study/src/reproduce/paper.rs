//! A paper whose claims can be measured, and how each is.

use std::path::Path;

use super::claim::ClaimsFile;
use super::error::Measured;
use super::point::{Lengths, Points, Spec};
use super::verdict::Measurement;
use crate::report::Section;
use byteway_console::error::InputError;

/// A paper.
#[derive(Debug)]
pub struct Paper {
    /// What the user calls it.
    pub name: &'static str,
    /// What it is about, in a line.
    pub about: &'static str,
    /// The text of its claims.
    pub claims: &'static str,
    /// How its claims are measured: parts, each of which is a file.
    pub recipes: &'static [&'static [Recipe]],
    /// How long points are unless the user says otherwise.
    pub lengths: Lengths,
    /// What its figures show beside what recipes need.
    pub drawn: fn() -> Vec<Spec>,
    /// Its figures, drawn anew. Of points that failed nothing is drawn.
    pub figures: fn(&Points) -> Vec<Section>,
    /// Points that are run with as many payloads as the paper has, too: whether a shorter run stands for them is judged.
    pub agreement: fn() -> Vec<Spec>,
}

/// How a claim is measured.
#[derive(Debug)]
pub struct Recipe {
    /// The claim's id.
    pub id: &'static str,
    /// What has to be run.
    pub points: fn() -> Vec<Spec>,
    /// What comes out of it.
    ///
    /// # Errors
    /// One of the points failed.
    pub measure: fn(&Points) -> Measured<Measurement>,
}

impl Paper {
    /// Its claims: those of the file, or else those of the program.
    ///
    /// # Errors
    /// The first mistake in them.
    pub fn read_claims(&self, file: Option<&Path>) -> Result<ClaimsFile, InputError> {
        let ids: Vec<&str> = self.all_recipes().map(|recipe| recipe.id).collect();
        match file {
            Some(path) => ClaimsFile::load(path, &ids),
            None => ClaimsFile::built_in(&format!("claims/{}.toml", self.name), self.claims, &ids),
        }
    }

    pub(super) fn all_recipes(&self) -> impl Iterator<Item = &'static Recipe> + use<> {
        self.recipes.iter().copied().flatten()
    }

    /// How a claim is measured.
    pub fn recipe(&self, id: &str) -> Option<&'static Recipe> {
        self.all_recipes().find(|recipe| recipe.id == id)
    }
}
