//! Hashes the program's sources, so that results of another model are distinguished from this one's
//! (`compare/fingerprint.rs`). Debug and release builds have the same hash.

use std::io;
use std::path::{Path, PathBuf};

#[path = "src/compare/fnv.rs"]
mod fnv;

fn main() -> io::Result<()> {
    let root = Path::new("../..");
    let mut parts = vec![root.join("Cargo.lock"), root.join("profiles")];
    // A crate that stands alone, as packages do, is hashed alone.
    let members = std::fs::read_dir(root.join("crates")).or_else(|_| std::fs::read_dir(".."))?;
    for member in members {
        let member = member?.path();
        parts.extend([member.join("Cargo.toml"), member.join("src")]);
    }
    let mut files = Vec::new();
    for part in parts.iter().filter(|part| part.exists()) {
        println!("cargo::rerun-if-changed={}", part.display());
        add(part, &mut files)?;
    }
    println!("cargo::rerun-if-changed=build.rs");
    files.sort();
    let mut hash = fnv::Fnv::default();
    for file in files {
        hash.add(file.to_string_lossy().as_bytes());
        hash.add(&std::fs::read(&file)?);
    }
    println!("cargo::rustc-env=BYTEWAY_SOURCES={}", hash.hex());
    Ok(())
}

/// Adds the files at or below a path.
fn add(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        add(&entry?.path(), files)?;
    }
    Ok(())
}
