//! A policy that a drive asks, and what it did wrong.

use crate::kind::Kind;
use crate::named::{Named, caught};

/// A policy of a drive, with its random numbers.
pub struct Asked<P: ?Sized, R> {
    /// What it is, in words.
    kind: &'static str,
    name: String,
    /// It is not built in.
    is_added: bool,
    policy: Box<P>,
    random: R,
    /// What it did wrong. From then on it is no longer asked, and the drive decides itself, so that it can still be shut down.
    fault: Option<String>,
}

impl<P: Kind + ?Sized, R> Asked<P, R> {
    /// Makes the drive's policy. `kind` is what it is, in words: `victim policy`.
    pub fn new(kind: &'static str, named: &Named<P>, random: R) -> Self {
        let (name, is_added) = (named.name().to_owned(), named.hash().is_some());
        Asked { kind, name, is_added, policy: named.make(), random, fault: None }
    }

    /// What the policy decides. `ask` returns what is wrong with that, if it is. None from the first wrong decision on.
    pub fn ask<T>(&mut self, ask: impl FnOnce(&mut P, &mut R) -> Result<T, String>) -> Option<T> {
        if self.fault.is_some() {
            return None;
        }
        let Asked { kind, name, is_added, policy, random, fault } = self;
        // One of a user's may panic: that is a fault of it, and none of the drive.
        let decided = caught(|| ask(policy, random)).unwrap_or_else(|what| Err(format!("it {what}")));
        decided
            .map_err(|what| {
                debug_assert!(*is_added, "the built-in policy {name}: {what}");
                *fault = Some(format!("the {kind} `{name}` failed: {what}"));
            })
            .ok()
    }

    /// Random numbers for a decision of the drive itself.
    pub fn random(&mut self) -> &mut R {
        &mut self.random
    }

    /// What the policy did wrong, if it did.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }
}
