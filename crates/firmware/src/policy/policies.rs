//! Policies by their names in scenarios.

use super::admission::Admission;
use super::prefetch::Prefetch;
use super::stream::Stream;
use super::victim::Victim;
use super::wear::Wear;
use byteway_flash::policy::{Schedule, Suspend};
use byteway_policy::{Added, Kind, Made, Named, Set, UnknownPolicy};
use std::fmt;
use std::sync::Arc;

/// A kind of policy that drives have.
pub trait DriveKind: Kind {
    /// Those of this kind.
    fn of(policies: &Policies) -> &Set<Self>;
    /// The same, to be changed.
    fn of_mut(policies: &mut Policies) -> &mut Set<Self>;
}

macro_rules! kinds {
    ($($field:ident: $kind:ident),* $(,)?) => {
        /// Policies beyond the built-in ones, by name, of all [kinds](DriveKind).
        #[derive(Clone, Default, PartialEq)]
        pub struct Policies {
            $($field: Set<dyn $kind>,)*
            /// The program that has them.
            build: String,
        }

        impl fmt::Debug for Policies {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_set()$(.entries(self.$field.added()))*.finish()
            }
        }

        impl Policies {
            /// Whether there are none but the built-in ones.
            pub fn is_empty(&self) -> bool {
                true $(&& self.$field.is_empty())*
            }
        }

        $(impl DriveKind for dyn $kind {
            fn of(policies: &Policies) -> &Set<Self> {
                &policies.$field
            }

            fn of_mut(policies: &mut Policies) -> &mut Set<Self> {
                &mut policies.$field
            }
        })*
    };
}

kinds! {
    victims: Victim,
    streams: Stream,
    wear: Wear,
    admissions: Admission,
    prefetches: Prefetch,
    schedules: Schedule,
    suspends: Suspend,
}

impl Policies {
    /// Adds a policy. `about` is what it does, in a sentence; `hash` tells this version of its code from others, for summaries and
    /// caches of results.
    ///
    /// # Panics
    /// The name is one that could not be reached: of a built-in policy, of a file, or with a colon.
    #[must_use]
    pub fn with<P: DriveKind + ?Sized>(
        mut self,
        name: impl Into<String>,
        about: impl Into<String>,
        hash: impl Into<String>,
        make: impl Fn(Option<&str>) -> Made<P> + Send + Sync + 'static,
    ) -> Self {
        let added = Added { about: about.into(), hash: hash.into(), make: Arc::new(make) };
        P::of_mut(&mut self).add(name.into(), added);
        self
    }

    /// Names the program that has these policies, by a hash of its file, say: results kept of another one are not taken for its. Their own
    /// versions are what their authors say, who may forget to.
    #[must_use]
    pub fn with_build(self, build: String) -> Self {
        Policies { build, ..self }
    }

    /// Gives all drives this policy, whatever their profiles name.
    #[must_use]
    pub fn with_of_all<P: DriveKind + ?Sized>(mut self, policy: Named<P>) -> Self {
        P::of_mut(&mut self).instead = Some(policy);
        self
    }

    /// The policy of all drives, if they have one.
    pub fn of_all<P: DriveKind + ?Sized>(&self) -> Option<&Named<P>> {
        P::of(self).instead.as_ref()
    }

    /// Names of policies of a kind, with what each does: the built-in ones first.
    pub fn each<P: DriveKind + ?Sized>(&self) -> impl Iterator<Item = (&str, &str)> {
        P::of(self).each()
    }

    /// The policy of a kind with this name, `name` or `name:argument`.
    ///
    /// # Errors
    /// There is none, or its argument is wrong, as that of a stream policy which declares streams that a drive can't have.
    pub fn find<P: DriveKind + ?Sized>(&self, text: &str) -> Result<Named<P>, UnknownPolicy> {
        P::of(self).find(text, &self.build)
    }
}
