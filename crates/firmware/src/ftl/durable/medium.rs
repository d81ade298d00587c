//! Media of a drive: new ones in memory, and ones in files, whose parameters are checked. The names and
//! values in the file `format` are written by [`format()`] and read by [`told_by`].

use crate::ftl::base::{BaseState, Written};
use crate::ftl::config::{Base, FtlConfig, FtlError, Maintenance, Region, SteadyTiming};
use crate::ftl::space::Space;
use crate::ftl::validate::validate;
use byteway_clock::Delay;
use byteway_content::BlockSize;
use byteway_flash::file::{self, Files, Format, OpenError, OpenReport, Overlay, Tuning};
use byteway_flash::{Geometry, Medium, SlcTiming, Timing};
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;

const UNITS: &str = "units";
const PRECONDITION: &str = "precondition";
const PAGE_TYPES: &str = "page_types";
const SLC_BLOCKS: &str = "slc_blocks";
const SLC_DYNAMIC: &str = "slc_dynamic";
const YES: &str = "yes";
const MAP_CACHED: &str = "map_cached";
const NAMESPACES: &str = "namespaces";
const SEED: &str = "seed";
const RESERVE: &str = "gc_reserve_blocks";
const SPARE: &str = "spare_blocks";
const MAP_ENTRY: &str = "map_entry_bytes";
const RHYTHM: &str = "steady_rhythm";
const START: &str = "gc_start_blocks";

/// Value for entries of 8 bytes; the key is absent for 4.
const WIDE: &str = "8";

