"""Key-value drives, used like a dictionary."""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from typing import TypeAlias, Union

from . import _native
from ._drive import Drive, location
from .errors import wrong

__all__ = ["KvDrive", "open"]

Key: TypeAlias = Union[bytes, str]
"""A key of 1 to 16 bytes; a string stands for its UTF-8 bytes."""

_PART = 512
"""Keys of one request while iterating."""


def _bytes(text: bytes | bytearray | memoryview | str) -> bytes:
    if isinstance(text, str):
        return text.encode(errors="surrogateescape")
    if isinstance(text, (bytes, bytearray, memoryview)):
        return bytes(text)
    # bytes(5) is five zeros.
    raise wrong(f"a key or value of type {type(text).__name__}", "give bytes or a string, such as str(5)")


class KvDrive(Drive, MutableMapping[Key, bytes]):
    """A key-value drive as a mutable mapping from keys to values.

    Keys come back as `bytes`, in the drive's order. `len()` counts by listing all keys. Stored pairs are durable after `flush()` or
    `close()`.
    """

    def __init__(self, native: _native.KvDrive) -> None:
        super().__init__(native)
        self._native = native

    def __getitem__(self, key: Key) -> bytes:
        value = self._native.get(_bytes(key))
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Key, value: bytes | str) -> None:
        self._native.put(_bytes(key), _bytes(value), None)

    def __delitem__(self, key: Key) -> None:
        if not self._native.delete(_bytes(key)):
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, (bytes, str)) and self._native.exists(_bytes(key))

    def __iter__(self) -> Iterator[Key]:
        return self.scan()

    def __len__(self) -> int:
        return sum(1 for _ in self.scan())

    def scan(self, first: Key | None = None) -> Iterator[Key]:
        """Keys in the drive's order, from `first` on. Keys stored meanwhile may be missing."""
        start = None if first is None else _bytes(first)
        last: bytes | None = None
        while True:
            part = self._native.keys(start, _PART)
            for key in part:
                if key != last:
                    yield key
            if len(part) < _PART:
                return
            start = last = part[-1]

    def put(self, key: Key, value: bytes | str, *, if_exists: bool = False, if_absent: bool = False) -> bool:
        """Stores a value; returns whether its condition held.

        Args:
            key: 1 to 16 bytes.
            value: its bytes; a string stands for its UTF-8 bytes.
            if_exists: store only if the key exists.
            if_absent: store only if the key does not exist.
        """
        if if_exists and if_absent:
            raise wrong("if_exists and if_absent are both given", "give one of them")
        condition = "exists" if if_exists else "absent" if if_absent else None
        return self._native.put(_bytes(key), _bytes(value), condition)

    def flush(self) -> None:
        """Makes everything stored so far durable."""
        self._native.flush()

    def __repr__(self) -> str:
        return "<byteway.kv.KvDrive>"


def open(
    *,
    vfio_user: str | os.PathLike[str] | None = None,
    device: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    profile: str = "cosmos-plus",
    capacity: str = "4 GiB",
    method: str = "prp",
    namespace: int | None = None,
    read_only: bool = False,
) -> KvDrive:
    """Attaches to a key-value drive: a served one, one in a directory, or else a simulated one in memory.

    Args:
        vfio_user: the folder of a served drive's socket, as passed to `byteway serve --vfio-user`.
        device: the device file of a drive whose data is in `data`.
        data: the directory of its data, created if necessary.
        profile: of a simulated drive: a built-in profile, or the path of one.
        capacity: of a simulated drive.
        method: transfer method of values: "prp", "inline", "piggyback", "adaptive", ...
        namespace: the namespace; the first KV namespace if left out.
        read_only: change nothing; a data directory can then be on a full or read-only disk.

    Raises:
        InputError: there is no such drive or namespace.
        DriveError: the drive cannot be used.
    """
    place = location(vfio_user, device, data, profile, capacity, method, namespace, read_only)
    return KvDrive(_native.KvDrive(place))
