//! Values by direction (read, write, trim) in fio's notation: "8k,32k".

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Unexpected, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use byteway_text::units::{Bytes, Rate, UnitError, excerpt, fio_bytes};
use byteway_trace::Kind;

/// A value for each kind of I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByKind<T> {
    /// Value for reads.
    pub read: T,
    /// Value for writes.
    pub write: T,
    /// Value for trims.
    pub trim: T,
}

impl<T> ByKind<T> {
    /// Calls `value` for each kind.
    pub fn from_fn(mut value: impl FnMut(Kind) -> T) -> Self {
        ByKind { read: value(Kind::Read), write: value(Kind::Write), trim: value(Kind::Trim) }
    }

    /// The value of one kind.
    pub fn get(&self, kind: Kind) -> &T {
        match kind {
            Kind::Read => &self.read,
            Kind::Write => &self.write,
            Kind::Trim => &self.trim,
        }
    }

    /// The value of one kind, mutable.
    pub fn get_mut(&mut self, kind: Kind) -> &mut T {
        match kind {
            Kind::Read => &mut self.read,
            Kind::Write => &mut self.write,
            Kind::Trim => &mut self.trim,
        }
    }
}

/// A type of value that may be given by direction.
pub trait Directed: FromStr<Err = UnitError> + fmt::Display + Clone + PartialEq {
    /// Name of the list type in the schema.
    const NAME: &'static str;
    /// Expected text, for errors.
    const EXPECTED: &'static str;
    /// Converts a bare number; `None` if a unit is required.
    fn from_number(_: u64) -> Option<Self> {
        None
    }
}

/// Up to three values, for reads, writes and trims. The last value also applies to the remaining directions.
/// An empty position (also after a final comma) leaves its direction without a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerDirection<T>(pub ByKind<Option<T>>);

impl<T: Clone> PerDirection<T> {
    /// The same value for all directions.
    pub fn all(value: T) -> Self {
        PerDirection(ByKind::from_fn(|_| Some(value.clone())))
    }
}

impl<T: Directed> FromStr for PerDirection<T> {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = |what: String| UnitError { what, help: format!("write {}", T::EXPECTED) };
        if text.split(',').count() > 3 {
            return Err(wrong(format!("`{}` has more than three parts", excerpt(text))));
        }
        let mut values = Vec::with_capacity(3);
        for part in text.split(',').map(str::trim) {
            values.push(if part.is_empty() { None } else { Some(part.parse::<T>()?) });
        }
        if values.iter().all(Option::is_none) {
            return Err(wrong("it is empty".to_owned()));
        }
        let at = |place: usize| values.get(place).or(values.last()).cloned().flatten();
        Ok(PerDirection(ByKind { read: at(0), write: at(1), trim: at(2) }))
    }
}

impl<T: Directed> fmt::Display for PerDirection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ByKind { read, write, trim } = &self.0;
        if let (true, true, Some(value)) = (read == write, write == trim, read) {
            return write!(f, "{value}");
        }
        for (value, end) in [(read, ","), (write, ","), (trim, "")] {
            if let Some(value) = value {
                write!(f, "{value}")?;
            }
            f.write_str(end)?;
        }
        Ok(())
    }
}

impl<T: Directed> Serialize for PerDirection<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

struct Parts<T>(PhantomData<T>);

impl<T: Directed> Visitor<'_> for Parts<T> {
    type Value = PerDirection<T>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<PerDirection<T>, E> {
        let value = u64::try_from(number).ok().and_then(T::from_number);
        value.map(PerDirection::all).ok_or_else(|| E::invalid_type(Unexpected::Signed(number), &self))
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<PerDirection<T>, E> {
        let value = T::from_number(number);
        value.map(PerDirection::all).ok_or_else(|| E::invalid_type(Unexpected::Unsigned(number), &self))
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<PerDirection<T>, E> {
        text.parse().map_err(E::custom)
    }
}

impl<'de, T: Directed> Deserialize<'de> for PerDirection<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Parts(PhantomData))
    }
}

impl<T: Directed> JsonSchema for PerDirection<T> {
    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        match T::from_number(1) {
            Some(_) => {
                json_schema!({ "type": ["integer", "string"], "description": T::EXPECTED, "minimum": 1 })
            }
            None => json_schema!({ "type": "string", "description": T::EXPECTED }),
        }
    }
}

impl Directed for Bytes {
    const NAME: &'static str = "BlockSizes";
    const EXPECTED: &'static str = "a size in quotes, such as \"4 KiB\" or \"4k\", or one each for reads, writes and trims: \"4k,16k,1m\"";
}

impl Directed for Rate {
    const NAME: &'static str = "Rates";
    const EXPECTED: &'static str = "a rate in quotes, such as \"800 MB/s\", or one each for reads, writes and trims: \"800 MB/s,200 MB/s\"";
}

