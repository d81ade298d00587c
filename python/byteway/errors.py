"""Exceptions of this package. Each message ends with its help."""

from __future__ import annotations

import operator
from typing import Any


class Error(Exception):
    """Base of all errors of this package."""


class InputError(Error, ValueError):
    """Invalid input: a scenario, override, path, trace or query that cannot be used. Nothing was run."""

    what: str
    """What is wrong, with the key and the value."""
    help: str
    """How to fix it."""
    file: str | None
    """The file or argument with the mistake, if it has a place."""
    line: int | None
    """Line in it, from 1."""
    column: int | None
    """Column in it, from 1, in characters."""

    def __init__(
        self,
        text: str,
        *,
        what: str | None = None,
        help: str = "",
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(text)
        self.what = text if what is None else what
        self.help = help
        self.file = file
        self.line = line
        self.column = column

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions of worker processes are pickled; the default forgets keyword arguments.
        about = {name: getattr(self, name) for name in ("what", "help", "file", "line", "column")}
        return (_input_error, (str(self), about))


def wrong(what: str, help: str) -> InputError:
    """The error for invalid arguments."""
    return InputError(f"{what}\n  help: {help}", what=what, help=help)


def whole(name: str, number: Any) -> int:
    """An argument that is a whole number, also one of NumPy."""
    try:
        return operator.index(number)
    except TypeError:
        raise wrong(f"{name}={number!r} is no whole number", f"give a whole number, such as {name}=1") from None


def replicates(repeat: Any) -> int:
    """The argument `repeat`, if it is a number of runs of which there can be so many."""
    count = whole("repeat", repeat)
    if 1 <= count <= 1000:
        return count
    raise wrong(f"repeat={count}: there cannot be so many replicates", "give a whole number from 1, for a single run, to 1000")


def worker_count(jobs: int | None) -> int | None:
    """The argument `jobs`, if it is a number of workers or left out."""
    if jobs is None or 1 <= whole("jobs", jobs) <= 1024:
        return None if jobs is None else whole("jobs", jobs)
    raise wrong(f"jobs={jobs!r} is no number of workers", "give a whole number from 1 to 1024, or leave it out: one for each processor")


def _input_error(text: str, about: dict[str, Any]) -> InputError:
    return InputError(text, **about)


class RunError(Error, RuntimeError):
    """A run failed: the scenario is valid, but its drive or a job could not do what it asks."""


class DriveError(Error, RuntimeError):
    """A drive refused a request, or its data directory failed."""


class DriveGoneError(DriveError, ConnectionError):
    """The process that serves the drive has gone."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during long work. Like `KeyboardInterrupt`, it is not an `Exception`."""

    result: Any
    """The partial result, or None if there is none."""

    def __init__(self, text: str = "interrupted", *, result: Any = None) -> None:
        super().__init__(text)
        self.result = result


def missing(package: str, purpose: str, extra: str) -> Error:
    """The error for a package that is not installed."""
    help = f"pip install '{package}', or 'byteway[{extra}]'"
    return Error(f"{purpose} needs the package `{package}`, which is not installed\n  help: {help}")
