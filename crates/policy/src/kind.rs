//! Kinds of policies, and how policies are made.

use crate::argument::WrongArgument;
use std::sync::Arc;

/// A policy that was made, or what is wrong with its argument.
pub type Made<P> = Result<Box<P>, WrongArgument>;

/// Makes a policy from the argument behind its name, such as the `2` of `d-choices:2`; without one, `None`.
///
/// # Errors
/// What is wrong with the argument, and what would be right, each a clause.
pub type Make<P> = Arc<dyn Fn(Option<&str>) -> Made<P> + Send + Sync>;

/// A policy that every program has.
pub struct BuiltIn<P: ?Sized> {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// Makes one from its argument.
    pub make: fn(Option<&str>) -> Made<P>,
}

/// A kind of policy: the trait object of it.
pub trait Kind: 'static {
    /// Those that every program has. The first one needs no argument: it is the [default](super::Named::is_default).
    fn built_in() -> &'static [BuiltIn<Self>];

    /// One that could not be made again: it decides nothing, and says why.
    fn unmade(why: WrongArgument) -> Box<Self>;

    /// What is wrong with one that was made.
    fn wrong(&self) -> Option<WrongArgument> {
        None
    }
}

/// A policy that is not built in.
pub struct Added<P: ?Sized> {
    /// What it does, in a sentence.
    pub about: String,
    /// Tells this version of its code from others.
    pub hash: String,
    /// Makes one from its argument.
    pub make: Make<P>,
}

impl<P: ?Sized> Clone for Added<P> {
    fn clone(&self) -> Self {
        Added { about: self.about.clone(), hash: self.hash.clone(), make: self.make.clone() }
    }
}

/// What a policy without arguments is made of.
///
/// # Errors
/// There is an argument.
pub fn plain<P: ?Sized>(argument: Option<&str>, policy: Box<P>) -> Made<P> {
    argument.map_or(Ok(policy), |_| Err(WrongArgument::none_is_taken()))
}
