"""Computational drives: tables in the drive, and queries that it executes."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from . import _native
from ._decode import decode
from ._drive import Drive, location
from ._table import Table

__all__ = ["Answer", "Column", "Figures", "Plan", "TableInfo", "TablesDrive", "open"]

Form: TypeAlias = Literal["sql", "segment", "compact"]
"""How a query travels to the drive: as its text, as a table's name and a predicate, or in a compact binary form."""

Executor: TypeAlias = Literal["adaptive", "drive", "host"]
"""Who executes a query: the drive, the host with all that it reads, or whichever is estimated to be faster."""


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True)
class TableInfo:
    """A table of a drive."""

    name: str
    rows: int
    bytes: int
    """Bytes of its row groups in the drive."""
    columns: list[Column]


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a query took."""

    executor: str
    """"drive", "host", or "mixed"."""
    nanoseconds: int
    """From the task to the last row; of virtual time, unless the drive is served."""
    task_bytes: int
    """Bytes of the task."""
    bytes_read: int
    """Bytes that came from the drive: a result, or columns."""
    commands: int
    link_bytes_to_drive: int | None = None
    """Bytes on the link with all headers, if the drive is simulated."""
    link_bytes_from_drive: int | None = None
    host_cycles: int
    """Modeled cycles of the host's processor."""
    drive_cycles: int | None = None
    """Cycles of the drive's cores, if it is simulated."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a table's part of a query would be executed."""

    table: str
    columns: list[str]
    rows: int
    row_groups: int
    row_groups_read: int
    """Row groups that zone maps do not rule out."""
    selectivity: float
    """Estimated share of the rows that conditions let pass."""
    column_bytes: int
    """Bytes of the columns that the host would read."""
    result_bytes: int
    """Estimated bytes of the result."""
    drive_ns: int
    """Estimated time if the drive executes it."""
    host_ns: int
    """Estimated time if the host does."""
    choice: str
    why: str


class Answer(Table):
    """Rows of a query."""

    figures: Figures
    """What it took."""

    def __init__(self, native: _native.Table, figures: Figures) -> None:
        super().__init__(native)
        self.figures = figures


class TablesDrive(Drive):
    """A drive with tables."""

    def __init__(self, native: _native.TablesDrive) -> None:
        super().__init__(native)
        self._native = native

    def tables(self) -> list[TableInfo]:
        """The tables of the drive."""
        return [
            TableInfo(name, rows, size, [Column(*column) for column in columns])
            for name, rows, size, columns in self._native.tables()
        ]

    def load(self, table: str, rows: Any) -> int:
        """Appends rows to a table, which is created if necessary; returns its number of rows.

        Args:
            table: its name.
            rows: the path of a Parquet file, or anything with the Arrow C stream interface: a polars or pyarrow table.

        Raises:
            InputError: the rows do not fit the table, or it has a column of a type that drives do not have.
            DriveError: the drive has no space. A table that the load made is gone again; of one that was there, the message says which rows
                it keeps.
        """
        if isinstance(rows, (str, os.PathLike)):
            return self._native.load_file(table, Path(rows))
        if hasattr(rows, "__arrow_c_stream__"):
            return self._native.load_arrow(table, rows)
        raise TypeError(f"rows of type {type(rows).__name__}: give a path of a Parquet file or an Arrow table")

    def generate(
        self, table: str, generator: str, *, rows: int | None = None, scale: float | None = None, seed: int = 0
    ) -> int:
        """Appends rows of a generator, such as "vpic" or "tpch-lineitem"; returns the table's number of rows."""
        return self._native.load_generated(table, generator, rows, scale, seed)

    def drop(self, table: str) -> None:
        """Deletes a table."""
        self._native.drop_table(table)

    def query(self, sql: str, *, on: Executor = "adaptive", form: Form = "sql") -> Answer:
        """Executes a query.

        Raises:
            InputError: it is no query, or there is no such table or column.
        """
        table, figures = self._native.query(sql, form, on)
        return Answer(table, decode(Figures, json.loads(figures)))

    def explain(self, sql: str, *, form: Form = "sql") -> list[Plan]:
        """How each table's part of a query would be executed, and why."""
        return [decode(Plan, plan) for plan in json.loads(self._native.explain(sql, form))]

    def __repr__(self) -> str:
        return "<byteway.csd.TablesDrive>"


def open(
    *,
    vfio_user: str | os.PathLike[str] | None = None,
    device: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    profile: str = "modern-gen5",
    capacity: str = "4 GiB",
    method: str = "prp",
    namespace: int | None = None,
    read_only: bool = False,
) -> TablesDrive:
    """Attaches to a drive with tables: a served one, one in a directory, or else a simulated one in memory.

    Args:
        vfio_user: the folder of a served drive's socket, as passed to `byteway serve --vfio-user`.
        device: the device file of a drive whose data is in `data`.
        data: the directory of its data, created if necessary.
        profile: of a simulated drive: a built-in profile, or the path of one.
        capacity: of a simulated drive.
        method: transfer method of tasks.
        namespace: the namespace; the first one with tables if left out.
        read_only: change nothing; a data directory can then be on a full or read-only disk.

    Raises:
        InputError: there is no such drive or namespace.
        DriveError: the drive cannot be used.
    """
    place = location(vfio_user, device, data, profile, capacity, method, namespace, read_only)
    return TablesDrive(_native.TablesDrive(place))
