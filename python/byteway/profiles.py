"""The built-in profiles of drives, hosts and networks."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from . import _native

__all__ = ["drives", "hosts", "load", "networks", "schema", "show"]


def _all() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(_native.profiles())
    return found


def drives() -> list[dict[str, Any]]:
    """Drives: name, link, capacity, dies, page, latencies."""
    return _all()["drives"]


def hosts() -> list[dict[str, Any]]:
    """Hosts: name, completion method, costs."""
    return _all()["hosts"]


def networks() -> list[dict[str, Any]]:
    """Networks: name, transport, rate, costs."""
    return _all()["networks"]


def show(name: str) -> str:
    """A profile as TOML, each constant with its source: a base for a profile of one's own.

    Raises:
        InputError: there is no such profile.
    """
    return _native.profile_show(name)


def load(name: str) -> dict[str, Any]:
    """A profile as a dictionary.

    Raises:
        InputError: there is no such profile.
    """
    return tomllib.loads(show(name))


def schema(of: str = "scenario") -> dict[str, Any]:
    """The JSON schema of a file: "scenario", "device", "profile", "host", "network" or "summary".

    Raises:
        KeyError: there is no such schema.
    """
    text = _native.schema(of)
    if text is None:
        raise KeyError(of)
    found: dict[str, Any] = json.loads(text)
    return found
