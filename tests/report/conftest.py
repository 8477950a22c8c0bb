"""A small plan to damage."""

from __future__ import annotations

from typing import Any

import pytest

from tests import handmade


@pytest.fixture
def counting() -> dict[str, Any]:
    """A valid plan with one measure."""
    return handmade.counting()
