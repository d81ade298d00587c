//! A policy under its name, and all of a kind that have one.

use crate::argument::WrongArgument;
use crate::kind::{Added, Kind, Made, Make};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A policy under its name, from which each drive makes its own.
pub struct Named<P: ?Sized> {
    name: String,
    hash: Option<String>,
    /// The program that has it, of one that is not built in.
    build: String,
    make: Arc<dyn Fn() -> Made<P> + Send + Sync>,
}

impl<P: ?Sized> Named<P> {
    /// A policy; `hash` tells the code of one that is not built in from other versions of it.
    pub fn new(
        name: impl Into<String>,
        hash: Option<String>,
        make: impl Fn() -> Box<P> + Send + Sync + 'static,
    ) -> Self {
        Named { name: name.into(), hash, build: String::new(), make: Arc::new(move || Ok(make())) }
    }

    /// The same of this build of its program.
    #[must_use]
    pub fn of_build(self, build: &str) -> Self {
        Named { build: build.to_owned(), ..self }
    }

    /// Its name, with its argument.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version of its code, if it is not built in.
    pub fn hash(&self) -> Option<&str> {
        self.hash.as_deref()
    }

    /// One, if it can be made.
    ///
    /// # Errors
    /// Its argument is wrong, or its code panics.
    pub fn made(&self) -> Made<P> {
        caught(|| (self.make)()).unwrap_or_else(|what| Err(WrongArgument::panicked(what)))
    }

    /// What one says of itself that is made only to be asked this.
    ///
    /// # Errors
    /// It can't be made, or its code panics.
    pub fn says<T>(&self, ask: impl FnOnce(&P) -> T) -> Result<T, WrongArgument> {
        let made = self.made()?;
        caught(|| ask(&made)).map_err(WrongArgument::panicked)
    }
}

impl<P: ?Sized> Clone for Named<P> {
    fn clone(&self) -> Self {
        let Named { name, hash, build, make } = self;
        Named { name: name.clone(), hash: hash.clone(), build: build.clone(), make: make.clone() }
    }
}

impl<P: Kind + ?Sized> Named<P> {
    /// One for a drive.
    pub fn make(&self) -> Box<P> {
        self.made().unwrap_or_else(P::unmade)
    }

    /// The built-in policy of this name, without an argument; None if it needs one, or there is none.
    pub fn built_in(name: &str) -> Option<Self> {
        let built_in = P::built_in().iter().find(|built_in| built_in.name == name)?;
        let make = built_in.make;
        make(None).ok()?;
        Some(Named {
            name: name.into(),
            hash: None,
            build: String::new(),
            make: Arc::new(move || make(None)),
        })
    }

    /// Whether it is what a drive has whose profile names none: the first of those that are built in. It need not be asked where the drive can
    /// do as well itself.
    pub fn is_default(&self) -> bool {
        self.hash.is_none() && P::built_in().first().is_some_and(|first| first.name == self.name)
    }
}

/// The first of those that are built in.
///
/// # Panics
/// There is none, or it needs an argument.
impl<P: Kind + ?Sized> Default for Named<P> {
    fn default() -> Self {
        let first = P::built_in().first().and_then(|first| Self::built_in(first.name));
        first.expect("a kind of policy begins with one that takes no argument")
    }
}

/// By names and versions: code can't be compared.
impl<P: ?Sized> PartialEq for Named<P> {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.hash, &self.build) == (&other.name, &other.hash, &other.build)
    }
}

impl<P: ?Sized> Eq for Named<P> {}

impl<P: ?Sized> fmt::Debug for Named<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Named")
            .field("name", &self.name)
            .field("hash", &self.hash)
            .field("build", &self.build)
            .finish_non_exhaustive()
    }
}

/// The policies of a kind beyond the built-in ones, by name.
pub struct Set<P: ?Sized> {
    added: BTreeMap<String, Added<P>>,
    /// Of all drives, whatever their profiles name.
    pub instead: Option<Named<P>>,
}

impl<P: ?Sized> Default for Set<P> {
    fn default() -> Self {
        Set { added: BTreeMap::new(), instead: None }
    }
}

impl<P: ?Sized> Clone for Set<P> {
    fn clone(&self) -> Self {
        Set { added: self.added.clone(), instead: self.instead.clone() }
    }
}

impl<P: ?Sized> PartialEq for Set<P> {
    fn eq(&self, other: &Self) -> bool {
        let versions = |set: &Self| -> Vec<(String, String)> {
            set.added.iter().map(|(name, added)| (name.clone(), added.hash.clone())).collect()
        };
        (versions(self), &self.instead) == (versions(other), &other.instead)
    }
}

