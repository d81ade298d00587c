//! Arrays of drives that form one drive: RAID on the host, over any drives, or on a bridge.
//!
//! - An *array on the host*: software RAID. Work for a command runs on the processor of the command's queue; background
//!   work runs on the array's home processor. The processors drive members and take their interrupts round robin.
//!   Members may be of any kind, including drives whose firmware runs on the host.
//! - A *bridge* ("Challenges in getting flash closer to CPU", section 2.1: "BSSD"): a card with a PCIe-to-SAS bridge in
//!   front of whole drives with firmware of their own. The bridge's processor converts commands, stripes them over the
//!   members, and has non-volatile memory for small writes.
//!
//! To applications both are one drive, with a controller in front: of an array at a link of nearly no cost, of a bridge
//! at the card's PCIe link.

use crate::hosted::{call, route_by_queue};
use crate::together;
use byteway_array::{Array, ArrayConfig, ArrayError, Bridge, Initial, Nvram, NvramConfig, SlotState, Unused};
use byteway_clock::{Clock, Delay, Station};
use byteway_device::{Backing, ConfigError, DriveConfig};
use byteway_firmware::{Placement, Route, Site};
use byteway_host::{Completion, Driver, DriverConfig, QueueConfig};
use byteway_host::{DriverError, HostCosts, PointerKind, Port};
use byteway_host::{MemberConfig, MemberDrive};
use byteway_link::{Memory, PcieConfig};
use byteway_world::{DriveBay, PoweredDrive};
use std::rc::Rc;

/// Location of the array's work.
#[derive(Clone)]
pub enum ArrayLocation {
    /// On the host's processors; the last one is its home.
    Host {
        /// The processors.
        processors: Vec<Rc<Station>>,
        /// Clock of each processor, in hertz.
        hertz: u64,
    },
    /// On a bridge, behind the card's link.
    Bridge {
        /// The link.
        link: PcieConfig,
        /// Non-volatile memory for small writes; `None` if there is none.
        nvram: Option<NvramConfig>,
        /// Cores of the bridge's processor.
        cores: u32,
        /// Clock of each core, in hertz.
        hertz: u64,
    },
}

/// An array of drives that form one drive.
#[derive(Clone)]
pub struct ArrayDriveConfig {
    /// The array as a drive, as applications see it. Its flash is that of the members. Its cycles are charged
    /// where the array's work runs, with the memory speed of its site.
    pub drive: DriveConfig,
    /// The array.
    pub array: ArrayConfig,
    /// Location of the array's work.
    pub place: ArrayLocation,
    /// Cost of driving a member there, per command.
    pub costs: HostCosts,
    /// How completions of members are detected.
    pub completion: Completion,
    /// Maximum number of commands in flight at a member.
    pub lanes: usize,
    /// Number of members, the last ones, that replace failed ones.
    pub spares: usize,
    /// All members collect garbage at the same time, in windows that free this many superblocks of each die; `None`:
    /// each collects when it must. Only members with [collection
    /// windows](byteway_device::ControllerConfig::collection_windows) take part.
    pub window_blocks: Option<u16>,
    /// Time after which an unanswered command of a member is aborted; after as long again the member is reset, and then
    /// given up. `None`: never.
    pub timeout: Option<Delay>,
}

/// Why an array could not be assembled.
#[derive(Debug, thiserror::Error)]
pub enum ArrayDriveError {
    /// The drive's configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The array's configuration is invalid, for this reason of [`ArrayError`].
    #[error("{0}")]
    Array(String),
    /// A member's controller has failed.
    #[error("member {member}: {error}")]
    Driver {
        /// Number of the member.
        member: usize,
        /// Error of the member's driver.
        error: DriverError,
    },
    /// A member has no usable block namespace.
    #[error("member {0} has no namespace with blocks of 512 or 4096 bytes")]
    NoBlocks(usize),
}

