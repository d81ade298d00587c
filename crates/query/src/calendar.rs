//! Calendar arithmetic: text to days or microseconds since 1970-01-01, and addition of intervals.

use crate::error::QueryError;
use crate::schema::ColumnType;
use crate::statement::Interval;

pub(crate) const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Days since 1970-01-01 of a date in the proleptic Gregorian calendar; `None` if there is no such date.
pub(crate) fn days(year: i64, month: i64, day: i64) -> Option<i32> {
    if !(1..=12).contains(&month) || day < 1 || day > month_days(year, month) {
        return None;
    }
    // Years start in March, so that a leap day ends its year. An era is 400 years, which is 146,097 days.
    let shifted = if month > 2 { year } else { year - 1 };
    let era = shifted.div_euclid(400);
    let of_era = shifted.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let of_era_days = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    i32::try_from(era * 146_097 + of_era_days - 719_468).ok()
}

/// Year, month and day of a day number.
pub(crate) fn civil(days: i32) -> (i64, i64, i64) {
    let shifted = i64::from(days) + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era_days = shifted.rem_euclid(146_097);
    let of_era = (of_era_days - of_era_days / 1_460 + of_era_days / 36_524 - of_era_days / 146_096) / 365;
    let of_year = of_era_days - (365 * of_era + of_era / 4 - of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    (era * 400 + of_era + i64::from(month <= 2), month, day)
}

fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Adds an interval to a timestamp: months first, with the day limited to the month's last, then days, then microseconds.
pub(crate) fn add(timestamp: i64, interval: Interval) -> Option<i64> {
    let (date, time) = (timestamp.div_euclid(MICROS_PER_DAY), timestamp.rem_euclid(MICROS_PER_DAY));
    let (year, month, day) = civil(i32::try_from(date).ok()?);
    let months = year * 12 + month - 1 + i64::from(interval.months);
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    let date = i64::from(days(year, month, day.min(month_days(year, month)))?) + i64::from(interval.days);
    date.checked_mul(MICROS_PER_DAY)?.checked_add(time)?.checked_add(interval.micros)
}

/// Parses `2024-02-29`.
pub(crate) fn parse_date(text: &str) -> Result<i32, QueryError> {
    let (date, rest) = date(text.trim()).ok_or_else(|| wrong(text, ColumnType::Date))?;
    // DuckDB accepts a time after the date and ignores it.
    match rest.is_empty() || time(rest).is_some() {
        true => Ok(date),
        false => Err(wrong(text, ColumnType::Date)),
    }
}

/// Parses `2024-02-29` or `2024-02-29 12:30:00.5`.
pub(crate) fn parse_timestamp(text: &str) -> Result<i64, QueryError> {
    let parse = || {
        let (date, rest) = date(text.trim())?;
        let time = if rest.is_empty() { 0 } else { time(rest)? };
        i64::from(date).checked_mul(MICROS_PER_DAY)?.checked_add(time)
    };
    parse().ok_or_else(|| wrong(text, ColumnType::Timestamp))
}

fn wrong(text: &str, column_type: ColumnType) -> QueryError {
    let text = text.chars().take(40).collect();
    let why = match column_type {
        ColumnType::Date => "expected an existing date as YYYY-MM-DD",
        _ => "expected an existing date and time as YYYY-MM-DD HH:MM:SS[.ffffff]",
    };
    QueryError::Text { text, column_type, why: why.to_owned() }
}

fn number(text: &str, digits: std::ops::RangeInclusive<usize>) -> Option<(i64, &str)> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    digits.contains(&end).then_some(())?;
    Some((text[..end].parse().ok()?, &text[end..]))
}

fn date(text: &str) -> Option<(i32, &str)> {
    let (year, rest) = number(text, 4..=6)?;
    let (month, rest) = number(rest.strip_prefix('-')?, 1..=2)?;
    let (day, rest) = number(rest.strip_prefix('-')?, 1..=2)?;
    Some((days(year, month, day)?, rest))
}

fn time(text: &str) -> Option<i64> {
    let (hour, rest) = number(text.strip_prefix([' ', 'T'])?, 1..=2)?;
    let (minute, rest) = number(rest.strip_prefix(':')?, 2..=2)?;
    let (second, rest) = match rest.strip_prefix(':') {
        Some(rest) => number(rest, 2..=2)?,
        None => (0, rest),
    };
    let micros = match rest.strip_prefix('.') {
        Some(digits)
            if (1..=6).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            digits.parse::<i64>().ok()? * 10i64.pow(6 - digits.len() as u32)
        }
        None if rest.is_empty() => 0,
        _ => return None,
    };
    let valid = hour < 24 && minute < 60 && second < 60;
    valid.then_some(((hour * 60 + minute) * 60 + second) * 1_000_000 + micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    // An error of one day would move rows in or out of every result bounded by a date.
    #[test]
    fn every_day_of_five_centuries_comes_back() {
        let mut expected = (1600, 1, 1);
        let first = days(1600, 1, 1).unwrap();
        for number in first..days(2101, 1, 1).unwrap() {
            let (year, month, day) = civil(number);
            assert_eq!((year, month, day), expected);
            assert_eq!(days(year, month, day), Some(number));
            expected = match (month, day == month_days(year, month)) {
                (12, true) => (year + 1, 1, 1),
                (_, true) => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
        assert_eq!(parse_date("1970-01-01").unwrap(), 0);
        assert_eq!(parse_date("1998-12-01").unwrap() - 90, parse_date("1998-09-02").unwrap());
    }

    // Invalid dates and trailing text must be errors, as in DuckDB.
    #[test]
    fn wrong_dates_are_refused() {
        for text in
            ["2023-02-29", "2023-13-01", "2023-00-01", "2023-01-32", "x", "", "2023-01", "2023-01-01x"]
        {
            assert!(parse_date(text).is_err(), "{text}");
        }
        for text in
            ["2023-01-01 24:00:00", "2023-01-01 00:60:00", "2023-01-01 00:00:00.1234567", "2023-01-01 "]
        {
            assert_eq!(parse_timestamp(text).is_err(), text.len() > 11, "{text}");
        }
        assert_eq!(parse_timestamp("1970-01-02 00:00:01.5").unwrap(), MICROS_PER_DAY + 1_500_000);
    }

    // A month added to the last of January ends in February, as in DuckDB, not in March.
    #[test]
    fn months_are_cut_to_their_last_day() {
        let months = |months| Interval { months, ..Interval::default() };
        let january = parse_timestamp("2024-01-31 01:00:00").unwrap();
        assert_eq!(add(january, months(1)), Some(parse_timestamp("2024-02-29 01:00:00").unwrap()));
        assert_eq!(add(january, months(-2)), Some(parse_timestamp("2023-11-30 01:00:00").unwrap()));
        assert_eq!(add(i64::MAX, months(1)), None);
    }
}
