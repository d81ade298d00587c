//! The registry: every defect on purpose, with what must find it.

use super::defects::{AnyDefect, Defect};
use super::failure::{Failure, Kind};
use super::plan::Plan;
use byteway_defect::Planted;

/// A row of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The defect.
    pub defect: AnyDefect,
    /// What must find it.
    pub finder: Finder,
}

/// What must find a defect.
#[derive(Clone, Copy, Debug)]
pub enum Finder {
    /// One of the first runs of the swarm.
    Runs {
        /// The plans in which it is planted.
        scope: Scope,
        /// Number of these runs.
        runs: u64,
        /// How it must show.
        symptom: Symptom,
    },
    /// A test of its own, in this file below `crates`.
    Test(&'static str),
}

/// The plans in which a defect can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All.
    All,
    /// With tables.
    Tables,
    /// With programs.
    Programs,
    /// Of arrays.
    Arrays,
    /// Of JBOFs.
    Jbofs,
    /// Of JBOFs whose drives lend each other DRAM. All of them have the defect.
    LentDram,
}

/// A failure of a run, as a defect causes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symptom {
    /// Wrong data.
    Data,
    /// Wrong data, or an error since a checksum does not match.
    DataOrError,
    /// The same, or an assertion fails before.
    DataErrorOrPanic,
    /// Wrong data. In a debug build an assertion of the translation layer may fail before a host reads anything. Contents of an older state
    /// may already be released, which reads as an error, and a drive whose map is gone refuses to start.
    LostUnits,
    /// A hang. A host that waits for a shutdown, or resets a controller that has stopped, eventually gives up.
    Hang,
    /// Any.
    Any,
}

/// Every defect, in the order of [`AnyDefect::all`].
pub const REGISTRY: [Entry; 27] = {
    use AnyDefect::{Array, Device, Firmware, Jbof, Kv, Swarm, Tables};
    use Symptom::{Data, DataErrorOrPanic, DataOrError, Hang, LostUnits};
    use byteway_array::Defect as ArrayDefect;
    use byteway_device::Defect as DeviceDefect;
    use byteway_firmware::Defect as FirmwareDefect;
    use byteway_jbof::Defect as JbofDefect;
    use byteway_kv::Defect as KvDefect;
    use byteway_tables::Defect as TablesDefect;
    [
        found(Firmware(FirmwareDefect::IgnoreTrims), Scope::All, 100, LostUnits),
        found(Firmware(FirmwareDefect::OlderCopy), Scope::All, 100, LostUnits),
        found(Firmware(FirmwareDefect::TrustTorn), Scope::All, 300, LostUnits),
        found(Firmware(FirmwareDefect::ForgetDump), Scope::All, 100, LostUnits),
        found(Firmware(FirmwareDefect::EraseEarly), Scope::All, 2000, LostUnits),
        // A past error: a served drive with `timing = "none"` stopped after a few clients, and the swarm could not find it because every
        // program took time.
        found(Firmware(FirmwareDefect::TakeAlong), Scope::All, 300, Hang),
        found(Firmware(FirmwareDefect::StallShutdown), Scope::All, 100, Hang),
        // Uncommitted changes are not replayed: entries revert to older values.
        found(Firmware(FirmwareDefect::SkipCommit), Scope::LentDram, 6000, Symptom::Any),
        tested(Firmware(FirmwareDefect::ClearUnflushed), "firmware/tests/crash/borrowed.rs"),
        // Dirty pages that are not read back revert to their state in flash.
        found(Firmware(FirmwareDefect::ReturnUnread), Scope::LentDram, 6000, Symptom::Any),
        tested(Firmware(FirmwareDefect::ReplayOld), "firmware/tests/crash/borrowed.rs"),
        found(Kv(KvDefect::TrustTorn), Scope::All, 2000, DataErrorOrPanic),
        found(Kv(KvDefect::ForgetSave), Scope::All, 200, DataErrorOrPanic),
        found(Kv(KvDefect::OlderRecord), Scope::All, 200, DataErrorOrPanic),
        found(Kv(KvDefect::ReuseEarly), Scope::All, 2000, DataErrorOrPanic),
        found(Kv(KvDefect::MoveBlindly), Scope::All, 2000, DataErrorOrPanic),
        // After a power cut the catalog names row groups that are not in flash.
        found(Tables(TablesDefect::CatalogFirst), Scope::Tables, 6000, DataOrError),
        // A power cut leaves part of an append, which must be atomic.
        found(Tables(TablesDefect::OneByOne), Scope::Tables, 6000, DataOrError),
        // Without marks nothing is repaired after a power cut: wrong parity then reconstructs garbage for a member lost later.
        found(Array(ArrayDefect::NoIntentLog), Scope::Arrays, 6000, Data),
        // Only the journal can repair a stripe with a missing member that a power cut has torn.
        found(Array(ArrayDefect::NoJournal), Scope::Arrays, 6000, Data),
        // Units whose parity cannot be trusted must fail to read, not return made-up data.
        found(Array(ArrayDefect::NoLostMarks), Scope::Arrays, 6000, Data),
        // A row group with result rows is not read.
        found(Device(DeviceDefect::ForeignZones), Scope::Tables, 2000, DataOrError),
        found(Device(DeviceDefect::LoseStore), Scope::Programs, 300, Data),
        found(Device(DeviceDefect::SkipRow), Scope::Programs, 3000, Data),
        // Two drives that trust the same stale descriptor both get the lender: commands of one execute on the data of the other.
        found(Jbof(JbofDefect::StaleDescriptor), Scope::Jbofs, 6000, Symptom::Any),
        // A lender whose queue is unbound while commands are in transit executes them on its own data.
        found(Jbof(JbofDefect::UnbindWithoutDrain), Scope::Jbofs, 6000, Symptom::Any),
        // Writes acknowledged from a bridge's memory are not on any member yet.
        found(Swarm(Defect::ForgetMemory), Scope::Arrays, 1000, Data),
    ]
};

