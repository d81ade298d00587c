"""Policies in Python: functions that decide in place of the drive's own code."""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import operator
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, TypeAlias, Union

from .errors import wrong

Policies: TypeAlias = Mapping[str, Union[Callable[..., Any], str]]
"""What decides, by the name of the decision: `{"victim": f, "stream": C, "schedule": g, "suspend": h}`; each may be an import path, `"module:f"`."""

Native: TypeAlias = tuple[str, str, str, Callable[..., Any]]
"""A policy for the native half: what it decides, name, version, and a function of plain values."""

STREAMS_MAX = 8


class VictimView(NamedTuple):
    """What a victim policy with a third argument sees beside the candidates."""

    die: int
    """Number of the die within its drive."""
    units: int
    """Units of 4 KiB of a superblock."""
    random: int
    """A number of 64 bits, the next one of the drive's own sequence, which follows from the scenario's seed."""


class Source(NamedTuple):
    """A superblock that is being emptied."""

    filled_by: str | None
    """Whose stream filled it: "host" or "collector"; None if that is not known, as with the initial contents."""
    stream: int
    """Number of that stream."""
    opened_at: int
    """When it was opened, by the drive's clock; 0 if it is not known which stream filled it."""


class StreamView(NamedTuple):
    """What a stream policy sees of a unit of 4 KiB that is to be written."""

    unit: int
    """Its number."""
    units: int
    """Units of the drive."""
    now: int
    """The drive's clock: units that the host has written since power-on, without this one."""
    last_write: int | None
    """When the host last wrote it; None if it has not, or if the policy's `needs_last_write` is not True."""
    source: Source | None
    """The superblock that it is moved from; None if the host writes it."""
    random: int
    """A number of 64 bits, the next one of the drive's own sequence."""


class Waiting(NamedTuple):
    """Operations of one priority that wait for a die."""

    priority: str
    """Their priority: "host-read", "map", "host-program", "collector" or "background", from the most urgent."""
    operations: int
    """Their number."""
    first: str
    """What the first of them does: "read", "program" or "erase". They are served in order."""
    waited_ps: int
    """For how long the first of them has waited, in picoseconds."""
    passed: int
    """More urgent operations that were served while these waited, since the last of this priority."""


class ScheduleView(NamedTuple):
    """What a schedule with a second argument sees beside what waits."""

    die: int
    """Number of the die within its drive."""
    random: int
    """A number of 64 bits, the next one of the drive's own sequence, which follows from the scenario's seed."""


class SuspendView(NamedTuple):
    """What a policy of suspension sees: an operation that holds up a read. Times are in picoseconds."""

    is_erase: bool
    """Whether it is an erase; otherwise, a program."""
    priority: str
    """Its priority, as in `Waiting`."""
    remaining_ps: int
    """Time until it would end."""
    latency_ps: int
    """Time until the die could sense."""
    resume_ps: int
    """Time that it costs to resume."""
    waited_ps: int
    """For how long the read has waited."""
    suspends: int
    """Times that it has been suspended already."""
    reads: int
    """Reads of the waiting read's priority that wait."""
    die: int
    """Number of the die within its drive."""
    random: int
    """A number of 64 bits, the next one of the drive's own sequence."""


