"""Reports in notebooks."""

from __future__ import annotations

import html


def frame(page: str, title: str) -> str:
    """A page in a frame of its own, so that its styles and scripts meet nothing of the notebook."""
    source = html.escape(page, quote=True)
    style = "width: 100%; height: 720px; border: 1px solid #8886"
    return f'<iframe title="{html.escape(title, quote=True)}" style="{style}" srcdoc="{source}"></iframe>'
