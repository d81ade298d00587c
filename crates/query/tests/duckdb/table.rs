//! A test table: as encoded row groups, and as a file that DuckDB reads.

use std::path::Path;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use byteway_query::statement::Term;
use byteway_query::{
    ColumnType, Execution, Form, GroupMeta, Query, QueryError, Schema, Task, Value, Work, group, values,
};
use parquet::arrow::ArrowWriter;

pub struct Table {
    pub name: String,
    pub schema: Schema,
    /// Number of rows.
    pub rows: u64,
    groups: Vec<(GroupMeta, Vec<u8>)>,
}

impl Table {
    /// Encodes a table in row groups of these sizes, repeating the last size, and writes it as Parquet.
    pub fn new(name: &str, batch: &RecordBatch, group_rows: &[usize], folder: &Path) -> Self {
        let schema = Schema::from_arrow(&batch.schema()).unwrap();
        let (mut groups, mut start, mut sizes) = (Vec::new(), 0, group_rows.iter());
        let mut size = 1;
        while start < batch.num_rows() {
            size = *sizes.next().unwrap_or(&size);
            let rows = size.min(batch.num_rows() - start);
            let (meta, bytes) = group::encode(&schema, &batch.slice(start, rows)).unwrap();
            let again = GroupMeta::from_bytes(&schema, &meta.to_bytes()).unwrap();
            assert_eq!(format!("{again:?}"), format!("{meta:?}"));
            groups.push((again, bytes));
            start += rows;
        }
        let file = std::fs::File::create(folder.join(format!("{name}.parquet"))).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        Self { name: name.to_owned(), schema, rows: batch.num_rows() as u64, groups }
    }

    /// SQL that creates the table in DuckDB.
    pub fn create(&self, folder: &Path) -> String {
        let path = folder.join(format!("{}.parquet", self.name));
        format!("CREATE TABLE {} AS SELECT * FROM read_parquet('{}')", self.name, path.display())
    }

    /// Binds an SQL query, and checks that its compact form binds to the same.
    pub fn bind(&self, sql: &str) -> Result<Query, QueryError> {
        let task = Task::parse(Form::Sql, sql.as_bytes())?;
        let bound = task.bind(&self.schema);
        let compact = Task::compact(task.statement(), Some(&self.schema)).unwrap();
        let again = Task::parse(Form::Compact, compact.to_bytes()).unwrap().bind(&self.schema);
        // NaN differs from itself, but its text does not.
        assert_eq!(format!("{bound:?}"), format!("{again:?}"), "{sql}");
        bound
    }

    /// Executes a query over the row groups that zone maps do not exclude. Returns the result and the number of row groups skipped.
    pub fn execute(&self, query: Query) -> Result<(Vec<RecordBatch>, usize), QueryError> {
        let mut execution = Execution::new(query, &self.schema)?;
        let (mut results, mut left_out) = (Vec::new(), 0);
        for (meta, bytes) in &self.groups {
            if !execution.may_match(meta) {
                left_out += 1;
                continue;
            }
            let batch = self.read(execution.columns(), meta, bytes);
            results.extend(execution.push(&batch)?);
        }
        results.extend(execution.finish()?);
        Ok((results, left_out))
    }

    /// Number of rows for which a predicate holds, by this crate alone; `None` if it is not supported or fails.
    pub fn count(&self, term: &Term) -> Option<u64> {
        let query = self.bind(&format!("SELECT count(*) FROM {} WHERE {term}", self.name)).ok()?;
        let (batches, _) = self.execute(query).ok()?;
        match values::at(batches.first()?.column(0), ColumnType::Int64, 0) {
            Value::Integer(count) => u64::try_from(count).ok(),
            _ => None,
        }
    }

    fn read(&self, columns: &[usize], meta: &GroupMeta, bytes: &[u8]) -> RecordBatch {
        let mut work = Work::default();
        let column = |&column: &usize| -> ArrayRef {
            let (offset, length) = meta.ranges(&[column])[0];
            let chunk = &bytes[offset as usize..][..length as usize];
            group::decode(&self.schema, column, meta, chunk, &mut work).unwrap()
        };
        let arrays = columns.iter().map(column).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(meta.rows as usize));
        let schema = self.schema.project(columns.iter().copied());
        RecordBatch::try_new_with_options(schema, arrays, &options).unwrap()
    }
}
