"""Sweeps: every executor gives the same rows, nothing is lost, nothing is run twice."""

from __future__ import annotations

import _thread
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import byteway


def parquet(sweep: byteway.Sweep, folder: Path) -> bytes:
    sweep.save(folder)
    return (folder / "sweep.parquet").read_bytes()


SHORT = {"job.0.count": 200}
VARY = {"iodepth": [1, 2, 4], "bs": "4 KiB..16 KiB x2"}


def test_a_grid_has_a_row_for_each_point(reads: dict[str, Any], tmp_path: Path) -> None:
    found = byteway.sweep(reads, VARY, SHORT, cache=tmp_path / "cache", out=tmp_path / "out")
    frame = found.to_polars()
    assert found.counts == {"points": 9, "cached": 0, "run": 9} and not found.partial
    assert frame["iodepth"].to_list() == ["1"] * 3 + ["2"] * 3 + ["4"] * 3
    assert frame["bs (number)"].to_list() == [4096.0, 8192.0, 16384.0] * 3
    assert frame["iops"].null_count() == 0 and set(frame["status"]) == {"done"}
    assert found.found is not None and "the best IOPS" in found.found
    assert json.loads((tmp_path / "out" / "sweep.json").read_text())["points"] == 9
    again = byteway.sweep(reads, VARY, SHORT, cache=tmp_path / "cache")
    assert again.counts == {"points": 9, "cached": 9, "run": 0}
    assert parquet(again, tmp_path / "again") == parquet(found, tmp_path / "first")
    # A larger space runs only what is new.
    more = byteway.sweep(reads, {**VARY, "iodepth": [1, 2, 4, 8]}, SHORT, cache=tmp_path / "cache")
    assert more.counts == {"points": 12, "cached": 9, "run": 3}


@pytest.mark.parametrize("executor", ["processes", "pool", "dask"])
def test_every_executor_gives_the_same_rows(
    reads: dict[str, Any], tmp_path: Path, executor: str
) -> None:
    here = byteway.sweep(reads, VARY, SHORT, cache=False, jobs=1)
    if executor == "pool":
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            there = byteway.sweep(reads, VARY, SHORT, cache=tmp_path / "cache", executor=pool)
    else:
        if executor == "dask":
            pytest.importorskip("distributed")
        there = byteway.sweep(
            reads, VARY, SHORT, cache=tmp_path / "cache", executor=executor, jobs=2
        )
    assert parquet(there, tmp_path / "there") == parquet(here, tmp_path / "here")


# Processes hand back runs in any order; a run taken for another point's would change its mean.
def test_replicates_are_the_same_from_every_executor(reads: dict[str, Any], tmp_path: Path) -> None:
    vary, sets = {"iodepth": [1, 4]}, {"job.0.count": 200}
    found = [
        byteway.sweep(reads, vary, sets, repeat=3, executor=executor, jobs=2, cache=tmp_path / str(at))
        for at, executor in enumerate(["threads", "processes"])
    ]
    assert found[0].counts == {"points": 2, "cached": 0, "run": 6}
    rows = [one.to_pandas() for one in found]
    assert rows[0].equals(rows[1])
    assert (rows[0]["iops_half_width"] > 0).all() and len(rows[0]["seeds"][0].split()) == 3


def test_drawn_points_are_even_and_the_same_for_a_seed(reads: dict[str, Any]) -> None:
    vary = {
        "host.override.submit": {"from": "1 us", "to": "100 us", "spacing": "log"},
        "iodepth": {"from": 1, "to": 64},
    }

    def draw(method: str, seed: int) -> Any:
        found = byteway.sweep(
            reads, vary, {"job.0.count": 20}, method=method, points=20, seed=seed, cache=False  # type: ignore[arg-type]
        )
        return found.to_polars()

    first = draw("latin-hypercube", 1)
    assert first.equals(draw("latin-hypercube", 1)) and not first.equals(draw("latin-hypercube", 2))
    times = sorted(first["host.override.submit (number)"])
    # A tenth of the range has a tenth of the points: logarithmically, two of each hundredfold's tenth.
    assert sum(time <= 10_000 for time in times) == 10


