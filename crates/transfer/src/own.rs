//! Transfer methods that are not built in: code of a program of one's own, under names, which says of each payload how it crosses.
//!
//! A method has no end of its own in the device: it chooses among the transfers that there are. Its view is all that it sees, so that a run
//! follows from its scenario: no payload, no clock and no random numbers but those of the view.

use crate::choice::{Rules, TransferChoice, choose};
use crate::host::PointerKind;
use crate::method::{Limits, Method, OwnEntry, TransferKind};
use byteway_clock::random::{Rng, Stream};
use byteway_policy::{Added, Asked, BuiltIn, Kind, Made, Named, Set, caught};
use byteway_wire::nvme::vendor::{Extension, Methods};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

pub use byteway_policy::{UnknownPolicy, WrongArgument};

/// Chooses how payloads cross. One is made for each client of a queue pair, and may keep state from payload to payload.
pub trait TransferMethod {
    /// Extensions of a drive that it uses. A drive without one of them is refused before the run; a queue is enabled for these alone.
    fn needs(&self) -> &'static [Extension] {
        &[]
    }

    /// The longest payload, in bytes, that it places in queue entries: rings are made long enough for it.
    fn entries_bytes_max(&self) -> u32 {
        u32::MAX
    }

    /// The transfer of a payload of at least one byte. It is asked once for each, and again if a reset came between. One that is not possible
    /// ([`PayloadView::carries`]) ends the run.
    fn choose(&mut self, view: &mut PayloadView<'_>) -> TransferKind;
}

/// The built-in methods, `adaptive` among them. What they can't carry takes their fallback.
impl TransferMethod for Rules {
    fn choose(&mut self, view: &mut PayloadView<'_>) -> TransferKind {
        choose(self, view.limits, view.bytes).kind
    }
}

/// A transfer method that was made, or what is wrong with its argument.
pub type MadeTransferMethod = Made<dyn TransferMethod>;

impl Kind for dyn TransferMethod {
    /// None: those that every program has are [`Method::ALL`], and are not asked.
    fn built_in() -> &'static [BuiltIn<Self>] {
        &[]
    }

    fn unmade(why: WrongArgument) -> Box<Self> {
        Box::new(Unmade(why))
    }
}

/// A method that could not be made again: it says why.
struct Unmade(WrongArgument);

impl TransferMethod for Unmade {
    fn choose(&mut self, _: &mut PayloadView<'_>) -> TransferKind {
        panic!("{}", self.0.what)
    }
}

/// The queue of a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// Entries of the submission queue that are free.
    pub entries_free: u32,
    /// Commands that were placed and have not completed.
    pub in_flight: u32,
    /// Time since the start of the simulation, in nanoseconds.
    pub now_ns: u64,
}

/// What a method sees of a payload.
pub struct PayloadView<'a> {
    bytes: u32,
    limits: &'a Limits,
    pointer: PointerKind,
    queue: QueueView,
    random: &'a mut Stream,
}

impl<'a> PayloadView<'a> {
    /// A payload of `bytes` bytes. `pointer` is the data pointer that the scenario names as fallback.
    pub fn new(
        bytes: u32,
        limits: &'a Limits,
        pointer: PointerKind,
        queue: QueueView,
        random: &'a mut Stream,
    ) -> Self {
        PayloadView { bytes, limits, pointer, queue, random }
    }

    /// Length of the payload, in bytes: at least 1.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// The queue's size, the extensions that are enabled for it, and the longest payload by each. Of a buffer in the BAR and of memory of the
    /// drive, what this client's buffer has.
    pub fn limits(&self) -> &Limits {
        self.limits
    }

    /// The data pointer that the scenario names as `fallback`: SGLs are possible only if it names these.
    pub fn pointer(&self) -> TransferKind {
        TransferKind::Pointer(self.pointer)
    }

    /// Entries of the submission queue that are free. A payload that needs more waits.
    pub fn entries_free(&self) -> u32 {
        self.queue.entries_free
    }

    /// Commands of the queue that were placed and have not completed.
    pub fn in_flight(&self) -> u32 {
        self.queue.in_flight
    }

