//! A swarm of random simulations, which finds unexpected errors: seeds determine drives, workloads and faults; the host's oracle verifies
//! each run to the byte; and a failing plan is shrunk until it can be understood.
//!
//! | file | what |
//! |---|---|
//! | [`plan`] | a run as data, and as text |
//! | [`mod@draw`] | random plans from a seed |
//! | [`defects`], [`registry`] | defects on purpose of all crates; what must find each |
//! | `drive` | builds a plan's drive |
//! | [`rig`] | executes a run, from power-on to power-on |
//! | `seat` | state of a run while the power is off |
//! | `kept` | persistent state of a drive while its power is off |
//! | `placing` | drives composed of others: their setup before a life |
//! | `jbof` | drives in a JBOF, which leave and return |
//! | `unplug` | unplugged members of an array |
//! | [`tally`] | counts of what runs did |
//! | `life` | the host during a life: driver, workers, faults |
//! | `pairs` | operations on key-value pairs |
//! | `tables`, `tables_oracle` | operations on tables; their expected state |
//! | `programs`, `programs_oracle` | operations on local memory and programs; their expected state |
//! | `row_filter` | rows of a table filtered by a program |
//! | `space` | expected content of a namespace |
//! | `alone` | exclusive operations, such as those that change namespaces |
//! | [`failure`] | failures |
//! | [`mod@shrink`] | shrinks a failing plan |
//! | [`swarm`] | many runs |
//! | [`every`] | a cut at every poll of a run |
//!
//! A random plan survives as text, runs without a failure, and does the same each time:
//!
//! ```
//! use byteway_swarm::draw::draw;
//! use byteway_swarm::plan::Plan;
//! use byteway_swarm::rig::run;
//!
//! let plan = draw(1, 0);
//! assert_eq!(Plan::from_toml(&plan.to_toml()), Ok(plan.clone()));
//!
//! let ended = run(&plan);
//! assert!(ended.failure.is_none(), "{:?}", ended.failure);
//! assert_eq!(run(&plan).lives, ended.lives);
//! ```
//!
//! What it does not do: it knows the drive only through driver and oracle, and inspects its internals only to find leaks at the end. It
//! measures nothing.

mod alone;
pub mod defects;
pub mod draw;
mod drive;
pub mod every;
pub mod failure;
mod jbof;
mod kept;
mod life;
mod pairs;
mod placing;
pub mod plan;
mod programs;
mod programs_oracle;
pub mod registry;
pub mod rig;
mod row_filter;
mod seat;
pub mod shrink;
mod space;
pub mod swarm;
mod tables;
mod tables_oracle;
pub mod tally;
mod unplug;
