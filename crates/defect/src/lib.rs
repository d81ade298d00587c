//! Defects on purpose: a test that finds none of them would not find a real one either.
//!
//! A crate names its own in an enum `Defect`, and what is configured holds the one that is planted:
//!
//! ```
//! use byteway_defect::Planted;
//!
//! byteway_defect::defects! {
//!     /// Defects of an adder.
//!     pub enum Defect {
//!         /// The carry is lost.
//!         LoseCarry = "lose-carry",
//!     }
//! }
//!
//! fn add(a: u8, b: u8, defect: Planted<Defect>) -> u16 {
//!     match defect.has(Defect::LoseCarry) {
//!         true => u16::from(a.wrapping_add(b)),
//!         false => u16::from(a) + u16::from(b),
//!     }
//! }
//!
//! assert_eq!(add(200, 100, Planted::none()), 300);
//! assert_eq!(add(200, 100, Planted::new(Defect::LoseCarry)?), 44);
//! assert_eq!(Defect::ALL.map(Defect::name), ["lose-carry"]);
//! # Ok::<(), byteway_defect::LeftOut>(())
//! ```
//!
//! Without the feature `defects` of this crate, which only tests turn on, nothing can be planted: [`Planted`] takes no memory,
//! [`Planted::has`] is always `false`, and the compiler leaves out what depends on it. So there is no defect in a release.
//!
//! What it does not do: it lists no defects. All of them, with what finds them, are in the registry of `byteway-swarm`.

use std::fmt;

/// Whether defects can be planted: the feature `defects`.
pub const CAN_PLANT: bool = cfg!(feature = "defects");

/// The defect that something has on purpose, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planted<D> {
    #[cfg(feature = "defects")]
    defect: Option<D>,
    #[cfg(not(feature = "defects"))]
    never: std::marker::PhantomData<D>,
}

#[cfg(feature = "defects")]
impl<D: Copy> Planted<D> {
    /// No defect.
    pub const fn none() -> Self {
        Planted { defect: None }
    }

    /// This one.
    ///
    /// # Errors
    /// Defects are left out of this build.
    pub fn new(defect: D) -> Result<Self, LeftOut> {
        Ok(Planted { defect: Some(defect) })
    }

    /// The one that is planted.
    pub fn get(self) -> Option<D> {
        self.defect
    }
}

#[cfg(not(feature = "defects"))]
impl<D: Copy> Planted<D> {
    /// No defect.
    pub const fn none() -> Self {
        Planted { never: std::marker::PhantomData }
    }

    /// This one.
    ///
    /// # Errors
    /// Defects are left out of this build.
    pub fn new(_: D) -> Result<Self, LeftOut> {
        Err(LeftOut)
    }

    /// The one that is planted: none in this build.
    pub fn get(self) -> Option<D> {
        None
    }
}

impl<D: Copy> Planted<D> {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.get().is_none()
    }

    /// What `part` makes of it, such as a crate's own defect of any crate's.
    pub fn and_then<E: Copy>(self, part: impl FnOnce(D) -> Option<E>) -> Planted<E> {
        self.get().and_then(part).and_then(|defect| Planted::new(defect).ok()).unwrap_or_default()
    }
}

impl<D: Copy + PartialEq> Planted<D> {
    /// Whether it is this one.
    pub fn has(self, defect: D) -> bool {
        self.get() == Some(defect)
    }
}

impl<D: Copy> Default for Planted<D> {
    fn default() -> Self {
        Planted::none()
    }
}

/// Only where defects can be planted, so that no test plants one in vain.
#[cfg(feature = "defects")]
impl<D: Copy> From<D> for Planted<D> {
    fn from(defect: D) -> Self {
        Planted { defect: Some(defect) }
    }
}

/// Defects on purpose are left out of this build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut;

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "defects on purpose are left out of this program: only tests are built with them")
    }
}

impl std::error::Error for LeftOut {}

/// Declares an enum of defects, each with its name in plans of the swarm; `ALL` lists them.
#[macro_export]
macro_rules! defects {
    ($(#[$of_all:meta])* pub enum $all:ident { $($(#[$of:meta])* $defect:ident = $name:literal,)+ }) => {
        $(#[$of_all])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $all {
            $($(#[$of])* $defect,)+
        }

        impl $all {
            /// All of them.
            pub const ALL: [$all; [$($name),+].len()] = [$($all::$defect),+];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $($all::$defect => $name,)+
                }
            }
        }
    };
}
