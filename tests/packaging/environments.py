"""Environments with the wheel of this project and chosen packages; packages are linked from here,
nothing is downloaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata, util
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def build_wheel(folder: Path) -> Path:
    """The wheel of the sdist of this tree; the build backend is downloaded only where it is not installed here."""
    source, isolation = ROOT, []
    if util.find_spec("hatchling"):
        build = [sys.executable, "-m", "hatchling", "build", "--target", "sdist"]
        subprocess.run(
            [*build, "--directory", str(folder)], cwd=ROOT, check=True, capture_output=True
        )
        (source,) = folder.glob("*.tar.gz")
        isolation = ["--no-build-isolation"]
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *isolation]
    subprocess.run([*command, "--wheel-dir", str(folder), str(source)], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@cache
def closure(name: str) -> frozenset[str]:
    """A distribution that is installed here, and all that it requires without extras."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        current = canonicalize_name(waiting.pop())
        if current in found:
            continue
        found.add(current)
        for text in metadata.requires(current) or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return frozenset(found)


def link(distributions: Iterable[str], folder: Path) -> None:
    """Link the files of distributions that are installed here into a folder."""
    for name in distributions:
        for file in metadata.files(name) or ():
            if ".." in file.parts:  # scripts
                continue
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(Path(str(file.locate())))


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment with the wheel, and a shelf of packages that a call may add.

    Attributes:
        folder: where the environment is.
        shelf: folder of folders with linked packages.
    """

    folder: Path
    shelf: Path
    base: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def create(cls, folder: Path, wheel: Path) -> Environment:
        """Install the wheel and its requirements into a new environment."""
        home = folder / "environment"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python")]
        subprocess.run(
            [*pip, "install", "--quiet", "--no-deps", "--disable-pip-version-check", str(wheel)],
            check=True,
        )
        (site,) = home.glob("lib/python*/site-packages")
        base = closure("substrait-agg") - {"substrait-agg"}
        link(base, site)
        return cls(home, folder / "shelf", base)

    def with_package(self, name: str) -> Path:
        """A folder with a package and its requirements that are not installed."""
        folder = self.shelf / name
        if not folder.exists():
            link(closure(name) - self.base, folder)
        return folder

    def call(
        self,
        *arguments: object,
        packages: Iterable[str] = (),
        folders: Iterable[Path] = (),
        environment: Mapping[str, str] | None = None,
        program: str = "substrait-agg",
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment with further packages on its path."""
        added = [str(folder) for folder in (*map(self.with_package, packages), *folders)]
        own = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "COVERAGE", "JAVA"))
        }
        return subprocess.run(
            [str(self.folder / "bin" / program), *map(str, arguments)],
            env={**own, "PYTHONPATH": os.pathsep.join(added), **(environment or {})},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
