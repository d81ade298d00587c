"""Key-value and computational drives: simulated, in a directory, served."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import byteway

DEVICE = """
[drive]
profile = "cosmos-plus"
personality = "{personality}"
capacity = "1 GiB"
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    device = tmp_path / "drive.toml"
    device.write_text(DEVICE.format(personality="kv"))
    folder = tmp_path / "socket"
    command = [sys.executable, "-m", "byteway", "serve", str(device), "--vfio-user", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (folder / "cntrl").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    yield folder, process
    process.terminate()
    process.wait(timeout=30)


def use(drive: byteway.kv.KvDrive) -> None:
    drive["a"] = b"one"
    drive[b"\x00\xff"] = b"two" * 100
    assert drive["a"] == b"one" and drive[b"\x00\xff"] == b"two" * 100
    assert "a" in drive and "b" not in drive and 5 not in drive
    assert len(drive) == 2 and list(drive) == sorted([b"a", b"\x00\xff"])
    assert drive.put("a", "new", if_absent=True) is False and drive["a"] == b"one"
    assert drive.put("a", "new", if_exists=True) and drive.put("c", "x", if_absent=True)
    del drive["c"]
    with pytest.raises(KeyError):
        drive["c"]
    with pytest.raises(KeyError):
        del drive["c"]
    assert drive.get("c") is None and drive.pop("a") == b"new"
    drive.update({f"k{index:04}": str(index).encode() for index in range(1500)})
    assert len(drive) == 1501
    assert list(drive.scan("k1490")) == [f"k{index}".encode() for index in range(1490, 1500)]
    assert len(list(drive.scan("k0100"))) == 1400
    drive.flush()
    for key in (b"", b"x" * 17, "ü" * 9):
        with pytest.raises(byteway.InputError, match="1 to 16 bytes"):
            drive[key] = b"v"
    with pytest.raises(byteway.InputError, match="the drive supports at most"):
        drive["big"] = bytes(64 << 20)
    assert drive["k0007"] == b"7"


def test_a_simulated_drive_is_a_mapping() -> None:
    with byteway.kv.open() as drive:
        use(drive)
    with pytest.raises(byteway.InputError, match="closed"):
        drive["a"]
    drive.close()


@pytest.mark.parametrize("method", ["inline", "piggyback", "piggyback-pipelined"])
def test_values_travel_by_every_method(method: str) -> None:
    with byteway.kv.open(method=method) as drive:
        drive["key"] = b"value"
        assert drive["key"] == b"value"


def test_a_drive_in_a_directory_keeps_its_pairs(tmp_path: Path) -> None:
    device = tmp_path / "drive.toml"
    device.write_text(DEVICE.format(personality="kv"))
    for turn in range(3):
        with byteway.kv.open(device=device, data=tmp_path / "data") as drive:
            assert len(drive) == turn
            drive[f"turn{turn}"] = b"here"
    with byteway.kv.open(device=device, data=tmp_path / "data", read_only=True) as drive:
        assert list(drive) == [b"turn0", b"turn1", b"turn2"]
    with byteway.kv.open(device=device, data=tmp_path / "data") as drive:
        with pytest.raises(byteway.errors.Error):
            byteway.kv.open(device=device, data=tmp_path / "data")
        assert len(drive) == 3


def test_a_served_drive_is_used_by_ten_clients_in_turn(
    served: tuple[Path, subprocess.Popen[bytes]],
) -> None:
    folder, _ = served
    with byteway.kv.open(vfio_user=folder) as drive:
        use(drive)
    for client in range(10):
        with byteway.kv.open(vfio_user=folder) as drive:
            drive[f"client{client}"] = b"was here"
            assert drive["k0007"] == b"7"


# A dead server must not leave a notebook waiting.
def test_a_served_drive_that_goes_away_raises(served: tuple[Path, subprocess.Popen[bytes]]) -> None:
    folder, process = served
    drive = byteway.kv.open(vfio_user=folder)
    drive["a"] = b"1"
    process.kill()
    process.wait()
    with pytest.raises(byteway.DriveGoneError):
        for _ in range(100):
            drive["a"] = b"2"
    with pytest.raises((byteway.InputError, byteway.DriveError)):
        drive["a"]
    drive.close()


def test_locations_that_are_none(tmp_path: Path) -> None:
    for wrong in (
        {"vfio_user": tmp_path / "none"},
        {"device": tmp_path / "none.toml", "data": tmp_path},
        {"device": tmp_path / "none.toml"},
        {"profile": "cosmos-pluss"},
        {"capacity": "4 apples"},
        {"method": "pigeon"},
        {"namespace": 7},
        {"profile": "samsung-970-pro", "method": "inline"},
        {"method": "sgl"},
    ):
        with pytest.raises((byteway.InputError, byteway.DriveError)):
            byteway.kv.open(**wrong)  # type: ignore[arg-type]


def test_a_drive_left_open_does_not_keep_the_interpreter(tmp_path: Path) -> None:
    script = "import byteway; drive = byteway.kv.open(); drive['a'] = b'1'; other = byteway.csd.open()"
    assert subprocess.run([sys.executable, "-c", script], timeout=60, check=False).returncode == 0


def test_tables_are_loaded_and_queried(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"id": range(10_000), "price": [float(n % 97) for n in range(10_000)]})
    frame.write_parquet(tmp_path / "items.parquet")
    with byteway.csd.open() as drive:
        assert drive.load("items", tmp_path / "items.parquet") == 10_000
        assert drive.load("items", frame) == 20_000
        assert drive.generate("particles", "vpic", rows=5_000) == 5_000
        assert {table.name: table.rows for table in drive.tables()} == {"items": 20_000, "particles": 5_000}
        for on in ("drive", "host", "adaptive"):
            rows = drive.query("SELECT id FROM items WHERE price > 95", on=on)  # type: ignore[arg-type]
            assert rows.to_polars()["id"].to_list() == 2 * [n for n in range(10_000) if n % 97 > 95]
            assert rows.figures.nanoseconds > 0
        count = drive.query("SELECT count(*) AS n, avg(price) AS p FROM items").to_polars()
        assert count["n"].to_list() == [20_000]
        plan = drive.explain("SELECT id FROM items WHERE price > 95")[0]
        assert plan.rows == 20_000 and plan.why
        for wrong in ("SELEC id FROM items", "SELECT id FROM item", "SELECT nix FROM items"):
            with pytest.raises(byteway.InputError) as caught:
                drive.query(wrong)
            assert caught.value.help
        with pytest.raises(byteway.InputError):
            drive.load("items", polars.DataFrame({"other": [1]}))
        with pytest.raises(TypeError):
            drive.load("items", 17)
        drive.drop("particles")
        assert [table.name for table in drive.tables()] == ["items"]


