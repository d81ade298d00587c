//! Progress bars on the standard error, with rate and remaining time in wall-clock time.

use std::io::IsTerminal;

use byteway_text::progress::{Bar, Bars, Goal, Points};
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shows progress bars, unless `quiet`, or the standard error is not a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// Whether nothing is shown.
    pub quiet: bool,
}

/// Templates for known and unknown length, and for points.
const KNOWN: &str = "{prefix}{bar:40} {percent:>3} %  {msg}, {eta} left";
const UNKNOWN: &str = "{prefix}{spinner} {msg}, {elapsed}";
const POINTS: &str = "{bar:40} {pos} of {len} points, {eta} left";
const GROWING: &str = "{spinner} {pos} points, {elapsed}, {per_sec}";

struct Shown {
    bar: ProgressBar,
    goal: Goal,
}

impl Bars for Terminal {
    fn bar(&self, what: &'static str, goal: Goal, length: Option<u64>) -> Option<Box<dyn Bar>> {
        if self.quiet || !std::io::stderr().is_terminal() {
            return None;
        }
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr_with_hz(10));
        let template = if length.is_some() { KNOWN } else { UNKNOWN };
        bar.set_prefix(what);
        bar.set_style(ProgressStyle::with_template(template).expect("a test uses all templates"));
        Some(Box::new(Shown { bar, goal }))
    }
}

impl Bar for Shown {
    fn show(&self, position: u64, counted: u64) {
        let seconds = self.bar.elapsed().as_secs_f64();
        let rate = if seconds > 0.0 { (counted as f64 / seconds) as u64 } else { 0 };
        let noun = match self.goal {
            Goal::Bytes => "records",
            Goal::Parts => "parts",
            Goal::Commands | Goal::Time | Goal::Unknown => "I/Os",
        };
        self.bar.set_message(format!("{} {noun}, {} per second", HumanCount(counted), HumanCount(rate)));
        self.bar.set_position(position);
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// A bar that counts the points of a comparison or reproduction.
pub struct PointsBar(ProgressBar);

impl PointsBar {
    /// A bar of `count` points. Nothing is shown if `quiet`, or if the standard error is not a terminal.
    pub fn new(count: usize, quiet: bool) -> PointsBar {
        if quiet || !std::io::stderr().is_terminal() {
            return PointsBar(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(Some(count as u64), ProgressDrawTarget::stderr_with_hz(10));
        bar.set_style(ProgressStyle::with_template(POINTS).expect("a test uses all templates"));
        PointsBar(bar)
    }

    /// A bar for a number of points that is not known yet.
    pub fn growing(quiet: bool) -> PointsBar {
        if quiet || !std::io::stderr().is_terminal() {
            return PointsBar(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        bar.set_style(ProgressStyle::with_template(GROWING).expect("a test uses all templates"));
        PointsBar(bar)
    }

    /// Removes the bar from the terminal.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Points for PointsBar {
    fn one(&self) {
        self.0.inc(1);
    }

    fn begin_at(&self, done: u64) {
        self.0.set_position(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // An invalid template would panic, but only on a terminal, which no test uses.
    #[test]
    fn all_templates_are_valid() {
        for template in [KNOWN, UNKNOWN, POINTS, GROWING] {
            assert!(ProgressStyle::with_template(template).is_ok());
        }
        let shown = Shown { bar: ProgressBar::hidden(), goal: Goal::Commands };
        shown.show(4095, 4095);
        assert_eq!(shown.bar.position(), 4095);
        shown.finish();
    }
}
