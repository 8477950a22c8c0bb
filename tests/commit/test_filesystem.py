"""The file system of the process: durable writes, also after a fork."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from substrait_agg.files.filesystem import filesystem


def _sync(folder: str) -> bool:
    filesystem().sync_all([Path(folder)] * 2)
    return True


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_flushes_with_threads_of_its_own(tmp_path: Path) -> None:
    """The threads of the parent do not exist there; it would wait for them forever."""
    assert _sync(str(tmp_path))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_sync, (str(tmp_path),)).get(30)
