//! Policies by their names in a profile.

use super::profile::{Geometry, KeyError, Profile, fault};
use byteway_clock::random::fnv1a;
use byteway_firmware::policy::victim::VictimProgram;
use byteway_firmware::policy::{Named, Policies, StreamPolicy, UnknownPolicy, VictimPolicy, is_file};
use byteway_text::error::suggest;
use byteway_text::file::read_small_bytes;
use byteway_text::units::excerpt;
use std::path::Path;

pub(crate) const VICTIM: &str = "firmware.gc.policy";
pub(crate) const STREAMS: &str = "firmware.streams";

/// The victim policy that a profile names. `folder` is that of the text which names it.
pub(crate) fn victim(policies: &Policies, text: &str, folder: &Path) -> Result<VictimPolicy, KeyError> {
    if let Some(policy) = policies.victim_of_all() {
        return Ok(policy.clone());
    }
    let found = policies.victim(text);
    if is_file(text) && found == Err(UnknownPolicy::Name) {
        return program(text, &folder.join(text));
    }
    known(VICTIM, text, found, policies.victims(), ", or the name of an eBPF program, FILE.o")
}

/// The stream policy that a profile names.
pub(crate) fn streams(policies: &Policies, text: &str) -> Result<StreamPolicy, KeyError> {
    known(STREAMS, text, policies.stream(text), policies.streams(), "")
}

/// The policy that `key` names by `text`, if it was found among the `names`. `or` is what else could be named.
fn known<'a, P: ?Sized>(
    key: &str,
    text: &str,
    found: Result<Named<P>, UnknownPolicy>,
    names: impl Iterator<Item = (&'a str, &'a str)>,
    or: &str,
) -> Result<Named<P>, KeyError> {
    found.map_err(|unknown| match unknown {
        UnknownPolicy::Argument(wrong) => {
            fault(key, format!("`{key}` = `{}` {}", excerpt(text), wrong.what), wrong.help)
        }
        UnknownPolicy::Name => {
            let name = text.split_once(':').map_or(text, |(name, _)| name);
            let known: Vec<&str> = names.map(|(name, _)| name).collect();
            let help = format!("{}{or}", suggest(name, &known));
            fault(key, format!("`{key}`: there is no policy `{}`", excerpt(name)), help)
        }
    })
}

/// A policy from an eBPF object.
fn program(text: &str, path: &Path) -> Result<VictimPolicy, KeyError> {
    let file = read_small_bytes(path, "policy")
        .map_err(|error| fault(VICTIM, format!("`{VICTIM}`: {}", error.what), error.help))?;
    let program = VictimProgram::verify(&file).map_err(|error| {
        let what = format!("`{VICTIM}`: `{}` is no policy: {error}", excerpt(text));
        fault(VICTIM, what, "write a single function in C and compile it with clang --target=bpf -O2 -c: docs/tasks/write-a-policy.md")
    })?;
    let hash = format!("{:016x}", fnv1a(&file));
    // Without its folder: results are the same wherever the file lies.
    let name = path.file_name().map_or_else(|| text.into(), |name| name.to_string_lossy());
    Ok(VictimPolicy::new(name, Some(hash), move || Box::new(VictimProgram::new(program.clone()))))
}

/// Checks that a plane has blocks for the streams of a policy, beyond those for one of the host and one of garbage collection, and that the drive
/// does not begin in the steady state.
pub(crate) fn check_streams(
    streams: &StreamPolicy,
    profile: &Profile,
    geometry: &Geometry,
    is_steady: bool,
) -> Result<(), KeyError> {
    if streams.is_separate() {
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
    let counts = streams.make().counts();
    let needed = profile.least_blocks(geometry).saturating_add(u64::from(counts.further_blocks()));
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
        let help =
            "raise `firmware.op` or the capacity, use fewer dies, or choose a policy with fewer streams";
        return Err(fault(STREAMS, what, help));
    }
    Ok(())
}

/// A served drive has no result in which a policy's fault could be told, nor an end at which it could be refused.
pub(crate) fn check_served(victim: &VictimPolicy, streams: &StreamPolicy) -> Result<(), KeyError> {
    is_built_in(VICTIM, victim).and_then(|()| is_built_in(STREAMS, streams))
}

fn is_built_in<P: ?Sized>(key: &str, policy: &Named<P>) -> Result<(), KeyError> {
    match policy.hash() {
        None => Ok(()),
        Some(_) => {
            let what =
                format!("`{key}` = `{}` is not built in, and is for simulations", excerpt(policy.name()));
            Err(fault(key, what, "choose a built-in policy, or simulate the drive: `byteway run`"))
        }
    }
}
