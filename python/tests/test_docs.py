"""The examples of README and documentation run as they stand."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

import byteway

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "python/README.md", "docs/python.md"]


def blocks(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run_in_order(page: str) -> None:
    pytest.importorskip("polars")
    code = "\n".join(blocks(page))
    assert code, f"{page} has no example"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=300)


def test_the_example_of_the_package_is_true() -> None:
    found = doctest.testmod(byteway)
    assert found.attempted >= 3 and found.failed == 0


def test_everything_public_is_documented() -> None:
    for name in byteway.__all__:
        if not name.startswith("__"):
            assert getattr(byteway, name).__doc__, name
