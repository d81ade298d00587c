//! Policies by their names in a profile.

use super::profile::{Geometry, KeyError, Profile, Suspend, fault};
use byteway_clock::random::fnv1a;
use byteway_firmware::policy::stream::StreamProgram;
use byteway_firmware::policy::victim::VictimProgram;
use byteway_firmware::policy::{
    self, AdmissionPolicy, DriveKind, Named, NoProgram, Policies, PrefetchPolicy, SchedulePolicy,
    ScheduleProgram, StreamPolicy, SuspendPolicy, SuspendProgram, UnknownPolicy, VictimPolicy, WearPolicy,
    is_file,
};
use byteway_program::elf::{FileError, is_object};
use byteway_text::error::suggest;
use byteway_text::file::read_small_bytes;
use byteway_text::units::{Bytes, excerpt};
use std::fmt::Display;
use std::path::Path;

const VICTIM: &str = "firmware.gc.policy";
const STREAMS: &str = "firmware.streams";
const WEAR: &str = "firmware.wear.policy";
const ADMISSION: &str = "firmware.admission";
const PREFETCH: &str = "firmware.prefetch";
const SCHEDULE: &str = "flash.schedule";
const SUSPEND: &str = "flash.suspend.policy";

/// The policies of a drive, as its profile names them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DrivePolicies {
    /// That which `firmware.gc.policy` names.
    pub victim: VictimPolicy,
    /// That which `firmware.streams` names.
    pub streams: StreamPolicy,
    /// That which `firmware.wear` names.
    pub wear: WearPolicy,
    /// That which `firmware.admission` names.
    pub admission: AdmissionPolicy,
    /// That which `firmware.prefetch` names.
    pub prefetch: PrefetchPolicy,
    /// That which `flash.schedule` names.
    pub schedule: SchedulePolicy,
    /// That which `flash.suspend.policy` names.
    pub suspend: SuspendPolicy,
}

/// A policy of a drive that is not built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddedPolicy<'a> {
    /// The key that names it.
    pub key: &'static str,
    /// What it decides, as the subject of a sentence.
    pub what: &'static str,
    /// Its name.
    pub name: &'a str,
    /// The version of its code.
    pub hash: &'a str,
}

impl DrivePolicies {
    /// The policies that a profile names. `folder_of` tells the folder of the text that has a key.
    pub(crate) fn of<'f>(
        policies: &Policies,
        profile: &Profile,
        folder_of: impl Fn(&str) -> &'f Path,
    ) -> Result<Self, KeyError> {
        let Profile { firmware, flash, .. } = profile;
        Ok(DrivePolicies {
            victim: victim(policies, &firmware.gc.policy, folder_of(VICTIM))?,
            streams: streams(policies, &firmware.streams, folder_of(STREAMS))?,
            wear: known(policies, WEAR, &firmware.wear_policy(), "")?,
            admission: known(policies, ADMISSION, &firmware.admission, "")?,
            prefetch: known(policies, PREFETCH, &firmware.prefetch, "")?,
            schedule: schedule(policies, &flash.schedule, folder_of(SCHEDULE))?,
            suspend: suspend(policies, flash.suspend.as_ref(), folder_of(SUSPEND))?,
        })
    }

    /// Those that are not built in.
    pub fn added(&self) -> impl Iterator<Item = AddedPolicy<'_>> {
        fn added<'a, P: ?Sized>(
            key: &'static str,
            what: &'static str,
            policy: &'a Named<P>,
        ) -> Option<AddedPolicy<'a>> {
            policy.hash().map(|hash| AddedPolicy { key, what, name: policy.name(), hash })
        }
        let DrivePolicies { victim, streams, wear, admission, prefetch, schedule, suspend } = self;
        let of_firmware = [
            added(VICTIM, "victims", victim),
            added(STREAMS, "streams", streams),
            added(WEAR, "superblocks to wear", wear),
            added(ADMISSION, "units of the read cache", admission),
            added(PREFETCH, "units to read ahead", prefetch),
        ];
        let of_flash =
            [added(SCHEDULE, "next operations of dies", schedule), added(SUSPEND, "suspensions", suspend)];
        of_firmware.into_iter().chain(of_flash).flatten()
    }

    /// A served drive has no result in which a policy's fault could be told, nor an end at which it could be refused.
    pub(crate) fn check_served(&self) -> Result<(), KeyError> {
        self.added().next().map_or(Ok(()), |AddedPolicy { key, name, .. }| {
            let what = format!("`{key}` = `{}` is not built in, and is for simulations", excerpt(name));
            Err(fault(key, what, "choose a built-in policy, or simulate the drive: `byteway run`"))
        })
    }
}

