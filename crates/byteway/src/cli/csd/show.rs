//! Output of `byteway csd`: tables, rows, plans, and a comparison of costs.

use byteway_pushdown::plan::Plan;
use byteway_pushdown::query::{Answer, Executor};
use byteway_pushdown::session::TableInfo;
use byteway_pushdown::split::QueryShape;
use byteway_query::display::text;
use byteway_query::{ArrayRef, ColumnType, RecordBatch, ipc};
use byteway_results::output::print;
use byteway_text::table::{Cell, Column, Printout, Quantity, TextTable, grouped};
use clap::ValueEnum;
use serde_json::{Value, json};

use super::super::flags::Tables;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Rows {
    /// A human-readable table of at most 40 rows.
    Table,
    /// Comma-separated values.
    Csv,
    /// A JSON array of objects.
    Json,
    /// An Arrow IPC stream.
    Arrow,
}

/// Outcome of a query.
pub(super) struct QueryOutcome {
    pub(super) explained: Option<Explained>,
    pub(super) answers: Vec<Answer>,
}

/// A resolved query with the plans of its parts.
pub(super) struct Explained {
    pub(super) shape: QueryShape,
    pub(super) plans: Vec<Plan>,
}

pub(super) fn listed(all: &[TableInfo], with_columns: bool, tables: Tables) -> String {
    let mut out = Printout::new(tables.width());
    let mut table = TextTable::new([
        Column::text("table"),
        Column::count("columns"),
        Column::count("rows"),
        Column::count("row groups"),
        Column::of("in flash", Quantity::Bytes),
    ]);
    for info in all {
        table.row([
            info.record.name.as_str().into(),
            (info.schema.columns().len() as u64).into(),
            info.record.rows.into(),
            u64::from(info.record.groups).into(),
            (info.record.bytes as f64).into(),
        ]);
    }
    if all.is_empty() {
        return "no tables\n".to_owned();
    }
    out.table(&table);
    for info in all.iter().filter(|_| with_columns) {
        let mut columns =
            TextTable::new([Column::text("column"), Column::text("type"), Column::text("nulls")]);
        for column in info.schema.columns() {
            let nulls = if column.nullable { "may be null" } else { "" };
            columns.row([column.name.as_str().into(), column.column_type.to_string().into(), nulls.into()]);
        }
        out.section(&info.record.name, &columns);
    }
    out.finish()
}

pub(super) fn explained(found: &Explained, tables: Tables) -> String {
    let QueryShape::Split(query) = &found.shape else {
        return found.plans.iter().map(|plan| planned("The whole query is pushed. ", plan, tables)).collect();
    };
    let mut text = tables.wrapped(&format!("The drive does not do the whole query: {}.\n", query.why));
    for (scan, plan) in query.split.scans.iter().zip(&found.plans) {
        text += &tables.wrapped(&format!("\nPushed to {}, {}:\n", plan.table, scan.what));
        text += &tables.wrapped(&format!("  {}\n", scan.text()));
        text += &planned("", plan, tables);
    }
    text += "\nLeft for this host:\n";
    for left in &query.split.rest.left {
        text += &tables.wrapped(&format!("- {left}\n"));
    }
    text
}

fn planned(begin: &str, plan: &Plan, tables: Tables) -> String {
    let who = match plan.choice {
        Executor::Host => "this host reads the columns and executes it",
        _ => "the drive executes it",
    };
    let (all, left) = plan.groups;
    tables.wrapped(&format!(
        "{begin}Table {}, {} rows; columns {}. Zone maps leave {} of {} row groups. Adaptive: {who}, as {}.\n",
        plan.table,
        grouped(plan.rows),
        if plan.columns.is_empty() { "none".to_owned() } else { plan.columns.join(", ") },
        grouped(left),
        grouped(all),
        plan.why
    ))
}

pub(super) fn name(executor: Executor) -> &'static str {
    match executor {
        Executor::Drive => "drive",
        Executor::Host => "host",
        Executor::Mixed => "both",
    }
}

/// Tabulates the cost of each execution.
pub(super) fn compared(asked: &QueryOutcome, tables: Tables) -> String {
    let mut out = Printout::new(tables.width());
    let mut table = TextTable::new([
        Column::text("executed by"),
        Column::of("time", Quantity::Time),
        Column::count("rows"),
        Column::count("task B"),
        Column::of("read", Quantity::Bytes),
        Column::count("commands"),
        Column::of("link to host", Quantity::Bytes).rank(1),
        Column::count("host cycles").rank(2),
        Column::count("drive cycles").rank(2),
    ]);
    for answer in &asked.answers {
        table.row([
            name(answer.executor).into(),
            (answer.nanoseconds as f64).into(),
            answer.rows().into(),
            answer.task_bytes.into(),
            (answer.bytes_read as f64).into(),
            answer.commands.into(),
            answer.link_bytes.map(|(_, up)| up as f64).into(),
            answer.host_cycles.into(),
            answer.drive_cycles.into(),
        ]);
    }
    out.table(&table);
    let mut text = out.finish();
    if let Some(found) = &asked.explained {
        text.push_str(&explained(found, tables));
    }
    text
}

