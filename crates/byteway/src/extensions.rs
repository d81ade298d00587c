//! Programs of one's own: this one, with policies, workloads, trace formats and transfer methods that it does not have.
//!
//! A crate outside of this workspace depends on `byteway` and calls [`main_with`](crate::main_with); what it adds then has names in scenarios, in
//! `byteway schema` and in error messages, as what is built in has. `examples/my-policy`, `examples/my-workload` and
//! `examples/my-transfer-method` are such crates.
//!
//! ```no_run
//! use byteway::{Extensions, Victim, VictimView};
//!
//! /// The superblock that was closed last.
//! struct Youngest;
//!
//! impl Victim for Youngest {
//!     fn choose(&mut self, view: &mut VictimView<'_>) -> u32 {
//!         view.candidates().min_by_key(|candidate| candidate.age).map_or(0, |victim| victim.index)
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     let about = "The superblock that was closed last.";
//!     let own = Extensions::default().victim("youngest", about, env!("CARGO_PKG_VERSION"), |_| Ok(Box::new(Youngest)));
//!     byteway::main_with(own)
//! }
//! ```
//!
//! What an extension can't do: it sees no map, no buffer and no other drive. It must use no clock, file or random number but those of its
//! view, or a run no longer follows from its scenario; nothing checks that. `fit` and `reproduce` know what is built in only, and so
//! do drives that are served, which have no result in which a fault could be told.

use byteway_clock::random::fnv1a;
use byteway_firmware::policy::{
    MadeAdmission, MadePrefetch, MadeSchedule, MadeStream, MadeSuspend, MadeVictim, MadeWear, Policies,
};
use byteway_scenario::{Options, TraceFormats, TransferMethods, WorkloadSources};
use byteway_trace::TraceFormat;
use byteway_transfer::own::MadeTransferMethod;
use byteway_workload::own::MadeSource;
use std::sync::OnceLock;

/// What a program has beyond what is built in.
#[derive(Clone, Debug, Default)]
pub struct Extensions {
    policies: Policies,
    sources: WorkloadSources,
    formats: TraceFormats,
    methods: TransferMethods,
}

impl Extensions {
    /// Adds a victim policy of garbage collection under a name for `firmware.gc.policy`. `about` says in a sentence what it does, and
    /// `version` which code it is: summaries name it. Results kept of another build of this program are not taken for its. `make` makes one for
    /// each drive, from what stands behind a colon in its name; it is also asked whether that is right, before there is any drive.
    ///
    /// # Panics
    /// The name is that of a built-in policy, is empty, has a colon, or ends as a file's, in `.o` or `.bpf`.
    #[must_use]
    pub fn victim(
        self,
        name: &str,
        about: &str,
        version: &str,
        make: impl Fn(Option<&str>) -> MadeVictim + Send + Sync + 'static,
    ) -> Self {
        Extensions { policies: self.policies.with(name, about, version, make), ..self }
    }

    /// Adds a stream policy under a name for `firmware.streams`, as [`victim`](Extensions::victim).
    ///
    /// # Panics
    /// Same as `victim`.
    #[must_use]
    pub fn stream(
        self,
        name: &str,
        about: &str,
        version: &str,
        make: impl Fn(Option<&str>) -> MadeStream + Send + Sync + 'static,
    ) -> Self {
        Extensions { policies: self.policies.with(name, about, version, make), ..self }
    }

    /// Adds a wear policy under a name for `firmware.wear.policy`, as [`victim`](Extensions::victim).
    ///
    /// # Panics
    /// Same as `victim`.
    #[must_use]
    pub fn wear(
        self,
        name: &str,
        about: &str,
        version: &str,
        make: impl Fn(Option<&str>) -> MadeWear + Send + Sync + 'static,
    ) -> Self {
        Extensions { policies: self.policies.with(name, about, version, make), ..self }
    }

    /// Adds a policy of what the read cache keeps under a name for `firmware.admission`, as [`victim`](Extensions::victim).
    ///
    /// # Panics
    /// Same as `victim`.
    #[must_use]
    pub fn admission(
        self,
        name: &str,
        about: &str,
        version: &str,
        make: impl Fn(Option<&str>) -> MadeAdmission + Send + Sync + 'static,
    ) -> Self {
        Extensions { policies: self.policies.with(name, about, version, make), ..self }
    }

    /// Adds a policy of reading ahead under a name for `firmware.prefetch`, as [`victim`](Extensions::victim).
    ///
    /// # Panics
    /// Same as `victim`.
    #[must_use]
    pub fn prefetch(
        self,
        name: &str,
        about: &str,
        version: &str,
        make: impl Fn(Option<&str>) -> MadePrefetch + Send + Sync + 'static,
    ) -> Self {
        Extensions { policies: self.policies.with(name, about, version, make), ..self }
    }

