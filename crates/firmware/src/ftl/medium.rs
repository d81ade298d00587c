//! The medium of a drive: new and in memory, or in files, where what it was made as is checked.

use super::base::{BaseState, Written};
use super::config::{Base, FtlConfig, FtlError};
use super::{Ftl, validate};
use byteway_flash::file::{Files, Format, OpenError, Opened, Tuning};
use byteway_flash::{Geometry, Medium};
use std::rc::Rc;
use std::sync::Arc;

/// Why there is no medium.
#[derive(Debug, thiserror::Error)]
pub enum MediumError {
    /// There can be no such drive.
    #[error(transparent)]
    Drive(#[from] FtlError),
    /// The files are not those of this drive.
    #[error(transparent)]
    Files(#[from] OpenError),
}

impl Ftl {
    /// A new medium of this shape, which holds the base state that `config` asks for.
    ///
    /// # Errors
    /// As [`Ftl::new`].
    pub fn medium(geometry: Geometry, config: &FtlConfig) -> Result<Medium, FtlError> {
        geometry.validate()?;
        validate(&geometry, config)?;
        let base = Rc::new(BaseState::new(geometry, config));
        let mut medium = Medium::new(geometry, Rc::new(Written(base)));
        config.factory_bad(&geometry).for_each(|block| medium.mark_bad(block));
        Ok(medium)
    }

    /// The medium that is kept in these files, or, if there are none, a new one. The files must be of a drive of this shape
    /// and capacity that began as `config` says.
    ///
    /// # Errors
    /// As [`Ftl::new`], or the files are another drive's, or damaged, or the system says no.
    pub fn open_medium(
        geometry: Geometry,
        config: &FtlConfig,
        files: Arc<dyn Files>,
        tuning: Tuning,
    ) -> Result<(Medium, Opened), MediumError> {
        geometry.validate().map_err(FtlError::from)?;
        validate(&geometry, config)?;
        let base = Rc::new(Written(Rc::new(BaseState::new(geometry, config))));
        let (mut medium, opened) = Medium::open(files, &format(geometry, config), base, tuning)?;
        if medium.is_new() {
            config.factory_bad(&geometry).for_each(|block| medium.mark_bad(block));
        }
        Ok((medium, opened))
    }
}

/// What must stay the same for what is in the files to be what the drive takes it for.
fn format(geometry: Geometry, config: &FtlConfig) -> Format {
    let base = match config.base {
        Base::Empty => "empty",
        Base::Filled => "filled",
        Base::Steady => "steady",
    };
    let mut traits = vec![("units", config.user_units.to_string()), ("precondition", base.to_owned())];
    if config.base != Base::Empty {
        // What it began with is not in the files, but follows from these.
        let region =
            |region: &super::Region| format!("{}:{}:{}", region.first_unit, region.tag, region.block.bytes());
        let regions: Vec<String> = config.regions.iter().map(region).collect();
        traits.push(("namespaces", regions.join(" ")));
    }
    if config.base == Base::Steady {
        traits.push(("seed", config.seed.to_string()));
        traits.push(("gc_reserve_blocks", config.gc_reserve_blocks.to_string()));
        if config.upkeep.set_aside() > 0 {
            traits.push(("blocks_set_aside", config.upkeep.set_aside().to_string()));
        }
    }
    let traits = traits.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Format { geometry, traits }
}
