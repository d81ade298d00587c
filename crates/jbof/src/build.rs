//! Building a JBOF: its fabric, a site for each drive's firmware, and the sites at which peers may work for it.

use super::Jbof;
use super::central::{self, CentralDrive};
use super::config::{DRIVES_MAX, JbofConfig, JbofDrive};
use super::error::JbofError;
use super::harvest;
use super::platform::Platform;
use super::state::{Inner, Member};
use crate::decision::descriptor::IdleTable;
use crate::fabric::{Fabric, Node};
use byteway_clock::{Clock, Owner, Resource, Semaphore, Station};
use byteway_device::{Drive, DriveConfig};
use byteway_firmware::{Placement, Route, Site};
use byteway_link::Memory;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

impl Jbof {
    /// Powers on a JBOF of these drives, attaches a driver to each, and starts their lending.
    ///
    /// # Errors
    /// [`JbofError`] if no such JBOF can exist, or a controller fails.
    pub async fn power_on(
        clock: &Clock,
        config: JbofConfig,
        drives: Vec<DriveConfig>,
    ) -> Result<Jbof, JbofError> {
        let jbof = Jbof::give_power(clock, config, drives.into_iter().map(|drive| (drive, None)).collect())?;
        jbof.attach().await?;
        Ok(jbof)
    }

    /// Powers on a JBOF of these drives, each over the medium that one like it has left, or a new one. They lend nothing
    /// before [drivers](Jbof::attach) are attached. In a trace, a drive's components belong to the owner with its
    /// number ([`Owner`]).
    ///
    /// # Errors
    /// [`JbofError`] if no such JBOF can exist.
    pub fn give_power(
        clock: &Clock,
        config: JbofConfig,
        drives: Vec<impl Into<JbofDrive>>,
    ) -> Result<Jbof, JbofError> {
        let cpu = Station::new(clock, config.host.cores).keeping_names().traced_as(Resource::HostCore, 0);
        Jbof::give_power_at(clock, config, &Rc::new(cpu), drives)
    }

    /// Like [`Jbof::give_power`], with these processors of the host.
    ///
    /// # Errors
    /// Same as [`Jbof::give_power`].
    pub fn give_power_at(
        clock: &Clock,
        config: JbofConfig,
        cpu: &Rc<Station>,
        drives: Vec<impl Into<JbofDrive>>,
    ) -> Result<Jbof, JbofError> {
        let cpu = cpu.clone();
        let drives: Vec<JbofDrive> = drives.into_iter().map(Into::into).collect();
        let count = drives.len();
        if !(1..=DRIVES_MAX).contains(&count) {
            return Err(JbofError::Count(count));
        }
        if config.fabric.drives != count {
            return Err(JbofError::Fabric { ports: config.fabric.drives, drives: count });
        }
        let fabric = Fabric::new(clock, config.fabric.clone());
        let sites: Vec<Site> = match &config.platform {
            Platform::Central(_) => vec![config.host.site(clock, &cpu); count],
            _ => {
                let clock = |number| clock.owned_by(Owner(number as u16));
                let each = drives.iter().enumerate();
                each.map(|(number, drive)| Drive::site(&clock(number), &drive.config)).collect()
            }
        };
        let mut central = Vec::new();
        let mut members = Vec::with_capacity(count);
        let lends = config.platform.lends_processors();
        for (number, boxed) in drives.into_iter().enumerate() {
            let JbofDrive { name, config: mut drive, medium, driver, lent_cpu } = boxed;
            drive.controller.borrows = lends;
            let own = Placement::all_at(&sites[number], drive.site.cycles);
            let (placement, routes) = match &config.platform {
                Platform::Lending { processor: true, .. } => {
                    lent_to(clock, own.with_agent(config.agent), &fabric, &sites, number)
                }
                Platform::Central(its) => {
                    drive = central::with_map_share(drive, &config.host, count);
                    let owned = clock.owned_by(Owner(number as u16));
                    central.push(CentralDrive::new(&owned, config.link.clone(), its));
                    (own.with_hardware(central[number].hardware.clone()), Vec::new())
                }
                Platform::Virtual(its) => {
                    drive = harvest::with_spare(drive, its);
                    (own, Vec::new())
                }
                Platform::Alone | Platform::Lending { .. } => (own, Vec::new()),
            };
            members.push(Member {
                name,
                config: drive,
                driver,
                lent_cpu,
                site: sites[number].clone(),
                placement,
                routes,
                present: RefCell::default(),
                medium: RefCell::new(medium),
                table: IdleTable::default(),
                attached: RefCell::default(),
                figures: Cell::default(),
            });
        }
        let jbof = Jbof(Rc::new(Inner {
            clock: clock.clone(),
            config,
            fabric,
            members,
            bound: RefCell::default(),
            cpu,
            memory: Memory::simulated(),
            central,
            harvest: RefCell::default(),
            tasks: RefCell::default(),
            attaching: Semaphore::new(clock, 1),
            lives: Cell::default(),
            queues_made: Cell::default(),
            host_restarts: Cell::default(),
        }));
        (0..count).try_for_each(|number| jbof.0.give_power(number))?;
        Ok(jbof)
    }
}

/// The placement of a drive whose peers may work for it, and the route of each peer.
fn lent_to(
    clock: &Clock,
    mut placement: Placement,
    fabric: &Fabric,
    sites: &[Site],
    number: usize,
) -> (Placement, Vec<Option<Route>>) {
    let mut routes = Vec::with_capacity(sites.len());
    for (peer, site) in sites.iter().enumerate() {
        if peer == number {
            routes.push(None);
            continue;
        }
        let distance = fabric.distance(Node::Drive(peer), Node::Drive(number));
        placement = placement.with_distance(site, &sites[number], &distance);
        routes.push(placement.add_route_to(clock, site));
    }
    (placement, routes)
}
