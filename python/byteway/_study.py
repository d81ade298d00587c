"""Comparisons, thresholds, and papers measured again."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, Union

from . import _native
from ._html import frame
from ._policies import Policies, native_policies
from ._progress import Display, Progress
from ._run import stopped
from ._scenario import Overrides, ScenarioLike, native, toml_value
from ._table import pandas_frame, polars_frame
from .errors import replicates, worker_count, wrong

Vary: TypeAlias = Union[Mapping[str, Union[str, Iterable[Any]]], Iterable[str]]
"""Keys and their values: `{"iodepth": [1, 4, 16], "bs": "4 KiB..64 KiB x2"}`. A string is a range, or values separated by commas; or
give flags as `byteway compare --vary` takes them: `["iodepth=1..256x2"]`."""


def _value(item: Any) -> str:
    # A comma separates values, unless it is quoted.
    is_plain = isinstance(item, str) and not any(letter in item for letter in ',"\'\\[]{}\n')
    return item if is_plain else toml_value(item)


def _values(items: str | Iterable[Any]) -> str:
    return items if isinstance(items, str) else ",".join(_value(item) for item in _list(items))


def _constants(sensitivity: bool | Iterable[str]) -> str | None:
    """The constants to try: an empty text for all that are assumed."""
    if isinstance(sensitivity, bool):
        return "" if sensitivity else None
    if isinstance(sensitivity, str):
        return sensitivity
    keys = list(sensitivity) if isinstance(sensitivity, Iterable) else [sensitivity]
    if not all(isinstance(key, str) for key in keys):
        raise wrong(f"constants to try: {keys!r}", 'give True, or keys: ["controller.fetch_burst"]')
    return ",".join(keys) if keys else None


def _listed(vary: Vary) -> Vary:
    """The same with a list for each key that has values: iterators can be read only once."""
    if not isinstance(vary, Mapping):
        return vary
    return {key: items if isinstance(items, str) else _list(items) for key, items in vary.items()}


def _list(items: Any) -> list[Any]:
    # A single value is a list of one.
    return list(items) if isinstance(items, Iterable) else [items]


def _own_values(key: Mapping[str, Any], given: Any) -> list[Any]:
    """The values of a key as they were given; of a range, numbers without a unit. Values of several types are texts, since no frame has a
    column of them."""
    labels = list(key["values"])
    if isinstance(given, list) and len(given) == len(labels):
        types = {float if type(value) is int else type(value) for value in given}
        return given if len(types) == 1 else labels
    if key["numbers"] is None or key["unit"]:
        return labels
    return [int(label) if label.isdecimal() else number for label, number in zip(labels, key["numbers"])]


def _vary_list(vary: Vary) -> list[str]:
    if isinstance(vary, Mapping):
        return [f"{key}={_values(items)}" for key, items in vary.items()]
    if isinstance(vary, str):
        return [vary]
    items = list(vary) if isinstance(vary, Iterable) else [vary]
    for item in items:
        if not isinstance(item, str):
            help = 'give a dictionary of keys and their values: {"iodepth": [1, 4, 16]}'
            raise wrong(f"values to vary of type {type(item).__name__}", help)
    return items


class Comparison:
    """A comparison of all combinations of some values."""

    def __init__(self, native: _native.Comparison, vary: Vary = ()) -> None:
        self._native = native
        self._vary: Mapping[str, Any] = vary if isinstance(vary, Mapping) else {}

    @cached_property
    def data(self) -> dict[str, Any]:
        """The content of `compare.json`: keys, points with their figures, findings."""
        loaded: dict[str, Any] = json.loads(self._native.json())
        return loaded

    @property
    def partial(self) -> bool:
        """Whether points are missing, because the comparison was interrupted."""
        return bool(self.data["partial"])

    @property
    def findings(self) -> list[str]:
        """What the points say: knees, crossovers, the best point; in words, the most telling first."""
        return [finding["text"] for finding in self.data["findings"]]

    @property
    def points(self) -> list[dict[str, Any]]:
        """A dictionary for each point: its values by key (as they were given, or numbers where a range has no unit), its status, and its
        figures (None where a point failed). Of several replicates the figures are means, and the half widths of their 95 % intervals
        follow, as `iops_half_width` and so on."""
        own = {key: dict(zip(labels, values)) for key, labels, values in self._values()}
        rows = []
        for point in self.data["points"]:
            row = {key: own[key][label] for key, label in point["values"].items()}
            row["status"] = point["status"]
            row.update(point["figures"] or {})
            row.update({f"{key}_half_width": half for key, half in (point.get("half_widths") or {}).items()})
            rows.append(row)
        return rows

    def _values(self) -> list[tuple[str, list[str], list[Any]]]:
        """Each key with the labels of its values, and the values."""
        keys = self.data["keys"]
        return [(key["key"], key["values"], _own_values(key, self._vary.get(key["key"]))) for key in keys]

    def _words(self) -> dict[str, list[str]]:
        """The keys whose values are texts, with those in their order: "32 B" is less than "128 B"."""
        return {key: values for key, _, values in self._values() if all(isinstance(value, str) for value in values)}

    def to_polars(self) -> Any:
        """The points as a polars data frame. Texts among the varied values are an `Enum` in the order of the values."""
        return polars_frame(self.points, self._words())

    def to_pandas(self) -> Any:
        """The points as a pandas data frame. Texts among the varied values are an ordered category."""
        return pandas_frame(self.points, self._words())

    def to_csv(self) -> str:
        """The content of `compare.csv`."""
        return self._native.csv()

    def to_json(self) -> str:
        """The content of `compare.json`."""
        return self._native.json()

    def report(self) -> str:
        """The report with its charts, as one HTML page."""
        return self._native.report()

    def __str__(self) -> str:
        return self._native.text()

    def __repr__(self) -> str:
        keys = ", ".join(key["key"] for key in self.data["keys"])
        return f"<byteway.Comparison of {self.data['scenario']!r} over {keys}: {len(self.data['points'])} points>"

    def _repr_html_(self) -> str:
        return frame(self.report(), f"Comparison of {self.data['scenario']}")


def compare(
    scenario: ScenarioLike,
    vary: Vary,
    overrides: Overrides = None,
    *,
    baseline: str | Mapping[str, Any] | None = None,
    metric: str | None = None,
    repeat: int = 1,
    sensitivity: bool | Iterable[str] = False,
    out: str | os.PathLike[str] | None = None,
    fresh: bool = False,
    jobs: int | None = None,
    defines: Mapping[str, str] | None = None,
    skip_bad_lines: bool = False,
    policies: Policies | None = None,
    progress: Progress = None,
) -> Comparison:
    """Runs a scenario for every combination of values, several at once, and compares the results.

    Args:
        scenario: as for `run`.
        vary: keys and their values; the first key varies slowest.
        overrides: as for `run`, in every point.
        baseline: values of the points to compare with: `{"method": "prp"}`; the first point if left out.
        metric: the figure shown first, such as "p99_ns".
        repeat: number of runs of each point with different seeds, the first of which is the scenario's own. Figures are then means, with
            the half widths of their 95 % intervals, and findings are stated only where intervals part.
        sensitivity: `True` runs the comparison again with other values of each constant that the profiles assume, one at a time; keys, of
            those constants: `["controller.fetch_burst"]`. `data["sensitivity"]` says which findings change.
        out: a folder for the results. The same call with the same folder resumes: only points without results run.
        fresh: run all points, also those with results in `out`.
        jobs: points that run at once; one for each processor if left out. The results do not depend on it.
        policies: as for `run`, in every point.
        progress: `True` for a bar, or a function.

    Raises:
        InputError: the scenario or a value is invalid; nothing was run.
        Interrupted: Ctrl-C; its `result` is the partial `Comparison`.
    """
    made, own = native(scenario, overrides, defines, skip_bad_lines), native_policies(policies)
    vary = _listed(vary)
    if isinstance(baseline, Mapping):
        baseline = ",".join(f"{key}={value}" for key, value in baseline.items())
    folder = None if out is None else Path(out)
    with Display(progress, "points") as function:
        varies, tried, threads = _vary_list(vary), _constants(sensitivity), worker_count(jobs)
        found, by = _native.compare(
            made, varies, baseline, metric, replicates(repeat), tried, folder, fresh, threads, function, own
        )
    result = Comparison(found, vary)
    if by is not None:
        stopped(by, result)
    return result


def threshold(scenario: ScenarioLike, overrides: Overrides = None) -> dict[str, str]:
    """Measures tau of adaptive transfer: for each fine-grained method of the drive, the payload size from which PRPs are as fast.

    Args:
        scenario: with payloads of one size to a payload sink, such as scenarios/small-payloads.toml.
        overrides: as for `run`.

    Returns:
        Sizes with their units by method, as the section `[transfer.threshold]` of a profile.

    Raises:
        InputError: the scenario has no payloads of one size.
        Interrupted: Ctrl-C; its `result` has the methods measured so far.
    """
    text, by = _native.threshold(native(scenario, overrides))
    found: dict[str, str] = tomllib.loads(text).get("transfer", {}).get("threshold", {})
    if by is not None:
        stopped(by, found)
    return found


@dataclass(frozen=True)
class Paper:
    """A paper whose claims can be measured."""

    name: str
    about: str


def papers() -> list[Paper]:
    """The papers whose claims can be measured again."""
    return [Paper(name, about) for name, about in _native.papers()]


class Reproduction:
    """The claims of a paper, measured again."""

    def __init__(self, native: _native.Reproduction) -> None:
        self._native = native

    @cached_property
    def data(self) -> dict[str, Any]:
        """The content of `reproduce.json`."""
        loaded: dict[str, Any] = json.loads(self._native.json())
        return loaded

    @property
    def claims(self) -> list[dict[str, Any]]:
        """The claims, each with what the paper says, what was measured, and the verdict."""
        claims: list[dict[str, Any]] = self.data["claims"]
        return claims

    @property
    def partial(self) -> bool:
        """Whether points are missing, because it was interrupted."""
        return bool(self.data["partial"])

    def to_json(self) -> str:
        """The content of `reproduce.json`."""
        return self._native.json()

    def report(self) -> str:
        """The report with the paper's figures, as one HTML page."""
        return self._native.report()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes reproduce.json and report.html to `folder`, which is created if necessary."""
        self._native.save(Path(folder))

    def __str__(self) -> str:
        return self._native.text()

    def __repr__(self) -> str:
        return f"<byteway.Reproduction of {self.data['paper']!r}: {len(self.claims)} claims>"

    def _repr_html_(self) -> str:
        return frame(self.report(), f"Reproduction of {self.data['paper']}")


def reproduce(
    paper: str,
    *,
    payloads: int | None = None,
    full: bool = False,
    claims: str | os.PathLike[str] | None = None,
    figures: bool = True,
    jobs: int | None = None,
    progress: Progress = None,
) -> Reproduction:
    """Measures the claims of a paper again; minutes, unless `payloads` is small.

    Args:
        paper: its name, of those that `papers` lists.
        payloads: payloads or PUTs per point, instead of the paper's default.
        full: a million PUTs per point of a key-value drive, as in the papers.
        claims: a file of claims, instead of the built-in ones.
        figures: also run the points of the paper's figures that belong to no claim.
        jobs: points that run at once. The results do not depend on it.
        progress: `True` for a bar, or a function.

    Raises:
        InputError: there is no such paper, or its claims file is wrong.
        Interrupted: Ctrl-C; its `result` is the partial `Reproduction`.
    """
    file = None if claims is None else Path(claims)
    with Display(progress, "points") as function:
        found, by = _native.reproduce(paper, payloads, full, file, figures, worker_count(jobs), function)
    result = Reproduction(found)
    if by is not None:
        stopped(by, result)
    return result
