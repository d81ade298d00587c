//! Arrow tables: batches in memory that Python libraries take over without a copy.

use arrow_array::{ArrayRef, RecordBatch, StructArray};
use arrow_schema::{Field, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::error::PyArrowResult;
use pyo3_arrow::ffi::{ArrayIterator, to_schema_pycapsule, to_stream_pycapsule};
use std::sync::Arc;

/// Rows in batches, with the Arrow C stream interface.
#[pyclass(frozen, module = "byteway._native")]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Table {
        Table { schema, batches }
    }

    pub(crate) fn of(batch: RecordBatch) -> Table {
        Table { schema: batch.schema(), batches: vec![batch] }
    }
}

#[pymethods]
impl Table {
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The description of each column that has one.
    #[getter]
    fn descriptions(&self) -> Vec<(String, Option<String>)> {
        let described =
            |field: &Arc<Field>| (field.name().clone(), field.metadata().get("description").cloned());
        self.schema.fields().iter().map(described).collect()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyArrowResult<Bound<'py, PyCapsule>> {
        to_schema_pycapsule(py, self.schema.as_ref())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        let field = Field::new_struct("", self.schema.fields().clone(), false);
        let field = Arc::new(field.with_metadata(self.schema.metadata().clone()));
        let rows = self.batches.clone().into_iter();
        let rows = rows.map(|batch| Ok(Arc::new(StructArray::from(batch)) as ArrayRef));
        to_stream_pycapsule(py, Box::new(ArrayIterator::new(rows, field)), requested_schema)
    }
}
