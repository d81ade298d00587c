//! `byteway serve --control`: what is changed of drives while they are served, as lines of the standard input.
#![allow(clippy::disallowed_methods, reason = "a thread waits for what a person or a program writes")]

use std::io::{BufRead, Write as _};

use byteway_console::units::excerpt;
use byteway_lab::serve::PathControl;

/// Reads lines until there are no more, and says of each on the error stream what came of it.
pub(super) fn listen(controls: Vec<PathControl>) -> std::io::Result<()> {
    let listen = move || {
        // What is no text is no command, and the next line may be one.
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

/// `ana DRIVE PORT STATE`.
fn carry_out(controls: &[PathControl], line: &str) -> Result<String, String> {
    const CURE: &str = "write `ana DRIVE PORT STATE`, such as `ana drive 2 inaccessible`";
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["ana", drive, port, state] = words[..] else {
        return Err(format!("`{}` is no command: {CURE}", excerpt(line)));
    };
    let control = controls.iter().find(|control| control.drive() == drive);
    let control = control.ok_or_else(|| format!("there is no drive `{}`", excerpt(drive)))?;
    let number = port.parse().map_err(|_| format!("`{}` is no port: {CURE}", excerpt(port)))?;
    control.set_state(number, state)?;
    Ok(format!("{drive}: port {number} is {state}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A word that is misspelt must not change another path.
    #[test]
    fn what_is_wrong_is_said() {
        for (line, wrong) in [
            ("", "no command"),
            ("ana a 1", "no command"),
            ("down a 1 x", "no command"),
            ("ana a 1 change", "no drive `a`"),
        ] {
            let error = carry_out(&[], line).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
