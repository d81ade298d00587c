//! Drives that are made of others: their parts have power, and drivers attach to these, before anything else in a life.

use super::drive;
use super::failure::{Failure, Kind};
use super::kept::{Kept, KeptArray, impossible};
use super::seat::Seat;
use byteway_assembly::{ArrayDriveConfig, ArrayDriveError, Hosted, HostedError, Members, assemble};
use byteway_clock::{Clock, Executor, Ran, Station};
use byteway_device::Drive;
use byteway_world::PoweredDrive;
use std::rc::Rc;

/// Drives that are being made of others.
#[derive(Default)]
pub(super) struct Placing(Vec<Parts>);

/// The parts of one, which have power.
struct Parts {
    /// Whose they are, by its place among the seats.
    place: usize,
    /// Endpoints, or members by their numbers.
    drives: Vec<(usize, Rc<Drive>)>,
    /// To be attached to.
    whole: Option<Whole>,
}

enum Whole {
    Hosted(Box<Hosted>),
    Array(Box<ArrayDriveConfig>, Vec<PoweredDrive>, Members),
}

impl Whole {
    /// Attaches drivers to the parts.
    async fn attach(self, clock: &Clock) -> Result<PoweredDrive, Failure> {
        match self {
            Whole::Hosted(hosted) => hosted.attach().await.map_err(|error| match error {
                HostedError::Config(error) => impossible(error),
                error => Failure::new(Kind::Data, error.to_string()),
            }),
            Whole::Array(config, members, found) => {
                let array = assemble(clock, *config, members, found).await.map_err(|error| match error {
                    ArrayDriveError::Config(error) => impossible(error),
                    error => Failure::new(Kind::Data, error.to_string()),
                });
                array.map(|array| array.drive)
            }
        }
    }
}

/// A drive that was made of others, and whose it is.
pub(super) struct Placed {
    pub(super) place: usize,
    pub(super) drive: PoweredDrive,
}

impl Placing {
    /// Gives power to the parts of the seats that have some, and takes their media; `lives` have ended.
    pub(super) fn power_on(
        clock: &Clock,
        processors: &[Rc<Station>],
        seats: &mut [Seat],
        lives: usize,
    ) -> Result<Placing, Failure> {
        let mut placing = Placing::default();
        for (place, seat) in seats.iter_mut().enumerate() {
            let (plan, faulty) = (&seat.run.plan, seat.faulty(lives));
            let (drives, whole) = match &mut seat.kept {
                Kept::Memory(media) => {
                    let Some(config) = drive::hosted(plan, &faulty) else { continue };
                    let media = Some(std::mem::take(media));
                    let hosted = Hosted::power_on(clock, config, processors, media).map_err(impossible)?;
                    (hosted.drives().cloned().enumerate().collect(), Whole::Hosted(Box::new(hosted)))
                }
                Kept::Array(kept) => {
                    let Some(config) = drive::array(plan, &faulty, processors) else { continue };
                    let (mut drives, mut members) = (Vec::new(), Vec::new());
                    for (number, medium) in std::mem::take(&mut kept.media) {
                        let member = drive::member(plan, &faulty, number);
                        let powered = drive::power_on(clock, &plan.drive, member, processors, Some(medium));
                        let powered = powered.map_err(impossible)?;
                        drives.push((number, powered.drive.clone()));
                        members.push(powered);
                    }
                    let found = match kept.is_made {
                        true => Members::Used(kept.nvram.clone()),
                        false => Members::New,
                    };
                    (drives, Whole::Array(Box::new(config), members, found))
                }
                Kept::Files(_) => continue,
            };
            placing.0.push(Parts { place, drives, whole: Some(whole) });
        }
        Ok(placing)
    }

    /// Attaches to all of them, before poll `polls`. None: the power was cut before.
    pub(super) fn attach(&mut self, executor: &Executor, polls: u64) -> Result<Option<Vec<Placed>>, Failure> {
        let wholes: Vec<(usize, Whole)> =
            self.0.iter_mut().filter_map(|parts| Some((parts.place, parts.whole.take()?))).collect();
        if wholes.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let clock = executor.clock().clone();
        let attaching = async move {
            let mut placed = Vec::new();
            for (place, whole) in wholes {
                placed.push(whole.attach(&clock).await.map(|drive| Placed { place, drive }));
            }
            placed
        };
        match executor.run_cut(attaching, polls) {
            Err(stalled) => Err(Failure::new(Kind::Hang, format!("while it attached: {stalled}"))),
            Ok(Ran::Cut) => Ok(None),
            Ok(Ran::Ended(placed)) => placed.into_iter().collect::<Result<_, _>>().map(Some),
        }
    }

    /// The numbers of the members of an array that have power, in the order in which it has them.
    pub(super) fn members(&self, place: usize) -> Vec<usize> {
        let parts = self.0.iter().find(|parts| parts.place == place);
        parts.map_or(Vec::new(), |parts| parts.drives.iter().map(|(number, _)| *number).collect())
    }

    /// The power has gone before drivers had attached: gives the media back.
    pub(super) fn power_off(self, seats: &mut [Seat]) {
        for Parts { place, drives, .. } in self.0 {
            let seat = &mut seats[place];
            let media = drives.iter().filter_map(|(number, drive)| Some((*number, drive.power_off()?)));
            match &mut seat.kept {
                // What a bridge's memory holds was written into it in an earlier life: it is still there.
                Kept::Array(kept) => {
                    *kept = KeptArray { media: media.collect(), ..std::mem::take(kept) };
                    kept.end_life(seat.run.plan.drive.array.as_ref().and_then(|array| array.canary));
                }
                kept => *kept = Kept::Memory(media.map(|(_, medium)| medium).collect()),
            }
        }
    }
}
