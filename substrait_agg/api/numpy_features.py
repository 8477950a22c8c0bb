"""The instructions that numpy uses, which it reads from the environment when it is imported."""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from importlib.util import find_spec
from pathlib import Path

DISABLED = "NPY_DISABLE_CPU_FEATURES"
AVX512 = "X86_V4"
_CPUS = Path("/proc/cpuinfo")
_ZEN_4 = re.compile(
    r"^vendor_id\s*: AuthenticAMD$.*^cpu family\s*: 25$.*^flags\s*:.* avx512f ", re.M | re.S
)
_FIRST_CPU = 1 << 13  # characters that have all lines of the first processor
_NAMED_SINCE = (2, 4)
"""The first numpy that names its features by the levels of x86-64."""


def avoid_slow_sorts(
    environment: MutableMapping[str, str] = os.environ,
    cpus: Path = _CPUS,
    numpy: Path | None = None,
) -> None:
    """Have numpy sort with AVX2 on processors whose AVX-512 makes its sorts five times as slow.

    These are AMD's Zen 4: they execute the instruction that stores selected numbers, of which the
    sorts consist, as a slow program of their own. The choice holds for a numpy that is imported
    later, here and in child processes such as Python workers. A choice of the user stays.

    Args:
        environment: variables of the process.
        cpus: describes the processors.
        numpy: folder of numpy; None for the installed one.
    """
    if (
        DISABLED not in environment
        and _is_zen_4(cpus)
        and _names_levels(numpy or _find_installed())
    ):
        environment[DISABLED] = AVX512


def _is_zen_4(cpus: Path) -> bool:
    try:
        with cpus.open(errors="replace") as lines:
            return _ZEN_4.search(lines.read(_FIRST_CPU)) is not None
    except OSError:
        return False  # not Linux


def _find_installed() -> Path | None:
    spec = find_spec("numpy")
    return Path(spec.origin).parent if spec and spec.origin else None


def _names_levels(numpy: Path | None) -> bool:
    """Return whether numpy is a released wheel that knows the name of the feature.

    A numpy that is compiled for one processor refuses to be imported without its features.
    """
    if numpy is None or not numpy.with_name("numpy.libs").is_dir():
        return False
    try:
        version = re.search(r'^version = "(\d+)\.(\d+)', (numpy / "version.py").read_text(), re.M)
    except OSError:
        return False
    return version is not None and tuple(map(int, version.groups())) >= _NAMED_SINCE