    /// Time since the start of the simulation, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.queue.now_ns
    }

    /// Whether the payload can cross like this.
    pub fn carries(&self, kind: TransferKind) -> bool {
        fault_of(kind, (self.limits, self.pointer), self.bytes).is_none()
    }

    /// 64 random bits, of a sequence of this client's that follows from the scenario's seed.
    pub fn random(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// An integer in `0..n`, each equally likely; 0 if `n` is 0.
    pub fn random_below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.random.below(n) }
    }

    /// A number in [0, 1), each multiple of 2^-53 equally likely.
    pub fn random_unit(&mut self) -> f64 {
        self.random.unit()
    }
}

/// What is wrong with a choice for a payload of `bytes`.
fn fault_of(kind: TransferKind, (limits, pointer): (&Limits, PointerKind), bytes: u32) -> Option<String> {
    let name = kind.name();
    let why = match kind {
        TransferKind::Refused => return Some(format!("it refused a payload of {bytes} B")),
        TransferKind::Pointer(PointerKind::Sgl) if pointer != PointerKind::Sgl => {
            "SGLs are possible only with `fallback = \"sgl\"`".to_owned()
        }
        TransferKind::Hybrid { before } if before == 0 || before >= bytes => {
            format!("{before} B before the command's entries leave nothing on one side")
        }
        _ if limits.carry(kind, bytes) => return None,
        _ if !Methods::of(kind.needs()).is_within(limits.enabled) => {
            "the queue is not enabled for it: `needs` of the method must name it".to_owned()
        }
        _ => format!("a queue of {} entries of this drive can't carry it", limits.entries),
    };
    Some(format!("it chose {name} for a payload of {bytes} B: {why}"))
}

/// A client's method that is not built in.
pub struct OwnMethod {
    needs: Methods,
    asked: Asked<dyn TransferMethod, Stream>,
    /// What it did wrong, once that was told.
    fault: Option<&'static str>,
}

impl OwnMethod {
    /// The method of `rules`, for the queue pair `qid`; `None` if it is built in.
    pub fn of(rules: &Rules, qid: u16) -> Option<OwnMethod> {
        let Method::Own(entry) = rules.method else { return None };
        let named = registry().get(entry.number())?.clone();
        let random = Rng::new(rules.seed).stream(&format!("transfer/{qid}"));
        let needs = Methods::of(rules.method.entry().needs);
        Some(OwnMethod { needs, asked: Asked::new("transfer method", &named, random), fault: None })
    }

    /// The transfer of a payload of `bytes`: [`TransferKind::Refused`] from the first wrong choice on.
    pub fn choose(&mut self, rules: &Rules, limits: &Limits, queue: QueueView, bytes: u32) -> TransferChoice {
        let fallback = TransferChoice { kind: TransferKind::Pointer(rules.fallback), is_fallback: true };
        if bytes == 0 {
            return TransferChoice::pointer(rules.fallback);
        }
        let needs = self.needs;
        let decided = self.asked.ask(|method, random| {
            let kind = method.choose(&mut PayloadView::new(bytes, limits, rules.fallback, queue, random));
            // A reset has changed the enabled methods: that is none of its fault.
            let kinds = Methods::of(kind.needs());
            if kinds.is_within(needs) && !kinds.is_within(limits.enabled) {
                return Ok(fallback);
            }
            let chosen = TransferChoice { kind, is_fallback: false };
            fault_of(kind, (limits, rules.fallback), bytes).map_or(Ok(chosen), Err)
        });
        decided.unwrap_or(TransferChoice { kind: TransferKind::Refused, is_fallback: false })
    }

    /// What it did wrong, if it did. The text is kept for as long as the process lives.
    pub fn fault(&mut self) -> Option<&'static str> {
        if self.fault.is_none() {
            self.fault = self.asked.fault().map(leaked);
        }
        self.fault
    }
}

/// The methods of this process that are not built in, by their numbers. A [`Method`] is `Copy`: what is behind it lives as long.
fn registry() -> std::sync::MutexGuard<'static, Vec<Named<dyn TransferMethod>>> {
    static REGISTRY: Mutex<Vec<Named<dyn TransferMethod>>> = Mutex::new(Vec::new());
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A text for as long as the process lives.
fn leaked(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

/// The methods of a program that are not built in, by name.
#[derive(Clone, Default)]
pub struct TransferMethods {
    added: Set<dyn TransferMethod>,
    build: String,
    /// Those that were asked for, by name with argument.
    found: Arc<Mutex<BTreeMap<String, &'static OwnEntry>>>,
}

impl PartialEq for TransferMethods {
    fn eq(&self, other: &Self) -> bool {
        (&self.added, &self.build) == (&other.added, &other.build)
    }
}

impl fmt::Debug for TransferMethods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.added.added()).finish()
    }
}