/// Error of creating or opening a medium.
#[derive(Debug, thiserror::Error)]
pub enum MediumError {
    /// The parameters are invalid.
    #[error(transparent)]
    Drive(#[from] FtlError),
    /// The files cannot be opened as this drive's.
    #[error(transparent)]
    Files(#[from] OpenError),
    /// The files lack a parameter, as those of an older version do.
    #[error("the file `format` has no valid `{0}`; serve the drive once to add it")]
    Untold(&'static str),
}

/// A new medium in the base state of `config`.
pub(in crate::ftl) fn new(geometry: Geometry, config: &FtlConfig) -> Result<Medium, FtlError> {
    geometry.validate()?;
    validate(&geometry, config)?;
    let base = Rc::new(BaseState::new(geometry, config));
    let mut medium = Medium::new(geometry, Rc::new(Written(base)));
    medium.mark_bad(config.factory_bad(&geometry));
    Ok(medium)
}

/// The medium in these files, or a new one if there are none.
pub(in crate::ftl) fn open(
    geometry: Geometry,
    timing: &Timing,
    config: &FtlConfig,
    files: Arc<dyn Files>,
    tuning: Tuning,
) -> Result<(Medium, OpenReport), MediumError> {
    geometry.validate().map_err(FtlError::from)?;
    validate(&geometry, config)?;
    let base = Rc::new(Written(Rc::new(BaseState::new(geometry, config))));
    let (mut medium, opened) = Medium::open(files, &format(geometry, timing, config), base, tuning)?;
    if medium.is_new() {
        medium.mark_bad(config.factory_bad(&geometry));
    }
    Ok((medium, opened))
}

/// What is needed to power a drive on over these files without changing them: its geometry, times of none, the
/// configuration that they tell, and the medium, whose changes stay in memory.
pub(in crate::ftl) fn overlay(
    files: Arc<dyn Files>,
) -> Result<(Geometry, Timing, FtlConfig, Medium), MediumError> {
    let format = file::look(&*files)?.format;
    let (timing, config) = told_by(&format)?;
    let config = FtlConfig { accepts_losses: true, ..config };
    let files = Arc::new(Overlay::new(files));
    let (medium, _) = open(format.geometry, &timing, &config, files, Tuning::default())?;
    Ok((format.geometry, timing, config, medium))
}

/// Parameters on which the meaning of the files depends.
fn format(geometry: Geometry, timing: &Timing, config: &FtlConfig) -> Format {
    let base = match config.base {
        Base::Empty => "empty",
        Base::Filled => "filled",
        Base::Steady => "steady",
    };
    let mut traits = vec![
        (UNITS, config.user_units.to_string()),
        (PRECONDITION, base.to_owned()),
        // Which stripes share cells, and in which superblocks none do.
        (PAGE_TYPES, timing.stripes_per_wordline().to_string()),
        (SLC_BLOCKS, config.upkeep.slc_blocks.to_string()),
    ];
    if config.upkeep.slc_dynamic.most > 0 {
        traits.push((SLC_DYNAMIC, YES.to_owned()));
    }
    if config.wide_map {
        traits.push((MAP_ENTRY, WIDE.to_owned()));
    }
    if config.base != Base::Empty {
        let is_cached = if config.map_cache_pages.is_some() { YES } else { "no" };
        traits.push((MAP_CACHED, is_cached.to_owned())); // cached: translation pages follow the host's units
        // The initial contents are not in the files, but follow from these.
        let region =
            |region: &Region| format!("{}:{}:{}", region.first_unit, region.tag, region.block.bytes());
        let regions: Vec<String> = config.regions.iter().map(region).collect();
        traits.push((NAMESPACES, regions.join(" ")));
    }
    if config.base == Base::Steady {
        traits.push((SEED, config.seed.to_string()));
        traits.push((RESERVE, config.gc_reserve_blocks.to_string()));
        if config.upkeep.spare_blocks > 0 {
            traits.push((SPARE, config.upkeep.spare_blocks.to_string()));
        }
        traits.push((RHYTHM, told_of(&config.rhythm)));
        if config.upkeep.slc_blocks > 0 {
            traits.push((START, config.gc_start_free_blocks.to_string()));
        }
    }
    let traits = traits.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Format { geometry, traits }
}

/// The logical units of the drive in these files, if recorded.
pub fn space_of(format: &Format) -> Option<Space> {
    let user_units = format.quality(UNITS)?.parse().ok()?;
    Some(Space::new(user_units, format.quality(MAP_ENTRY) == Some(WIDE)))
}

/// The reverse of `format`: a configuration with the same format.
fn told_by(format: &Format) -> Result<(Timing, FtlConfig), MediumError> {
    let text = |name: &'static str| format.quality(name).ok_or(MediumError::Untold(name));
    fn number<T: FromStr>(name: &'static str, text: &str) -> Result<T, MediumError> {
        text.parse().map_err(|_| MediumError::Untold(name))
    }
    let mut config = FtlConfig { user_units: number(UNITS, text(UNITS)?)?, ..FtlConfig::default() };
    config.base = match text(PRECONDITION)? {
        "empty" => Base::Empty,
        "filled" => Base::Filled,
        "steady" => Base::Steady,
        _ => return Err(MediumError::Untold(PRECONDITION)),
    };
    let page_types: u8 = number(PAGE_TYPES, text(PAGE_TYPES)?)?;
    let slc_blocks: u32 = number(SLC_BLOCKS, text(SLC_BLOCKS)?)?;
    config.upkeep = Maintenance { slc_blocks, ..Maintenance::default() };
    config.wide_map = match format.quality(MAP_ENTRY) {
        None => false,
        Some(WIDE) => true,
        Some(_) => return Err(MediumError::Untold(MAP_ENTRY)),
    };
    if config.base != Base::Empty {
        config.map_cache_pages = (text(MAP_CACHED)? == YES).then_some(1);
        let regions: Option<Vec<Region>> = text(NAMESPACES)?.split_whitespace().map(region_of).collect();
        config.regions = regions.ok_or(MediumError::Untold(NAMESPACES))?;
    }
    if config.base == Base::Steady {
        config.seed = number(SEED, text(SEED)?)?;
        config.gc_reserve_blocks = number(RESERVE, text(RESERVE)?)?;
        config.gc_start_free_blocks = config.gc_start_free_blocks.max(config.gc_reserve_blocks);
        if let Ok(spare) = text(SPARE) {
            config.upkeep.spare_blocks = number(SPARE, spare)?;
        }
        if slc_blocks > 0 {
            config.gc_start_free_blocks = number(START, text(START)?)?;
        }
        config.rhythm = rhythm_of(text(RHYTHM)?).ok_or(MediumError::Untold(RHYTHM))?;
    }
    let slc = SlcTiming { read: Delay::ZERO, program: Delay::ZERO, erase: Delay::ZERO };
    let timing = Timing {
        read: vec![Delay::ZERO; page_types.into()],
        program: vec![Delay::ZERO; page_types.into()],
        slc: (slc_blocks > 0 || text(SLC_DYNAMIC).is_ok_and(|said| said == YES)).then_some(slc),
        ..Timing::default()
    };
    Ok((timing, config))
}

fn told_of(rhythm: &SteadyTiming) -> String {
    let &SteadyTiming {
        wordline,
        program,
        read,
        erase,
        cache_program,
        cache_read,
        cache_erase,
        map_pages_ppm,
    } = rhythm;
    let times = [program, read, erase, cache_program, cache_read, cache_erase];
    let times: String = times.into_iter().map(|time| format!(":{}", time.ps())).collect();
    format!("{wordline}{times}:{map_pages_ppm}")
}

fn rhythm_of(text: &str) -> Option<SteadyTiming> {
    let (wordline, rest) = text.split_once(':')?;
    let (times, map_pages_ppm) = rest.rsplit_once(':')?;
    let times: Option<Vec<Delay>> =
        times.split(':').map(|time| time.parse().ok().map(Delay::from_ps)).collect();
    let times: [Delay; 6] = times?.try_into().ok()?;
    let [program, read, erase, cache_program, cache_read, cache_erase] = times;
    let wordline = wordline.parse().ok().filter(|wordline| *wordline > 0)?;
    let map_pages_ppm = map_pages_ppm.parse().ok()?;
    Some(SteadyTiming {
        wordline,
        program,
        read,
        erase,
        cache_program,
        cache_read,
        cache_erase,
        map_pages_ppm,
    })
}

fn region_of(text: &str) -> Option<Region> {
    let mut parts = text.split(':');
    let region = Region {
        first_unit: parts.next()?.parse().ok()?,
        tag: parts.next()?.parse().ok()?,
        block: BlockSize::from_bytes(parts.next()?.parse().ok()?)?,
    };
    parts.next().is_none().then_some(region)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::config::Maintenance;
    use byteway_flash::file::SimulatedFiles;

    const GEOMETRY: Geometry =
        Geometry { channels: 1, ways: 1, planes: 1, blocks: 16, pages: 6, page_bytes: 8192 };

    // The steady state follows from the rhythm: with a different one, every unit would be searched elsewhere.
    #[test]
    fn the_files_say_how_the_steady_state_was_made() {
        let us = Delay::from_us;
        let rhythm = SteadyTiming {
            wordline: 2,
            program: us(7),
            read: us(5),
            erase: us(3),
            ..SteadyTiming::default()
        };
        let config = FtlConfig { user_units: 40, base: Base::Steady, rhythm, ..FtlConfig::default() };
        let timing = Timing { read: vec![us(1); 2], ..Timing::default() };
        let (_, told) = told_by(&format(GEOMETRY, &timing, &config)).unwrap();
        assert_eq!((told.base, told.rhythm, told.seed), (Base::Steady, rhythm, config.seed));
        let files = Arc::new(SimulatedFiles::new());
        let open = |config: &FtlConfig| {
            super::open(GEOMETRY, &timing, config, files.clone(), Tuning::default()).map(drop)
        };
        open(&config).unwrap();
        let other = FtlConfig { rhythm: SteadyTiming { program: us(8), ..rhythm }, ..config };
        let error = open(&other).unwrap_err().to_string();
        assert!(error.contains("steady_rhythm"), "{error}");
    }

    // Pages with entries of another size would lead everywhere.
    #[test]
    fn entries_of_the_map_stay_as_long_as_they_were_made() {
        for is_wide in [false, true] {
            let files = Arc::new(SimulatedFiles::new());
            let open = |wide_map| {
                let config = FtlConfig { user_units: 40, wide_map, ..FtlConfig::default() };
                super::open(GEOMETRY, &Timing::default(), &config, files.clone(), Tuning::default()).map(drop)
            };
            open(is_wide).unwrap();
            open(is_wide).unwrap();
            let error = open(!is_wide).unwrap_err().to_string();
            assert!(error.contains("map_entry_bytes is "), "{error}");
            let (_, told) = told_by(&file::look(&*files).unwrap().format).unwrap();
            assert_eq!(told.wide_map, is_wide);
        }
    }

    // With a cache added or removed at another start, superblocks would have the other kind of cells: their
    // programs would fail, and the drive would lose them one by one.
    #[test]
    fn the_cache_stays_as_it_was_made() {
        let files = Arc::new(SimulatedFiles::new());
        let open = |slc_blocks| {
            let upkeep = Maintenance { slc_blocks, ..Maintenance::default() };
            let config = FtlConfig { user_units: 40, upkeep, ..FtlConfig::default() };
            super::open(GEOMETRY, &Timing::default(), &config, files.clone(), Tuning::default()).map(drop)
        };
        open(2).unwrap();
        open(2).unwrap();
        let error = open(3).unwrap_err().to_string();
        assert!(error.contains("slc_blocks is 2 there and 3 here"), "{error}");
        assert!(open(0).is_err());
    }
}
