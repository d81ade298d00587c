"""Constants of a profile, fitted to measurements of a drive."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, Union

from . import _native
from ._html import frame
from ._progress import Display, Progress
from ._run import stopped
from ._scenario import Overrides, override_list
from ._table import pandas_frame, polars_frame
from .errors import worker_count, wrong

MeasurementsLike: TypeAlias = Union[str, "os.PathLike[str]", Mapping[str, Any], Iterable[Mapping[str, Any]]]
"""The path of fio's JSON or of a table (.csv), fio's JSON as a dictionary or a text, or the rows of a table as dictionaries."""


def _native_measurements(measurements: MeasurementsLike) -> _native.Measurements:
    if isinstance(measurements, str) and measurements.lstrip().startswith("{"):
        return _native.Measurements.fio("measurements", measurements)
    if isinstance(measurements, (str, os.PathLike)):
        return _native.Measurements.file(Path(measurements))
    help = "give a path, fio's JSON as a dictionary, or a list of rows, each a dictionary by column"
    if isinstance(measurements, Mapping):
        try:
            return _native.Measurements.fio("measurements", json.dumps(measurements))
        except (TypeError, ValueError) as error:
            raise wrong(f"the dictionary is not fio's JSON: {error}", help) from error
    rows = list(measurements) if isinstance(measurements, Iterable) else [measurements]
    for row in rows:
        if not isinstance(row, Mapping):
            raise wrong(f"measurements of type {type(row).__name__}", help)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    table = io.StringIO()
    writer = csv.DictWriter(table, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return _native.Measurements.table("measurements", table.getvalue())


class Fit:
    """A profile whose constants were fitted, with what the points don't identify, and residuals point by point."""

    def __init__(self, native: _native.Fit) -> None:
        self._native = native

    @cached_property
    def data(self) -> dict[str, Any]:
        """The content of `fit.json`."""
        loaded: dict[str, Any] = json.loads(self._native.json())
        return loaded

    @property
    def constants(self) -> list[dict[str, Any]]:
        """A dictionary for each constant: key, unit, base, value, verdict ("fitted", "improved" or "assumed") and why it is not fitted."""
        constants: list[dict[str, Any]] = self.data["constants"]
        return constants

    @property
    def points(self) -> list[dict[str, Any]]:
        """A dictionary for each figure of each point: measured, simulated on the base and with the result, and the residual."""
        return [
            {"point": point["name"], "held_out": point["held_out"], **figure}
            for point in self.data["points"]
            for figure in point["figures"]
        ]

    @property
    def partial(self) -> bool:
        """Whether it was interrupted: the constants are then the best so far."""
        return bool(self.data["partial"])

    @property
    def failed(self) -> str | None:
        """What is wrong if no constants of the base give what was measured, with the points; else None."""
        failed: str | None = self.data["failed"]
        return failed

    def to_profile(self) -> str:
        """The profile, as TOML: the base, and every constant with its source."""
        return self._native.profile()

    def to_polars(self) -> Any:
        """The points as a polars data frame."""
        return polars_frame(self.points)

    def to_pandas(self) -> Any:
        """The points as a pandas data frame."""
        return pandas_frame(self.points)

    def to_json(self) -> str:
        """The content of `fit.json`."""
        return self._native.json()

    def report(self) -> str:
        """The report with the residuals as a chart, as one HTML page."""
        return self._native.report()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes my-drive.toml, fit.json and report.html to `folder`, which is created if necessary."""
        self._native.save(Path(folder))

    def __str__(self) -> str:
        return self._native.text()

    def __repr__(self) -> str:
        fitted = sum(constant["verdict"] == "fitted" for constant in self.constants)
        partial = (", partial" if self.partial else "") + (", FAILED" if self.failed else "")
        return f"<byteway.Fit on {self.data['base']!r}: {fitted} of {len(self.constants)} constants fitted{partial}>"

    def _repr_html_(self) -> str:
        return frame(self.report(), "Report of the fit")


def fit(
    measurements: MeasurementsLike,
    base: str | os.PathLike[str],
    overrides: Overrides = None,
    *,
    host: str = "linux-interrupt",
    hold_out: Iterable[str] | None = None,
    structure: bool = False,
    jobs: int | None = None,
    progress: Progress = None,
) -> Fit:
    """Finds the constants of a profile with which the simulation gives what was measured; a minute or more.

    Args:
        measurements: the path of fio's JSON or of a table (.csv), fio's JSON as a dictionary, or the rows of a table.
        base: a built-in profile, or the path of one, with the geometry of the drive. What is not fitted stays as it is there.
        overrides: keys of the simulated scenarios that are replaced or added: `{"drive.override.link.lanes": 2}`.
        host: the profile of the host that measured.
        hold_out: names of points that have no part in the fit; of each kind the third and every fourth after it, if left out.
        structure: also find the numbers of channels and dies, and the link's generation.
        jobs: points that are simulated at once; one for each processor if left out. The result does not depend on it.
        progress: `True` for a bar, or a function.

    Raises:
        InputError: the measurements, the base or a key is invalid; nothing was simulated.
        Interrupted: Ctrl-C; its `result` is the partial `Fit`, or None before the base was simulated.
    """
    if isinstance(hold_out, str):
        raise wrong(f"hold_out={hold_out!r} is a text", f"give a list of names: hold_out=[{hold_out!r}]")
    held = None if hold_out is None else list(hold_out) if isinstance(hold_out, Iterable) else [hold_out]
    if held is not None and not all(isinstance(name, str) for name in held):
        raise wrong(f"hold_out={hold_out!r} has names that are no texts", "give names of points, as `points` shows them")
    made = _native_measurements(measurements)
    with Display(progress, "runs") as function:
        found, by = _native.fit(
            made, os.fspath(base), host, override_list(overrides), held, structure, worker_count(jobs), function
        )
    result = Fit(found)
    if by is not None:
        stopped(by, result)
    return result


def fit_jobs(
    *, runtime: str = "5 s", ramp: str = "1 s", size: str = "32 GiB", steady: bool = False
) -> str:
    """The fio job file whose results identify the constants. It destroys the data on the drive.

    Args:
        runtime: the time of each job, with its unit.
        ramp: the time of each job before it is measured.
        size: the part of the drive that is written and read; as much behind it is trimmed.
        steady: measure random writes in steady state, too, which takes an hour or more.

    Raises:
        InputError: a value has no unit, or is too small.
    """
    return _native.fit_jobs(runtime, ramp, size, steady)
