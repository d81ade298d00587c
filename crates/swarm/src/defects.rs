//! Defects on purpose of all crates, as a plan names one: `defect = "kv/trust-torn"`.
//!
//! Programs that are not tests are built without them, and refuse such a plan. What must find each is in the [registry](super::registry).

use byteway_defect::{CAN_PLANT, LeftOut, Planted};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

byteway_defect::defects! {
    /// Defects on purpose of what is around drives.
    pub enum Defect {
        /// A bridge's memory is volatile.
        ForgetMemory = "forget-memory",
    }
}

/// Declares [`AnyDefect`]: the variant of each crate, its name, and the function that returns its defects.
macro_rules! any_defect {
    ($($variant:ident, $name:literal, $of_crate:ident: $defect:ty;)+) => {
        /// A defect on purpose of any crate.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum AnyDefect {
            $(#[doc = concat!("One of `", $name, "`.")] $variant($defect),)+
        }

        impl AnyDefect {
            /// All that there are.
            pub fn all() -> impl Iterator<Item = AnyDefect> {
                std::iter::empty()$(.chain(<$defect>::ALL.map(AnyDefect::$variant)))+
            }

            /// Its name in plans: crate and defect.
            pub fn name(self) -> String {
                match self {
                    $(AnyDefect::$variant(defect) => format!(concat!($name, "/{}"), defect.name()),)+
                }
            }

            $(pub(super) fn $of_crate(self) -> Option<$defect> {
                match self {
                    AnyDefect::$variant(defect) => Some(defect),
                    _ => None,
                }
            })+
        }
    };
}

any_defect! {
    Firmware, "firmware", of_firmware: byteway_firmware::Defect;
    Kv, "kv", of_kv: byteway_kv::Defect;
    Tables, "tables", of_tables: byteway_tables::Defect;
    Array, "array", of_array: byteway_array::Defect;
    Device, "device", of_device: byteway_device::Defect;
    Jbof, "jbof", of_jbof: byteway_jbof::Defect;
    Swarm, "swarm", of_swarm: Defect;
}

/// The defect with this name.
fn named(name: &str) -> Result<Planted<AnyDefect>, String> {
    match AnyDefect::all().find(|defect| defect.name() == name) {
        Some(defect) => Planted::new(defect).map_err(|error| error.to_string()),
        None => {
            let names: Vec<_> = AnyDefect::all().map(AnyDefect::name).collect();
            Err(format!("there is no defect `{name}`: choose one of {}", names.join(", ")))
        }
    }
}

/// The name of a plan's defect.
pub(super) fn to_text<S: Serializer>(planted: &Planted<AnyDefect>, to: S) -> Result<S::Ok, S::Error> {
    match planted.get() {
        Some(defect) if CAN_PLANT => to.serialize_str(&defect.name()),
        _ => to.serialize_none(),
    }
}

/// A plan's defect by its name. Names are not in a program that refuses them all.
pub(super) fn from_text<'de, D: Deserializer<'de>>(from: D) -> Result<Planted<AnyDefect>, D::Error> {
    let name = String::deserialize(from)?;
    if !CAN_PLANT {
        return Err(D::Error::custom(LeftOut));
    }
    named(&name).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::draw;
    use crate::plan::Plan;

    #[test]
    fn a_plan_keeps_its_defect_as_text() {
        for defect in AnyDefect::all() {
            let plan = Plan { defect: defect.into(), ..draw(1, 0) };
            assert_eq!(Plan::from_toml(&plan.to_toml()), Ok(plan));
        }
        let wrong = draw(1, 0).to_toml().replacen("seed", "defect = \"kv/none\"\nseed", 1);
        let error = Plan::from_toml(&wrong).unwrap_err();
        assert!(
            error.contains("there is no defect `kv/none`: choose one of firmware/ignore-trims, "),
            "{error}"
        );
    }
}
