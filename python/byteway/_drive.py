"""What drives that stay attached have in common."""

from __future__ import annotations

import atexit
import os
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeVar


class _Native(Protocol):
    def close(self) -> None: ...


Self = TypeVar("Self", bound="Drive")

# By identity: a key-value drive compares as a mapping, by its content.
_open: weakref.WeakValueDictionary[int, Drive] = weakref.WeakValueDictionary()


@atexit.register
def _close_all() -> None:
    for drive in list(_open.values()):
        drive.close()


def location(
    vfio_user: str | os.PathLike[str] | None,
    device: str | os.PathLike[str] | None,
    data: str | os.PathLike[str] | None,
    profile: str,
    capacity: str,
    method: str,
    namespace: int | None,
    read_only: bool,
) -> dict[str, Any]:
    """Where a drive is, for the native half."""

    def path(name: str | os.PathLike[str] | None) -> Path | None:
        return None if name is None else Path(name)

    return {
        "vfio_user": path(vfio_user),
        "device": path(device),
        "data": path(data),
        "profile": profile,
        "capacity": capacity,
        "method": method,
        "namespace": namespace,
        "read_only": read_only,
    }


class Drive:
    """A drive that stays attached until it is closed. Use it in a `with` block."""

    def __init__(self, native: _Native) -> None:
        self._closing = native
        _open[id(self)] = self

    def close(self) -> None:
        """Shuts the drive down. What was stored in a data directory is durable then. Closing twice does nothing."""
        _open.pop(id(self), None)
        self._closing.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