impl TransferMethods {
    /// Adds a method. `about` is what it does, in a sentence; `hash` tells this version of its code from others, for summaries and caches of
    /// results.
    ///
    /// # Panics
    /// The name is one that could not be reached: of a built-in method, of a file, or with a colon.
    #[must_use]
    pub fn with_method(
        self,
        name: impl Into<String>,
        about: impl Into<String>,
        hash: impl Into<String>,
        make: impl Fn(Option<&str>) -> MadeTransferMethod + Send + Sync + 'static,
    ) -> Self {
        let (mut added, name) = (self.added, name.into());
        let is_free = !Method::ALL.iter().any(|method| method.name() == name);
        assert!(is_free, "`{name}` is the name of a built-in transfer method");
        added.add(name, Added { about: about.into(), hash: hash.into(), make: Arc::new(make) });
        TransferMethods { added, build: self.build, found: Arc::default() }
    }

    /// Names the program that has these methods, by a hash of its file, say: results kept of another one are not taken for its.
    #[must_use]
    pub fn with_build(self, build: String) -> Self {
        TransferMethods { build, added: self.added, found: Arc::default() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty()
    }

    /// The names, with what each method does.
    pub fn each(&self) -> impl Iterator<Item = (&str, &str)> {
        self.added.each()
    }

    /// The method with this name, `name` or `name:argument`.
    ///
    /// # Errors
    /// There is none, or its argument is wrong.
    pub fn find(&self, text: &str) -> Result<Method, UnknownPolicy> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = found.get(text) {
            return Ok(Method::Own(entry));
        }
        let named = self.added.find(text, &self.build)?;
        let said = caught(|| {
            let method = named.make();
            (method.needs(), method.entries_bytes_max())
        });
        let (needs, entries_bytes_max) = said.map_err(|what| {
            let help = "the method's code is at fault: mend it there".into();
            UnknownPolicy::Argument(WrongArgument { what, help })
        })?;
        let name = text.split_once(':').map_or(text, |(name, _)| name);
        let about = self.added.each().find(|(own, _)| *own == name).map_or("", |(_, about)| about);
        let versions = (named.hash().unwrap_or_default().to_owned(), self.build.clone());
        let number = {
            let mut registry = registry();
            registry.push(named);
            registry.len() - 1
        };
        let words = (leaked(text), leaked(about));
        let entry: &'static OwnEntry =
            Box::leak(Box::new(OwnEntry::new(words, versions, needs, entries_bytes_max, number)));
        found.insert(text.to_owned(), entry);
        Ok(Method::Own(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        enabled: Methods::new().with_inline(true).with_inline_tail(true),
        entries: 64,
        inline_bytes_max: 1024,
        reassembly_bytes_max: 1024,
        piggyback_bytes_max: 1024,
        bar_bytes: 4096,
        memory_bytes: 0,
    };
    const NEEDS: &[Extension] = &[Extension::Inline, Extension::InlineTail];

    type Choose = fn(&mut PayloadView<'_>) -> TransferKind;

    /// Does what it was made of.
    struct Says<F>(F);

    impl<F: FnMut(&mut PayloadView<'_>) -> TransferKind> TransferMethod for Says<F> {
        fn needs(&self) -> &'static [Extension] {
            NEEDS
        }

        fn choose(&mut self, view: &mut PayloadView<'_>) -> TransferKind {
            (self.0)(view)
        }
    }

    fn rules(choose: Choose) -> Rules {
        let make = move |argument: Option<&str>| match argument {
            None => Ok(Box::new(Says(choose)) as Box<dyn TransferMethod>),
            Some(_) => Err(WrongArgument::none_is_taken()),
        };
        let methods = TransferMethods::default().with_method("own", "Says.", "1", make);
        Rules { seed: 7, ..Rules::only(methods.find("own").expect("it is there")) }
    }

    fn chosen(rules: &Rules, limits: &Limits, bytes: u32) -> (TransferChoice, Option<String>) {
        let mut own = OwnMethod::of(rules, 1).expect("not built in");
        let choice = own.choose(rules, limits, QueueView::default(), bytes);
        (choice, own.fault().map(str::to_owned))
    }

    // A choice that a queue can't carry would be counted as the method's, and be another's.
    #[test]
    fn what_is_not_possible_is_refused_with_its_name_and_reason() {
        let refused = TransferChoice { kind: TransferKind::Refused, is_fallback: false };
        let wrong: [(Choose, &str); 6] = [
            (
                |_| TransferKind::Mmio,
                "it chose mmio for a payload of 2000 B: the queue is not enabled for it",
            ),
            (|_| TransferKind::Inline { paper: false }, "a queue of 64 entries of this drive can't carry it"),
            (|_| TransferKind::Hybrid { before: 2000 }, "2000 B before the command's entries"),
            (|_| TransferKind::Pointer(PointerKind::Sgl), "only with `fallback = \"sgl\"`"),
            (|_| TransferKind::Refused, "it refused a payload of 2000 B"),
            (|view| panic!("at {} B", view.bytes()), "it panicked: at 2000 B"),
        ];
        for (choose, says) in wrong {
            let (choice, fault) = chosen(&rules(choose), &LIMITS, 2000);
            assert_eq!(choice, refused);
            let fault = fault.expect("it is told");
            assert!(
                fault.starts_with("the transfer method `own` failed: it ") && fault.contains(says),
                "{fault}"
            );
        }
        let split = |_: &mut PayloadView<'_>| TransferKind::Hybrid { before: 1000 };
        let kept = TransferChoice { kind: TransferKind::Hybrid { before: 1000 }, is_fallback: false };
        assert_eq!(chosen(&rules(split), &LIMITS, 2000), (kept, None));
    }

    // A reset that takes an extension away is no fault of the method; an empty payload is none to be asked about.
    #[test]
    fn what_a_reset_took_away_goes_by_the_fallback() {
        let inline = rules(|_| TransferKind::Inline { paper: false });
        let (choice, fault) = chosen(&inline, &Limits { enabled: Methods::new(), ..LIMITS }, 64);
        assert_eq!(
            (choice.kind, choice.is_fallback, fault),
            (TransferKind::Pointer(PointerKind::Prp), true, None)
        );
        let empty = chosen(&rules(|_| TransferKind::Refused), &LIMITS, 0);
        assert_eq!(empty, (TransferChoice::pointer(PointerKind::Prp), None));
    }

    // The seam has to be wide enough for what is built in, or nobody could begin with `adaptive` and change it.
    #[test]
    fn a_built_in_method_is_one_of_the_seam() {
        let mut random = Rng::new(1).stream("test");
        for method in Method::ALL {
            let mut rules = Rules { threshold_bytes: 128, ..Rules::only(method) };
            for bytes in [1, 35, 36, 127, 128, 1024, 4097] {
                let mut view =
                    PayloadView::new(bytes, &LIMITS, PointerKind::Prp, QueueView::default(), &mut random);
                assert_eq!(
                    TransferMethod::choose(&mut rules, &mut view),
                    choose(&rules, &LIMITS, bytes).kind
                );
            }
        }
    }

    // Sweeps find their kept results by name, version and build; a name with another argument is another method.
    #[test]
    fn methods_are_told_apart_by_name_version_and_build() {
        let methods = |version: &str| {
            let make = |_: Option<&str>| Ok(Box::new(Rules::only(Method::Prp)) as Box<dyn TransferMethod>);
            TransferMethods::default().with_method("own", "Says.", version, make)
        };
        let of = |methods: &TransferMethods, name: &str| methods.find(name).expect("it is there");
        let one = methods("1");
        assert_eq!(of(&one, "own"), of(&one.clone(), "own"));
        assert_eq!(of(&one, "own"), of(&methods("1"), "own"));
        assert_ne!(of(&one, "own"), of(&one, "own:2"));
        assert_ne!(of(&one, "own"), of(&methods("2"), "own"));
        assert_ne!(of(&one, "own"), of(&one.clone().with_build("b".into()), "own"));
        assert_eq!((of(&one, "own:2").name(), of(&one, "own").entry().about), ("own:2", "Says."));
        assert_eq!(one.find("other"), Err(UnknownPolicy::Name));
    }

    #[test]
    #[should_panic(expected = "`inline` is the name of a built-in transfer method")]
    fn a_built_in_method_is_not_replaced() {
        let make = |_: Option<&str>| Ok(Box::new(Rules::only(Method::Prp)) as Box<dyn TransferMethod>);
        let _ = TransferMethods::default().with_method("inline", "", "1", make);
    }
}
