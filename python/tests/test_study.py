"""Comparisons, thresholds, papers."""

from __future__ import annotations

import _thread
import threading
from pathlib import Path
from typing import Any

import pytest

import byteway


def test_a_comparison_has_points_findings_and_frames(reads: dict[str, Any], tmp_path: Path) -> None:
    vary = {"iodepth": [1, 4, 16], "bs": "4 KiB..8 KiB x2"}
    found = byteway.compare(reads, vary, {"job.0.count": 500}, out=tmp_path / "out")
    assert len(found.points) == 6 and not found.partial
    assert [point["iodepth"] for point in found.points] == [1, 1, 4, 4, 16, 16]
    assert all(point["status"] == "done" and point["iops"] > 0 for point in found.points)
    assert found.findings and "IOPS still rise" in " ".join(found.findings)
    assert found.to_polars().shape[0] == 6 and len(found.to_pandas()) == 6
    assert found._repr_html_().startswith("<iframe")
    again = byteway.compare(reads, vary, {"job.0.count": 500}, out=tmp_path / "out", jobs=1)
    assert again.to_json() == found.to_json()


# A mean over other seeds than the scenario's first would differ from the single run that a user already has.
def test_replicates_have_means_with_intervals(reads: dict[str, Any]) -> None:
    vary, sets = {"iodepth": [1, 16]}, {"job.0.count": 300}
    single = byteway.compare(reads, vary, sets)
    found = byteway.compare(reads, vary, sets, repeat=3)
    point = found.data["points"][1]
    runs = [run["figures"]["iops"] for run in point["replicates"]]
    assert len(runs) == 3 and runs[0] == single.points[1]["iops"]
    assert found.points[1]["iops"] == pytest.approx(sum(runs) / 3)
    assert found.points[1]["iops_half_width"] > 0 and "iops_half_width" not in single.points[1]
    alone = byteway.run(reads, {**sets, "job.0.iodepth": 16, "seed": point["replicates"][2]["seed"]})
    assert alone.summary.iops == runs[2]
    for repeat in (0, -1, 1001, 1.5):
        with pytest.raises(byteway.InputError):
            byteway.compare(reads, vary, repeat=repeat)  # type: ignore[arg-type]


def test_trials_of_constants_say_what_changes(reads: dict[str, Any]) -> None:
    vary, sets = {"job.0.iodepth": [1, 64]}, {"job.0.count": 300}
    assert "sensitivity" not in byteway.compare(reads, vary, sets).data
    found = byteway.compare(reads, vary, sets, sensitivity=["flash.read"])
    trials = found.data["sensitivity"]
    assert [trial["status"] for trial in trials] == ["done", "done"]
    assert {trial["key"] for trial in trials} == {"flash.read"}
    with pytest.raises(byteway.InputError, match="flash.raed"):
        byteway.compare(reads, vary, sets, sensitivity=["flash.raed"])


# A depth that is a text is sorted after "16" and cannot be drawn; sizes in the order of the alphabet are a zigzag.
def test_varied_values_keep_their_type_and_order(reads: dict[str, Any]) -> None:
    depths = (depth for depth in (16, 4))
    vary = {"iodepth": depths, "bs": ["16 KiB", "8 KiB"], "host.override.submit": ["500 ns"], "seed": "1..2"}
    found = byteway.compare(reads, vary, {"job.0.count": 100})
    first, last = found.points[0], found.points[-1]
    assert (first["iodepth"], first["bs"], first["seed"]) == (16, "16 KiB", 1)
    assert (last["iodepth"], last["bs"], last["seed"]) == (4, "8 KiB", 2)
    frame = found.to_pandas()
    assert frame["iodepth"].dtype == "int64" and frame["bs"].dtype.ordered
    assert list(frame["bs"].cat.categories) == ["16 KiB", "8 KiB"]
    table = found.to_polars().sort("bs", "iodepth")
    assert table["bs"].to_list()[:4] == ["16 KiB"] * 4 and table["iodepth"].to_list()[:2] == [4, 4]
    assert table.filter(table["bs"] == "8 KiB").height == 4
    mixed = byteway.compare(reads, {"drive.override.firmware.map_cache": [False, "64 KiB"]}, {"job.0.count": 100})
    assert mixed.to_polars()["drive.override.firmware.map_cache"].to_list() == ["false", "64 KiB"]


def test_values_with_commas_and_baselines(reads: dict[str, Any]) -> None:
    vary = {"drive.override.flash.read": [["30 us", "42 us"], ["60 us", "70 us"]], "job.0.iodepth": (1, 2)}
    found = byteway.compare(reads, vary, {"job.0.count": 200}, baseline={"job.0.iodepth": 2})
    assert len(found.points) == 4
    assert "iodepth=2" in found.data["baseline"]


def test_wrong_values_are_named(reads: dict[str, Any]) -> None:
    for vary in ({}, {"iodeph": [1]}, {"iodepth": ["deep"]}, ["iodepth"], {"iodepth": "1..0"}):
        with pytest.raises(byteway.InputError) as caught:
            byteway.compare(reads, vary)
        assert caught.value.help
    with pytest.raises(byteway.InputError, match="p99_ns"):
        byteway.compare(reads, {"iodepth": [1]}, metric="p98_ns")


def test_ctrl_c_keeps_completed_points(reads: dict[str, Any]) -> None:
    threading.Timer(1.0, _thread.interrupt_main).start()
    with pytest.raises(byteway.Interrupted) as caught:
        byteway.compare(reads, {"seed": "1..2000"}, {"job.0.count": 20_000})
    assert caught.value.result.partial


def test_thresholds_are_measured(scenarios: Path) -> None:
    found = byteway.threshold(scenarios / "small-payloads.toml", {"job.0.count": 50})
    assert {"piggyback", "inline"} <= set(found) and found["inline"].endswith("B")


def test_papers_are_measured_again() -> None:
    names = [paper.name for paper in byteway.papers()]
    assert names == ["byteexpress", "bandslim", "nvmeof", "pcie-ssd", "espresso"]
    found = byteway.reproduce("byteexpress", payloads=20, figures=False)
    assert len(found.claims) > 10 and not found.partial
    assert found._repr_html_().startswith("<iframe") and "reproduced" in str(found)
    with pytest.raises(byteway.InputError, match="byteexpress"):
        byteway.reproduce("byteexpres")


def test_profiles_are_listed_and_shown() -> None:
    assert {"samsung-970-pro", "cosmos-plus"} <= {drive["name"] for drive in byteway.profiles.drives()}
    assert byteway.profiles.load("p4500")["flash"]["channels"] == 12
    assert byteway.profiles.hosts() and byteway.profiles.networks()
    assert "job" in byteway.profiles.schema()["properties"]
    with pytest.raises(byteway.InputError, match="p4500"):
        byteway.profiles.show("p450")