const fn found(defect: AnyDefect, scope: Scope, runs: u64, symptom: Symptom) -> Entry {
    Entry { defect, finder: Finder::Runs { scope, runs, symptom } }
}

const fn tested(defect: AnyDefect, file: &'static str) -> Entry {
    Entry { defect, finder: Finder::Test(file) }
}

impl Scope {
    /// Plants a defect in a plan of this scope; makes any other plan as short as it can be.
    pub fn plant(self, defect: Planted<AnyDefect>, plan: &mut Plan) {
        let is_in = match self {
            Scope::All => true,
            Scope::Tables => plan.drive.has_tables(),
            Scope::Programs => plan.drive.programs.is_some(),
            Scope::Arrays => plan.drive.array.is_some(),
            Scope::Jbofs => plan.jbof.is_some(),
            Scope::LentDram => plan.jbof.as_ref().is_some_and(|spec| spec.dram),
        };
        if !is_in {
            plan.jbof = None;
            plan.ops.truncate(1);
            plan.faults.clear();
            plan.neighbours.clear();
            return;
        }
        plan.defect = defect;
        if self == Scope::LentDram {
            plan.neighbours.iter_mut().for_each(|other| other.defect = defect);
        }
    }
}

impl Symptom {
    /// Whether a run failed like that.
    pub fn is(self, failure: &Failure) -> bool {
        let says = |text: &str| failure.text.contains(text);
        match (self, failure.kind) {
            (Symptom::Any, _) => true,
            (Symptom::Hang, Kind::Hang) => true,
            (Symptom::Hang, _) => says("was not shut down") || says("it did not recover from a reset"),
            (_, Kind::Data) => true,
            (Symptom::Data, _) => false,
            (Symptom::LostUnits, Kind::Error) => says("Unrecovered") || says("the controller was not ready"),
            (_, Kind::Error) => true,
            (Symptom::DataErrorOrPanic | Symptom::LostUnits, kind) => kind == Kind::Panic,
            (Symptom::DataOrError, _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A defect without a row would be found by nothing, and no test would say so.
    #[test]
    fn the_registry_has_every_defect() {
        let listed: Vec<_> = REGISTRY.iter().map(|entry| entry.defect).collect();
        assert_eq!(listed, AnyDefect::all().collect::<Vec<_>>());
    }

    // A row could name a test that has been deleted.
    #[test]
    fn tests_of_their_own_name_their_defects() {
        for Entry { defect, finder } in REGISTRY {
            let Finder::Test(file) = finder else { continue };
            let path = format!("{}/../{file}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
            // As in `Firmware(ReplayOld)`.
            let debug = format!("{defect:?}");
            let variant = debug.split(['(', ')']).nth(1).unwrap_or_default();
            assert!(text.contains(&format!("Defect::{variant}")), "{file} does not name {variant}");
        }
    }
}
