"""Sweeps over a space of keys and values, in threads, processes, or on a Dask cluster."""

from __future__ import annotations

import concurrent.futures
import json
import math
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union

from . import _native
from ._policies import Policies, native_policies, paths_only
from ._progress import Display, Progress, ProgressFunction
from ._run import stopped
from ._scenario import Overrides, ScenarioLike, native
from ._study import _values
from ._table import Table
from .errors import Error, InputError, missing, replicates, whole, worker_count, wrong

if TYPE_CHECKING:
    from distributed import Client

Method: TypeAlias = Literal["grid", "random", "latin-hypercube", "knee", "crossover", "pareto"]
"""How points are chosen: all combinations, drawn ones, or those that find a knee, a crossover or a Pareto front."""

Range: TypeAlias = tuple[Any, Any]
Vary: TypeAlias = Mapping[str, Union[str, Iterable[Any], Mapping[str, Any]]]
"""Keys and their values: `{"iodepth": [1, 4, 16], "bs": "4 KiB..64 KiB x2"}`, or for drawn points a range:
`{"drive.override.firmware.latency.read": {"from": "5 us", "to": "40 us", "spacing": "log"}}`."""

Executor: TypeAlias = Union[
    Literal["threads", "processes", "dask"], str, "Client", concurrent.futures.Executor, None
]
"""Who runs the points: threads of this process (the default), "processes", "dask" (a local cluster), the address of a Dask scheduler
("tcp://host:8786"), a Dask client (also one of dask-jobqueue), or any executor of `concurrent.futures`."""

BATCH_S = 1.0
"""Points are sent to other processes in batches of about this many seconds, so that sending costs next to nothing."""


class Sweep:
    """Rows of a sweep: one for each point, with its values, its status and its figures."""

    def __init__(self, native: _native.Sweep) -> None:
        self._native = native

    @cached_property
    def rows(self) -> Table:
        """The rows as an Arrow table: the content of `sweep.parquet`."""
        return Table(self._native.rows())

    @property
    def found(self) -> str | None:
        """What the search found, in a sentence: the best point, the knee, the crossover, the front."""
        return self._native.found

    @property
    def partial(self) -> bool:
        """Whether points are missing, because the sweep was interrupted."""
        return self._native.partial

    @property
    def failed(self) -> int:
        """Number of failed points; their rows say why."""
        return self._native.failed

    @property
    def counts(self) -> dict[str, int]:
        """Points in all, and the runs of them: those that came from the cache, and others. A point has a run for each replicate."""
        points, cached, run = self._native.counts()
        return {"points": points, "cached": cached, "run": run}

    def to_json(self) -> str:
        """The content of `sweep.json`: what was swept, and what was found."""
        return self._native.json()

    def to_polars(self) -> Any:
        """The rows as a polars data frame."""
        return self.rows.to_polars()

    def to_pandas(self) -> Any:
        """The rows as a pandas data frame."""
        return self.rows.to_pandas()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes sweep.parquet and sweep.json to `folder`, which is created if necessary."""
        self._native.save(Path(folder))

    def __str__(self) -> str:
        return self._native.text()

    def __repr__(self) -> str:
        points, cached, run = self._native.counts()
        return f"<byteway.Sweep: {points:,} points, {run:,} run, {cached:,} from the cache>"


def _dimension(key: str, values: str | Iterable[Any] | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(values, Mapping):
        section = {**values, "key": key}
        return {name: value if name == "spacing" else str(value) for name, value in section.items()}
    return {"key": key, "values": _values(values)}


class _Batches:
    """Points that wait, and how many go into a batch."""

    def __init__(self, sweep: _native.Sweep, paths: dict[str, str] | None, function: ProgressFunction | None) -> None:
        self.sweep = sweep
        self.paths = paths
        self.function = function
        self.waiting: deque[tuple[int, str]] = deque()
        self.in_flight = 0
        self.mean_s: float | None = None

    def more(self) -> bool:
        """Whether anything is left to do; fetches the search's next points."""
        if not self.waiting and self.in_flight == 0:
            self.waiting.extend(self.sweep.next())
        self.report()
        return bool(self.waiting or self.in_flight)

    def take(self, workers: int) -> list[tuple[int, str]]:
        """A batch of about a second, but no more than a worker's share."""
        size = 1 if self.mean_s is None else max(1, math.ceil(BATCH_S / max(self.mean_s, 1e-6)))
        share = math.ceil(len(self.waiting) / max(1, workers))
        batch = [self.waiting.popleft() for _ in range(min(size, share, len(self.waiting)))]
        self.in_flight += len(batch)
        return batch

    def done(self, batch: list[tuple[int, str]], rows: list[str], took_s: float) -> None:
        """Takes the rows of a batch."""
        self.in_flight -= len(batch)
        mean = took_s / len(batch)
        self.mean_s = mean if self.mean_s is None else 0.7 * self.mean_s + 0.3 * mean
        for point, row in zip(batch, rows, strict=True):
            if self.sweep.tell(row):
                self.waiting.append(point)
        self.report()

    def lost(self, batch: list[tuple[int, str]], reason: str) -> None:
        """Takes the loss of a batch, whose process ended."""
        self.in_flight -= len(batch)
        for index, task in batch:
            if self.sweep.fail(index, reason):
                self.waiting.append((index, task))
        self.report()

    def report(self) -> None:
        if self.function is not None:
            points, cached, run = self.sweep.counts()
            self.function(cached + run, points * self.sweep.repeat, cached + run)