# What Python sets itself, or what does not act.
_NOT_TOLD = {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__firstlineno__", "__static_attributes__"}


# Of a type that a Python program makes; others are in C, and their own versions.
_HEAP_TYPE = 1 << 9


def _told(value: Any, within: tuple[int, ...] = ()) -> Any:
    """What tells a piece of code from others, the same in every process: an address does not."""
    if value is None or value is ... or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    if id(value) in within:
        return "itself"
    inner = (*within, id(value))

    def told(part: Any) -> Any:
        return _told(part, inner)

    if isinstance(value, CodeType):
        names = (value.co_names, value.co_varnames, value.co_freevars)
        return (value.co_code.hex(), names, [told(part) for part in value.co_consts])
    if isinstance(value, functools.partial):
        return ("partial", told(value.func), told(value.args), told(value.keywords))
    if isinstance(value, MethodType):
        return ("method", told(value.__func__), told(value.__self__))
    if isinstance(value, FunctionType):
        cells = [told(cell.cell_contents) for cell in value.__closure__ or ()]
        return (value.__qualname__, told(value.__code__), told(value.__defaults__), told(value.__kwdefaults__), cells)
    if isinstance(value, (staticmethod, classmethod)):
        return (type(value).__name__, told(value.__func__))
    if isinstance(value, property):
        return ("property", told(value.fget))
    if isinstance(value, type):
        if not value.__flags__ & _HEAP_TYPE:
            return value.__qualname__
        own = sorted((name, repr(told(part))) for name, part in vars(value).items() if name not in _NOT_TOLD)
        return (value.__qualname__, own, [told(base) for base in value.__bases__ if base is not object])
    if isinstance(value, ModuleType):
        return ("module", value.__name__)
    if isinstance(value, (tuple, list)):
        return [told(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted(repr(told(part)) for part in value)
    if isinstance(value, Mapping):
        return sorted((repr(told(key)), repr(told(part))) for key, part in value.items())
    if callable(getattr(value, "tobytes", None)):  # An array of numpy, say.
        return (type(value).__qualname__, value.tobytes().hex())
    # An object: its class, and what it has.
    return (told(type(value)), told(getattr(value, "__dict__", None)))


def _version(function: Callable[..., Any]) -> str:
    """Tells the code of a function or class from others, with its default values and what it encloses; not what else it reads."""
    return hashlib.sha256(repr(_told(function)).encode()).hexdigest()[:16]


def _imported(path: str) -> Any:
    """What an import path names: `module:name`."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise wrong(f"the policy {path!r} is no import path", 'give "module:name", such as "my_policies:emptiest"')
    try:
        return operator.attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise wrong(f"the policy {path!r} can't be imported: {error}", "the module must be on sys.path wherever points run") from error


def _takes_view(function: Callable[..., Any], before: int = 2) -> bool:
    """Whether a function asks for the view: by an argument that it needs behind so many, or one of that name there."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # One in C need not say.
        return False
    places = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    needed = [each for each in places if each.default is each.empty]
    return len(needed) > before or any(each.name == "view" for each in places[before : before + 1])


def _victim(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    try:
        import numpy
    except ImportError as error:
        raise wrong("a victim policy gets arrays of numpy, which is not installed", "pip install numpy") from error
    with_view = _takes_view(function)

    def choose(valid: bytes, age: bytes, die: int, units: int, random: int) -> int:
        # Arrays over the bytes that the drive wrote, which nothing writes again: a function may keep them.
        valids, ages = numpy.frombuffer(valid, dtype="<u4"), numpy.frombuffer(age, dtype="<u4")
        found = function(valids, ages, VictimView(die, units, random)) if with_view else function(valids, ages)
        chosen = operator.index(found)
        if not 0 <= chosen < len(valids):
            raise IndexError(f"the victim policy {name!r} chose {chosen}, of {len(valids)} superblocks")
        return chosen

    return choose


def _stream(make: Callable[..., Any], name: str) -> Callable[..., Any]:
    help = (
        "give a class with `host` and `collector`, its numbers of streams, and `place(self, view)`; "
        "docs/tasks/write-a-policy.md has one"
    )

    def made() -> tuple[int, int, bool, Callable[..., int], Callable[..., None] | None]:
        policy = make()
        host: Any = getattr(policy, "host", None)
        collector: Any = getattr(policy, "collector", None)
        if not callable(getattr(policy, "place", None)) or type(host) is not int or type(collector) is not int:
            raise wrong(f"the stream policy {name!r} lacks `host`, `collector` or `place`", help)
        if min(host, collector) < 1 or host + collector > STREAMS_MAX:
            what = f"the stream policy {name!r} declares {host} streams of the host and {collector} of the collector"
            raise wrong(what, f"there is at least one of each, and there are at most {STREAMS_MAX} in all")

        def place(
            unit: int,
            units: int,
            now: int,
            last_write: int | None,
            source: tuple[str | None, int, int] | None,
            random: int,
        ) -> int:
            of = None if source is None else Source(*source)
            chosen = operator.index(policy.place(StreamView(unit, units, now, last_write, of, random)))
            count = host if source is None else collector
            if not 0 <= chosen < count:
                whose = "the host" if source is None else "the collector"
                raise IndexError(f"the stream policy {name!r} chose {chosen}, of the {count} streams of {whose}")
            return chosen

        told: Any = getattr(policy, "collects", None)

        def collects(filled_by: str | None, stream: int, opened_at: int, now: int) -> None:
            told(Source(filled_by, stream, opened_at), now)

        return host, collector, bool(getattr(policy, "needs_last_write", False)), place, None if told is None else collects

    return made


def _schedule(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    with_view = _takes_view(function, 1)

    def choose(waiting: list[tuple[str, int, str, int, int]], die: int, random: int) -> int:
        told = [Waiting(*each) for each in waiting]
        chosen = operator.index(function(told, ScheduleView(die, random)) if with_view else function(told))
        if not 0 <= chosen < len(told):
            raise IndexError(f"the schedule {name!r} chose {chosen}, of {len(told)} priorities that wait")
        return chosen

    return choose


def _suspend(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def suspends(
        is_erase: bool,
        priority: str,
        times: tuple[int, int, int, int],
        suspends: int,
        reads: int,
        die: int,
        random: int,
    ) -> bool:
        decided = function(SuspendView(is_erase, priority, *times, suspends, reads, die, random))
        # None is what a function returns that forgot to.
        if decided is None:
            raise TypeError(f"the policy of suspension {name!r} returned None: it returns True or False")
        return bool(decided)

    return suspends


_KINDS = {
    "victim": (_victim, "give a function of two arrays, valid and age"),
    "stream": (_stream, "give a class with `host`, `collector` and `place`"),
    "schedule": (_schedule, "give a function of a list of what waits, which returns the place of one"),
    "suspend": (_suspend, "give a function of a view, which returns True or False"),
}


def native_policies(policies: Policies | None) -> list[Native]:
    """Policies for the native half."""
    if policies is None:
        return []
    if not isinstance(policies, Mapping):
        raise wrong(f"policies of type {type(policies).__name__}", 'give a dictionary: {"victim": function}')
    found = []
    for kind, given in policies.items():
        if kind not in _KINDS:
            raise wrong(f"there is no policy {kind!r}", f"there are {', '.join(map(repr, _KINDS))}")
        wrap, help = _KINDS[kind]
        policy = _imported(given) if isinstance(given, str) else given
        if not callable(policy):
            raise wrong(f"the {kind} policy is of type {type(policy).__name__}", help)
        name = str(getattr(policy, "__name__", type(policy).__name__))
        found.append((kind, name, _version(policy), wrap(policy, name)))
    return found


def paths_only(policies: Policies | None) -> dict[str, str] | None:
    """Policies for other processes, which can only import them."""
    if policies is None:
        return None
    for kind, given in policies.items():
        if not isinstance(given, str):
            what = f"the {kind} policy is an object of this process, and points run in others"
            raise wrong(what, 'give its import path, such as {"victim": "my_policies:emptiest"}, or leave `executor` out')
    return {kind: str(given) for kind, given in policies.items()}
