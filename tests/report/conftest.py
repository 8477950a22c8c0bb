"""A small plan to spoil."""

from __future__ import annotations

from typing import Any

import pytest

from tests import handmade


@pytest.fixture
def counting() -> dict[str, Any]:
    """A plan with one measure and nothing wrong."""
    return handmade.counting()
