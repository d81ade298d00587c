//! What `byteway --version` says besides the version: the commit, the profile and the target that this program was built from, and what
//! it leaves out.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=BYTEWAY_COMMIT");
    // A package is built from an archive, which has no repository, and names its commit here.
    let commit = std::env::var("BYTEWAY_COMMIT").ok().filter(|commit| !commit.is_empty()).or_else(commit);
    println!("cargo::rustc-env=BYTEWAY_COMMIT={}", commit.as_deref().unwrap_or("unknown commit"));
    for (name, from) in [("BYTEWAY_PROFILE", "PROFILE"), ("BYTEWAY_TARGET", "TARGET")] {
        println!("cargo::rustc-env={name}={}", std::env::var(from).unwrap_or_default());
    }
    let is_absent =
        |feature: &&str| std::env::var_os(format!("CARGO_FEATURE_{}", feature.to_uppercase())).is_none();
    let absent: Vec<&str> = ["http", "tls"].into_iter().filter(is_absent).collect();
    let without =
        if absent.is_empty() { String::new() } else { format!(", without {}", absent.join(" and ")) };
    println!("cargo::rustc-env=BYTEWAY_WITHOUT={without}");
}

/// The commit of the repository, with `+` if files differ from it.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let folder = git(&["rev-parse", "--git-dir"])?;
    for file in ["HEAD", "logs/HEAD"] {
        let path = Path::new(&folder).join(file);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let is_changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|changes| !changes.is_empty());
    Some(if is_changed { format!("{commit}+") } else { commit })
}
