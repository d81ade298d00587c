"""Arrow tables that other libraries take over without a copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from . import _native
from .errors import missing, wrong

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Table:
    """Rows in memory, in Arrow's format.

    Anything that knows the Arrow C stream interface takes it as it is: `polars.DataFrame(table)`, `pyarrow.table(table)`,
    `duckdb.from_arrow(table)`. Numbers are shared with it, not copied. Without any of them, `table["mean_ns"]` is a column as a list, and
    `for row in table` gives rows as dictionaries; `pandas.DataFrame(table)` takes those.
    """

    def __init__(self, native: _native.Table) -> None:
        self._native = native

    def __len__(self) -> int:
        return self._native.num_rows

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._native.column_names

    def __getitem__(self, name: str) -> list[Any]:
        """The values of a column.

        Raises `KeyError` for a column that is not there, and `InputError` for one whose values have no plain form in Python.
        """
        try:
            index = self.columns.index(name)
        except ValueError:
            raise KeyError(f"there is no column {name!r}; the columns are {', '.join(self.columns)}") from None
        values = self._native.column(index)
        if values is None:
            raise wrong(f"the values of {name!r} have no plain form in Python", "take the table with `to_pyarrow()`")
        return values

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows, as dictionaries by column."""
        names = self.columns
        for row in zip(*(self[name] for name in names)):
            yield dict(zip(names, row))

    def describe(self) -> dict[str, str | None]:
        """What each column means, with its unit."""
        return dict(self._native.descriptions)

    def __arrow_c_schema__(self) -> Any:
        return self._native.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._native.__arrow_c_stream__(requested_schema)

    def to_polars(self) -> polars.DataFrame:
        """A polars data frame; numbers share memory with this table."""
        try:
            import polars
        except ImportError as error:
            raise missing("polars", "to_polars()", "polars") from error
        return polars.DataFrame(self)

    def to_pyarrow(self) -> pyarrow.Table:
        """A pyarrow table, which shares memory with this one."""
        try:
            import pyarrow
        except ImportError as error:
            raise missing("pyarrow", "to_pyarrow()", "arrow") from error
        return pyarrow.table(self)

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas data frame, by way of pyarrow."""
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise missing("pandas", "to_pandas()", "pandas") from error
        return self.to_pyarrow().to_pandas()

    def __repr__(self) -> str:
        return f"<byteway.Table: {len(self):,} rows of {', '.join(self.columns)}>"


def polars_frame(rows: list[dict[str, Any]], ordered: Mapping[str, list[str]] = MappingProxyType({})) -> Any:
    """Rows as a polars data frame; `ordered` columns have these texts, in this order."""
    try:
        import polars
    except ImportError as error:
        raise missing("polars", "to_polars()", "polars") from error
    enums = {name: polars.Enum(texts) for name, texts in ordered.items()}
    return polars.DataFrame(rows, schema_overrides=enums, infer_schema_length=None)


def pandas_frame(rows: list[dict[str, Any]], ordered: Mapping[str, list[str]] = MappingProxyType({})) -> Any:
    """Rows as a pandas data frame; `ordered` columns have these texts, in this order."""
    try:
        import pandas
    except ImportError as error:
        raise missing("pandas", "to_pandas()", "pandas") from error
    frame = pandas.DataFrame(rows)
    return frame.astype({name: pandas.CategoricalDtype(texts, ordered=True) for name, texts in ordered.items()})
