//! A paper with measurable claims, and how to measure each.

use std::path::Path;

use crate::claim::ClaimsFile;
use crate::error::Measured;
use crate::judgement::Measurement;
use crate::point::{Lengths, Points, Spec};
use byteway_report::Section;
use byteway_text::error::InputError;

/// A paper.
#[derive(Debug)]
pub struct Paper {
    /// Name in the user interface.
    pub name: &'static str,
    /// Subject, in a line.
    pub about: &'static str,
    /// Text of its claims file.
    pub claims: &'static str,
    /// Recipes for its claims, in parts, each from one file.
    pub recipes: &'static [&'static [Recipe]],
    /// Default lengths of points.
    pub lengths: Lengths,
    /// Points for the figures, in addition to those of the recipes.
    pub drawn: fn() -> Vec<Spec>,
    /// Redraws its figures; failed points are omitted.
    pub figures: fn(&Points) -> Vec<Section>,
    /// Points that are also run with as many payloads as in the paper, to judge whether a shorter run is
    /// representative.
    pub agreement: fn() -> Vec<Spec>,
}

/// Measurement of a claim.
#[derive(Debug)]
pub struct Recipe {
    /// Identifier of the claim.
    pub id: &'static str,
    /// The points to run.
    pub points: fn() -> Vec<Spec>,
    /// Computes the measurement.
    ///
    /// # Errors
    /// One of the points failed.
    pub measure: fn(&Points) -> Measured<Measurement>,
}

impl Paper {
    /// Reads its claims from a file, or else the built-in ones.
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

    pub(crate) fn all_recipes(&self) -> impl Iterator<Item = &'static Recipe> + use<> {
        self.recipes.iter().copied().flatten()
    }

    /// The recipe of a claim.
    pub fn recipe(&self, id: &str) -> Option<&'static Recipe> {
        self.all_recipes().find(|recipe| recipe.id == id)
    }
}
