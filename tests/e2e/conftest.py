"""What the end-to-end tests share: the stream of lineitem changes."""

from __future__ import annotations

import pytest

from tests.e2e.lineitem import Stream, make_stream


@pytest.fixture(scope="session")
def lineitem(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    """20 files of changes of lineitem."""
    return make_stream(tmp_path_factory.mktemp("lineitem"))
