"""Runs: input in every form, results in every form, errors, Ctrl-C."""

from __future__ import annotations

import _thread
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import byteway


# Whatever form a scenario has, it is the same scenario: another result would make notebooks and files disagree.
def test_all_forms_of_a_scenario_give_the_same_result(reads: dict[str, Any], tmp_path: Path) -> None:
    text = """
        drive = { profile = "samsung-970-pro", precondition = "filled" }
        job = [{ name = "reads", rw = "randread", bs = "4 KiB", iodepth = 8, count = 4000 }]
    """
    path = tmp_path / "scenario.toml"
    path.write_text(text)
    built = byteway.Scenario(
        drive=byteway.Drive(profile="samsung-970-pro", precondition="filled"),
        job=[byteway.Job(name="reads", rw="randread", bs="4 KiB", iodepth=8, count=4000)],
    )
    results = [byteway.run(form).to_json() for form in (reads, text, path, str(path), built)]
    assert all(result == results[0] for result in results)
    command = [sys.executable, "-m", "byteway", "run", str(path), "--format", "json", "--quiet"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == results[0]


def test_the_summary_is_typed_and_the_series_adds_up(reads: dict[str, Any]) -> None:
    result = byteway.run(reads, {"job.0.iodepth": 16}, ios=True)
    summary = result.summary
    assert isinstance(summary, byteway.summary.Summary)
    assert (summary.ios, summary.jobs[0].name, summary.verification.mismatches) == (4000, "reads", 0)
    assert summary.jobs[0].read is not None and summary.jobs[0].read.latency.mean_ns > 60_000
    assert abs(sum(row.share for row in summary.spans) - 1) < 1e-4
    series = result.series.to_polars()
    assert series["read_ios"].sum() == 4000
    assert result.series.describe()["mean_ns"]
    assert sum(result.latencies["ios"]) == 4000 and result.latencies["cumulative_share"][-1] == 1
    assert result.ios is not None
    ios = result.ios.to_polars()
    assert len(ios) == 4000 and set(ios["kind"].cast(str)) == {"read"}
    assert byteway.run(reads).ios is None


# A column, and pandas, without a way through another library.
# All but the means is of the run that the same call without replicates gives.
def test_replicates_add_means_to_the_first_run(reads: dict[str, Any]) -> None:
    sets = {"job.0.count": 300}
    single, found = byteway.run(reads, sets), byteway.run(reads, sets, repeat=3, jobs=2)
    replicates = found.summary.replicates
    assert single.summary.replicates is None and replicates is not None
    assert [run.failure for run in replicates.runs] == [None] * 3
    iops = next(row for row in replicates.figures if row.figure == "iops")
    assert iops.values[0] == single.summary.iops == found.summary.iops
    assert iops.mean == pytest.approx(sum(iops.values) / 3) and iops.half_width > 0
    assert found.to_json() == byteway.run(reads, sets, repeat=3, jobs=1).to_json()
    with pytest.raises(byteway.InputError, match="replicates"):
        byteway.run(reads, repeat=0)


def test_a_table_has_columns_and_rows_without_a_data_frame(reads: dict[str, Any]) -> None:
    result = byteway.run(reads, ios=True)
    assert result.ios is not None
    for table in (result.series, result.latencies, result.ios):
        frame = table.to_polars()
        for name in table.columns:
            assert table[name] == frame[name].to_list(), name
        assert list(table) == frame.to_dicts()
    assert isinstance(result.series["mean_ns"][0], float)
    pandas = pytest.importorskip("pandas")
    assert list(pandas.DataFrame(result.series).columns) == result.series.columns
    with pytest.raises(KeyError, match="mean_ns"):
        result.series["mean"]


def test_results_are_saved_and_shown(reads: dict[str, Any], tmp_path: Path) -> None:
    result = byteway.run(reads, ios=True)
    result.save(tmp_path / "out")
    saved = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert saved == ["ios.parquet", "latency.parquet", "report.html", "results.parquet", "summary.json"]
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["ios"] == 4000
    page = result._repr_html_()
    assert page.startswith("<iframe") and "&lt;html" in page and "<html" not in page
    assert "4,000" in repr(result) and "IOPS" in str(result)


@pytest.mark.parametrize(
    ("change", "place", "what", "help"),
    [
        ({"job": [{"rw": "randread", "iodeph": 4}]}, "scenario", "`iodeph`", "iodepth"),
        ({"job": [{"rw": "randread", "bs": "4 KB", "count": 1}]}, "scenario", "4000 B", "4 KiB"),
        ({"job": [{"rw": "randread", "bs": 4096, "count": 1}]}, "scenario", "4096", "4 KiB"),
        ({"job": [{"rw": "randread", "count": -1}]}, "scenario", "-1", ""),
        ({"job": [{"rw": "randread", "count": "many"}]}, "scenario", "many", ""),
        ({"drive": {"profile": "samsung-970"}}, "scenario", "samsung-970", "samsung-970-pro"),
        ({"jobs": []}, "scenario", "`jobs`", "job"),
    ],
)
def test_wrong_input_says_where_and_how_to_fix_it(
    reads: dict[str, Any], change: dict[str, Any], place: str, what: str, help: str
) -> None:
    with pytest.raises(byteway.InputError) as caught:
        byteway.run({**reads, **change})
    error = caught.value
    assert error.file is not None and place in error.file and error.line is not None
    assert what in error.what and help in error.help and error.help in str(error)
    copied = pickle.loads(pickle.dumps(error))
    assert (str(copied), copied.help, copied.line) == (str(error), error.help, error.line)


@pytest.mark.parametrize(
    "scenario",
    [
        "missing.toml",
        Path("missing.toml"),
        "not toml = = =",
        {"drive": {"profile": object()}},
        {"drive": {"profile": "samsung-970-pro"}, "job": [{"rw": "randread", "count": float("nan")}]},
        {},
        17,
        None,
    ],
)
def test_what_is_no_scenario_is_refused(scenario: Any) -> None:
    with pytest.raises(byteway.InputError) as caught:
        byteway.run(scenario)
    assert caught.value.help


def test_wrong_overrides_name_themselves(reads: dict[str, Any]) -> None:
    for overrides in ({"job.0.iodeph": 4}, ["job.0.iodepth"], {"job.0.iodepth": "deep"}, {"job.0.bs": object()}):
        with pytest.raises(byteway.InputError) as caught:
            byteway.run(reads, overrides)
        assert caught.value.help


# Without the check of signals a run of an hour could not be stopped in a notebook, and its figures would be lost.
def test_ctrl_c_keeps_the_partial_result(endless: dict[str, Any]) -> None:
    threading.Timer(0.5, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt) as caught:
        byteway.run(endless)
    assert isinstance(caught.value, byteway.Interrupted)
    result = caught.value.result
    assert result.partial and result.summary.ios > 0
    # The next run is not affected.
    endless["job"][0].pop("runtime")
    endless["job"][0]["count"] = 100
    assert byteway.run(endless).summary.ios == 100


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.05, 0.2, 0.7])
def test_a_real_signal_in_any_phase_ends_the_process_in_order(tmp_path: Path, delay: float) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, byteway\n"
        "print('ready', flush=True)\n"
        "try:\n"
        "    byteway.run({'drive': {'profile': 'samsung-970-pro', 'precondition': 'steady'},\n"
        "        'job': [{'rw': 'randwrite', 'runtime': '1 h'}]})\n"
        "except KeyboardInterrupt as error:\n"
        "    sys.exit(42)\n"
    )
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) in (42, 1, -signal.SIGINT)