/// A rate in I/Os per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iops(pub u64);

impl FromStr for Iops {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let digits = text.replace('_', "");
        digits.parse().map(Iops).map_err(|_| UnitError {
            what: format!("`{}` is not a number of I/Os", excerpt(text)),
            help: format!("write {}", Self::EXPECTED),
        })
    }
}

impl fmt::Display for Iops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Directed for Iops {
    const NAME: &'static str = "IopsRates";
    const EXPECTED: &'static str =
        "I/Os a second, such as 10000, or a number each for reads, writes and trims: \"10000,2000\"";
    fn from_number(number: u64) -> Option<Self> {
        Some(Iops(number))
    }
}

/// The shortest and the longest size: "4k-64k".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeRange {
    /// Shortest size, of which every size is a multiple.
    pub min: Bytes,
    /// Longest size.
    pub max: Bytes,
}

impl FromStr for SizeRange {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = |what: String| UnitError { what, help: format!("write {}", Self::EXPECTED) };
        let (min, max) = text
            .split_once(['-', ':'])
            .ok_or_else(|| wrong(format!("`{}` is not a range", excerpt(text))))?;
        let (min, max) = (fio_bytes(min)?, fio_bytes(max)?);
        if min.0 == 0 || min > max {
            return Err(wrong(format!("`{}` does not rise from at least one byte", excerpt(text))));
        }
        Ok(SizeRange { min, max })
    }
}

impl fmt::Display for SizeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.min, self.max)
    }
}

impl Directed for SizeRange {
    const NAME: &'static str = "BlockRanges";
    const EXPECTED: &'static str = "the least and the most, such as \"4k-64k\", or such a range each for reads, writes and trims: \"4k-64k,16k-1m\"";
}

/// Sizes with their shares in percent: "4k/60:64k/40".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeSplit(pub Vec<(Bytes, u32)>);

/// Parts, at most; more are a mistake or an attack.
const PARTS_MAX: usize = 64;

/// Splits "a/60:b/40" into its parts; omitted shares divide the remainder to 100 evenly.
pub fn split<'a>(text: &'a str, expected: &str) -> Result<Vec<(&'a str, &'a str)>, UnitError> {
    let parts: Vec<_> = text.split(':').map(|part| part.split_once('/').unwrap_or((part, ""))).collect();
    if parts.len() > PARTS_MAX {
        let what = format!("{} parts are too many", parts.len());
        return Err(UnitError { what, help: format!("write at most {PARTS_MAX}: {expected}") });
    }
    Ok(parts.into_iter().map(|(left, right)| (left.trim(), right.trim())).collect())
}

/// Percentages that sum to 100; empty ones divide the remainder.
pub fn percentages<'a>(
    texts: impl Iterator<Item = &'a str> + Clone,
    noun: &str,
    expected: &str,
) -> Result<Vec<u32>, UnitError> {
    let wrong = |what: String| UnitError { what, help: format!("write {expected}") };
    let mut sum = 0;
    for text in texts.clone().filter(|text| !text.is_empty()) {
        let share = text.parse().ok().filter(|share| (0..=100).contains(share));
        let share: u32 = share.ok_or_else(|| wrong(format!("`{}` is not a percentage", excerpt(text))))?;
        sum += share;
    }
    let open = texts.clone().filter(|text| text.is_empty()).count() as u32;
    if sum > 100 || (open == 0 && sum != 100) {
        return Err(wrong(format!("the percentages of {noun} sum to {sum}, not to 100")));
    }
    let rest = 100 - sum;
    if open > rest {
        return Err(wrong(format!("no percentage of {noun} is left for those without one")));
    }
    let mut given = 0;
    let shares = texts.map(|text| match text.parse() {
        Ok(share) => share,
        Err(_) => {
            given += 1;
            rest / open + u32::from(given <= rest % open)
        }
    });
    Ok(shares.collect())
}

impl FromStr for SizeSplit {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let parts = split(text, Self::EXPECTED)?;
        let shares = percentages(parts.iter().map(|part| part.1), "the sizes", Self::EXPECTED)?;
        let sizes = parts.iter().map(|part| fio_bytes(part.0)).collect::<Result<Vec<_>, _>>()?;
        Ok(SizeSplit(sizes.into_iter().zip(shares).collect()))
    }
}

impl fmt::Display for SizeSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (size, share)) in self.0.iter().enumerate() {
            write!(f, "{}{size}/{share}", if number > 0 { ":" } else { "" })?;
        }
        Ok(())
    }
}

impl Directed for SizeSplit {
    const NAME: &'static str = "BlockSplits";
    const EXPECTED: &'static str = "sizes with percentages, such as \"4k/60:64k/40\" (those left out share the rest), or such \
                                    a list each for reads, writes and trims";
}
