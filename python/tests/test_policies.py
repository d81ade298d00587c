"""Policies in Python: what they choose is what the run does, and what goes wrong in one ends it."""

from __future__ import annotations

import functools
import subprocess
import sys
import traceback
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
    versions = [_version(function) for function in made]
    assert len(set(versions)) == len(versions)
    assert [_version(of(text)) for text in texts] == versions[: len(texts)]
    code = f"import byteway._policies as p\nn = {{}}\nexec({texts[2]!r}, n)\nprint(p._version(n['f']))"
    told = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert [each.stdout.strip() for each in told] == [versions[2]] * 2


def test_wrong_policies_are_refused(writes: dict[str, Any]) -> None:
    for wrong in ({"stream": emptiest}, {"victim": 3}, {"victim": None}, [emptiest]):
        with pytest.raises(byteway.InputError):
            byteway.run(writes, policies=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        byteway.run(writes, policies={"victim": lambda valid, age: "first"})