def test_progress_is_reported_and_its_exception_ends_the_run(endless: dict[str, Any]) -> None:
    seen: list[tuple[int, int | None, int]] = []

    def stop(position: int, total: int | None, counted: int) -> None:
        seen.append((position, total, counted))
        if counted > 0:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        byteway.run(endless, progress=stop)
    assert seen[-1][0] > 0 and seen[-1][1] == 3_600_000_000


def test_a_bar_of_tqdm_is_drawn(reads: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    byteway.run(reads, {"job.0.count": 200_000}, progress=True)
    assert "I/O" in capsys.readouterr().err


# With the interpreter lock held, a dashboard or a Dask worker would stand still during a run.
def test_other_threads_go_on(reads: dict[str, Any]) -> None:
    ticks = 0
    done = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not done.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=count)
    thread.start()
    byteway.run(reads, {"job.0.count": 300_000})
    done.set()
    thread.join()
    assert ticks > 50


def test_runs_in_threads_equal_runs_alone(reads: dict[str, Any]) -> None:
    results: dict[int, str] = {}

    def one(depth: int) -> None:
        results[depth] = byteway.run(reads, {"job.0.iodepth": depth}).to_json()

    threads = [threading.Thread(target=one, args=(depth,)) for depth in (1, 2, 4, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for depth, result in results.items():
        assert result == byteway.run(reads, {"job.0.iodepth": depth}).to_json()


def test_the_command_is_the_program() -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "byteway", *arguments], capture_output=True, text=True, check=False
        )

    assert command("--version").stdout.startswith(f"byteway {byteway.__version__}")
    assert command("run", "missing.toml").returncode == 2
    assert "Usage: byteway" in command("--help").stdout
    broken = f"{sys.executable} -m byteway profile show p4500 | head -n 1"
    assert subprocess.run(broken, shell=True, capture_output=True, check=False).stderr == b""


def test_a_forked_process_can_run(reads: dict[str, Any]) -> None:
    byteway.run(reads)
    child = os.fork()
    if child == 0:
        os._exit(0 if byteway.run(reads).summary.ios == 4000 else 1)
    assert os.waitpid(child, 0)[1] == 0
