//! Checks of a configuration against itself and its flash.

use crate::ftl::config::{Base, ExtentConfig, FtlConfig, FtlError};
use crate::policy::stream::{StreamCounts, counts_of};
use byteway_flash::Geometry;

pub(in crate::ftl) fn validate(geometry: &Geometry, config: &FtlConfig) -> Result<(), FtlError> {
    if config.is_bare {
        return Ok(());
    }
    let (start, reserve) = (config.gc_start_free_blocks, config.gc_reserve_blocks);
    if reserve == 0 || start < reserve {
        return Err(FtlError::Thresholds { start, reserve });
    }
    if config.upkeep.factory_bad_blocks > config.upkeep.spare_blocks {
        return Err(FtlError::Upkeep("factory_bad_blocks must be at most spare_blocks, which include them"));
    }
    if config.absorbs_parts.is_some_and(|units| !(1..=FtlConfig::BUFFER_UNITS_MAX).contains(&units)) {
        return Err(FtlError::Parts);
    }
    if config.housekeeping.is_some_and(|housekeeping| housekeeping.units == 0) {
        return Err(FtlError::Housekeeping);
    }
    if config.write_buffer_units > FtlConfig::BUFFER_UNITS_MAX {
        return Err(FtlError::Buffer(config.write_buffer_units));
    }
    if config.read_cache_units > FtlConfig::BUFFER_UNITS_MAX {
        return Err(FtlError::ReadCache(config.read_cache_units));
    }
    if config.read_cache_units == 0 {
        let asked =
            [("admission", !config.admission.is_default()), ("prefetch", !config.prefetch.is_default())];
        if let Some((policy, _)) = asked.into_iter().find(|(_, is_asked)| *is_asked) {
            return Err(FtlError::NoReadCache(policy));
        }
    }
    if !config.regions.is_sorted_by(|a, b| a.first_unit < b.first_unit) {
        return Err(FtlError::Regions);
    }
    if geometry.is_wide() && !config.wide_map {
        return Err(FtlError::Narrow(geometry.total_units()));
    }
    if config.user_units == 0 {
        return Err(FtlError::NoUnits);
    }
    if config.map_cache_pages == Some(0) {
        return Err(FtlError::NoMapCache);
    }
    if let Some(extents) = &config.extents {
        validate_extents(extents, config)?;
    }
    // A die is stuck when no superblock has a whole wordline of stale units: then all superblocks but the
    // reserve and the collector's open one are full of valid units, less than a wordline missing in each.
    // With no more user units than this limit, at least one die is not stuck. The steady state has its two
    // open superblocks, and the free ones, in addition.
    check_capacity(geometry, config, validate_streams(config)?, 1)
}

/// Checks the numbers of streams.
fn validate_streams(config: &FtlConfig) -> Result<StreamCounts, FtlError> {
    let counts = counts_of(&config.streams);
    let StreamCounts { host, collector } = counts;
    if !counts.is_valid() {
        return Err(FtlError::StreamCounts { host, collector });
    }
    // The cache takes all writes of the host in order.
    if !config.streams.is_default() && config.upkeep.has_cache() {
        return Err(FtlError::Upkeep(
            "a one-bit cache (slc_blocks, slc_dynamic) mixes the data of all streams: leave it out, or leave streams at `separate`",
        ));
    }
    Ok(counts)
}

/// Checks the parameters of a tree of extents against the rest of the configuration.
fn validate_extents(extents: &ExtentConfig, config: &FtlConfig) -> Result<(), FtlError> {
    let fault = match extents.fault() {
        Some(fault) => Some(fault),
        // Units of the base state were never programmed, so they have no log address.
        None if config.base != Base::Empty => Some("base must be empty"),
        None if config.map_cache_pages.is_some() => {
            Some("map_cache_pages must be unset: the whole tree is in DRAM")
        }
        None if config.user_units > 1 << 32 => Some("user_units must be at most 2^32"),
        None => None,
    };
    fault.map_or(Ok(()), |fault| Err(FtlError::Extents(fault)))
}

/// Checks that the array has space for the units, with wordlines of `wordline` stripes.
///
/// Beyond the reserve a superblock of each die may be open for each stream.
pub(in crate::ftl) fn check_capacity(
    geometry: &Geometry,
    config: &FtlConfig,
    streams: StreamCounts,
    wordline: u32,
) -> Result<(), FtlError> {
    let open = u64::from(streams.host) + u64::from(streams.collector);
    let without = u64::from(config.reserve(streams)) + u64::from(config.upkeep.set_aside()) + open;
    let blocks = u64::from(geometry.blocks).saturating_sub(without);
    let stale = wordline * geometry.units_per_stripe();
    let of_block = u64::from(geometry.units_per_block().saturating_sub(stale) + 1);
    let dies = u64::from(geometry.dies());
    let most = blocks * of_block * dies;
    let held = config.units_held();
    if held <= most {
        return Ok(());
    }
    let (user_units, blocks) = (config.user_units, geometry.blocks);
    let most = most.saturating_sub(held - user_units);
    let needed = held.div_ceil(of_block * dies) + without;
    if streams == StreamCounts::SEPARATE {
        return Err(FtlError::TooLarge { user_units, blocks, most, needed });
    }
    let (policy, streams) = (config.streams.name().to_owned(), streams.host + streams.collector);
    Err(FtlError::ManyStreams { user_units, policy, streams, needed, blocks, most })
}
