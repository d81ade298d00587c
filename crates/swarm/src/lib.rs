//! A swarm of random runs, to find what nobody thought of: drives, workloads and faults drawn by a seed, each run
//! verified to the byte by the host's oracle, and a failing one made smaller until what is left can be read.
//!
//! | file | what |
//! |---|---|
//! | [`plan`] | a run as data, and as text |
//! | [`mod@draw`] | plans by seed
//! | `drive` | from a plan's drive to a drive |
//! | [`rig`] | from power-on to power-on: a run |
//! | `seat` | what there is of a run while the power is off |
//! | `kept` | what is left of a drive while its power is off |
//! | `placing` | drives that are made of others, before a life |
//! | `boxed` | drives of a box, which leave and come back |
//! | `unplug` | members of an array that are unplugged |
//! | [`tally`] | what runs did |
//! | `life` | the host in between: driver, workers, what disturbs them |
//! | `pairs` | operations on pairs of keys and values |
//! | `space` | what a namespace must hold |
//! | `alone` | operations that change namespaces |
//! | [`failure`] | what can be wrong |
//! | [`mod@shrink`] | a smaller plan that fails alike |
//! | [`swarm`] | many runs |
//! | [`every`] | a cut at every poll of one run |
//!
//! What it does not do: it knows nothing of the drive but what driver and oracle say, and looks into it only for what
//! is left over at the end. It measures nothing.

mod alone;
mod boxed;
pub mod draw;
mod drive;
pub mod every;
pub mod failure;
mod kept;
mod life;
mod pairs;
mod placing;
pub mod plan;
pub mod rig;
mod seat;
pub mod shrink;
mod space;
pub mod swarm;
pub mod tally;
mod unplug;
