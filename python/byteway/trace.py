"""Block traces: statistics, conversion, and records as Arrow tables."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from . import _native
from ._progress import Display, Progress
from ._run import stopped
from ._table import Table

__all__ = ["convert", "formats", "inspect", "read"]


def formats() -> list[str]:
    """Names of the formats that are read and written."""
    return _native.trace_formats()


def _reading(
    format: str | None, columns: str | None, device: int | None, reads_are: int | None, skip_bad_lines: bool
) -> dict[str, Any]:
    return {
        "format": format,
        "columns": columns,
        "device": device,
        "reads_are": reads_are,
        "skip_bad_lines": skip_bad_lines,
    }


def inspect(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    columns: str | None = None,
    device: int | None = None,
    reads_are: int | None = None,
    skip_bad_lines: bool = False,
    unit_bytes: int = 4096,
    samples: int | None = None,
    seed: int = 1,
    exact: bool = False,
    progress: Progress = None,
) -> dict[str, Any]:
    """Statistics of a trace: shares, sizes, arrivals, footprint, reuse, and the miss-ratio curve of an LRU cache.

    The trace is read once, in bounded memory.

    Args:
        path: the trace, plain or compressed by gzip, xz or zstd.
        format: its format; detected from its first lines if left out.
        columns: columns of the file instead of a format, such as "time_us,op,offset,bytes".
        device: only this device's records.
        reads_are: in a format with numeric operations, the number that means read, if it differs from the format's.
        skip_bad_lines: skip and count the lines that are not records.
        unit_bytes: unit of the footprint and the curve in bytes: 512 to 1 GiB.
        samples: units in the sample of the curve.
        seed: selects the sample.
        exact: use all units for the curve, in memory proportional to their number.
        progress: `True` for a bar, or a function.

    Returns:
        What `byteway trace inspect --format json` prints.

    Raises:
        InputError: a line is not a record, or an option is out of range.
        Interrupted: Ctrl-C; its `result` covers the records read so far.
    """
    reading = _reading(format, columns, device, reads_are, skip_bad_lines)
    with Display(progress, "records") as function:
        text, by = _native.trace_inspect(
            Path(path), reading, unit_bytes, samples, seed, exact, function
        )
    found: dict[str, Any] = json.loads(text)
    if by is not None:
        stopped(by, found)
    return found


def convert(
    path: str | os.PathLike[str],
    to: str | os.PathLike[str],
    *,
    format: str | None = None,
    columns: str | None = None,
    device: int | None = None,
    reads_are: int | None = None,
    skip_bad_lines: bool = False,
    to_format: str | None = None,
    head: int | None = None,
    time_scale: float = 1.0,
    lossy: bool = False,
) -> int:
    """Writes a trace in another format; returns the number of records.

    Args:
        path: the trace; the arguments up to `skip_bad_lines` are as for `inspect`.
        to: the output file, compressed if its name ends in .gz, .xz or .zst.
        to_format: its format; named by a part of the file name, as in web.msr.csv, if left out.
        head: only the first records, so many.
        time_scale: factor of times: 0.5 makes the trace twice as fast.
        lossy: drop what the format cannot represent, instead of raising.

    Raises:
        InputError: a line is not a record, or the format cannot represent one. No file is left.
    """
    reading = _reading(format, columns, device, reads_are, skip_bad_lines)
    return _native.trace_convert(
        Path(path), Path(to), reading, to_format, head, time_scale, lossy
    )


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    columns: str | None = None,
    device: int | None = None,
    reads_are: int | None = None,
    skip_bad_lines: bool = False,
    head: int | None = None,
) -> Table:
    """The records of a trace: `time_ps`, `device`, `offset_bytes`, `bytes`, `kind`.

    Args:
        path: the trace; the arguments up to `skip_bad_lines` are as for `inspect`.
        head: only the first records, so many. Each takes 29 bytes of memory.

    Raises:
        InputError: a line is not a record.
    """
    reading = _reading(format, columns, device, reads_are, skip_bad_lines)
    return Table(_native.trace_read(Path(path), reading, head))
