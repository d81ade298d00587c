//! Formats result values as text, as DuckDB prints them.

use crate::schema::ColumnType;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};

/// The value of a row as text; `None` if null. For a type that tables do not have, the type's name.
pub fn text(array: &ArrayRef, row: usize) -> Option<String> {
    if array.is_null(row) {
        return None;
    }
    macro_rules! number {
        ($kind:ty) => {
            array.as_primitive::<$kind>().value(row).to_string()
        };
    }
    Some(match ColumnType::from_arrow(array.data_type()) {
        None => array.data_type().to_string(),
        Some(column_type) => match column_type {
            ColumnType::Bool => array.as_boolean().value(row).to_string(),
            ColumnType::Int8 => number!(Int8Type),
            ColumnType::Int16 => number!(Int16Type),
            ColumnType::Int32 => number!(Int32Type),
            ColumnType::Int64 => number!(Int64Type),
            ColumnType::UInt8 => number!(UInt8Type),
            ColumnType::UInt16 => number!(UInt16Type),
            ColumnType::UInt32 => number!(UInt32Type),
            ColumnType::UInt64 => number!(UInt64Type),
            ColumnType::Float32 => {
                let value = array.as_primitive::<Float32Type>().value(row);
                float(value.to_string(), format!("{value:e}"))
            }
            ColumnType::Float64 => {
                let value = array.as_primitive::<Float64Type>().value(row);
                float(value.to_string(), format!("{value:e}"))
            }
            ColumnType::HugeInt => number!(Decimal128Type),
            ColumnType::Decimal { scale, .. } => {
                decimal(array.as_primitive::<Decimal128Type>().value(row), scale)
            }
            ColumnType::Date => date(array.as_primitive::<Date32Type>().value(row).into()),
            ColumnType::Timestamp => timestamp(array.as_primitive::<TimestampMicrosecondType>().value(row)),
            ColumnType::Utf8 => array.as_string::<i32>().value(row).to_owned(),
        },
    })
}

/// A number as it is, or with its exponent if that is the only readable form: 1e300 has 301 digits.
fn float(plain: String, scientific: String) -> String {
    if plain.len() > FLOAT_CHARS_MAX { scientific } else { plain }
}

/// No number of 17 digits between 1e-4 and 1e17 takes more.
const FLOAT_CHARS_MAX: usize = 23;

fn decimal(value: i128, scale: u8) -> String {
    let unit = 10u128.pow(scale.into());
    let (sign, value) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
    match scale {
        0 => format!("{sign}{value}"),
        _ => format!("{sign}{}.{:0width$}", value / unit, value % unit, width = scale.into()),
    }
}

/// Formats days since 1970-01-01 as a Gregorian date: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn date(days: i64) -> String {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

fn timestamp(micros: i64) -> String {
    const DAY: i64 = 86_400_000_000;
    let (days, of_day) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
    let (seconds, fraction) = (of_day / 1_000_000, of_day % 1_000_000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let whole = format!("{} {hours:02}:{minutes:02}:{seconds:02}", date(days));
    match fraction {
        0 => whole,
        _ => format!("{whole}.{fraction:06}").trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A wrongly printed value is a wrong result.
    #[test]
    fn values_are_printed_as_they_are() {
        assert_eq!(
            [decimal(-5, 2), decimal(12_345, 2), decimal(7, 0), decimal(0, 3)],
            ["-0.05", "123.45", "7", "0.000"]
        );
        let days = [date(0), date(-1), date(11_016), date(19_782), date(-719_528)];
        assert_eq!(days, ["1970-01-01", "1969-12-31", "2000-02-29", "2024-02-29", "0000-01-01"]);
        let floats = [1e300, -5e-324, 0.1, -1e16, f64::NAN, 123_456.789, -1.234_567_890_123_456_7e-4];
        let floats: ArrayRef = std::sync::Arc::new(arrow_array::Float64Array::from(floats.to_vec()));
        let texts: Vec<String> = (0..floats.len()).filter_map(|row| text(&floats, row)).collect();
        let plain = ["0.1", "-10000000000000000", "NaN", "123456.789", "-0.00012345678901234567"];
        assert_eq!(texts, [&["1e300", "-5e-324"][..], &plain].concat());
        assert_eq!(timestamp(-1), "1969-12-31 23:59:59.999999");
        assert_eq!(timestamp(1_500_000), "1970-01-01 00:00:01.5");
    }
}
