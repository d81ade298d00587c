//! Policies by their names in scenarios.

use super::stream::{Stream, StreamPolicy};
use super::victim::{Victim, VictimPolicy};
use byteway_flash::policy::{Schedule, SchedulePolicy, Suspend, SuspendPolicy};
use byteway_policy::{Added, Made, Set, UnknownPolicy};
use std::fmt;
use std::sync::Arc;

/// Policies beyond the built-in ones, by name.
#[derive(Clone, Default, PartialEq)]
pub struct Policies {
    victims: Set<dyn Victim>,
    streams: Set<dyn Stream>,
    schedules: Set<dyn Schedule>,
    suspends: Set<dyn Suspend>,
    /// The program that has them.
    build: String,
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_firmware = self.victims.added().chain(self.streams.added());
        f.debug_set().entries(of_firmware.chain(self.schedules.added()).chain(self.suspends.added())).finish()
    }
}

impl Policies {
    /// Adds a victim policy. `about` is what it does, in a sentence; `hash` tells this version of its code from others, for summaries and
    /// caches of results.
    ///
    /// # Panics
    /// The name is one that could not be reached: of a built-in policy, of a file, or with a colon.
    #[must_use]
    pub fn with_victim(
        mut self,
        name: impl Into<String>,
        about: impl Into<String>,
        hash: impl Into<String>,
        make: impl Fn(Option<&str>) -> Made<dyn Victim> + Send + Sync + 'static,
    ) -> Self {
        let added = Added { about: about.into(), hash: hash.into(), make: Arc::new(make) };
        self.victims.add(name.into(), added);
        self
    }

    /// Adds a stream policy, as [`with_victim`](Policies::with_victim).
    ///
    /// # Panics
    /// Same as `with_victim`.
    #[must_use]
    pub fn with_stream(
        mut self,
        name: impl Into<String>,
        about: impl Into<String>,
        hash: impl Into<String>,
        make: impl Fn(Option<&str>) -> Made<dyn Stream> + Send + Sync + 'static,
    ) -> Self {
        let added = Added { about: about.into(), hash: hash.into(), make: Arc::new(make) };
        self.streams.add(name.into(), added);
        self
    }

    /// Adds a schedule of dies, as [`with_victim`](Policies::with_victim).
    ///
    /// # Panics
    /// Same as `with_victim`.
    #[must_use]
    pub fn with_schedule(
        mut self,
        name: impl Into<String>,
        about: impl Into<String>,
        hash: impl Into<String>,
        make: impl Fn(Option<&str>) -> Made<dyn Schedule> + Send + Sync + 'static,
    ) -> Self {
        let added = Added { about: about.into(), hash: hash.into(), make: Arc::new(make) };
        self.schedules.add(name.into(), added);
        self
    }

    /// Adds a policy of suspension, as [`with_victim`](Policies::with_victim).
    ///
    /// # Panics
    /// Same as `with_victim`.
    #[must_use]
    pub fn with_suspend(
        mut self,
        name: impl Into<String>,
        about: impl Into<String>,
        hash: impl Into<String>,
        make: impl Fn(Option<&str>) -> Made<dyn Suspend> + Send + Sync + 'static,
    ) -> Self {
        let added = Added { about: about.into(), hash: hash.into(), make: Arc::new(make) };
        self.suspends.add(name.into(), added);
        self
    }

    /// Names the program that has these policies, by a hash of its file, say: results kept of another one are not taken for its. Their own
    /// versions are what their authors say, who may forget to.
    #[must_use]
    pub fn with_build(self, build: String) -> Self {
        Policies { build, ..self }
    }

    /// Whether there are none but the built-in ones.
    pub fn is_empty(&self) -> bool {
        let of_firmware = self.victims.is_empty() && self.streams.is_empty();
        of_firmware && self.schedules.is_empty() && self.suspends.is_empty()
    }

    /// Gives all drives this policy, whatever their profiles name.
    #[must_use]
    pub fn with_victim_of_all(mut self, policy: VictimPolicy) -> Self {
        self.victims.instead = Some(policy);
        self
    }

    /// The policy of all drives, if they have one.
    pub fn victim_of_all(&self) -> Option<&VictimPolicy> {
        self.victims.instead.as_ref()
    }

    /// Gives all drives this stream policy, whatever their profiles name.
    #[must_use]
    pub fn with_stream_of_all(mut self, policy: StreamPolicy) -> Self {
        self.streams.instead = Some(policy);
        self
    }

    /// The stream policy of all drives, if they have one.
    pub fn stream_of_all(&self) -> Option<&StreamPolicy> {
        self.streams.instead.as_ref()
    }

    /// Gives the dies of all drives this schedule, whatever their profiles name.
    #[must_use]
    pub fn with_schedule_of_all(mut self, policy: SchedulePolicy) -> Self {
        self.schedules.instead = Some(policy);
        self
    }

    /// The schedule of all drives, if they have one.
    pub fn schedule_of_all(&self) -> Option<&SchedulePolicy> {
        self.schedules.instead.as_ref()
    }

    /// Gives all drives that suspend operations this policy of suspension, whatever their profiles name.
    #[must_use]
    pub fn with_suspend_of_all(mut self, policy: SuspendPolicy) -> Self {
        self.suspends.instead = Some(policy);
        self
    }

    /// The policy of suspension of all drives, if they have one.
    pub fn suspend_of_all(&self) -> Option<&SuspendPolicy> {
        self.suspends.instead.as_ref()
    }

    /// Names of victim policies, with what each does: the built-in ones first.
    pub fn victims(&self) -> impl Iterator<Item = (&str, &str)> {
        self.victims.each()
    }

    /// Names of stream policies, as [`victims`](Policies::victims).
    pub fn streams(&self) -> impl Iterator<Item = (&str, &str)> {
        self.streams.each()
    }

    /// Names of schedules, as [`victims`](Policies::victims).
    pub fn schedules(&self) -> impl Iterator<Item = (&str, &str)> {
        self.schedules.each()
    }

    /// Names of policies of suspension, as [`victims`](Policies::victims).
    pub fn suspends(&self) -> impl Iterator<Item = (&str, &str)> {
        self.suspends.each()
    }

    /// The victim policy with this name, `name` or `name:argument`.
    ///
    /// # Errors
    /// There is none, or its argument is wrong.
    pub fn victim(&self, text: &str) -> Result<VictimPolicy, UnknownPolicy> {
        self.victims.find(text, &self.build)
    }

    /// The stream policy with this name, `name` or `name:argument`.
    ///
    /// # Errors
    /// There is none, its argument is wrong, or it declares streams that a drive can't have.
    pub fn stream(&self, text: &str) -> Result<StreamPolicy, UnknownPolicy> {
        self.streams.find(text, &self.build)
    }

    /// The schedule with this name, `name` or `name:argument`.
    ///
    /// # Errors
    /// There is none, or its argument is wrong.
    pub fn schedule(&self, text: &str) -> Result<SchedulePolicy, UnknownPolicy> {
        self.schedules.find(text, &self.build)
    }

    /// The policy of suspension with this name, `name` or `name:argument`.
    ///
    /// # Errors
    /// There is none, or its argument is wrong.
    pub fn suspend(&self, text: &str) -> Result<SuspendPolicy, UnknownPolicy> {
        self.suspends.find(text, &self.build)
    }
}
