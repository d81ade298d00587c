"""Policies in Python: what they choose is what the run does, and what goes wrong in one ends it."""

from __future__ import annotations

import functools
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import byteway
from byteway._policies import _version

Column = npt.NDArray[np.uint32]


@pytest.fixture
def writes() -> dict[str, Any]:
    """A short run of overwrites on a small drive that collects."""
    flash, firmware = {"channels": 1, "ways": 1}, {"write_buffer": "1 MiB", "gc": {"policy": "greedy"}}
    drive = {"profile": "samsung-970-pro", "capacity": "1 GiB", "override": {"flash": flash, "firmware": firmware}}
    return {
        "drive": {**drive, "precondition": "filled"},
        "host": {"verify": False},
        "job": [{"rw": "randwrite", "iodepth": 16, "count": 60_000}],
        "measure": {"warmup": 30_000},
    }


def emptiest(valid: Column, age: Column) -> int:
    assert valid.dtype == age.dtype == np.uint32 and len(valid) == len(age) > 0
    return int(np.lexsort((-age.astype(int), valid))[0])


# The same choices as the built-in policy's must give the same run, or a policy would be measured with something else beside it.
def test_a_function_that_chooses_as_greedy_gives_its_run(writes: dict[str, Any]) -> None:
    own, built_in = byteway.run(writes, policies={"victim": emptiest}), byteway.run(writes)
    assert built_in.summary.write_amplification is not None and built_in.summary.write_amplification > 1.5
    assert own.series.to_polars().equals(built_in.series.to_polars())
    [row] = own.summary.policies
    assert (row.key, row.name, len(row.hash)) == ("firmware.gc.policy", "emptiest", 16)
    assert not built_in.summary.policies
    # With replicates, at once.
    several = byteway.run(writes, policies={"victim": emptiest}, repeat=2, jobs=2)
    assert several.summary.replicates is not None and len(several.summary.replicates.runs) == 2


# What a policy raises must reach whoever wrote it, with the place; the figures until then are of nothing.
def test_what_a_policy_raises_ends_the_run(writes: dict[str, Any]) -> None:
    def broken(valid: Column, age: Column) -> int:
        raise ZeroDivisionError("on purpose")

    with pytest.raises(ZeroDivisionError, match="on purpose") as raised:
        byteway.run(writes, policies={"victim": broken})
    assert "broken" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]


@pytest.mark.parametrize("answer", [-1, 10**6])
def test_a_wrong_place_is_an_error_with_the_name(writes: dict[str, Any], answer: int) -> None:
    def astray(valid: Column, age: Column) -> int:
        return answer

    with pytest.raises(IndexError, match=f"'astray' chose {answer}"):
        byteway.run(writes, policies={"victim": astray})


# A raise in a replicate's thread, or where a steady state is constructed beforehand, is one of the same run.
@pytest.mark.parametrize("steady", [False, True])
def test_what_is_raised_late_or_early_ends_the_run(writes: dict[str, Any], steady: bool) -> None:
    calls = 0

    def tires(valid: Column, age: Column) -> int:
        nonlocal calls
        calls += 1
        if steady or calls > 150:
            raise RuntimeError("tired")
        return emptiest(valid, age)

    if steady:
        writes["drive"]["precondition"] = "steady"
        writes["drive"]["override"]["firmware"]["op"] = "28 %"
    with pytest.raises(RuntimeError, match="tired"):
        byteway.run(writes, policies={"victim": tires}, repeat=3, jobs=2)


# A view with the die, its superblocks' size and a random number is for those that take it.
def test_a_third_argument_is_the_view(writes: dict[str, Any]) -> None:
    seen: list[byteway.VictimView] = []

    def looks(valid: Column, age: Column, view: byteway.VictimView) -> int:
        seen.append(view)
        return emptiest(valid, age)

    own, built_in = byteway.run(writes, policies={"victim": looks}), byteway.run(writes)
    assert own.series.to_polars().equals(built_in.series.to_polars())
    randoms = [view.random for view in seen]
    assert len(set(randoms)) == len(randoms) > 100 and max(randoms) >= 1 << 62
    assert {(view.die, view.units) for view in seen} == {(0, seen[0].units)} and seen[0].units > 100
    seen.clear()
    byteway.run(writes, policies={"victim": looks})
    assert [view.random for view in seen] == randoms, "from the scenario's seed"


# Whoever gives a third argument a value means that one.
def test_a_default_value_is_kept(writes: dict[str, Any]) -> None:
    def weighs(valid: Column, age: Column, weight: float = 0.5) -> int:
        assert weight == 0.5
        return emptiest(valid, age)

    byteway.run(writes, policies={"victim": weighs})


class Separate:
    """What the host writes, and what is moved: as the drive itself."""

    host, collector = 1, 1

    def place(self, view: byteway.StreamView) -> int:
        return 0


