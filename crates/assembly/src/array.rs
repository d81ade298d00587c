//! Drives that are one: an array on the host, over any drives, and a bridge, which has one of its own.
//!
//! - An *array on the host*: RAID in software. What it does for a command is work of the processor of the command's queue; what it
//!   does behind commands is its home processor's. Members are driven by the processors in turn, their interrupts too. Members may
//!   be of any kind, also such whose firmware runs on the host.
//! - A *bridge* ("Challenges in getting flash closer to CPU", section 2.1: "BSSD"): a card with a PCIe-to-SAS bridge in front of whole
//!   drives with firmware of their own. The bridge's processor converts commands, stripes them over the members, and has
//!   memory that keeps its contents for small writes.
//!
//! To applications both are one drive, by a controller in front: of an array at a link that costs next to nothing, of a bridge at
//! the card's PCIe link.

use crate::hosted::{call, route_by_queue};
use crate::together;
use byteway_array::{Array, ArrayConfig, ArrayError, Bridge, Initial, Nvram, NvramConfig, SlotState, Unused};
use byteway_clock::{Clock, Delay, Station};
use byteway_device::{Backing, ConfigError, DriveConfig};
use byteway_firmware::{Placement, Route, Site};
use byteway_host::driver::{Completion, Driver, DriverConfig, QueueConfig};
use byteway_host::member::{MemberConfig, MemberDrive};
use byteway_host::{DriverError, HostCosts, PointerKind, Port};
use byteway_link::{Memory, PcieConfig};
use byteway_world::{DriveBay, PoweredDrive};
use std::rc::Rc;

/// Where an array's work is done.
#[derive(Clone)]
pub enum ArrayPlace {
    /// On the host's processors, of which the last is its home.
    Host {
        /// The processors.
        processors: Vec<Rc<Station>>,
        /// Cycles a second of each.
        hertz: u64,
    },
    /// On a bridge, behind the card's link.
    Bridge {
        /// The link.
        link: PcieConfig,
        /// Its memory for small writes; none: it has none.
        nvram: Option<NvramConfig>,
        /// Its processor's cores.
        cores: u32,
        /// Cycles a second of each.
        hertz: u64,
    },
}

/// An array of drives as one.
#[derive(Clone)]
pub struct ArrayDriveConfig {
    /// What it is to applications. Its flash is its members'; its cycles are those of where its work is done, whose memory is as fast
    /// as its site says.
    pub drive: DriveConfig,
    /// The array.
    pub array: ArrayConfig,
    /// Where its work is done.
    pub place: ArrayPlace,
    /// What driving a member costs there, for each command.
    pub costs: HostCosts,
    /// How completions of members are noticed.
    pub completion: Completion,
    /// Commands under way at a member.
    pub lanes: usize,
    /// The last so many members take the place of others that fail.
    pub spares: usize,
    /// All members collect garbage at once, in windows that free so many superblocks of each die; none: each collects when it must. Of
    /// members only those take part that have [collection windows](byteway_device::ControllerConfig::collection_windows).
    pub window_blocks: Option<u16>,
    /// After how long a command that a member does not answer is aborted, and then the member reset, and given up: none: never.
    pub timeout: Option<Delay>,
}

/// Why an array does not come to be.
#[derive(Debug, thiserror::Error)]
pub enum ArrayDriveError {
    /// There can be no such drive.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There can be no such array, for this reason of [`ArrayError`].
    #[error("{0}")]
    Array(String),
    /// A member's controller does not do as it must.
    #[error("member {member}: {error}")]
    Driver {
        /// Which.
        member: usize,
        /// What it did.
        error: DriverError,
    },
    /// A member has no namespace of blocks that can be used.
    #[error("member {0} has no namespace with blocks of 512 or 4096 bytes")]
    NoBlocks(usize),
}

impl From<ArrayError> for ArrayDriveError {
    fn from(error: ArrayError) -> ArrayDriveError {
        ArrayDriveError::Array(error.to_string())
    }
}

/// Whether members are new, or what they hold is an array already.
#[derive(Debug)]
pub enum Members {
    /// They hold nothing: the array is made.
    New,
    /// They are of an array that was there before, with what a bridge's memory has kept.
    Used(Nvram),
}

/// An array that has power.
pub struct PoweredArray {
    /// The drive as applications see it; the members are behind it, and behind these the spares.
    pub drive: PoweredDrive,
    /// The bridge, if it is one.
    pub bridge: Option<Bridge>,
}