def test_searches_find_what_they_look_for(scenarios: Path, reads: dict[str, Any]) -> None:
    knee = byteway.sweep(reads, {"iodepth": "1..1024x2"}, {"job.0.count": 2000}, method="knee", cache=False)
    assert knee.found is not None and "the most throughput for its latency" in knee.found
    whole = byteway.sweep(reads, {"iodepth": "1..1024x2"}, {"job.0.count": 2000}, cache=False)
    power = whole.to_polars().select(power=byteway_power())["power"]
    best = whole.to_polars()["iodepth"][int(power.arg_max() or 0)]
    assert f"iodepth={best}" in knee.found and knee.counts["points"] < 11
    crossover = byteway.sweep(
        scenarios / "small-payloads.toml",
        {"bs": "32 B..4064 B + 32 B", "method": ["prp", "inline"]},
        {"job.0.count": 50},
        method="crossover",
        metric="mean_ns",
        cache=False,
    )
    assert crossover.found is not None and "inline has the better mean latency up to" in crossover.found
    assert crossover.counts["points"] < 30
    front = byteway.sweep(
        reads,
        {"iodepth": "1..64x2", "drive.override.flash.channels": [2, 4, 8]},
        SHORT,
        method="pareto",
        cache=False,
    )
    assert front.found is not None and "the front of IOPS and mean latency" in front.found


def byteway_power() -> Any:
    import polars

    return polars.col("iops") / polars.col("mean_ns")


def test_failed_points_are_reported_and_retried(reads: dict[str, Any], tmp_path: Path) -> None:
    vary = {"job.0.count": [100, 200]}
    endless = {"measure.warmup": "10 s"}
    found = byteway.sweep(reads, vary, endless, cache=tmp_path / "cache")
    frame = found.to_polars()
    assert found.failed == 2 and set(frame["status"]) == {"failed"}
    assert all("no I/O" in reason for reason in frame["reason"])
    assert byteway.sweep(reads, vary, endless, cache=tmp_path / "cache").counts["run"] == 2


def test_wrong_spaces_are_refused(reads: dict[str, Any]) -> None:
    for vary, more in (
        ({}, {}),
        ({"iodeph": [1]}, {}),
        ({"iodepth": ["x"]}, {}),
        ({"iodepth": [1], "job.*.iodepth": [2]}, {}),
        ({"iodepth": {"from": 1, "to": 4}}, {}),
        ({"iodepth": {"from": 4, "to": 1}}, {"method": "random", "points": 3}),
        ({"iodepth": {"from": 1, "to": "4 us"}}, {"method": "random", "points": 3}),
        ({"iodepth": {"from": 1, "until": 4}}, {"method": "random", "points": 3}),
        ({"iodepth": [1]}, {"method": "randon"}),
        ({"iodepth": [1]}, {"method": "random"}),
        ({"iodepth": [1]}, {"points": 3}),
        ({"iodepth": [1], "bs": ["4 KiB"]}, {"method": "knee"}),
        ({"iodepth": [1, 2]}, {"method": "crossover"}),
        ({"iodepth": [1]}, {"metric": "iop"}),
        ({"iodepth": [1]}, {"executor": "cloud"}),
        ({"iodepth": [1]}, {"cache": "/proc/none"}),
    ):
        with pytest.raises(byteway.InputError) as caught:
            byteway.sweep(reads, vary, **{"cache": False, **more})  # type: ignore[arg-type]
        assert caught.value.help