impl From<ArrayError> for ArrayDriveError {
    fn from(error: ArrayError) -> ArrayDriveError {
        ArrayDriveError::Array(error.to_string())
    }
}

/// Whether members are new, or belong to an existing array.
#[derive(Debug)]
pub enum Members {
    /// Empty drives, on which an array is created.
    New,
    /// Members of an existing array, with the contents of the bridge's memory.
    Used(Nvram),
}

/// A powered array.
pub struct PoweredArray {
    /// The drive that applications see; the members are behind it, followed by the spares.
    pub drive: PoweredDrive,
    /// The bridge, if there is one.
    pub bridge: Option<Bridge>,
}

/// Assembles `members`, which are powered and have no driver yet, into one drive. In a new array the last
/// [`ArrayDriveConfig::spares`] members are spares. In an existing one, up to that many members without array
/// data become spares, because a former spare may be a member by now.
///
/// # Errors
/// [`ArrayDriveError`] if a member fails, members differ, or the configuration is invalid.
pub async fn assemble(
    clock: &Clock,
    config: ArrayDriveConfig,
    members: Vec<PoweredDrive>,
    found: Members,
) -> Result<PoweredArray, ArrayDriveError> {
    let at = &config.drive.site;
    let (home, hertz) = match &config.place {
        ArrayLocation::Host { processors, hertz } => (processors.last().cloned(), *hertz),
        ArrayLocation::Bridge { cores, hertz, .. } => {
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
    if let ArrayLocation::Host { processors, .. } = &config.place {
        let by_processor = processors.iter().map(|one| placement.add_route_to(clock, &site(one)));
        routes = by_processor.map(|route| route.unwrap_or(Route::OWN)).collect();
    }
    let mut drives = Vec::with_capacity(members.len());
    let mut drivers = Vec::with_capacity(members.len());
    let cpus: Vec<Rc<Station>> = match &config.place {
        ArrayLocation::Host { processors, .. } => processors.clone(),
        ArrayLocation::Bridge { .. } => vec![home.clone()],
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
        ArrayLocation::Bridge { nvram: Some(nvram), .. } => {
            let kept = if let Members::Used(kept) = found { kept } else { Nvram::default() };
            let own = Bridge::new(clock, array, *nvram, kept);
            bridge = Some(own.clone());
            Backing::from(own)
        }
        _ => Backing::from(array),
    };
    let link = match &config.place {
        ArrayLocation::Host { .. } => call(),
        ArrayLocation::Bridge { link, .. } => link.clone(),
    };
    let front = DriveBay::new(clock, link, Memory::simulated());
    let mut powered = front.power_on_over(config.drive, own, placement, backing, members)?;
    powered.is_called = matches!(config.place, ArrayLocation::Host { .. });
    route_by_queue(&powered, routes);
    Ok(PoweredArray { drive: powered, bridge })
}

/// A drive that waits to replace a failed one.
enum Spare {
    New(Box<MemberDrive>),
    Unused(Unused),
}

/// Replaces failed members by spares.
async fn take_places(array: Array, spares: Vec<Spare>) {
    for spare in spares {
        loop {
            let has_failed = array.state().slots.iter().any(|(state, _)| *state == SlotState::Failed);
            if has_failed {
                break;
            }
            array.failed().await;
        }
        // A spare that has failed itself is skipped.
        let _ = match spare {
            Spare::New(drive) => array.add_spare(*drive).await,
            Spare::Unused(drive) => array.add_unused(drive).await,
        };
    }
}

/// Attaches a driver to a member; its commands and interrupts are charged to `cpu`.
async fn open(
    config: &ArrayDriveConfig,
    member: &PoweredDrive,
    cpu: &Rc<Station>,
    number: usize,
) -> Result<(Driver, MemberDrive), ArrayDriveError> {
    let failed = |error| ArrayDriveError::Driver { member: number, error };
    // A drive whose firmware runs on the host completes by a call.
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
        let _ = own.reset().await; // finds the slot empty, and gives the drive up
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
