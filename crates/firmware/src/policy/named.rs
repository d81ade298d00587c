//! Policies by their names in scenarios.

use super::argument::WrongArgument;
use super::victim::built_in::BUILT_IN;
use super::victim::{MadeVictim, Victim, VictimPolicy, VictimView};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Makes a policy from the argument behind its name, such as the `2` of `d-choices:2`; without one, `None`.
///
/// # Errors
/// What is wrong with the argument, and what would be right, each a clause.
pub type MakeVictim = Arc<dyn Fn(Option<&str>) -> MadeVictim + Send + Sync>;

/// A policy that is not built in.
#[derive(Clone)]
struct Added {
    about: String,
    hash: String,
    make: MakeVictim,
}

/// Policies beyond the built-in ones, by name.
#[derive(Clone, Default)]
pub struct Policies {
    victims: BTreeMap<String, Added>,
    /// The program that has them.
    build: String,
    /// Of all drives, whatever their profiles name.
    instead: Option<VictimPolicy>,
}

/// By names and versions: code can't be compared.
impl PartialEq for Policies {
    fn eq(&self, other: &Self) -> bool {
        let names = |policies: &Policies| -> Vec<(String, String)> {
            policies.victims.iter().map(|(name, added)| (name.clone(), added.hash.clone())).collect()
        };
        (names(self), &self.build, &self.instead) == (names(other), &other.build, &other.instead)
    }
}

impl std::fmt::Debug for Policies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.victims.keys()).finish()
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
        make: impl Fn(Option<&str>) -> MadeVictim + Send + Sync + 'static,
    ) -> Self {
        let (name, added) =
            (name.into(), Added { about: about.into(), hash: hash.into(), make: Arc::new(make) });
        let is_free = !BUILT_IN.iter().any(|built_in| built_in.name == name);
        assert!(is_free, "`{name}` is the name of a built-in policy");
        assert!(
            !name.contains(':') && !is_file(&name),
            "`{name}` is no name: a colon begins an argument, and .o or .bpf is of a file"
        );
        self.victims.insert(name, added);
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
        self.victims.is_empty() && self.instead.is_none()
    }

    /// Gives all drives this policy, whatever their profiles name.
    #[must_use]
    pub fn with_victim_of_all(self, policy: VictimPolicy) -> Self {
        Policies { instead: Some(policy), ..self }
    }

    /// The policy of all drives, if they have one.
    pub fn victim_of_all(&self) -> Option<&VictimPolicy> {
        self.instead.as_ref()
    }

    /// Names of victim policies, with what each does: the built-in ones first.
    pub fn victims(&self) -> impl Iterator<Item = (&str, &str)> {
        let built_in = BUILT_IN.iter().map(|built_in| (built_in.name, built_in.about));
        built_in.chain(self.victims.iter().map(|(name, added)| (name.as_str(), added.about.as_str())))
    }

    /// The victim policy with this name, `name` or `name:argument`.
    ///
    /// # Errors
    /// There is none, or its argument is wrong.
    pub fn victim(&self, text: &str) -> Result<VictimPolicy, UnknownPolicy> {
        let (name, argument) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let (hash, make): (_, MakeVictim) = match self.victims.get(name) {
            Some(added) => (Some(added.hash.clone()), added.make.clone()),
            None => {
                let built_in = BUILT_IN.iter().find(|built_in| built_in.name == name);
                let make = built_in.ok_or(UnknownPolicy::Name)?.make;
                (None, Arc::new(make))
            }
        };
        make(argument).map_err(UnknownPolicy::Argument)?;
        let argument = argument.map(str::to_owned);
        // It was made with this argument just now; but code that is not built in may depend on more than that.
        let made = move || make(argument.as_deref()).unwrap_or_else(|wrong| Box::new(Unmade(wrong)));
        let build = if hash.is_some() { self.build.clone() } else { String::new() };
        Ok(VictimPolicy::new(text, hash, made).of_build(build))
    }
}

/// A policy that could not be made again: it chooses nothing, and says why.
struct Unmade(WrongArgument);

impl Victim for Unmade {
    fn choose(&mut self, _view: &mut VictimView<'_>) -> u32 {
        u32::MAX
    }

    fn fault(&self) -> Option<String> {
        Some(format!("it {}", self.0.what))
    }
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
