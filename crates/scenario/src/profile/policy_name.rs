//! Names of policies as values: a mistake there is answered with those that are built in.

use std::fmt;
use std::marker::PhantomData;

use byteway_firmware::policy::{Kind, Named};
use serde::de::{self, Deserializer, Visitor};

/// The policy without which a profile is as if it named none.
pub(super) fn by_default<P: Kind + ?Sized>() -> String {
    Named::<P>::default().name().to_owned()
}

pub(super) fn is_default<P: Kind + ?Sized>(name: &str) -> bool {
    name == Named::<P>::default().name()
}

/// `#[serde(deserialize_with)]` for the name of a policy.
pub(super) fn deserialize<'de, P: Kind + ?Sized, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<String, D::Error> {
    deserializer.deserialize_str(NameVisitor::<P>(PhantomData))
}

/// The same for a key that may be left out.
pub(super) fn optional<'de, P: Kind + ?Sized, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    deserialize::<P, D>(deserializer).map(Some)
}

struct NameVisitor<P: ?Sized>(PhantomData<P>);

impl<P: Kind + ?Sized> Visitor<'_> for NameVisitor<P> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = P::built_in().iter().map(|policy| format!("`{}`", policy.name)).collect();
        write!(f, "the name of a policy in quotes: one of your own, or {}", names.join(", "))
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<String, E> {
        Ok(name.to_owned())
    }
}
