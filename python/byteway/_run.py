"""Running a scenario."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from . import _native
from ._decode import decode
from ._html import frame
from ._policies import Policies, native_policies
from ._progress import Display, Progress
from ._scenario import Overrides, ScenarioLike, native
from ._table import Table
from .errors import Interrupted, replicates, worker_count
from .summary import Summary


class Result:
    """Results of a run."""

    def __init__(self, native: _native.RunResults) -> None:
        self._native = native

    @cached_property
    def summary(self) -> Summary:
        """The figures of the whole measured part: the content of `summary.json`."""
        return decode(Summary, json.loads(self._native.summary()))

    def to_json(self) -> str:
        """The content of `summary.json`."""
        return self._native.summary()

    def to_fio_json(self) -> str:
        """The figures in the form of fio's JSON, as `byteway run --format fio` prints them."""
        return self._native.fio()

    @cached_property
    def series(self) -> Table:
        """The time series, a row for each job in each step: the content of `results.parquet`."""
        return Table(self._native.series())

    @cached_property
    def latencies(self) -> Table:
        """The latency distributions, a row for each latency of each job and kind: the content of `latency.parquet`."""
        return Table(self._native.latencies())

    @cached_property
    def ios(self) -> Table | None:
        """Every measured I/O with the stages of its latency, if the run was asked for them by `ios=True`."""
        found = self._native.ios()
        return None if found is None else Table(found)

    @property
    def partial(self) -> bool:
        """Whether the run was interrupted: the figures then cover only completed I/Os."""
        return self.summary.partial

    @property
    def scenario(self) -> str:
        """The text of the scenario, as TOML, before overrides."""
        return self._native.scenario

    def report(self) -> str:
        """The report with its charts, as one HTML page."""
        return self._native.report()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes summary.json, results.parquet, latency.parquet and report.html (and ios.parquet) to `folder`, which is created if necessary."""
        self._native.save(Path(folder))

    def __str__(self) -> str:
        return self._native.text()

    def __repr__(self) -> str:
        summary = self.summary
        partial = ", partial" if summary.partial else ""
        rate = f"{summary.iops:,.0f} IOPS"
        return f"<byteway.Result of {summary.scenario!r}: {summary.ios:,} I/Os, {rate}{partial}>"

    def _repr_html_(self) -> str:
        return frame(self.report(), f"Report of {self.summary.scenario}")


def stopped(by: BaseException, result: object) -> NoReturn:
    """Raises what interrupted long work, with the partial result if it was Ctrl-C."""
    if isinstance(by, KeyboardInterrupt):
        raise Interrupted("interrupted: the result is partial", result=result) from by
    raise by


def run(
    scenario: ScenarioLike,
    overrides: Overrides = None,
    *,
    ios: bool = False,
    repeat: int = 1,
    jobs: int | None = None,
    defines: Mapping[str, str] | None = None,
    skip_bad_lines: bool = False,
    policies: Policies | None = None,
    progress: Progress = None,
) -> Result:
    """Runs a scenario in virtual time.

    Other Python threads go on meanwhile. The result depends on the scenario and its seed alone.

    Args:
        scenario: a path, a text of TOML, a dictionary, or a `Scenario`. Relative paths in it start at the file's folder, or at
            the current one.
        overrides: keys that are replaced or added, by their dotted paths: `{"drive.capacity": "64 GiB", "job.0.iodepth": 16}`.
        ios: also record every measured I/O, for `Result.ios`.
        repeat: number of runs with different seeds, the first of which is the scenario's own; `Result.summary.replicates` then has the
            mean of each figure with its 95 % interval, and all else is of the first run. If one fails, there are no means.
        jobs: replicates that run at once; one for each processor if left out. The result does not depend on it.
        defines: values of `${NAME}` in a fio job file.
        skip_bad_lines: skip and count the lines of a trace that are not records.
        policies: what decides in place of the drives' own code, whatever their profiles name. `{"victim": f}`: whenever a die
            needs a further superblock to be emptied, `f(valid, age)` gets two arrays of numpy with an entry for each that can be (its
            valid units of 4 KiB, and how many superblocks of the die were closed since it was), and returns the place of one; with
            a third argument it gets a `VictimView`, too. `{"stream": C}`: `C()` is called for each drive that is simulated; of what
            it returns, `host` and `collector` are the numbers of streams, and `place(view)`, with a `StreamView`, returns one of them for
            each unit of 4 KiB that is written or moved. Optional are `needs_last_write = True`, and `collects(source, now)`, which
            is told of each superblock that is chosen to be emptied. `{"schedule": f}`: where operations of several priorities wait for a
            die, `f(waiting)` gets a list of `Waiting`, the most urgent first, and returns the place of one; with a second argument it
            gets a `ScheduleView`, too. `{"suspend": f}`: `f(view)`, with a `SuspendView`, returns whether a program or an erase is
            suspended for a read. All may be import paths, `"module:f"`. They are called in the
            thread of the run, by replicates at once, and before the run where a steady state is constructed; what they raise ends the
            run, and Ctrl-C waits until they return. The result is reproducible if it depends on their arguments alone.
        progress: `True` for a bar, or a function.

    Raises:
        InputError: the scenario is invalid; nothing was run.
        RunError: the run failed.
        Interrupted: Ctrl-C; its `result` is the partial `Result`, or None before the first I/O.
    """
    made, own = native(scenario, overrides, defines, skip_bad_lines), native_policies(policies)
    with Display(progress, "I/O") as function:
        found, by = _native.run(made, ios, replicates(repeat), worker_count(jobs), function, own)
    result = Result(found)
    if by is not None:
        stopped(by, result)
    return result