def test_ctrl_c_keeps_what_is_done_and_the_next_call_goes_on(
    reads: dict[str, Any], tmp_path: Path
) -> None:
    vary = {"seed": "1..60"}
    overrides = {"job.0.count": 30_000}
    threading.Timer(1.5, _thread.interrupt_main).start()
    with pytest.raises(byteway.Interrupted) as caught:
        byteway.sweep(reads, vary, overrides, cache=tmp_path)
    done = caught.value.result.counts["run"]
    assert caught.value.result.partial and 0 < done < 60
    rest = byteway.sweep(reads, vary, overrides, cache=tmp_path)
    assert rest.counts["cached"] >= done and not rest.partial


# Two sweeps over one cache at the same time: a point that one runs, the other waits for.
def test_concurrent_writers_of_a_cache_run_nothing_twice(
    reads: dict[str, Any], tmp_path: Path
) -> None:
    script = (
        "import sys, json, byteway\n"
        "found = byteway.sweep(json.loads(sys.argv[1]), {'seed': '1..24'}, {'job.0.count': 4000},\n"
        "    cache=sys.argv[2], jobs=1)\n"
        "print(found.counts['run'])\n"
    )
    command = [sys.executable, "-c", script, json.dumps(reads), str(tmp_path / "cache")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    ran = [int(process.communicate(timeout=300)[0]) for process in processes]
    assert sum(ran) == 24, ran
    assert not list((tmp_path / "cache").rglob("*.lock"))


@pytest.mark.parametrize("points", [1000 if os.environ.get("CI") else 120])
def test_a_killed_dask_worker_loses_nothing(
    reads: dict[str, Any], tmp_path: Path, points: int
) -> None:
    distributed = pytest.importorskip("distributed")
    vary = {"seed": f"1..{points}"}
    overrides = {"job.0.count": 400}
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0"
    ) as cluster, distributed.Client(cluster) as client:
        victim = next(iter(client.run(os.getpid).values()))

        def kill() -> None:
            deadline = time.monotonic() + 120
            while sum(1 for _ in (tmp_path / "cache").rglob("*.json")) < points // 10:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            os.kill(victim, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        there = byteway.sweep(reads, vary, overrides, cache=tmp_path / "cache", executor=client)
        killer.join()
        assert there.counts["points"] == points and not there.partial and there.failed == 0
    # Another scheduler, later: everything is there.
    again = byteway.sweep(
        reads, vary, overrides, cache=tmp_path / "cache", executor="dask", jobs=2
    )
    assert again.counts == {"points": points, "cached": points, "run": 0}
    here = byteway.sweep(reads, vary, overrides, cache=False)
    assert parquet(there, tmp_path / "there") == parquet(here, tmp_path / "here")
    assert parquet(again, tmp_path / "again") == parquet(here, tmp_path / "here2")


