//! The progress bar: on the terminal's error stream, with rate and time left, by wall time. Nothing of it reaches a
//! result.

use std::io::IsTerminal;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use byteway_console::units::Picos;

/// How far a run is, for the user's eyes.
pub struct Progress {
    bar: Option<ProgressBar>,
    goal: Goal,
    calls: u32,
}

enum Goal {
    /// So many commands.
    Commands,
    /// So much time.
    Time,
    /// So many bytes of a file.
    Bytes,
    /// So many parts.
    Parts,
    /// Nobody knows.
    Unknown,
}

/// The bar is looked at once in so many calls: a look costs as much as a good part of a simulated I/O.
const CALLS_PER_LOOK: u32 = 1024;

/// The bar counts time in microseconds.
const PS_PER_TICK: u64 = 1_000_000;

impl Progress {
    /// For so many commands or so much time, of which the former goes first. `what` stands before the bar; `quiet`, or an
    /// error stream that is no terminal, shows nothing.
    pub fn new(what: &'static str, commands: Option<u64>, runtime: Option<Picos>, quiet: bool) -> Self {
        let (goal, length) = match (commands, runtime) {
            (Some(count), _) => (Goal::Commands, Some(count)),
            (None, Some(runtime)) => (Goal::Time, Some(runtime.0 / PS_PER_TICK)),
            (None, None) => (Goal::Unknown, None),
        };
        let shown = !quiet && std::io::stderr().is_terminal();
        let bar = shown.then(|| {
            let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr_with_hz(10));
            let template = match length {
                Some(_) => "{prefix}{bar:40} {percent:>3} %  {msg}, {eta} left",
                None => "{prefix}{spinner} {msg}, {elapsed}",
            };
            bar.set_prefix(what);
            bar.set_style(ProgressStyle::with_template(template).expect("a test uses both templates"));
            bar
        });
        Progress { bar, goal, calls: 0 }
    }

    /// For the bytes of a file, whose records are counted beside them.
    pub fn bytes(what: &'static str, bytes: u64, quiet: bool) -> Self {
        Progress { goal: Goal::Bytes, ..Progress::new(what, Some(bytes), None, quiet) }
    }

    /// For so many parts of one thing.
    pub fn parts(what: &'static str, count: u64, quiet: bool) -> Self {
        Progress { goal: Goal::Parts, ..Progress::new(what, Some(count), None, quiet) }
    }

    /// So many parts are done.
    pub fn part(&mut self, done: u64) {
        self.look(done, 0);
    }

    /// So many records have been read, and so many bytes of their file. To be called now and then.
    pub fn position(&mut self, records: u64, bytes: u64) {
        self.look(records, bytes);
    }

    /// Shows nothing: for tests and benchmarks.
    pub fn hidden() -> Self {
        Progress { bar: None, goal: Goal::Unknown, calls: 0 }
    }

    /// So many commands have completed by this time. To be called once for each; almost always it does nothing.
    #[inline]
    pub fn update(&mut self, commands: u64, now_ps: u64) {
        if self.bar.is_some() {
            self.calls += 1;
            if self.calls >= CALLS_PER_LOOK {
                self.calls = 0;
                self.look(commands, now_ps);
            }
        }
    }

    fn look(&self, commands: u64, now_ps: u64) {
        let Some(bar) = &self.bar else { return };
        let seconds = bar.elapsed().as_secs_f64();
        let rate = if seconds > 0.0 { (commands as f64 / seconds) as u64 } else { 0 };
        let noun = match self.goal {
            Goal::Bytes => "records",
            Goal::Parts => "parts",
            Goal::Commands | Goal::Time | Goal::Unknown => "I/Os",
        };
        bar.set_message(format!("{} {noun}, {} a second", HumanCount(commands), HumanCount(rate)));
        bar.set_position(match self.goal {
            Goal::Time => now_ps / PS_PER_TICK,
            Goal::Bytes => now_ps,
            Goal::Commands | Goal::Parts | Goal::Unknown => commands,
        });
    }

    /// Takes the bar off the terminal.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A bar that counts the points of a comparison or reproduction; `quiet`, or an error stream that is no terminal, shows
/// nothing.
pub fn points(count: usize, quiet: bool) -> anyhow::Result<ProgressBar> {
    if quiet || !std::io::stderr().is_terminal() {
        return Ok(ProgressBar::hidden());
    }
    let bar = ProgressBar::with_draw_target(Some(count as u64), ProgressDrawTarget::stderr_with_hz(10));
    bar.set_style(ProgressStyle::with_template(POINTS)?);
    Ok(bar)
}

const POINTS: &str = "{bar:40} {pos} of {len} points, {eta} left";

#[cfg(test)]
mod tests {
    use super::*;

    // A template with a mistake would panic, but only on a terminal, where no test runs.
    #[test]
    fn all_templates_are_valid() {
        for template in [
            POINTS,
            "{prefix}{bar:40} {percent:>3} %  {msg}, {eta} left",
            "{prefix}{spinner} {msg}, {elapsed}",
        ] {
            assert!(ProgressStyle::with_template(template).is_ok());
        }
        let mut progress = Progress::hidden();
        (0..5000).for_each(|index| progress.update(index, index));
        progress.bar = Some(ProgressBar::hidden());
        (0..5000).for_each(|index| progress.update(index, index));
        assert_eq!(progress.bar.as_ref().unwrap().position(), 4095);
        progress.finish();
    }
}
