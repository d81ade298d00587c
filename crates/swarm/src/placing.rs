//! Drives composed of others: powers on their parts and attaches drivers to these before a life starts.

use super::drive;
use super::failure::{Failure, Kind};
use super::kept::{Kept, KeptArray, impossible};
use super::seat::Seat;
use byteway_assembly::{ArrayDriveConfig, ArrayDriveError, Hosted, HostedError, Members, assemble};
use byteway_clock::{Clock, Executor, RunOutcome, Station};
use byteway_device::Drive;
use byteway_world::PoweredDrive;
use std::rc::Rc;

/// Composed drives during setup.
#[derive(Default)]
pub(super) struct Placing(Vec<Parts>);

/// The powered parts of one composed drive.
struct Parts {
    /// Index of its seat.
    place: usize,
    /// Endpoints, or members by number.
    drives: Vec<(usize, Rc<Drive>)>,
    /// The composed drive to attach.
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

/// A composed drive, with the index of its seat.
pub(super) struct Placed {
    pub(super) place: usize,
    pub(super) drive: PoweredDrive,
}

impl Placing {
    /// Powers on the parts of the seats that have some, taking their media. `lives` is the number of lives ended.
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

    /// Attaches to all parts, before poll `polls`. `None` if the power was cut before that.
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
            Ok(RunOutcome::Cut) => Ok(None),
            Ok(RunOutcome::Ended(placed)) => placed.into_iter().collect::<Result<_, _>>().map(Some),
        }
    }

    /// The numbers of an array's powered members, in the array's order.
    pub(super) fn members(&self, place: usize) -> Vec<usize> {
        let parts = self.0.iter().find(|parts| parts.place == place);
        parts.map_or(Vec::new(), |parts| parts.drives.iter().map(|(number, _)| *number).collect())
    }

    /// The power was cut before drivers had attached: returns the media.
    pub(super) fn power_off(self, seats: &mut [Seat]) {
        for Parts { place, drives, .. } in self.0 {
            let seat = &mut seats[place];
            let media = drives.iter().filter_map(|(number, drive)| Some((*number, drive.power_off()?)));
            match &mut seat.kept {
                // A bridge's memory was written in an earlier life and is retained.
                Kept::Array(kept) => {
                    *kept = KeptArray { media: media.collect(), ..std::mem::take(kept) };
                    kept.end_life(seat.run.plan.defect);
                }
                kept => *kept = Kept::Memory(media.map(|(_, medium)| medium).collect()),
            }
        }
    }
}
