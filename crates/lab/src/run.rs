//! A run: builds drive and host, lets the jobs loose, and gathers what they found.

use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::scenario::Scenario;
use crate::summary::Summary;

/// What a run shows itself to and listens to.
pub struct Session<'a> {
    /// To be told how far it is.
    pub progress: &'a mut Progress,
    /// Says when to stop; the summary is then marked as partial.
    pub interrupt: &'a Interrupt,
}

/// Runs a scenario to its end, or until it is interrupted.
pub fn run(scenario: &Scenario, session: Session<'_>) -> anyhow::Result<Summary> {
    let Session { progress: _, interrupt: _ } = session;
    anyhow::bail!("scenario `{}` is valid, but nothing runs it yet", scenario.name)
}
