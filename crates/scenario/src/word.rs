//! Values that are written as one word of a table that another crate keeps, with what that table says of each.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use byteway_transfer::Method;
use byteway_wire::nvme::vendor::Extension;

/// A word of a table.
pub trait Word: Copy + 'static {
    /// What the schema calls the table, and says of it.
    const TABLE: (&'static str, &'static str);

    /// Each value with its word and what it means.
    fn all() -> impl Iterator<Item = (Self, &'static str, Cow<'static, str>)>;
}

/// A value that is written as its word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written<T>(pub T);

impl<'de, T: Word> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        let found = T::all().find(|(_, known, _)| *known == word);
        found.map(|(value, ..)| Written(value)).ok_or_else(|| {
            // As derived code says it, so that the cure names the nearest one.
            let known: Vec<String> = T::all().map(|(_, word, _)| format!("`{word}`")).collect();
            de::Error::custom(format!("unknown variant `{word}`, expected one of {}", known.join(", ")))
        })
    }
}

impl<T: Word + PartialEq> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let word = T::all().find(|(value, ..)| *value == self.0);
        serializer.serialize_str(word.expect("the table has all of them").1)
    }
}

impl<T: Word> JsonSchema for Written<T> {
    fn schema_name() -> Cow<'static, str> {
        T::TABLE.0.into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = |(_, word, about): (T, &str, Cow<str>)| json_schema!({ "type": "string", "const": word, "description": about });
        let words: Vec<Schema> = T::all().map(one).collect();
        json_schema!({ "description": T::TABLE.1, "oneOf": words })
    }
}

impl Word for Method {
    const TABLE: (&'static str, &'static str) = ("TransferMethod", "How payloads cross.");

    fn all() -> impl Iterator<Item = (Self, &'static str, Cow<'static, str>)> {
        Method::ALL.into_iter().map(|method| (method, method.name(), method.entry().about.into()))
    }
}

/// A method that may carry what is below the threshold of an adaptive one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fine(pub Method);

impl Word for Fine {
    const TABLE: (&'static str, &'static str) = ("FineMethod", "How short payloads cross under `adaptive`.");

    fn all() -> impl Iterator<Item = (Self, &'static str, Cow<'static, str>)> {
        let fine = Method::ALL.into_iter().filter(|method| method.entry().is_fine);
        fine.map(|method| {
            (Fine(method), method.name(), format!("As `method = \"{}\"`.", method.name()).into())
        })
    }
}

impl Word for Extension {
    const TABLE: (&'static str, &'static str) = ("Extension", "Something that a drive may offer.");

    fn all() -> impl Iterator<Item = (Self, &'static str, Cow<'static, str>)> {
        Extension::TABLE.into_iter().map(|(extension, name, about)| (extension, name, about.into()))
    }
}