/// Makes one drive of `members`, which have power and which no driver has attached to. Of new ones the last
/// [`ArrayDriveConfig::spares`] take the places of others that fail; of an array that was there before up to so many that hold nothing
/// of it do, as one that was a spare once may be a member by now.
///
/// # Errors
/// A member does not do as it must, they are not alike, or there can be no such array.
pub async fn assemble(
    clock: &Clock,
    config: ArrayDriveConfig,
    members: Vec<PoweredDrive>,
    found: Members,
) -> Result<PoweredArray, ArrayDriveError> {
    let at = &config.drive.site;
    let (home, hertz) = match &config.place {
        ArrayPlace::Host { processors, hertz } => (processors.last().cloned(), *hertz),
        ArrayPlace::Bridge { cores, hertz, .. } => {
            (Some(Rc::new(Station::new(clock, *cores as usize))), *hertz)
        }
    };
    let Some(home) = home else {
        let message = "the array is to run on the host, which has no processor for it (cores)".to_owned();
        return Err(ConfigError { message }.into());
    };
    let site =
        |processor: &Rc<Station>| Site::over(clock, processor.clone(), hertz, at.dram_latency, at.dram_rate);
    let own = site(&home);
    let mut placement = Placement::all_at(&own, at.cycles);
    let mut routes: Vec<Route> = Vec::new();
    if let ArrayPlace::Host { processors, .. } = &config.place {
        let by_processor = processors.iter().map(|one| placement.add_route_to(clock, &site(one)));
        routes = by_processor.map(|route| route.unwrap_or(Route::OWN)).collect();
    }
    let mut drives = Vec::with_capacity(members.len());
    let mut drivers = Vec::with_capacity(members.len());
    let cpus: Vec<Rc<Station>> = match &config.place {
        ArrayPlace::Host { processors, .. } => processors.clone(),
        ArrayPlace::Bridge { .. } => vec![home.clone()],
    };
    for (number, member) in members.iter().enumerate() {
        let (driver, drive) = open(&config, member, &cpus[number % cpus.len()], number).await?;
        drives.push(drive);
        drivers.push(driver);
    }
    let (placed, own_config) = (placement.clone(), config.array.clone());
    let (array, spares): (Array, Vec<Spare>) = match found {
        Members::New => {
            let spares = drives.split_off(drives.len().saturating_sub(config.spares));
            let array = Array::create(clock, placed, own_config, drives, Initial::Zeroed).await?;
            (array, spares.into_iter().map(|spare| Spare::New(Box::new(spare))).collect())
        }
        Members::Used(_) => {
            let array = Array::assemble(clock, placed, own_config, drives).await?;
            let unused = array.take_unused().into_iter().take(config.spares);
            (array.clone(), unused.map(Spare::Unused).collect())
        }
    };
    if let Some(blocks) = config.window_blocks {
        together::coordinate(clock, &placement, drivers, blocks);
    }
    if !spares.is_empty() {
        clock.spawn("spares", take_places(array.clone(), spares));
    }
    let mut bridge = None;
    let backing = match &config.place {
        ArrayPlace::Bridge { nvram: Some(nvram), .. } => {
            let kept = if let Members::Used(kept) = found { kept } else { Nvram::default() };
            let own = Bridge::new(clock, array, *nvram, kept);
            bridge = Some(own.clone());
            Backing::from(own)
        }
        _ => Backing::from(array),
    };
    let link = match &config.place {
        ArrayPlace::Host { .. } => call(),
        ArrayPlace::Bridge { link, .. } => link.clone(),
    };
    let front = DriveBay::new(clock, link, Memory::simulated());
    let mut powered = front.power_on_over(config.drive, own, placement, backing, members)?;
    powered.is_called = matches!(config.place, ArrayPlace::Host { .. });
    route_by_queue(&powered, routes);
    Ok(PoweredArray { drive: powered, bridge })
}

/// A drive that waits for another to fail.
enum Spare {
    New(Box<MemberDrive>),
    Unused(Unused),
}

/// Puts spares into the places of members that fail.
async fn take_places(array: Array, spares: Vec<Spare>) {
    for spare in spares {
        loop {
            let has_failed = array.state().slots.iter().any(|(state, _)| *state == SlotState::Failed);
            if has_failed {
                break;
            }
            array.failed().await;
        }
        // One that is gone itself is left out.
        let _ = match spare {
            Spare::New(drive) => array.add_spare(*drive).await,
            Spare::Unused(drive) => array.add_unused(drive).await,
        };
    }
}

/// A driver for a member, whose commands and interrupts are paid for by `cpu`.
async fn open(
    config: &ArrayDriveConfig,
    member: &PoweredDrive,
    cpu: &Rc<Station>,
    number: usize,
) -> Result<(Driver, MemberDrive), ArrayDriveError> {
    let failed = |error| ArrayDriveError::Driver { member: number, error };
    // A drive whose firmware runs on the host calls back.
    let calls_back = !member.behind.is_empty() && member.drive.controller.backing().ftl().is_some();
    let completion = if calls_back { Completion::Polled } else { config.completion };
    let driver = DriverConfig {
        costs: config.costs,
        completion,
        cpu: Some(cpu.clone()),
        interrupts_queue: true,
        queues_wanted: 1,
        timeout: config.timeout,
        ..DriverConfig::default()
    };
    let driver = Driver::attach(Port::Link(member.host.clone()), driver).await.map_err(failed)?;
    let (end, own) = (member.host.clone(), driver.clone());
    member.host.clock().spawn("hot plug", async move {
        end.removed().await;
        let _ = own.reset().await; // which finds nothing there, and gives it up
    });
    let entries = (config.lanes as u32 + 2).next_power_of_two();
    let queue = QueueConfig {
        vector: (completion == Completion::Interrupt).then_some(1),
        cpu: Some(cpu.clone()),
        ..QueueConfig::new(entries)
    };
    let queue = driver.create_queue_pair(queue).await.map_err(failed)?;
    let own = MemberConfig {
        lanes: config.lanes,
        pointer: PointerKind::Prp,
        keep: config.drive.keep,
        name: format!("member {number}"),
    };
    let drive = MemberDrive::open(&driver, queue, own).map_err(failed)?;
    Ok((driver, drive.ok_or(ArrayDriveError::NoBlocks(number))?))
}
