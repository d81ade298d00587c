//! A policy that a drive asks, and what it did wrong.

use crate::policy::Named;
use byteway_clock::random::{Rng, Stream as Random};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A policy of a drive.
pub(in crate::ftl) struct Asked<P: ?Sized> {
    /// What it decides, in a word.
    kind: &'static str,
    name: String,
    /// It is not built in.
    is_added: bool,
    policy: Box<P>,
    random: Random,
    /// What it did wrong. From then on it is no longer asked, and the drive decides itself, so that it can still be shut down.
    fault: Option<String>,
}

impl<P: ?Sized> Asked<P> {
    /// Makes the drive's policy. Its random numbers are the sequence called `sequence` of `seed`.
    pub(in crate::ftl) fn new(kind: &'static str, named: &Named<P>, seed: u64, sequence: &str) -> Self {
        let random = Rng::new(seed).stream(sequence);
        let (name, is_added) = (named.name().to_owned(), named.hash().is_some());
        Asked { kind, name, is_added, policy: named.make(), random, fault: None }
    }

    /// What the policy decides. `ask` returns what is wrong with that, if it is. None from the first wrong decision on.
    pub(in crate::ftl) fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut P, &mut Random) -> Result<T, String>,
    ) -> Option<T> {
        if self.fault.is_some() {
            return None;
        }
        let Asked { kind, name, is_added, policy, random, fault } = self;
        // One of a user's may panic: that is a fault of it, and none of the drive.
        let decided = catch_unwind(AssertUnwindSafe(|| ask(policy, random)));
        let decided = decided.unwrap_or_else(|panic| {
            let what = panic.downcast_ref::<&str>().copied().map(str::to_owned);
            let what = what.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Err(format!("it panicked: {what}"))
        });
        decided
            .map_err(|what| {
                debug_assert!(*is_added, "the built-in policy {name}: {what}");
                *fault = Some(format!("the {kind} policy `{name}` failed: {what}"));
            })
            .ok()
    }

    /// Random numbers for a decision of the drive itself.
    pub(in crate::ftl) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// What the policy did wrong, if it did.
    pub(in crate::ftl) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }
}