/// The victim policy that a profile names. `folder` is that of the text which names it.
fn victim(policies: &Policies, text: &str, folder: &Path) -> Result<VictimPolicy, KeyError> {
    known_or_program(policies, (VICTIM, text), (folder, VictimProgram::FUNCTION), |file| {
        let program = VictimProgram::verify(file)?;
        Ok::<_, FileError>(move || Box::new(VictimProgram::new(program.clone())) as _)
    })
}

/// The stream policy that a profile names. `folder` is that of the text which names it.
fn streams(policies: &Policies, text: &str, folder: &Path) -> Result<StreamPolicy, KeyError> {
    known_or_program(policies, (STREAMS, text), (folder, StreamProgram::FUNCTION), |file| {
        let program = StreamProgram::verify(file)?;
        Ok::<_, NoProgram>(move || Box::new(program.again()) as _)
    })
}

/// The schedule that a profile names. `folder` is that of the text which names it.
fn schedule(policies: &Policies, text: &str, folder: &Path) -> Result<SchedulePolicy, KeyError> {
    known_or_program(policies, (SCHEDULE, text), (folder, ScheduleProgram::FUNCTION), |file| {
        let program = ScheduleProgram::verify(file)?;
        Ok::<_, FileError>(move || Box::new(ScheduleProgram::new(program.clone())) as _)
    })
}

/// The policy of suspension that a profile names, if its drive suspends. `folder` is that of the text which names it.
fn suspend(policies: &Policies, section: Option<&Suspend>, folder: &Path) -> Result<SuspendPolicy, KeyError> {
    let Some(section) = section.filter(|section| section.most > 0) else {
        let given = policies.of_all::<dyn policy::Suspend>().map(Named::name);
        return given.map_or_else(|| Ok(SuspendPolicy::default()), |name| Err(suspends_nothing(name)));
    };
    known_or_program(policies, (SUSPEND, &section.policy), (folder, SuspendProgram::FUNCTION), |file| {
        let program = SuspendProgram::verify(file)?;
        Ok::<_, FileError>(move || Box::new(SuspendProgram::new(program.clone())) as _)
    })
}

/// A policy would never be asked.
fn suspends_nothing(name: &str) -> KeyError {
    let what = format!("`{}` decides on suspensions, and the drive has none", excerpt(name));
    let help = "write `flash.suspend = { latency = \"20 us\", resume = \"20 us\", most = 16 }`, or leave the policy out";
    fault("flash.suspend", what, help)
}

/// The policy that `key` names by `text`: that of all drives, one with this name, or an eBPF object in `folder` whose function has the name
/// `function`; for it `verify` gives what makes one for each drive.
fn known_or_program<P: DriveKind + ?Sized, M: Fn() -> Box<P> + Send + Sync + 'static, E: Display>(
    policies: &Policies,
    (key, text): (&str, &str),
    (folder, function): (&Path, &str),
    verify: impl FnOnce(&[u8]) -> Result<M, E>,
) -> Result<Named<P>, KeyError> {
    if let Some(policy) = policies.of_all() {
        return Ok(policy.clone());
    }
    if is_file(text) && matches!(policies.find::<P>(text), Err(UnknownPolicy::Name)) {
        return program((key, text), (folder, function), verify);
    }
    known(policies, key, text, ", or the name of an eBPF program, FILE.o")
}

/// The policy that `key` names by `text`. `or` is what else could be named.
fn known<P: DriveKind + ?Sized>(
    policies: &Policies,
    key: &str,
    text: &str,
    or: &str,
) -> Result<Named<P>, KeyError> {
    policies.find(text).map_err(|unknown| match unknown {
        UnknownPolicy::Argument(wrong) => {
            fault(key, format!("`{key}` = `{}` {}", excerpt(text), wrong.what), wrong.help)
        }
        UnknownPolicy::Name => {
            let name = text.split_once(':').map_or(text, |(name, _)| name);
            let known: Vec<&str> = policies.each::<P>().map(|(name, _)| name).collect();
            let help = format!("{}{or}", suggest(name, &known));
            fault(key, format!("`{key}`: there is no policy `{}`", excerpt(name)), help)
        }
    })
}

