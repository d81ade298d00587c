"""Profiles that are fitted to measurements."""

from __future__ import annotations

import _thread
import json
from pathlib import Path
from typing import Any

import pytest

import byteway

# Means of MQSim itself, from docs/mqsim.md.
ROWS = [
    {"name": f"depth {depth}", "rw": "randread", "bs": "4k", "iodepth": depth, "metric": "mean", "value": mean, "unit": "us"}
    for depth, mean in [(1, 88), (8, 102), (32, 166), (64, 282), (256, 1023)]
]
OTHER = {
    "host.override.submit": "0 ns",
    "host.override.complete": "0 ns",
    "drive.override.flash.read": ["110 us"],
    "drive.override.flash.channel_rate": "500 MB/s",
}


def fitted(measurements: Any, **others: Any) -> byteway.Fit:
    return byteway.fit(measurements, "mqsim-mlc-as-run", OTHER, host="linux-polled", **others)


def test_constants_are_fitted_and_saved(tmp_path: Path) -> None:
    calls: list[int] = []
    found = fitted(ROWS, hold_out=["depth 64"], progress=lambda at, length, count: calls.append(at))
    by_key = {constant["key"]: constant for constant in found.constants}
    assert by_key["flash.read[0]"]["value"] == pytest.approx(75_000, rel=0.05)
    assert by_key["flash.program"]["verdict"] == "assumed" and "no fitted point" in by_key["flash.program"]["why"]
    assert [point["point"] for point in found.points if point["held_out"]] == ["depth 64"]
    assert len(found.to_polars()) == len(found.to_pandas()) == 5
    assert calls and not found.partial and "flash.read[0]" in str(found) and "constants fitted" in repr(found)
    assert found._repr_html_().startswith("<iframe")
    found.save(tmp_path / "fitted")
    assert json.loads((tmp_path / "fitted" / "fit.json").read_text()) == found.data
    profile = tmp_path / "fitted" / "my-drive.toml"
    assert profile.read_text() == found.to_profile()
    read = byteway.run({"drive": {"profile": str(profile)}, "job": [{"rw": "randread", "count": 200}]})
    assert read.summary.ios > 0


def test_all_forms_of_measurements_give_the_same(tmp_path: Path) -> None:
    columns = list(ROWS[0])
    lines = [",".join(columns)] + [",".join(str(row[column]) for column in columns) for row in ROWS]
    (tmp_path / "points.csv").write_text("\n".join(lines))
    rows, table = fitted(ROWS, jobs=1), fitted(tmp_path / "points.csv", jobs=2)
    assert rows.constants == table.constants and rows.points == table.points
    drive = {"profile": "mqsim-mlc-as-run", "precondition": "filled"}
    jobs = [{"name": f"randread-{depth}", "rw": "randread", "iodepth": depth, "count": 2000} for depth in (1, 16)]
    fio = byteway.run({"drive": drive, "host": {"profile": "linux-polled"}, "job": jobs}).to_fio_json()
    (tmp_path / "results.json").write_text(fio)
    text, loaded, file = fitted(fio), fitted(json.loads(fio)), fitted(tmp_path / "results.json")
    assert text.constants == loaded.constants == file.constants


def test_the_jobs_are_fio_jobs(tmp_path: Path) -> None:
    text = byteway.fit_jobs(runtime="10 ms", ramp="1 ms", size="64 MiB")
    assert "DESTROY" in text and "steady-" not in text and "steady-" in byteway.fit_jobs(steady=True)
    for wrong in ({"runtime": "5"}, {"runtime": "1 ns"}, {"size": "1 KiB"}, {"size": "all"}):
        with pytest.raises(byteway.InputError) as caught:
            byteway.fit_jobs(**wrong)  # type: ignore[arg-type]
        assert caught.value.help


@pytest.mark.parametrize(
    "measurements",
    [
        "absent.json",
        "{",
        {},
        {"jobs": []},
        {"jobs": {1, 2}},
        [],
        [1],
        7,
        None,
        [{"rw": "randread"}],
        [{**ROWS[0], "value": -1}],
        [{**ROWS[0], "unit": "parsec"}],
        [{**ROWS[0], "iodepth": 0}],
        [{**ROWS[0], "colour": "red"}],
    ],
)
def test_wrong_measurements_are_refused(measurements: Any) -> None:
    with pytest.raises(byteway.InputError) as caught:
        fitted(measurements)
    assert caught.value.help


def test_wrong_arguments_are_refused() -> None:
    for others in ({"hold_out": "depth 1"}, {"hold_out": ["depth 2"]}, {"hold_out": [row["name"] for row in ROWS]}):
        with pytest.raises(byteway.InputError):
            fitted(ROWS, **others)
    with pytest.raises(byteway.InputError, match="p4500"):
        byteway.fit(ROWS, "p450")
    with pytest.raises(byteway.InputError, match="reed"):
        byteway.fit(ROWS, "p4500", {"drive.override.flash.reed": 3})


def test_ctrl_c_gives_the_best_so_far() -> None:
    sizes = [f"{size}k" for size in range(4, 132, 4)]
    many = [{**row, "name": f"{row['name']} {bs}", "bs": bs} for bs in sizes for row in ROWS]

    def interrupt(position: int, length: int | None, counted: int) -> None:
        # Once it has begun, whatever the speed of the machine. After one that is heard this is not called any more.
        if position > 0:
            _thread.interrupt_main()

    with pytest.raises(byteway.Interrupted) as caught:
        fitted(many, jobs=1, progress=interrupt)
    assert caught.value.result is None or caught.value.result.partial
