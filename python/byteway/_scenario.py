"""Scenarios as Python gives them: a path, a text of TOML, a dictionary, or builders."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, Union

from . import _native
from ._decode import encode
from .errors import wrong
from .sections import Scenario

ScenarioLike: TypeAlias = Union[str, "os.PathLike[str]", Mapping[str, Any], Scenario]
"""A path, a text of TOML (a string with a line break or an equals sign), a dictionary, or a `Scenario`."""

Overrides: TypeAlias = Union[Mapping[str, Any], Iterable[str], None]
"""Keys that are replaced or added, by their dotted paths: `{"job.0.iodepth": 16}`, or `["job.0.iodepth=16"]`."""


def toml_value(value: Any) -> str:
    """A value as TOML, for overrides and lists of values."""
    try:
        value = encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise wrong(f"a value has no form in TOML: {error}", "use strings, numbers, booleans, lists and dictionaries") from error
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml_value(item)}" for key, item in value.items()) + "}"
    what = f"a value of type {type(value).__name__} has no form in TOML"
    raise wrong(what, "use strings, integers, floats, booleans, lists and dictionaries")


def override_list(overrides: Overrides) -> list[str]:
    """Overrides in the form of `--set`."""
    if overrides is None:
        return []
    if isinstance(overrides, str):
        return [overrides]
    if isinstance(overrides, Mapping):
        return [f"{key}={toml_value(value)}" for key, value in overrides.items()]
    items = list(overrides) if isinstance(overrides, Iterable) else [overrides]
    for item in items:
        if not isinstance(item, str):
            help = 'give a dictionary by dotted paths, {"job.0.iodepth": 16}, or a list of texts, ["job.0.iodepth=16"]'
            raise wrong(f"an override of type {type(item).__name__}", help)
    return items


def native(
    scenario: ScenarioLike,
    overrides: Overrides = None,
    defines: Mapping[str, str] | None = None,
    skip_bad_lines: bool = False,
) -> _native.Scenario:
    """The scenario for the native half."""
    sets = override_list(overrides)
    if defines is not None and not isinstance(defines, Mapping):
        raise wrong(f"defines of type {type(defines).__name__}", 'give a dictionary: {"DRIVE": "/dev/nvme0n1"}')
    names = [f"{name}={value}" for name, value in (defines or {}).items()]
    if isinstance(scenario, str) and ("\n" in scenario or "=" in scenario):
        return _native.Scenario.text("scenario", scenario, sets, names, skip_bad_lines)
    if isinstance(scenario, (str, os.PathLike)):
        return _native.Scenario.file(Path(scenario), sets, names, skip_bad_lines)
    if isinstance(scenario, (Mapping, Scenario)):
        try:
            text = json.dumps(encode(scenario), allow_nan=True)
        except (TypeError, ValueError, RecursionError) as error:
            what = f"the dictionary is no scenario: {error}"
            help = "use only what TOML has: strings, integers, floats, booleans, lists and dictionaries"
            raise wrong(what, help) from error
        name = str(encode(scenario).get("name", "scenario"))
        return _native.Scenario.json(name, text, sets, names, skip_bad_lines)
    help = "give a path, a text of TOML, a dictionary, or a byteway.Scenario"
    raise wrong(f"a scenario of type {type(scenario).__name__}", help)