def test_tables_in_a_directory_stay(tmp_path: Path) -> None:
    device = tmp_path / "drive.toml"
    device.write_text(DEVICE.format(personality="tables"))
    place = {"device": device, "data": tmp_path / "data"}
    with byteway.csd.open(**place) as drive:
        drive.generate("particles", "vpic", rows=1_000)
    with byteway.csd.open(**place, read_only=True) as drive:
        assert drive.tables()[0].rows == 1_000
        found = drive.query("SELECT count(*) AS n FROM particles").to_pyarrow()
        assert found["n"].to_pylist() == [1_000]


# `bytes(5)` is five zeros, and a drive that was opened to be read is not to be changed.
def test_only_bytes_and_texts_are_stored(tmp_path: Path) -> None:
    with byteway.kv.open() as drive:
        for wrong in (5, True, None, 1.5, ["a"]):
            with pytest.raises(byteway.InputError):
                drive["k"] = wrong  # type: ignore[assignment]
            with pytest.raises(byteway.InputError):
                drive[wrong]  # type: ignore[index]
        assert len(drive) == 0


def test_a_drive_that_is_only_read_is_not_changed(
    served: tuple[Path, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    device = tmp_path / "kv.toml"
    device.write_text(DEVICE.format(personality="kv"))
    places: list[dict[str, Path]] = [{"vfio_user": served[0]}, {"device": device, "data": tmp_path / "data"}]
    for place in places:
        with byteway.kv.open(**place) as drive:
            drive["a"] = b"1"
        with byteway.kv.open(**place, read_only=True) as drive:
            for change in (lambda: drive.put("a", b"2"), lambda: drive.pop("a"), lambda: drive.update(b=b"3")):
                with pytest.raises(byteway.InputError, match="reading only"):
                    change()
            assert drive["a"] == b"1" and len(drive) == 1
        with byteway.kv.open(**place) as drive:
            assert dict(drive) == {b"a": b"1"}
    tables = tmp_path / "tables.toml"
    tables.write_text(DEVICE.format(personality="tables"))
    with byteway.csd.open(device=tables, data=tmp_path / "rows") as drive2:
        drive2.generate("p", "vpic", rows=10)
    with byteway.csd.open(device=tables, data=tmp_path / "rows", read_only=True) as drive2:
        for refused in (lambda: drive2.generate("q", "vpic", rows=10), lambda: drive2.drop("p")):
            with pytest.raises(byteway.InputError, match="reading only"):
                refused()
        assert [table.name for table in drive2.tables()] == ["p"]


def test_texts_of_polars_are_stored() -> None:
    polars = pytest.importorskip("polars")
    with byteway.csd.open() as drive:
        drive.load("t", polars.DataFrame({"a": [1, 2], "b": ["x", None]}))
        answer = drive.query("SELECT a, b FROM t WHERE a > 0").to_polars()
        assert answer["b"].to_list() == ["x", None]
        with pytest.raises(byteway.InputError, match="no type"):
            drive.load("u", polars.DataFrame({"a": [None, None]}))


# Nobody answers: Ctrl-C ends the request, and leaving the block, too.
def test_a_stopped_server_does_not_hang_the_interpreter(
    served: tuple[Path, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    folder, server = served
    script = tmp_path / "script.py"
    script.write_text(
        "import byteway, sys\n"
        "try:\n"
        "    with byteway.kv.open(vfio_user=sys.argv[1]) as drive:\n"
        "        print('ready', flush=True)\n"
        "        sys.stdin.readline()\n"
        "        drive['a']\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped', flush=True)\n"
        "    import os; os._exit(42)\n"
    )
    command = [sys.executable, str(script), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdin and process.stdout.readline() == "ready\n"
        server.send_signal(signal.SIGSTOP)
        try:
            process.stdin.write("go\n")
            process.stdin.flush()
            for _ in range(40):
                time.sleep(0.5)
                if process.poll() is not None:
                    break
                process.send_signal(signal.SIGINT)
            assert process.poll() == 42
        finally:
            process.kill()
            server.send_signal(signal.SIGCONT)


# The thread of a drive is not in a forked process: it can neither be asked nor waited for.
def test_a_forked_process_is_told_and_ends(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import byteway, os, sys\n"
        "drive = byteway.kv.open()\n"
        "drive['a'] = b'1'\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n"
        "        drive['a']\n"
        "    except byteway.InputError as error:\n"
        "        sys.exit(0 if 'forked' in str(error) else 3)\n"
        "    sys.exit(4)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert drive['a'] == b'1'\n"
    )
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0 and "panicked" not in ended.stderr, ended.stderr