def run_batch(tasks: list[str], cache: str | None, paths: dict[str, str] | None) -> tuple[list[str], float]:
    """Runs points in this process; for workers. Returns their rows and the seconds that they took."""
    begin = time.monotonic()
    rows = _native.run_tasks(tasks, cache, native_policies(paths))
    return rows, time.monotonic() - begin


def _on_futures(batches: _Batches, pool: concurrent.futures.Executor, workers: int, cache: str | None) -> None:
    running: dict[concurrent.futures.Future[tuple[list[str], float]], list[tuple[int, str]]] = {}
    try:
        while batches.more():
            while batches.waiting and len(running) < 2 * workers:
                batch = batches.take(workers)
                running[pool.submit(run_batch, [task for _, task in batch], cache, batches.paths)] = batch
            done, _ = concurrent.futures.wait(
                running, timeout=0.2, return_when=concurrent.futures.FIRST_COMPLETED
            )
            for future in done:
                batch = running.pop(future)
                try:
                    rows, took_s = future.result()
                except concurrent.futures.process.BrokenProcessPool:
                    batches.in_flight -= len(batch)
                    raise
                batches.done(batch, rows, took_s)
    finally:
        for future in running:
            future.cancel()


def _begin_worker() -> None:
    """Ctrl-C is the parent's; and a worker whose parent has gone has nothing to wait for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def leave() -> None:
        if parent is not None:
            multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


def _on_processes(batches: _Batches, jobs: int | None, cache: str | None) -> None:
    workers = jobs or os.cpu_count() or 1
    # Not forked: this process has threads.
    context = multiprocessing.get_context("spawn")
    losses = 0
    while True:
        pool = concurrent.futures.ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker)
        try:
            _on_futures(batches, pool, workers, cache)
            return
        except KeyboardInterrupt:
            # What they run is run again by the next sweep; waiting for it would take minutes.
            for process in list((getattr(pool, "_processes", None) or {}).values()):
                process.kill()
            raise
        except concurrent.futures.process.BrokenProcessPool as error:
            # A process was killed. What it had finished is in the cache; the rest is asked for again.
            losses += 1
            if losses > 3 or cache is None:
                what = f"a worker process ended {losses} times: {error}"
                help = "call it under `if __name__ == \"__main__\":`, since workers import the script; or free some memory"
                raise Error(f"{what}\n  help: {help}") from error
            batches.waiting.clear()
            batches.in_flight = 0
            batches.waiting.extend(batches.sweep.missing())
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _on_dask(batches: _Batches, client: Client, cache: str | None, retries: int) -> None:
    from distributed import as_completed

    running: dict[Any, list[tuple[int, str]]] = {}
    completed = as_completed(with_results=False)

    def threads() -> int:
        each: dict[str, int] = client.nthreads()
        return max(1, sum(each.values()))

    def submit() -> None:
        workers = threads()
        while batches.waiting and len(running) < 2 * workers:
            batch = batches.take(workers)
            tasks = [task for _, task in batch]
            future = client.submit(run_batch, tasks, cache, batches.paths, pure=False, retries=retries)
            running[future] = batch
            completed.add(future)

    try:
        while batches.more():
            submit()
            if not running:
                continue
            future = next(completed)
            batch = running.pop(future)
            if client.status == "closed":
                raise OSError("its scheduler has gone")
            if future.status == "finished":
                rows, took_s = future.result()
                batches.done(batch, rows, took_s)
            else:
                error = future.exception()
                if isinstance(error, InputError):
                    raise error
                batches.lost(batch, f"the worker failed: {error}")
            future.release()
    finally:
        for future in running:
            future.cancel()


_AGAIN = "make the same call again: what was finished is in the cache"


def _with_executor(
    batches: _Batches, executor: Executor, jobs: int | None, cache: str | None, retries: int
) -> None:
    if executor == "processes":
        return _on_processes(batches, jobs, cache)
    if isinstance(executor, concurrent.futures.Executor):
        try:
            return _on_futures(batches, executor, jobs or os.cpu_count() or 1, cache)
        except concurrent.futures.BrokenExecutor as error:
            what = f"the executor is broken: {error}"
            raise Error(f"{what}\n  help: {_AGAIN}, with a new executor") from error
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise missing("distributed", "a sweep on Dask", "dask") from error
    try:
        if isinstance(executor, Client):
            return _on_dask(batches, executor, cache, retries)
        if executor == "dask":
            workers = jobs or os.cpu_count() or 1
            with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster:
                with Client(cluster) as client:
                    return _on_dask(batches, client, cache, retries)
        if isinstance(executor, str) and "://" in executor:
            with Client(executor) as client:
                return _on_dask(batches, client, cache, retries)
    except Error:
        raise
    except Exception as error:
        # Of many types: the scheduler has gone, was never there, its workers do not start, ...
        what = f"the Dask cluster failed: {error or type(error).__name__}"
        help = f"{_AGAIN}; see that the scheduler is there, and call it under `if __name__ == \"__main__\":`"
        raise Error(f"{what}\n  help: {help}") from error
    help = 'use "threads", "processes", "dask", the address of a Dask scheduler, a Dask client, or an executor of concurrent.futures'
    raise wrong(f"no such executor: {executor!r}", help)


def sweep(
    scenario: ScenarioLike,
    vary: Vary,
    overrides: Overrides = None,
    *,
    method: Method = "grid",
    points: int | None = None,
    seed: int = 1,
    metric: str = "iops",
    against: str = "mean_ns",
    retries: int = 1,
    repeat: int = 1,
    executor: Executor = None,
    jobs: int | None = None,
    cache: bool | str | os.PathLike[str] = True,
    out: str | os.PathLike[str] | None = None,
    defines: Mapping[str, str] | None = None,
    skip_bad_lines: bool = False,
    policies: Policies | None = None,
    progress: Progress = None,
) -> Sweep:
    """Runs many points of a scenario, chosen by a search, here or on a cluster.

    The rows depend on the arguments alone: not on the executor, on what the cache holds, or on workers that die. A point in the cache is
    never run again, so the same call resumes after an interruption.

    Args:
        scenario: as for `run`.
        vary: keys and their values, or ranges for drawn points; the first key varies slowest.
        overrides: as for `run`, in every point.
        method: how points are chosen.
        points: number of points, for "random" and "latin-hypercube".
        seed: of drawn points; not the scenario's.
        metric: the figure that counts, by its key in `compare`: "iops", "p99_ns", "wire_bytes_per_io", ...
        against: the second figure of a Pareto front.
        retries: how often a failed point is run again.
        repeat: number of runs of each point with different seeds, the first of which is the scenario's own. The figures of a row are then
            means, with columns for the half widths of their 95 % intervals, and for the seeds.
        executor: who runs the points.
        jobs: points that run at once, or worker processes; one for each processor if left out.
        cache: `True` for the user's cache (~/.cache/byteway/points), a folder (which all workers must see), or `False`.
        out: a folder for sweep.parquet and sweep.json.
        policies: as for `run`, in every point. Processes and clusters need import paths: `{"victim": "my_policies:emptiest"}`. What a policy
            raises ends the sweep. The cache tells code apart by its text, default values and what it encloses.
        progress: `True` for a bar, or a function.

    Raises:
        InputError: the scenario, a key or the search is invalid.
        Interrupted: Ctrl-C; its `result` is the partial `Sweep`.
    """
    made, own = native(scenario, overrides, defines, skip_bad_lines), native_policies(policies)
    is_local = executor in (None, "threads")
    paths = None if is_local else paths_only(policies)
    jobs = worker_count(jobs)
    if not isinstance(vary, Mapping):
        help = 'give a dictionary of keys and their values: {"iodepth": [1, 4, 16]}'
        raise wrong(f"the space is of type {type(vary).__name__}", help)
    sections = json.dumps([_dimension(key, values) for key, values in vary.items()])
    search = json.dumps(
        {
            "method": str(method),
            "points": None if points is None else whole("points", points),
            "seed": whole("seed", seed),
            "metric": str(metric),
            "against": str(against),
            "retries": whole("retries", retries),
        }
    )
    if not isinstance(cache, (bool, str, os.PathLike)):
        raise wrong(f"cache={cache!r}", "give True for the user's cache, a folder, or False")
    if out is not None:
        _native.check_folder(Path(out))
    # A path can't be empty: "" is the user's cache.
    folder = "" if cache is True else None if cache is False else os.fspath(cache)
    planned = _native.Sweep(made, sections, search, replicates(repeat), folder, own)
    result = Sweep(planned)
    with Display(progress, "points") as function:
        if is_local:
            by = planned.run_local(jobs, function)
        else:
            place = planned.cache_folder
            by = None
            try:
                cached = None if place is None else str(place)
                _with_executor(_Batches(planned, paths, function), executor, jobs, cached, retries)
            except KeyboardInterrupt as error:
                by = error
    if out is not None:
        result.save(out)
    if by is not None:
        stopped(by, result)
    return result
