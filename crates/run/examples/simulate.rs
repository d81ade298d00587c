//! Simulates a drive: a scenario as text, a run, and what it found.
//!
//! ```sh
//! cargo run --release -p byteway-run --example simulate
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what it finds")]

use byteway_run::run::{Session, run};
use byteway_scenario::{Options, Scenario};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;
use std::path::Path;

const SCENARIO: &str = r#"
[drive]
profile = "samsung-970-pro"
[[job]]
rw = "randread"
iodepth = 8
count = 20_000
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scenario = Scenario::from_text("example.toml", Path::new("."), SCENARIO, &Options::default())?;
    let session = Session { progress: &mut Progress::hidden(), interrupt: &Interrupt::default() };
    let summary = run(&scenario, session)?.summary;
    println!("{} reads: {:.0} IOPS", summary.ios, summary.iops);
    for row in &summary.spans {
        println!("{:>10}: {:>8.0} ns, {:>4.1} %", row.span, row.mean_ns, row.share * 100.0);
    }
    Ok(())
}
