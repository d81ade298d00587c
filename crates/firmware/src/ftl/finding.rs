//! What damage of a medium has lost, and other defects of a map.

/// A defect of the map. Units are numbered over the array, logical units from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disagreement {
    /// A translation page is damaged, or not at the address in the root.
    #[error(
        "translation page {page} {}: {lost} of the logical units {first} to {last} are lost and read as errors; write \
         them again, or restore the directory from a copy",
        if *is_damaged { format!("in unit {unit} is damaged") }
        else { format!("is not in unit {unit}, where the root says, nor anywhere else") }
    )]
    Page {
        /// Number of the page.
        page: u32,
        /// Its address.
        unit: u64,
        /// Whether it is there.
        is_damaged: bool,
        /// First logical unit that it covers.
        first: u64,
        /// Last logical unit that it covers.
        last: u64,
        /// Units without a later version.
        lost: u64,
    },
    /// Units that an earlier start found to be lost.
    #[error(
        "logical units {first} to {last} are lost since an earlier start and read as errors; write them again, from a \
         copy"
    )]
    StillLost {
        /// First logical unit.
        first: u64,
        /// Last logical unit.
        last: u64,
    },
    /// The version that a translation page refers to does not exist, and no newer one has replaced it.
    #[error(
        "logical unit {lpa}: its translation page says unit {unit}, which {holds}, and no newer version exists; it reads \
         as an error: write it again, from a copy"
    )]
    Lost {
        /// The logical unit.
        lpa: u64,
        /// Address according to the translation page.
        unit: u64,
        /// Content of that unit.
        holds: UnitContent,
    },
    /// The map leads to another unit's data.
    #[error("logical unit {lpa}: the map says unit {unit}, which {holds}; write it again, from a copy")]
    Place {
        /// The logical unit.
        lpa: u64,
        /// Address according to the map.
        unit: u64,
        /// Content of that unit.
        holds: UnitContent,
    },
    /// The map leads to an older version than exists.
    #[error(
        "logical unit {lpa}: the map says unit {unit}, and unit {newer} holds a later version; this is a \
         defect of Byteway"
    )]
    Older {
        /// The logical unit.
        lpa: u64,
        /// Address according to the map.
        unit: u64,
        /// Address of a later version.
        newer: u64,
    },
}

/// Content of a unit of the array, according to its spare area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitContent {
    /// The unit is not readable.
    Nothing,
    /// A version of this logical unit.
    Unit(u64),
}

impl std::fmt::Display for UnitContent {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            UnitContent::Nothing => write!(out, "holds nothing readable"),
            UnitContent::Unit(lpa) => write!(out, "belongs to logical unit {lpa}"),
        }
    }
}

/// What damage of the medium has lost, as found by a recovery.
#[derive(Clone, Debug, Default)]
pub(in crate::ftl) struct Losses {
    /// Pages and units, by rising number.
    pub(in crate::ftl) findings: Vec<Disagreement>,
    /// Units in all.
    pub(in crate::ftl) units: u64,
}
