"""What the tests share."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

# A shell starts what runs in the background with SIGINT ignored; Python then raises no KeyboardInterrupt, and tests of Ctrl-C would wait for
# the end of what they interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def reads() -> dict[str, Any]:
    """A short run of random reads."""
    return {
        "drive": {"profile": "samsung-970-pro", "precondition": "filled"},
        "job": [{"name": "reads", "rw": "randread", "bs": "4 KiB", "iodepth": 8, "count": 4000}],
    }


@pytest.fixture
def endless(reads: dict[str, Any]) -> dict[str, Any]:
    """A run that takes many minutes, for interruptions."""
    reads["job"][0].pop("count")
    reads["job"][0]["runtime"] = "1 h"
    return reads


@pytest.fixture
def scenarios() -> Path:
    return ROOT / "scenarios"
