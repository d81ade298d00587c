//! Policies: decisions that users replace. A kind of policy is a trait, in the crate whose decision it is; here is what all kinds have in
//! common.
//!
//! | file | contents |
//! |---|---|
//! | `kind.rs` | [`Kind`]: what a kind of policy says of itself; how a policy is made |
//! | `named.rs` | [`Named`]: a policy under its name; [`Set`]: all of a kind that have one |
//! | `argument.rs` | [`WrongArgument`]: what is wrong with what stands behind a colon |
//! | `asked.rs` | [`Asked`]: a policy that a drive asks, and what it did wrong |
//!
//! ```
//! use byteway_policy::{BuiltIn, Kind, Set, WrongArgument, plain};
//!
//! trait Coin {
//!     fn is_heads(&mut self) -> bool;
//! }
//!
//! struct Always;
//!
//! impl Coin for Always {
//!     fn is_heads(&mut self) -> bool {
//!         true
//!     }
//! }
//!
//! impl Kind for dyn Coin {
//!     fn built_in() -> &'static [BuiltIn<Self>] {
//!         &[BuiltIn { name: "always", about: "Heads.", make: |argument| plain(argument, Box::new(Always)) }]
//!     }
//!
//!     fn unmade(_why: WrongArgument) -> Box<Self> {
//!         Box::new(Always)
//!     }
//! }
//!
//! let coins = Set::<dyn Coin>::default();
//! assert!(coins.find("always", "").unwrap().make().is_heads());
//! assert!(coins.find("never", "").is_err() && coins.find("always:2", "").is_err());
//! ```

mod argument;
mod asked;
mod kind;
mod named;

pub use argument::WrongArgument;
pub use asked::Asked;
pub use kind::{Added, BuiltIn, Kind, Made, Make, plain};
pub use named::{Named, Set, UnknownPolicy, caught, is_file};
