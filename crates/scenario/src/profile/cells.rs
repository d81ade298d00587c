//! Optional abilities of flash in a profile: one-bit mode and suspension.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{KeyError, MILLISECOND, SECOND, fault, within};
use super::policy_name::{self, by_default, is_default};
use super::{Flash, delay};
use byteway_clock::{Delay, Rate};
use byteway_firmware::policy;
use byteway_flash::{ChannelOrder, Quantiles, QuantilesError, SlcTiming, SuspendTiming, Timing};
use byteway_text::units::{Percent, Picos};

/// Priority of dies that wait for a channel.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "ChannelOrder", rename_all = "kebab-case")]
#[schemars(rename = "ChannelOrder")]
pub(super) enum ChannelOrderWord {
    /// Commands of reads and erases, then read data, then programs.
    CommandsFirst,
    /// Read data, then everything that begins an operation, in order of arrival.
    DataOutFirst,
}

/// A quantile of the time of a read: share of the reads, and factor of the time that they are not above.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantile(pub Percent, pub f64);

/// Blocks that store one bit per cell: fast to program, and later folded into the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slc {
    /// Blocks of each plane, in addition to the spare flash of `firmware.op`: the static part of the cache. Default: 0, with `dynamic`.
    #[serde(default)]
    pub blocks: u32,
    /// Share of the other blocks that an empty drive lends to the cache besides: its dynamic part. It shrinks evenly as the drive fills. Omitted:
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic: Option<Percent>,
    /// How full the drive is when it lends none: share of these blocks that hold data.
    #[serde(default = "all", skip_serializing_if = "is_all")]
    pub dynamic_until: Percent,
    /// When the data of the cache are moved to the other blocks.
    #[serde(default, skip_serializing_if = "Folding::is_default")]
    pub fold: Folding,
    /// Time to read one of their pages.
    pub read: Picos,
    /// Time to program one of their pages.
    pub program: Picos,
    /// Time to erase such a block.
    pub erase: Picos,
}

/// When an SLC cache is emptied into the other blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Folding {
    /// Beside the host's writes, from three quarters full on, and while the host is idle (`firmware.gc.background`).
    #[default]
    Full,
    /// While the host is idle, or where there is no other space.
    Idle,
}

impl Folding {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn all() -> Percent {
    Percent(100.0)
}

fn is_all(share: &Percent) -> bool {
    *share == all()
}

/// Suspension of programs and erases for reads of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Suspend {
    /// Time from the read's arrival at the die until the array is free.
    pub latency: Picos,
    /// Time to resume the operation.
    pub resume: Picos,
    /// Suspensions of one operation, at most; 0: none.
    pub most: u32,
    /// Steps of the cells' work, each a pulse and its verification, at whose ends alone it can be interrupted. Default: at any instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Picos>,
    /// Which programs and erases are suspended: the name of a policy.
    #[serde(
        default = "by_default::<dyn policy::Suspend>",
        deserialize_with = "policy_name::deserialize::<dyn policy::Suspend, _>",
        skip_serializing_if = "is_default::<dyn policy::Suspend>"
    )]
    pub policy: String,
}

impl Flash {
    /// Times of the array. Its policies are those that a program knows by name.
    pub fn timing(&self) -> Timing {
        let delays = |times: &[Picos]| -> Vec<Delay> { times.iter().map(|time| delay(*time)).collect() };
        Timing {
            read: delays(&self.read),
            // They were checked.
            read_quantiles: self.quantiles().ok().flatten(),
            partial_read: self.read_partial.as_deref().map(delays),
            map_read: self.read_map.map(delay),
            program: delays(&self.program),
            program_spread_ppm: (self.program_spread.0 * 1e4) as u32,
            erase: delay(self.erase),
            channel: Rate::per_second(self.channel_rate.0),
            command: delay(self.command),
            suspend: self.suspend.as_ref().filter(|suspend| suspend.most > 0).map(|suspend| SuspendTiming {
                latency: delay(suspend.latency),
                resume: delay(suspend.resume),
                most: suspend.most,
                step: delay(suspend.step.unwrap_or(Picos(0))),
            }),
            cache_read: self.cache_read,
            channel_order: self.channel_order,
            slc: self.slc.as_ref().map(|slc| SlcTiming {
                read: delay(slc.read),
                program: delay(slc.program),
                erase: delay(slc.erase),
            }),
            ..Timing::default()
        }
    }

    /// Quantiles of the time of a read, if any.
    pub(super) fn quantiles(&self) -> Result<Option<Quantiles>, QuantilesError> {
        let given = |quantiles: &Vec<Quantile>| {
            Quantiles::new(
                &quantiles.iter().map(|Quantile(share, factor)| (share.0, *factor)).collect::<Vec<_>>(),
            )
        };
        self.read_quantiles.as_ref().map(given).transpose()
    }

    /// Bit errors and failures of the cells, if any.
    pub fn cell_errors(&self) -> Option<byteway_flash::Reliability> {
        self.reliability.as_ref().map(|own| own.config(self.endurance))
    }

    pub(super) fn check_cells(&self) -> Result<(), KeyError> {
        within("flash.spare_blocks", self.spare_blocks, 0, 65_536)?;
        within("flash.factory_bad_blocks", self.factory_bad_blocks, 0, self.spare_blocks)?;
        if let Some(slc) = &self.slc {
            if slc.dynamic.is_none() || slc.blocks > 0 {
                within("flash.slc.blocks", slc.blocks, 2, 65_536)?;
            }
            within("flash.slc.dynamic", slc.dynamic.unwrap_or(all()), Percent(0.1), all())?;
            within("flash.slc.dynamic_until", slc.dynamic_until, Percent(1.0), all())?;
            within("flash.slc.read", slc.read, Picos(1), SECOND)?;
            within("flash.slc.program", slc.program, Picos(1), SECOND)?;
            within("flash.slc.erase", slc.erase, Picos(1), SECOND)?;
            let types = self.read.len().max(self.program.len()) as u32;
            if !self.pages.is_multiple_of(types.max(1)) {
                let what = format!(
                    "`flash.slc`: {} pages of {types} types leave a cell of a block unused in one-bit mode",
                    self.pages
                );
                let help = format!("make `flash.pages` a multiple of {types}, or leave `flash.slc` out");
                return Err(fault("flash.slc", what, help));
            }
        }
        if let Some(suspend) = &self.suspend {
            within("flash.suspend.latency", suspend.latency, Picos(0), MILLISECOND)?;
            within("flash.suspend.resume", suspend.resume, Picos(0), MILLISECOND)?;
            within("flash.suspend.most", suspend.most, 0, 1_000_000)?;
            within(
                "flash.suspend.step",
                suspend.step.unwrap_or(Picos(0)),
                Picos(0),
                Picos(100 * MILLISECOND.0),
            )?;
        }
        self.reliability.as_ref().map_or(Ok(()), |reliability| reliability.check())
    }

    /// Blocks of a plane without host data in the long run: those reserved for bad blocks, and those in
    /// one-bit mode.
    pub(super) fn reserved_blocks(&self) -> u32 {
        self.spare_blocks + self.slc.as_ref().map_or(0, |slc| slc.blocks)
    }
}