class Halves:
    """The first part of the drive, and the rest."""

    host, collector = 2, 2

    def place(self, view: byteway.StreamView) -> int:
        return int(view.unit >= view.units // 2)


class Kept(Halves):
    """Keeps what it is told."""

    needs_last_write = True
    views: list[byteway.StreamView] = []
    told: list[tuple[byteway.Source, int]] = []

    def place(self, view: byteway.StreamView) -> int:
        self.views.append(view)
        return super().place(view)

    def collects(self, source: byteway.Source, now: int) -> None:
        self.told.append((source, now))


# Streams decide where units go, and nothing else: one that does as the drive does gives its run, to the last figure.
def test_a_class_that_places_as_separate_gives_its_run(writes: dict[str, Any]) -> None:
    own, built_in = byteway.run(writes, policies={"stream": Separate}), byteway.run(writes)
    assert own.series.to_polars().equals(built_in.series.to_polars())
    [row] = own.summary.policies
    assert (row.key, row.name, len(row.hash)) == ("firmware.streams", "Separate", 16)
    writes["drive"]["override"]["firmware"]["op"] = "28 %"
    writes["job"][0]["count"] = 150_000
    halves = byteway.run(writes, policies={"stream": Halves, "victim": emptiest})
    assert len(halves.summary.policies) == 2
    assert halves.summary.write_amplification != byteway.run(writes).summary.write_amplification


def test_a_stream_policy_is_told_what_it_is_said_to_be(writes: dict[str, Any]) -> None:
    writes["drive"]["override"]["firmware"]["op"] = "28 %"
    writes["job"][0]["count"] = 120_000
    byteway.run(writes, policies={"stream": Kept})
    written = [view for view in Kept.views if view.source is None]
    moved = [view.source for view in Kept.views if view.source is not None]
    assert [view.now for view in written] == list(range(len(written)))
    last: dict[int, int] = {}
    for view in written:
        assert view.last_write == last.get(view.unit), view
        last[view.unit] = view.now
    assert {source.filled_by for source in moved} >= {None, "host"} and Kept.told
    assert all(source.opened_at <= now for source, now in Kept.told)


@pytest.mark.parametrize("lacks", ["host", "place", "none"])
def test_a_stream_policy_that_is_none_is_refused(writes: dict[str, Any], lacks: str) -> None:
    parts = {"host": 1, "collector": 1, "place": lambda self, view: 0}
    parts.pop(lacks, None)
    if lacks == "none":
        parts["collector"] = 8
    with pytest.raises(byteway.InputError, match="'Own' (lacks|declares)"):
        byteway.run(writes, policies={"stream": type("Own", (), parts)})


def test_what_a_stream_policy_raises_ends_the_run(writes: dict[str, Any]) -> None:
    class Astray(Separate):
        def place(self, view: byteway.StreamView) -> int:
            return 3 if view.now > 1000 else 0

    with pytest.raises(IndexError, match="'Astray' chose 3, of the 1 streams of the host"):
        byteway.run(writes, policies={"stream": Astray})


@pytest.fixture
def mixed(writes: dict[str, Any]) -> dict[str, Any]:
    """Reads beside writes, on a drive that suspends."""
    writes["job"][0] |= {"rw": "randrw", "rwmixread": 70, "count": 6000}
    flash = {"suspend": {"latency": "20 us", "resume": "5 us", "most": 4}}
    writes["drive"]["override"].setdefault("flash", {}).update(flash)
    return writes


# Policies of dies see what those in Rust see, at the same instants.
def test_policies_of_dies_give_the_runs_of_their_like(mixed: dict[str, Any]) -> None:
    def oldest(waiting: list[byteway.Waiting]) -> int:
        assert len(waiting) > 1 and all(each.operations > 0 for each in waiting)
        return max(range(len(waiting)), key=lambda at: waiting[at].waited_ps)

    def erases(view: byteway.SuspendView) -> bool:
        assert view.remaining_ps > view.latency_ps and view.reads > 0
        return view.is_erase

    flash = mixed["drive"]["override"]["flash"]
    own = byteway.run(mixed, policies={"schedule": oldest, "suspend": erases})
    assert [(row.key, row.name) for row in own.summary.policies] == [("flash.schedule", "oldest"), ("flash.suspend.policy", "erases")]
    default = byteway.run(mixed)
    flash["schedule"], flash["suspend"]["policy"] = "fifo", "erases"
    built_in = byteway.run(mixed)
    assert own.series.to_polars().equals(built_in.series.to_polars())
    assert not own.series.to_polars().equals(default.series.to_polars())


def test_what_a_policy_of_a_die_raises_ends_the_run(mixed: dict[str, Any]) -> None:
    with pytest.raises(IndexError, match="'astray' chose 9"):

        def astray(waiting: list[byteway.Waiting], view: byteway.ScheduleView) -> int:
            return 9

        byteway.run(mixed, policies={"schedule": astray})
    with pytest.raises(TypeError, match="'forgets' returned None"):

        def forgets(view: byteway.SuspendView) -> None:
            pass

        byteway.run(mixed, policies={"suspend": forgets})
    del mixed["drive"]["override"]["flash"]["suspend"]
    with pytest.raises(byteway.InputError, match="decides on suspensions, and the drive has none"):
        byteway.run(mixed, policies={"suspend": forgets})


# In other processes a policy can only be imported; the same one, wherever it runs, is the same in the cache.
def test_policies_in_sweeps(writes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def last(valid, age):\n    return len(valid) - 1\n\ndef wrong(valid, age):\n    raise OSError('on purpose')\n"
    (tmp_path / "own_policies.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    vary, cache = {"iodepth": [4, 16]}, tmp_path / "cache"
    import own_policies  # type: ignore[import-not-found]

    here = byteway.sweep(writes, vary, policies={"victim": own_policies.last}, cache=cache)
    own = here.to_polars()["write_amplification"].to_list()
    assert own != byteway.sweep(writes, vary, cache=cache).to_polars()["write_amplification"].to_list()
    again = byteway.sweep(writes, vary, policies={"victim": "own_policies:last"}, cache=cache)
    assert again.counts["cached"] == 2, "the same code"
    there = byteway.sweep(writes, vary, policies={"victim": "own_policies:last"}, executor="processes", jobs=2, cache=False)
    assert there.to_polars()["write_amplification"].to_list() == own
    compared = byteway.compare(writes, vary, policies={"victim": "own_policies:last"})
    assert [point["write_amplification"] for point in compared.points] == own
    for executor in (None, "processes"):
        with pytest.raises(OSError, match="on purpose"):
            byteway.sweep(writes, vary, policies={"victim": "own_policies:wrong"}, executor=executor, cache=False)
    with pytest.raises(OSError, match="on purpose"):
        byteway.compare(writes, vary, policies={"victim": "own_policies:wrong"})
    with pytest.raises(byteway.InputError, match="object of this process"):
        byteway.sweep(writes, vary, policies={"victim": own_policies.last}, executor="processes")


# Two policies that are told as one would be taken for each other by whoever reads a summary; one that is told as two, in two
# processes, makes two files of one run.
def test_versions_tell_code_apart_and_nothing_else() -> None:
    def of(text: str) -> Any:
        names: dict[str, Any] = {}
        exec(text, names)
        return names["f"]

    class Scaled:
        def __call__(self, valid: Column, age: Column) -> int:
            return 0

    texts = ["def f(v, a): return v.argmin()", "def f(v, a): return v.argmax()", "def f(v, a): return min(v, key=lambda i: v[i])"]
    texts += ["def f(v, a, by=1): return 0", "def f(v, a, by=2): return 0"]
    made = [of(text) for text in texts]
    made += [functools.partial(made[0], by=1), functools.partial(made[0], by=2), Scaled()]
    classes = ["class f:\n    n = 1", "class f:\n    n = 2", "class f:\n    def place(self, v): return 0", "class f(dict): pass"]
    made += [of(text) for text in classes]
    assert [_version(of(text)) for text in classes] == [_version(each) for each in made[-4:]]

    class Keeps:
        def __init__(self, by: Any) -> None:
            self.by = by

        def choose(self, valid: Column, age: Column) -> int:
            return 0

        def __call__(self, valid: Column, age: Column) -> int:
            return 0

    def within(by: Any) -> Any:
        class Inner:
            of = by

        return lambda valid, age: Inner

    for by in (1, 2, {"a": 1}, {"a": 2}, {1, 2}, [1, {2}], Keeps(1), Keeps(2), np.arange(3), np.arange(4)):
        made += [Keeps(by), Keeps(by).choose, within(by)]
    itself: list[Any] = []
    itself.append(itself)
    made.append(Keeps(itself))
    versions = [_version(function) for function in made]
    assert len(set(versions)) == len(versions)
    assert [_version(of(text)) for text in texts] == versions[: len(texts)]
    code = f"import byteway._policies as p\nn = {{}}\nexec({texts[2]!r}, n)\nprint(p._version(n['f']))"
    told = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert [each.stdout.strip() for each in told] == [versions[2]] * 2


def test_wrong_policies_are_refused(writes: dict[str, Any]) -> None:
    paths = ["own", "no_such_module:f", "json:no_such_name"]
    for wrong in ({"streams": emptiest}, {"victim": 3}, {"victim": None}, [emptiest], *({"victim": path} for path in paths)):
        with pytest.raises(byteway.InputError):
            byteway.run(writes, policies=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        byteway.run(writes, policies={"victim": lambda valid, age: "first"})
