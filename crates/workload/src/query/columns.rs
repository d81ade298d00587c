//! Schemas of generators.

use byteway_query::{Column, ColumnType, Schema};

/// Schema of columns without nulls.
pub(super) fn schema(columns: &[(&str, ColumnType)]) -> Schema {
    let column = |(name, column_type): &(&str, ColumnType)| Column {
        name: (*name).to_owned(),
        column_type: *column_type,
        nullable: false,
    };
    Schema::new(columns.iter().map(column).collect()).expect("columns of generators differ in name")
}
