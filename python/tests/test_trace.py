"""Block traces."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import byteway


@pytest.fixture
def trace(scenarios: Path) -> Path:
    return scenarios / "traces" / "small.trace"


def test_a_trace_is_inspected_read_and_converted(trace: Path, tmp_path: Path) -> None:
    found = byteway.trace.inspect(trace)
    table = byteway.trace.read(trace)
    assert len(table) == found["records"] == 2000
    assert table.columns == ["time_ps", "device", "offset_bytes", "bytes", "kind"]
    frame = table.to_polars()
    assert frame["bytes"].min() > 0 and set(frame["kind"].cast(str)) <= {"read", "write", "trim"}
    out = tmp_path / "small.msr.csv.gz"
    assert byteway.trace.convert(trace, out) == len(table)
    assert byteway.trace.read(out, head=10).to_polars()["bytes"].to_list() == frame["bytes"][:10].to_list()


def test_wrong_traces_and_formats(tmp_path: Path, trace: Path) -> None:
    bad = tmp_path / "bad.trace"
    bad.write_text("this is\nno trace\n")
    for call in (
        lambda: byteway.trace.read(bad),
        lambda: byteway.trace.inspect(bad),
        lambda: byteway.trace.inspect(trace, format="mqsym"),
        lambda: byteway.trace.inspect(trace, unit_bytes=1),
        lambda: byteway.trace.read(tmp_path / "missing"),
        lambda: byteway.trace.convert(trace, tmp_path / "noformat"),
        lambda: byteway.trace.convert(trace, tmp_path / "x.msr.csv", time_scale=0.0),
    ):
        with pytest.raises(byteway.InputError) as caught:
            call()
        assert caught.value.help
    assert not (tmp_path / "x.msr.csv").exists()


# A copy of ten million rows would take longer than the simulation that made them.
def test_ten_million_rows_reach_polars_without_a_copy(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    rows, path = 10_000_000, tmp_path / "big.trace"
    block = "".join(f"{index} 0 {index * 8} 8 1\n" for index in range(100_000))
    with path.open("w") as file:
        for _ in range(rows // 100_000):
            file.write(block)
    table = byteway.trace.read(path, format="mqsim")
    assert len(table) == rows
    arrow = table.to_pyarrow()
    address = arrow["offset_bytes"].chunk(0).buffers()[1].address
    polars.DataFrame({"warm": [1]})
    begin = time.perf_counter()
    frame = table.to_polars()
    took = time.perf_counter() - begin
    assert frame.height == rows
    shared = frame["offset_bytes"].get_chunks()[0].to_arrow().buffers()[1].address
    assert shared == address, "the numbers were copied"
    assert pyarrow.table(table)["bytes"].chunk(0).buffers()[1].address != address
    print(f"10 million rows to polars in {took * 1e3:.2f} ms")
