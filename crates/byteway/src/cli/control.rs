//! `byteway serve --control`: changes drives while they are served, by commands on the standard input.
#![allow(clippy::disallowed_methods, reason = "a thread waits for input from a person or a program")]

use std::io::{BufRead, Write as _};

use byteway_serving::serve::PathControl;
use byteway_text::units::excerpt;

/// Reads commands, one per line, and prints each result to the standard error.
pub(super) fn listen(controls: Vec<PathControl>) -> std::io::Result<()> {
    let listen = move || {
        // An invalid line is not a command, but the next one may be.
        for line in std::io::stdin().lock().split(b'\n') {
            let Ok(line) = line else { return };
            let line = String::from_utf8_lossy(&line);
            let said = match carry_out(&controls, &line) {
                Ok(said) => said,
                Err(wrong) => format!("error: {wrong}"),
            };
            let _ = writeln!(std::io::stderr(), "{said}");
        }
    };
    std::thread::Builder::new().name("control".into()).spawn(listen).map(drop)
}

/// Executes `ana DRIVE PORT STATE`.
fn carry_out(controls: &[PathControl], line: &str) -> Result<String, String> {
    const CURE: &str = "write `ana DRIVE PORT STATE`, such as `ana drive 2 inaccessible`";
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["ana", drive, port, state] = words[..] else {
        return Err(format!("`{}` is not a command: {CURE}", excerpt(line)));
    };
    let control = controls.iter().find(|control| control.drive() == drive);
    let control = control.ok_or_else(|| format!("no such drive: `{}`", excerpt(drive)))?;
    let number = port.parse().map_err(|_| format!("`{}` is not a port: {CURE}", excerpt(port)))?;
    control.set_state(number, state)?;
    Ok(format!("{drive}: port {number} is {state}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A misspelled word must not change another path.
    #[test]
    fn what_is_wrong_is_said() {
        for (line, wrong) in [
            ("", "not a command"),
            ("ana a 1", "not a command"),
            ("down a 1 x", "not a command"),
            ("ana a 1 change", "no such drive: `a`"),
        ] {
            let error = carry_out(&[], line).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
