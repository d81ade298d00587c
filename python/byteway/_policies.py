"""Policies in Python: functions that decide in place of the drive's own code."""

from __future__ import annotations

import functools
import hashlib
import operator
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any, TypeAlias

from .errors import wrong

Policies: TypeAlias = Mapping[str, Callable[..., Any]]
"""A function for each decision, by its name: `{"victim": f}`."""


def _told(value: Any) -> Any:
    """What tells a piece of code from others, the same in every process: an address does not."""
    if isinstance(value, CodeType):
        names = (value.co_names, value.co_varnames, value.co_freevars)
        return (value.co_code.hex(), names, [_told(part) for part in value.co_consts])
    if isinstance(value, functools.partial):
        return ("partial", _told(value.func), _told(value.args), _told(sorted(value.keywords.items())))
    if isinstance(value, MethodType):
        return ("method", _told(value.__func__), type(value.__self__).__qualname__)
    if isinstance(value, FunctionType):
        cells = [_told(cell.cell_contents) for cell in value.__closure__ or ()]
        return (value.__qualname__, _told(value.__code__), _told(value.__defaults__), _told(value.__kwdefaults__), cells)
    if isinstance(value, (tuple, list)):
        return [_told(part) for part in value]
    if isinstance(value, frozenset):
        return sorted(repr(part) for part in value)
    if value is None or value is ... or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    if callable(value) and isinstance(getattr(type(value), "__call__", None), FunctionType):
        return (type(value).__qualname__, _told(type(value).__call__))
    return type(value).__qualname__


def _version(function: Callable[..., Any]) -> str:
    """Tells the code of a function from others, with its default values and what it encloses; not what else it reads."""
    return hashlib.sha256(repr(_told(function)).encode()).hexdigest()[:16]


def victim_of(policies: Policies | None) -> tuple[str, str, Callable[[bytes, bytes], int]] | None:
    """The victim policy for the native half: name, version, and a function of bytes."""
    if policies is None:
        return None
    if not isinstance(policies, Mapping):
        raise wrong(f"policies of type {type(policies).__name__}", 'give a dictionary: {"victim": function}')
    unknown = [key for key in policies if key != "victim"]
    if unknown:
        raise wrong(f"there is no policy {unknown[0]!r}", 'the only one so far is "victim"')
    if not policies:
        return None
    function = policies["victim"]
    if not callable(function):
        raise wrong(f"the victim policy is of type {type(function).__name__}", "give a function of two arrays, valid and age")
    try:
        import numpy
    except ImportError as error:
        raise wrong("a policy gets arrays of numpy, which is not installed", "pip install numpy") from error
    name = str(getattr(function, "__name__", type(function).__name__))

    def choose(valid: bytes, age: bytes) -> int:
        # Arrays over the bytes that the drive wrote, which nothing writes again: a function may keep them.
        valids, ages = numpy.frombuffer(valid, dtype="<u4"), numpy.frombuffer(age, dtype="<u4")
        chosen = operator.index(function(valids, ages))
        if not 0 <= chosen < len(valids):
            raise IndexError(f"the victim policy {name!r} chose {chosen}, of {len(valids)} superblocks")
        return chosen

    return name, _version(function), choose
