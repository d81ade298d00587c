//! Arrow tables: batches in memory that Python libraries take over without a copy.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, ArrowPrimitiveType, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, SchemaRef};
use pyo3::IntoPyObjectExt;
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

    /// The values of a column; None if Python has no plain values of its type.
    fn column(&self, py: Python<'_>, index: usize) -> PyResult<Option<Vec<Py<PyAny>>>> {
        let mut values = Vec::with_capacity(self.num_rows());
        for batch in &self.batches {
            let Some(more) = plain(py, batch.column(index).as_ref())? else { return Ok(None) };
            values.extend(more);
        }
        Ok(Some(values))
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

fn plain(py: Python<'_>, array: &dyn Array) -> PyResult<Option<Vec<Py<PyAny>>>> {
    let values = match array.data_type() {
        DataType::UInt8 => numbers::<UInt8Type>(py, array),
        DataType::UInt16 => numbers::<UInt16Type>(py, array),
        DataType::UInt32 => numbers::<UInt32Type>(py, array),
        DataType::UInt64 => numbers::<UInt64Type>(py, array),
        DataType::Int8 => numbers::<Int8Type>(py, array),
        DataType::Int16 => numbers::<Int16Type>(py, array),
        DataType::Int32 => numbers::<Int32Type>(py, array),
        DataType::Int64 => numbers::<Int64Type>(py, array),
        DataType::Float64 => numbers::<Float64Type>(py, array),
        DataType::Boolean => array.as_boolean().iter().map(|value| value.into_py_any(py)).collect(),
        DataType::Utf8 => array.as_string::<i32>().iter().map(|value| value.into_py_any(py)).collect(),
        DataType::Utf8View => array.as_string_view().iter().map(|value| value.into_py_any(py)).collect(),
        DataType::Dictionary(key, _) => match **key {
            DataType::UInt8 => return names::<UInt8Type>(py, array),
            DataType::UInt16 => return names::<UInt16Type>(py, array),
            DataType::UInt32 => return names::<UInt32Type>(py, array),
            DataType::Int8 => return names::<Int8Type>(py, array),
            DataType::Int16 => return names::<Int16Type>(py, array),
            DataType::Int32 => return names::<Int32Type>(py, array),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    values.map(Some)
}

fn numbers<T: ArrowPrimitiveType>(py: Python<'_>, array: &dyn Array) -> PyResult<Vec<Py<PyAny>>>
where
    for<'py> Option<T::Native>: IntoPyObject<'py>,
{
    array.as_primitive::<T>().iter().map(|value| value.into_py_any(py)).collect()
}

/// Of a dictionary: each row has the object of its key.
fn names<K: ArrowDictionaryKeyType>(py: Python<'_>, array: &dyn Array) -> PyResult<Option<Vec<Py<PyAny>>>> {
    let array = array.as_dictionary::<K>();
    let Some(objects) = plain(py, array.values().as_ref())? else { return Ok(None) };
    let object = |row: usize| array.key(row).map_or_else(|| py.None(), |key| objects[key].clone_ref(py));
    Ok(Some((0..array.len()).map(object).collect()))
}
