//! Policies by their names in a profile.

use super::profile::{KeyError, fault};
use byteway_clock::random::fnv1a;
use byteway_firmware::policy::victim::VictimProgram;
use byteway_firmware::policy::{Policies, UnknownPolicy, VictimPolicy, is_file};
use byteway_text::error::suggest;
use byteway_text::file::read_small_bytes;
use byteway_text::units::excerpt;
use std::path::Path;

const VICTIM: &str = "firmware.gc.policy";

/// The victim policy that a profile names. `folder` is that of the text which names it.
pub(crate) fn victim(policies: &Policies, text: &str, folder: &Path) -> Result<VictimPolicy, KeyError> {
    if let Some(policy) = policies.victim_of_all() {
        return Ok(policy.clone());
    }
    if is_file(text) && policies.victim(text) == Err(UnknownPolicy::Name) {
        return program(text, &folder.join(text));
    }
    policies.victim(text).map_err(|unknown| match unknown {
        UnknownPolicy::Argument(wrong) => {
            fault(VICTIM, format!("`{VICTIM}` = `{}` {}", excerpt(text), wrong.what), wrong.help)
        }
        UnknownPolicy::Name => {
            let name = text.split_once(':').map_or(text, |(name, _)| name);
            let known: Vec<&str> = policies.victims().map(|(name, _)| name).collect();
            let help = format!("{}, or the name of an eBPF program, FILE.o", suggest(name, &known));
            fault(VICTIM, format!("`{VICTIM}`: there is no policy `{}`", excerpt(name)), help)
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

/// A served drive has no result in which a policy's fault could be told, nor an end at which it could be refused.
pub(crate) fn check_served(victim: &VictimPolicy) -> Result<(), KeyError> {
    match victim.hash() {
        None => Ok(()),
        Some(_) => {
            let what =
                format!("`{VICTIM}` = `{}` is not built in, and is for simulations", excerpt(victim.name()));
            Err(fault(VICTIM, what, "choose a built-in policy, or simulate the drive: `byteway run`"))
        }
    }
}
