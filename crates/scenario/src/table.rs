//! `[[drive.table]]` of a scenario: from section to the rows of a table.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;

use byteway_query::schema::NAME_BYTES_MAX;
use byteway_text::units::excerpt;
use byteway_workload::query::{Amount, Generator, ROWS_MAX, RowSource, TableRows};

use super::query_section::TableSection;
use super::wrong::SectionError;
use crate::profile::{KeyError, fault, within};

/// The tables of a drive whose section is written at `path`, and whose namespaces for them are `nsids`; files begin at
/// `folder`.
pub(super) fn tables(
    sections: &[TableSection],
    path: &str,
    folder: &Path,
    nsids: RangeInclusive<u32>,
) -> Result<Vec<TableRows>, SectionError> {
    if !sections.is_empty() && nsids.is_empty() {
        let key = format!("{path}.table.0");
        let what = format!("`{key}`: the drive holds no tables");
        return Err(fault(key, what, "set `personality = \"tables\"` in [drive], or leave it out").into());
    }
    let mut names = BTreeSet::new();
    let mut tables = Vec::new();
    for (number, section) in sections.iter().enumerate() {
        let key = |key: &str| format!("{path}.table.{number}.{key}");
        if section.name.is_empty() || section.name.len() > NAME_BYTES_MAX || section.name.contains(' ') {
            let what = format!("`{}` cannot be the name of a table", excerpt(&section.name));
            return Err(fault(key("name"), what, "write 1 to 255 bytes without spaces").into());
        }
        let nsid = section.namespace.unwrap_or(*nsids.start());
        within(&key("namespace"), nsid, *nsids.start(), *nsids.end())?;
        if !names.insert((nsid, section.name.clone())) {
            let what = format!("two tables are called `{}`", excerpt(&section.name));
            return Err(fault(key("name"), what, "give each a name of its own").into());
        }
        let source = match (&section.file, section.generate) {
            (Some(file), None) => {
                for (of, is_there) in [("rows", section.rows.is_some()), ("scale", section.scale.is_some())] {
                    if is_there {
                        let what = format!("`{}`: a file determines the number of rows", key(of));
                        return Err(fault(key(of), what, "leave it out").into());
                    }
                }
                RowSource::File(folder.join(file))
            }
            (None, Some(generator)) => RowSource::Drawn(generator, amount(section, generator, &key)?),
            _ => {
                let at = format!("{path}.table.{number}");
                let what = format!("`{at}`: its rows must come from a file or a generator");
                let help = "give one of `file = \"rows.parquet\"` and `generate = \"vpic\"` with `rows`";
                return Err(fault(at, what, help).into());
            }
        };
        let schema = source.schema().map_err(|error| SectionError::File(key("file"), error))?;
        tables.push(TableRows { name: section.name.clone(), nsid, source, schema });
    }
    Ok(tables)
}

/// Rows of a generated table.
fn amount(
    section: &TableSection,
    generator: Generator,
    key: &dyn Fn(&str) -> String,
) -> Result<Amount, KeyError> {
    match (section.rows, section.scale) {
        (Some(rows), None) => {
            within(&key("rows"), rows, 1, ROWS_MAX)?;
            Ok(Amount::Rows(rows))
        }
        (None, Some(scale)) => match generator.scales() {
            Some(scales) if scales.contains(&scale) => Ok(Amount::Scale(scale)),
            Some(scales) => {
                let what = format!("`{}` = {scale} is out of range", key("scale"));
                Err(fault(key("scale"), what, format!("choose {} to {}", scales.start(), scales.end())))
            }
            None => {
                let what = format!("`{}`: only tables of TPC-H have a scale", key("scale"));
                Err(fault(key("scale"), what, "give `rows = 100000` instead"))
            }
        },
        (Some(_), Some(_)) => {
            let what = format!("`{}` and `rows` exclude each other", key("scale"));
            Err(fault(key("scale"), what, "leave one of the two out"))
        }
        (None, None) => {
            let what = format!("`{}` is missing", key("rows"));
            Err(fault(key("generate"), what, "add `rows = 100000`"))
        }
    }
}

/// Notes for the results on the origin of a drive's tables.
pub(super) fn notes(tables: &[TableRows]) -> Vec<String> {
    let note = |table: &TableRows| match &table.source {
        RowSource::File(path) => {
            let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            format!("table {}: the rows of {name}", table.name)
        }
        RowSource::Drawn(generator, Amount::Rows(rows)) => {
            let rows = byteway_text::table::grouped(*rows);
            format!("table {}: {rows} rows of the generator {}", table.name, generator.name())
        }
        RowSource::Drawn(generator, Amount::Scale(scale)) => {
            format!("table {}: scale {scale} of the generator {}", table.name, generator.name())
        }
    };
    tables.iter().map(note).collect()
}