    /// Adds a source of I/Os under a name for `source` of a `[[job]]`, as [`victim`](Extensions::victim). `make` makes one for each worker of
    /// the job.
    ///
    /// # Panics
    /// Same as `victim`.
    #[must_use]
    pub fn source(
        self,
        name: &str,
        about: &str,
        version: &str,
        make: impl Fn(Option<&str>) -> MadeSource + Send + Sync + 'static,
    ) -> Self {
        Extensions { sources: self.sources.with_source(name, about, version, make), ..self }
    }

    /// Adds a schedule of dies under a name for `flash.schedule`, as [`victim`](Extensions::victim).
    ///
    /// # Panics
    /// Same as `victim`.
    #[must_use]
    pub fn schedule(
        self,
        name: &str,
        about: &str,
        version: &str,
        make: impl Fn(Option<&str>) -> MadeSchedule + Send + Sync + 'static,
    ) -> Self {
        Extensions { policies: self.policies.with(name, about, version, make), ..self }
    }

    /// Adds a policy of suspension under a name for `flash.suspend.policy`, as [`victim`](Extensions::victim).
    ///
    /// # Panics
    /// Same as `victim`.
    #[must_use]
    pub fn suspend(
        self,
        name: &str,
        about: &str,
        version: &str,
        make: impl Fn(Option<&str>) -> MadeSuspend + Send + Sync + 'static,
    ) -> Self {
        Extensions { policies: self.policies.with(name, about, version, make), ..self }
    }

    /// Adds a trace format under a name, for `format` of `[job.trace]` and `--from`. `about` says in a sentence what its lines are, and
    /// `version` which code it is: summaries and notes name it. `make` makes a parser each time that a trace is read. A format is never
    /// detected, and only read.
    ///
    /// # Panics
    /// The name is that of another format.
    #[must_use]
    pub fn trace_format(
        self,
        name: &str,
        about: &str,
        version: &str,
        make: impl Fn() -> Box<dyn TraceFormat> + Send + Sync + 'static,
    ) -> Self {
        Extensions { formats: self.formats.with_format(name, about, version, make), ..self }
    }

    /// Adds a transfer method under a name for `method` of `[transfer]`, as [`victim`](Extensions::victim). `make` makes one for each client of
    /// a queue pair: for each worker of a job.
    ///
    /// # Panics
    /// Same as `victim`.
    #[must_use]
    pub fn transfer_method(
        self,
        name: &str,
        about: &str,
        version: &str,
        make: impl Fn(Option<&str>) -> MadeTransferMethod + Send + Sync + 'static,
    ) -> Self {
        Extensions { methods: self.methods.with_method(name, about, version, make), ..self }
    }

    /// Makes these known to all commands of this process.
    pub(crate) fn install(self) {
        // A second call would be with other policies than those that are known already.
        let is_first = OWN.set(self).is_ok();
        debug_assert!(is_first, "called once");
    }
}

/// Those of this process: a command reaches every scenario that it loads.
static OWN: OnceLock<Extensions> = OnceLock::new();

/// The policies of this process.
pub(crate) fn policies() -> Policies {
    match OWN.get() {
        Some(own) if !own.policies.is_empty() => own.policies.clone().with_build(build()),
        _ => Policies::default(),
    }
}

/// The sources of I/Os of this process.
pub(crate) fn sources() -> WorkloadSources {
    match OWN.get() {
        Some(own) if !own.sources.is_empty() => own.sources.clone().with_build(build()),
        _ => WorkloadSources::default(),
    }
}

/// The trace formats of this process.
pub(crate) fn formats() -> TraceFormats {
    static FORMATS: OnceLock<TraceFormats> = OnceLock::new();
    let built = || match OWN.get() {
        Some(own) if !own.formats.is_empty() => own.formats.clone().with_build(&build()),
        _ => TraceFormats::default(),
    };
    FORMATS.get_or_init(built).clone()
}

/// The transfer methods of this process.
pub(crate) fn methods() -> TransferMethods {
    static METHODS: OnceLock<TransferMethods> = OnceLock::new();
    let built = || match OWN.get() {
        Some(own) if !own.methods.is_empty() => own.methods.clone().with_build(build()),
        _ => TransferMethods::default(),
    };
    METHODS.get_or_init(built).clone()
}

/// A hash of this program: whoever changes an extension may forget to change its version.
fn build() -> String {
    static BUILD: OnceLock<String> = OnceLock::new();
    let file = || std::env::current_exe().and_then(std::fs::read).unwrap_or_default();
    BUILD.get_or_init(|| format!("{:016x}", fnv1a(&file()))).clone()
}

/// Options of a scenario, with what this process adds.
pub(crate) fn options() -> Options {
    let (policies, sources) = (policies(), sources());
    Options { policies, sources, formats: formats(), methods: methods(), ..Options::default() }
}
