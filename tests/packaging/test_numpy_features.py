"""The command has numpy sort with AVX2 on Zen 4, and as it likes elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from substrait_agg.api.numpy_features import AVX512, DISABLED, avoid_slow_sorts


def processors(path: Path, vendor: str, family: int, *flags: str) -> Path:
    one = f"vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: 17\nflags\t\t: fpu {' '.join(flags)} sha\n\n"
    path.write_text("".join(f"processor\t: {number}\n{one}" for number in range(3)))
    return path


def numpy(path: Path, version: str = "2.4.6", *, wheel: bool = True) -> Path:
    folder = path / "numpy"
    folder.mkdir()
    (folder / "version.py").write_text(f'"""Versions."""\nversion = "{version}"\n')
    if wheel:
        (path / "numpy.libs").mkdir()
    return folder


def disabled(cpus: Path, folder: Path, **environment: str) -> str | None:
    avoid_slow_sorts(environment, cpus, folder)
    return environment.get(DISABLED)


@pytest.mark.parametrize(
    ("vendor", "family", "flags", "expected"),
    [
        ("AuthenticAMD", 25, ("avx2", "avx512f"), AVX512),
        ("AuthenticAMD", 25, ("avx2",), None),  # Zen 3
        ("AuthenticAMD", 26, ("avx2", "avx512f"), None),  # Zen 5
        ("GenuineIntel", 6, ("avx2", "avx512f"), None),
    ],
)
def test_only_zen_4_is_slow(
    vendor: str, family: int, flags: tuple[str, ...], expected: str | None, tmp_path: Path
) -> None:
    cpus = processors(tmp_path / "cpuinfo", vendor, family, *flags)
    assert disabled(cpus, numpy(tmp_path)) == expected


def test_a_choice_of_the_user_stays(tmp_path: Path) -> None:
    cpus = processors(tmp_path / "cpuinfo", "AuthenticAMD", 25, "avx512f")
    assert disabled(cpus, numpy(tmp_path), **{DISABLED: ""}) == ""


def test_systems_without_a_description_of_processors(tmp_path: Path) -> None:
    assert disabled(tmp_path / "cpuinfo", numpy(tmp_path)) is None


@pytest.mark.parametrize(
    ("version", "wheel"), [("2.3.5", True), ("1.26.4", True), ("2.4.6", False), ("of us", True)]
)
def test_a_numpy_that_might_refuse_is_left_alone(version: str, wheel: bool, tmp_path: Path) -> None:
    cpus = processors(tmp_path / "cpuinfo", "AuthenticAMD", 25, "avx512f")
    assert disabled(cpus, numpy(tmp_path, version, wheel=wheel)) is None


def after(code: str) -> list[str]:
    """Run code without the variable; return its value then, and whether numpy has the feature."""
    shown = f"print(os.environ.get({DISABLED!r}), numpy._core._multiarray_umath.__cpu_features__.get({AVX512!r}))"
    environment = {name: value for name, value in os.environ.items() if name != DISABLED}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import os\n{code}\nimport numpy\n{shown}"],
        env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.split()[-2:]


def test_the_command_imports_numpy_without_warnings_and_sorts() -> None:
    code = (
        "from substrait_agg_cli.main import main\n"
        "try: main(['problems', 'PLAN_UNREADABLE'])\n"
        "except SystemExit: pass\n"
        "import numpy\n"
        "numbers = numpy.random.default_rng(1).integers(0, 1 << 62, 5000)\n"
        "assert numpy.sort(numbers).tolist() == sorted(numbers.tolist())"
    )
    chosen, has_feature = after(code)
    own: dict[str, str] = {}
    avoid_slow_sorts(own)
    assert chosen == str(own.get(DISABLED))
    assert chosen == "None" or has_feature == "False"


def test_importing_the_package_changes_no_variable() -> None:
    """A library does not choose for the whole process."""
    assert after("import substrait_agg")[0] == "None"