/// The policy of an eBPF object, which `text` names for `key`; `verify` gives what makes one for each drive. Of bare instructions, which have no
/// function that says what they are for, the file's name has to say it.
fn program<P: ?Sized, M: Fn() -> Box<P> + Send + Sync + 'static, E: Display>(
    (key, text): (&str, &str),
    (folder, function): (&Path, &str),
    verify: impl FnOnce(&[u8]) -> Result<M, E>,
) -> Result<Named<P>, KeyError> {
    let path = folder.join(text);
    // A pipe that nobody writes to would be read for ever.
    if std::fs::metadata(&path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        let what = format!("`{key}` = `{}` is no file", excerpt(text));
        return Err(fault(key, what, "name an object file: clang --target=bpf -O2 -c"));
    }
    let file = read_small_bytes(&path, "policy")
        .map_err(|error| fault(key, format!("`{key}`: {}", error.what), error.help))?;
    let no_policy = |error: &dyn Display| {
        let what = format!("`{key}`: `{}` is no policy: {error}", excerpt(text));
        let help = format!(
            "write a single function `{function}` in C, make all others `static inline __attribute__((always_inline))`, and compile it with \
             clang --target=bpf -O2 -c; bare instructions are in a file NAME.{function}.bpf: docs/tasks/write-a-policy.md"
        );
        fault(key, what, help)
    };
    if !is_object(&file) && !text.ends_with(&format!(".{function}.bpf")) {
        return Err(no_policy(&format!(
            "it is no object file, and no file of bare instructions named NAME.{function}.bpf"
        )));
    }
    let make = verify(&file).map_err(|error| no_policy(&error))?;
    let hash = format!("{:016x}", fnv1a(&file));
    // Without its folder: results are the same wherever the file lies.
    let name = path.file_name().map_or_else(|| text.into(), |name| name.to_string_lossy());
    Ok(Named::new(name, Some(hash), make))
}

/// Numbers of blocks that are tried for streams which need more.
const FITS_SEARCHED: u64 = 1024;

/// Checks that a plane has blocks for the streams of a policy, beyond those for one of the host and one of garbage collection, and that the drive
/// does not begin in the steady state.
pub(crate) fn check_streams(
    streams: &StreamPolicy,
    profile: &Profile,
    geometry: &Geometry,
    is_steady: bool,
) -> Result<(), KeyError> {
    if streams.is_default() {
        return Ok(());
    }
    // What is constructed leaves free what `separate` keeps: each die would first collect several superblocks for the others, for seconds.
    if is_steady {
        let what = format!(
            "`{STREAMS}` = `{}`: the steady state is constructed for `separate` only",
            excerpt(streams.name())
        );
        let help = "set `precondition = \"filled\"`, and `warmup` to several times the capacity; a small `capacity` makes that short";
        return Err(fault(STREAMS, what, help));
    }
    let counts = streams.says(|streams| streams.counts()).map_err(|wrong| {
        fault(STREAMS, format!("`{STREAMS}` = `{}` {}", excerpt(streams.name()), wrong.what), wrong.help)
    })?;
    let needed_of = |profile: &Profile, geometry: &Geometry| {
        profile.least_blocks(geometry).saturating_add(u64::from(counts.further_blocks()))
    };
    let needed = needed_of(profile, geometry);
    let blocks = geometry.blocks;
    if profile.flash.slc.is_some() {
        let what =
            format!("`{STREAMS}` = `{}`, and `flash.slc`, which mixes all streams", excerpt(streams.name()));
        return Err(fault(STREAMS, what, "leave out one of the two: set `flash.slc` to false"));
    }
    if needed > u64::from(blocks) {
        let what = format!(
            "`{STREAMS}` = `{}`: {} streams of the host and {} of garbage collection take, with its data, {needed} superblocks a die, and it has {blocks}",
            excerpt(streams.name()),
            counts.host,
            counts.collector
        );
        // More blocks raise what garbage collection keeps free, a share of them.
        let fits = (needed..needed.saturating_add(FITS_SEARCHED)).find(|blocks| {
            let mut other = profile.clone();
            other.flash.blocks = u32::try_from(*blocks).ok();
            let found = other.geometry(Bytes(geometry.capacity_bytes));
            found.is_ok_and(|geometry| needed_of(&other, &geometry) <= u64::from(geometry.blocks))
        });
        let fits = fits.map(|blocks| format!("set `override.flash.blocks = {blocks}`, "));
        let help = format!(
            "{}raise `firmware.op` or the capacity, use fewer dies, or choose a policy with fewer streams",
            fits.unwrap_or_default()
        );
        return Err(fault(STREAMS, what, help));
    }
    Ok(())
}