def test_a_scheduler_that_goes_away_is_resumed_by_the_next(
    reads: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("distributed")
    script = (
        "import sys, json, byteway\n"
        "if __name__ == '__main__':\n"
        "    byteway.sweep(json.loads(sys.argv[1]), {'seed': '1..200'}, {'job.0.count': 2000},\n"
        "        cache=sys.argv[2], executor='dask', jobs=2)\n"
    )
    path = tmp_path / "script.py"
    path.write_text(script)
    cache = tmp_path / "cache"
    process = subprocess.Popen([sys.executable, str(path), json.dumps(reads), str(cache)], start_new_session=True)
    deadline = time.monotonic() + 120
    while sum(1 for _ in cache.rglob("*.json")) < 20:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = sum(1 for _ in cache.rglob("*.json"))
    rest = byteway.sweep(reads, {"seed": "1..200"}, {"job.0.count": 2000}, cache=cache)
    assert rest.counts["cached"] >= kept and rest.counts["cached"] + rest.counts["run"] == 200


# Results in whatever folder the interpreter was started in would be found by nobody, and committed by somebody.
def test_results_are_kept_in_the_cache_of_the_user(
    reads: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert byteway.sweep(reads, VARY, SHORT).counts["run"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert byteway.sweep(reads, VARY, SHORT).counts["run"] == 0


@pytest.mark.parametrize("signals", [1, 2])
@pytest.mark.parametrize("executor", ["threads", "processes", "dask"])
def test_ctrl_c_ends_every_executor_and_its_processes(
    tmp_path: Path, executor: str, signals: int
) -> None:
    if executor == "dask":
        pytest.importorskip("distributed")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, byteway\n"
        "if __name__ == '__main__':\n"
        "    scenario = {'drive': {'profile': 'samsung-970-pro'}, 'job': [{'rw': 'randread', 'count': 3_000_000}]}\n"
        "    try:\n"
        "        byteway.sweep(scenario, {'seed': '1..8'}, cache=sys.argv[1], executor=sys.argv[2], jobs=2,\n"
        "            progress=lambda *_: print('going', flush=True))\n"
        "    except KeyboardInterrupt:\n"
        "        print('stopped', flush=True)\n"
    )
    command = [sys.executable, str(script), str(tmp_path / "cache"), executor]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == b"going\n"
        time.sleep(4)
        for _ in range(signals):
            os.kill(process.pid, signal.SIGINT)
            time.sleep(0.5)
        process.communicate(timeout=60)
        deadline = time.monotonic() + 30
        while _group(process.pid):
            assert time.monotonic() < deadline, f"left: {_group(process.pid)}"
            time.sleep(0.1)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def test_workers_do_not_outlive_their_parent(reads: dict[str, Any], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, json, byteway\n"
        "if __name__ == '__main__':\n"
        "    byteway.sweep(json.loads(sys.argv[1]), {'seed': '1..1000'}, {'job.0.count': 20000},\n"
        "        cache=sys.argv[2], executor='processes', jobs=2)\n"
    )
    command = [sys.executable, str(script), json.dumps(reads), str(tmp_path / "cache")]
    process = subprocess.Popen(command, start_new_session=True)
    deadline = time.monotonic() + 120
    while sum(1 for _ in (tmp_path / "cache").rglob("*.json")) < 4:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    process.wait()
    while _group(process.pid):
        assert time.monotonic() < deadline, f"left: {_group(process.pid)}"
        time.sleep(0.1)


def _group(leader: int) -> list[str]:
    """Commands of the processes of a group that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = stat.read_text().rsplit(") ", 1)[1].split(" ")[:3]
            command = (stat.parent / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if int(group) == leader and state not in "ZX":
            found.append(command)
    return found


def test_a_cluster_that_is_not_there_has_a_cure(reads: dict[str, Any]) -> None:
    distributed = pytest.importorskip("distributed")
    import dask

    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        with pytest.raises(byteway.Error, match="make the same call again"):
            byteway.sweep(reads, VARY, SHORT, cache=False, executor="tcp://127.0.0.1:9")
    assert distributed


def test_wrong_arguments_have_a_cure(reads: dict[str, Any]) -> None:
    numpy = pytest.importorskip("numpy")
    for others in (
        {"jobs": 0},
        {"jobs": "two"},
        {"seed": 1.5},
        {"points": "many"},
        {"cache": None},
        {"retries": None},
        {"progress": 7},
        {"defines": ["A=1"]},
        {"out": "/proc/none"},
        {"method": object()},
    ):
        with pytest.raises(byteway.InputError) as caught:
            byteway.sweep(reads, VARY, SHORT, **{"cache": False, **others})  # type: ignore[arg-type]
        assert caught.value.help
    for vary in ([("iodepth", 1)], 5, None):
        with pytest.raises(byteway.InputError):
            byteway.sweep(reads, vary, SHORT, cache=False)  # type: ignore[arg-type]
    found = byteway.sweep(
        reads, {"iodepth": numpy.array([1, 2])}, SHORT, seed=numpy.int64(3), cache=False, progress=False
    )
    assert found.counts["points"] == 2
    # The key of a range is that under which it stands.
    with pytest.raises(byteway.InputError, match="iodeph"):
        byteway.sweep(reads, {"iodeph": {"key": "iodepth", "values": "1,2"}}, SHORT, cache=False)
