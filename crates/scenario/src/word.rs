//! Values that are words of a table in another crate, with the descriptions in that table.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use byteway_transfer::Method;
use byteway_wire::nvme::vendor::Extension;

/// A value with a word in a table.
pub trait TableWord: Copy + 'static {
    /// Name and description of the table in the schema.
    const TABLE: (&'static str, &'static str);

    /// All values, each with its word and description.
    fn all() -> impl Iterator<Item = (Self, &'static str, Cow<'static, str>)>;
}

/// A value that is deserialized from its word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FromWord<T>(pub T);

impl<'de, T: TableWord> Deserialize<'de> for FromWord<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        let found = T::all().find(|(_, known, _)| *known == word);
        found.map(|(value, ..)| FromWord(value)).ok_or_else(|| {
            // The same message as derived code produces, so that the remedy suggests the nearest word.
            let known: Vec<String> = T::all().map(|(_, word, _)| format!("`{word}`")).collect();
            de::Error::custom(format!("unknown variant `{word}`, expected one of {}", known.join(", ")))
        })
    }
}

impl<T: TableWord + PartialEq> Serialize for FromWord<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let word = T::all().find(|(value, ..)| *value == self.0);
        serializer.serialize_str(word.expect("the table has all of them").1)
    }
}

impl<T: TableWord> JsonSchema for FromWord<T> {
    fn schema_name() -> Cow<'static, str> {
        T::TABLE.0.into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = |(_, word, about): (T, &str, Cow<str>)| json_schema!({ "type": "string", "const": word, "description": about });
        let words: Vec<Schema> = T::all().map(one).collect();
        json_schema!({ "description": T::TABLE.1, "oneOf": words })
    }
}

impl TableWord for Method {
    const TABLE: (&'static str, &'static str) = ("TransferMethod", "How payloads cross.");

    fn all() -> impl Iterator<Item = (Self, &'static str, Cow<'static, str>)> {
        Method::ALL.into_iter().map(|method| (method, method.name(), method.entry().about.into()))
    }
}

/// A fine-grained method, for payloads below the threshold of an adaptive one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FineMethod(pub Method);

impl TableWord for FineMethod {
    const TABLE: (&'static str, &'static str) = ("FineMethod", "How short payloads cross under `adaptive`.");

    fn all() -> impl Iterator<Item = (Self, &'static str, Cow<'static, str>)> {
        let fine = Method::ALL.into_iter().filter(|method| method.entry().is_fine);
        fine.map(|method| {
            (FineMethod(method), method.name(), format!("As `method = \"{}\"`.", method.name()).into())
        })
    }
}

impl TableWord for Extension {
    const TABLE: (&'static str, &'static str) = ("Extension", "Something that a drive may offer.");

    fn all() -> impl Iterator<Item = (Self, &'static str, Cow<'static, str>)> {
        Extension::TABLE.into_iter().map(|(extension, name, about)| (extension, name, about.into()))
    }
}
