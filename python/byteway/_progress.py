"""Progress of long work: a function, or a bar of tqdm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, Union

from .errors import wrong

ProgressFunction: TypeAlias = Callable[[int, "int | None", int], object]
Progress: TypeAlias = Union[ProgressFunction, bool, None]
"""Progress display: `True` for a bar (of tqdm, if it is installed), or a function that is called some 20 times a second with the
position, its end (None if that is unknown), and the number of I/Os, records or points so far. An exception in it ends the work."""


class _Bar:
    def __init__(self, unit: str) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            self._bar: Any = None
        else:
            self._bar = tqdm(unit=f" {unit}", unit_scale=True, leave=False)

    def __call__(self, position: int, total: int | None, counted: int) -> None:
        if self._bar is None:
            return
        if self._bar.total != total:
            self._bar.total = total
            self._bar.refresh()
        self._bar.update(position - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


class Display:
    """The function for the native half, for as long as the work lasts."""

    def __init__(self, progress: Progress, unit: str) -> None:
        self._bar = _Bar(unit) if progress is True else None
        self.function: ProgressFunction | None = self._bar if progress is True else progress or None
        if self.function is not None and not callable(self.function):
            raise wrong(f"progress={progress!r}", "give True for a bar, or a function of three arguments")

    def __enter__(self) -> ProgressFunction | None:
        return self.function

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