pub(super) fn figures(asked: &QueryOutcome) -> Value {
    let answer = |answer: &Answer| {
        json!({
            "executed_by": name(answer.executor),
            "ns": answer.nanoseconds,
            "rows": answer.rows(),
            "task_bytes": answer.task_bytes,
            "read_bytes": answer.bytes_read,
            "commands": answer.commands,
            "link_bytes_to_device": answer.link_bytes.map(|(down, _)| down),
            "link_bytes_to_host": answer.link_bytes.map(|(_, up)| up),
            "host_cycles": answer.host_cycles,
            "drive_cycles": answer.drive_cycles,
        })
    };
    Value::Array(asked.answers.iter().map(answer).collect())
}

/// Output that is printed in chunks of 1 MiB: a result may be longer as text than memory allows.
struct Chunks(String);

impl Chunks {
    fn add(&mut self, text: &str) -> anyhow::Result<()> {
        self.0 += text;
        if self.0.len() < 1 << 20 {
            return Ok(());
        }
        Ok(print(std::mem::take(&mut self.0))?)
    }

    fn end(self) -> anyhow::Result<()> {
        Ok(print(self.0)?)
    }
}

/// Makes column names distinct, as keys of a JSON object: a repeated name gets a number.
fn distinct(names: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        let numbered = (1..).map(|number| format!("{name}_{number}"));
        let key = std::iter::once((*name).to_owned()).chain(numbered).find(|key| !all.contains(key));
        all.extend(key);
    }
    all
}

/// Formats a value as JSON: numbers and booleans as such, non-finite floats and all other types as strings.
fn json_value(column: &ArrayRef, row: usize) -> String {
    let Some(text) = text(column, row) else { return "null".to_owned() };
    let is_plain = match ColumnType::from_arrow(column.data_type()) {
        Some(ColumnType::Utf8 | ColumnType::Date | ColumnType::Timestamp) | None => false,
        Some(ColumnType::Float32 | ColumnType::Float64) => text.parse::<f64>().is_ok_and(f64::is_finite),
        Some(_) => true,
    };
    if is_plain { text } else { Value::from(text).to_string() }
}

/// Maximum number of rows printed as a table.
const SHOWN_ROWS: usize = 40;

pub(super) fn print_rows(answer: &Answer, format: Rows, tables: Tables) -> anyhow::Result<()> {
    let (schema, batches) = (&answer.schema, &answer.batches);
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let rows = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row)));
    match format {
        Rows::Arrow => print(ipc::encode(schema, batches)?)?,
        Rows::Csv => {
            let quoted = |text: &str| match text.is_empty() || text.contains([',', '"', '\n', '\r']) {
                true => format!("\"{}\"", text.replace('"', "\"\"")),
                false => text.to_owned(),
            };
            let mut out = Chunks(names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(",") + "\n");
            for (batch, row) in rows {
                // CSV distinguishes a null (empty) from an empty text (quoted).
                let cell = |column| text(column, row).map(|text| quoted(&text)).unwrap_or_default();
                out.add(&(batch.columns().iter().map(cell).collect::<Vec<_>>().join(",") + "\n"))?;
            }
            out.end()?;
        }
        Rows::Json => {
            let names: Vec<String> =
                distinct(&names).into_iter().map(|name| Value::from(name).to_string()).collect();
            let mut out = Chunks("[".to_owned());
            let mut separator = "";
            for (batch, row) in rows {
                let pair = |(name, column)| format!("{name}:{}", json_value(column, row));
                let pairs: Vec<String> = names.iter().zip(batch.columns()).map(pair).collect();
                out.add(&format!("{separator}{{{}}}", pairs.join(",")))?;
                separator = ",\n";
            }
            out.add("]\n")?;
            out.end()?;
        }
        Rows::Table => {
            let mut table = TextTable::new(names.iter().map(|name| Column::text(*name)));
            let all: usize = batches.iter().map(RecordBatch::num_rows).sum();
            for (batch, row) in rows.take(SHOWN_ROWS) {
                let cell = |column| Cell::from(text(column, row).unwrap_or_else(|| "NULL".to_owned()));
                table.row(batch.columns().iter().map(cell));
            }
            let mut out = Printout::new(tables.width());
            out.table(&table);
            let mut shown = out.finish();
            if all == 0 {
                shown += "no rows\n";
            }
            if all > SHOWN_ROWS {
                shown += &format!(
                    "{} rows; {SHOWN_ROWS} are shown: --format csv prints all\n",
                    grouped(all as u64)
                );
            }
            print(shown)?;
        }
    }
    Ok(())
}