impl<P: Kind + ?Sized> Set<P> {
    /// Whether there are none but the built-in ones.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.instead.is_none()
    }

    /// Adds a policy.
    ///
    /// # Panics
    /// The name is one that could not be reached: of a built-in policy, of a file, empty, or with a colon.
    pub fn add(&mut self, name: String, added: Added<P>) {
        let is_free = !P::built_in().iter().any(|built_in| built_in.name == name);
        assert!(is_free, "`{name}` is the name of a built-in policy");
        assert!(
            !name.is_empty() && !name.contains(':') && !is_file(&name),
            "`{name}` is no name: a colon begins an argument, and .o or .bpf is of a file"
        );
        self.added.insert(name, added);
    }

    /// Names, with what each does: the built-in ones first.
    pub fn each(&self) -> impl Iterator<Item = (&str, &str)> {
        let built_in = P::built_in().iter().map(|built_in| (built_in.name, built_in.about));
        built_in.chain(self.added.iter().map(|(name, added)| (name.as_str(), added.about.as_str())))
    }

    /// Names of those that are not built in.
    pub fn added(&self) -> impl Iterator<Item = &str> {
        self.added.keys().map(String::as_str)
    }

    /// The policy with this name, `name` or `name:argument`, in the program `build`.
    ///
    /// # Errors
    /// There is none, or its argument is wrong.
    pub fn find(&self, text: &str, build: &str) -> Result<Named<P>, UnknownPolicy> {
        let (name, argument) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let (hash, make): (_, Make<P>) = match self.added.get(name) {
            Some(added) => (Some(added.hash.clone()), added.make.clone()),
            None => {
                let built_in = P::built_in().iter().find(|built_in| built_in.name == name);
                let make = built_in.ok_or(UnknownPolicy::Name)?.make;
                (None, Arc::new(make))
            }
        };
        let argument = argument.map(str::to_owned);
        let build = if hash.is_some() { build.to_owned() } else { String::new() };
        // It is made with this argument now, and again for each drive: code that is not built in may depend on more than that.
        let make = Arc::new(move || make(argument.as_deref()));
        let named = Named { name: text.into(), hash, build, make };
        let wrong = named.says(P::wrong).and_then(|wrong| wrong.map_or(Ok(()), Err));
        wrong.map_err(UnknownPolicy::Argument).map(|()| named)
    }
}

/// What code of a user's returns.
///
/// # Errors
/// It panicked, with this message: a fault of it, and none of the program.
pub fn caught<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let what = panic.downcast_ref::<&str>().copied().map(str::to_owned);
        let what = what.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        format!("panicked: {what}")
    })
}

/// Whether a policy's name is that of a file with a program.
pub fn is_file(name: &str) -> bool {
    [".o", ".bpf"].iter().any(|end| name.ends_with(end))
}

/// Why there is no policy of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownPolicy {
    /// Nothing has this name.
    Name,
    /// Its argument is wrong.
    Argument(WrongArgument),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::BuiltIn;

    /// Says what it is.
    trait Word {
        fn word(&self) -> String;
    }

    struct Of(String);

    impl Word for Of {
        fn word(&self) -> String {
            self.0.clone()
        }
    }

    impl Kind for dyn Word {
        fn built_in() -> &'static [BuiltIn<Self>] {
            &[BuiltIn { name: "built-in", about: "", make: |_| Ok(Box::new(Of("built-in".into()))) }]
        }

        fn unmade(why: WrongArgument) -> Box<Self> {
            Box::new(Of(why.what))
        }
    }

    // Code of a user's may panic when it is made: the program has to say whose fault that is, with a place, and go on.
    #[test]
    fn a_panic_while_a_policy_is_made_is_a_wrong_argument() {
        let made = |argument: Option<&str>| -> Made<dyn Word> {
            let number: u32 = argument.expect("a number").parse().expect("a number");
            Ok(Box::new(Of(number.to_string())))
        };
        let mut words = Set::<dyn Word>::default();
        words.add("own".into(), Added { about: String::new(), hash: "1".into(), make: Arc::new(made) });
        assert_eq!(words.find("own:7", "").map(|named| named.make().word()), Ok("7".into()));
        for wrong in ["own", "own:x"] {
            let Err(UnknownPolicy::Argument(found)) = words.find(wrong, "") else {
                panic!("{wrong} was made")
            };
            assert!(found.what.starts_with("panicked: a number"), "{}", found.what);
        }
        // Made once, and not again.
        let lost = Named::<dyn Word>::new("lost", Some("1".into()), || panic!("its file is gone"));
        assert_eq!(lost.make().word(), "panicked: its file is gone");
    }
}
