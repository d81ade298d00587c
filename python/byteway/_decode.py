"""From JSON to the generated dataclasses, and back."""

from __future__ import annotations

import dataclasses
import functools
import os
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return decode(hint, value)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return next((_value(kind, value) for kind in arguments if kind is not type(None)), value)
    if origin is list:
        return [_value(arguments[0], item) for item in value]
    if hint is float:
        return float(value)
    return value


def decode(cls: type[T], data: Mapping[str, Any]) -> T:
    """A dataclass from a JSON object. Keys of newer versions are ignored."""
    # `T` says nothing of hashing, but every class can be.
    hints: dict[str, Any] = _hints(typing.cast("typing.Hashable", cls))
    known = {name: _value(hint, data[name]) for name, hint in hints.items() if name in data}
    return cls(**known)


def encode(value: Any) -> Any:
    """Plain values for JSON: dataclasses become dictionaries without their unset fields, paths become strings."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {name: encode(item) for name, item in pairs if item is not None}
    if isinstance(value, Mapping):
        return {str(name): encode(item) for name, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        # A NumPy scalar or array, of which parameter studies are full.
        return value.tolist() if hasattr(value, "tolist") else value.item()
    return value
