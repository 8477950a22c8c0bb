"""Check that the Java that Spark starts exists, is new enough and is complete."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from substrait_agg.errors import UsageError

MIN_JAVA = 17
INSTALL = "apt-get install -y openjdk-17-jre-headless  (or set JAVA_HOME to a JDK 17 or newer)"
MODULES = (
    "java.management",
    "java.naming",
    "java.security.jgss",
    "java.sql",
    "java.xml",
    "jdk.incubator.vector",
    "jdk.security.auth",
    "jdk.unsupported",
)
"""Java modules that Spark needs to start.

Classes of Spark and Hadoop that every start loads refer to them. Spark itself passes
``jdk.incubator.vector`` to Java.
"""

_VERSION = re.compile(r"(?:1\.)?(\d+)")
_ENTRY = re.compile(r'^(\w+)="([^"]*)"$', re.MULTILINE)
_NO_MODULE = re.compile(r"java\.lang\.module\.FindException: Module ([\w.]+) not found")


@dataclass(frozen=True, slots=True)
class Java:
    """An installation of Java.

    Attributes:
        home: the folder of the installation.
        version: the feature release, such as 17.
        modules: the names of its modules; None if unknown.
    """

    home: Path
    version: int
    modules: frozenset[str] | None = None


def find_java(environment: Mapping[str, str] = os.environ) -> Java | None:
    """Return the Java that Spark would start, or None if no Java works.

    The file ``release`` of an installation contains its version, so usually no JVM has to start.
    """
    home = environment.get("JAVA_HOME")
    binary = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not binary or not shutil.which(binary):
        return None
    folder = Path(binary).resolve().parents[1]
    return _from_release_file(folder) or _from_version_output(binary, folder)


def _from_release_file(folder: Path) -> Java | None:
    try:
        entries = dict(_ENTRY.findall((folder / "release").read_text(errors="replace")))
    except OSError:
        return None
    version = _VERSION.match(entries.get("JAVA_VERSION", ""))
    if version is None:
        return None
    modules = entries.get("MODULES")
    return Java(folder, int(version[1]), frozenset(modules.split()) if modules else None)


def _from_version_output(binary: str, folder: Path) -> Java | None:
    shown = subprocess.run([binary, "-version"], capture_output=True, text=True, check=False)
    version = re.search(rf'version "{_VERSION.pattern}', shown.stderr + shown.stdout)
    return Java(folder, int(version[1])) if version else None


def require_java() -> None:
    """Check that Spark can start.

    Raises:
        UsageError: ``JAVA_MISSING``, ``JAVA_TOO_OLD``, ``JAVA_INCOMPLETE``.
    """
    java = find_java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME, {home}, has no working Java" if home else "no Java was found on PATH"
        raise UsageError(
            "JAVA_MISSING", f"Spark needs Java, and {where}", help=f"install it: {INSTALL}"
        )
    if java.version < MIN_JAVA:
        message = (
            f"Spark needs Java {MIN_JAVA} or newer, but found Java {java.version} in {java.home}"
        )
        raise UsageError("JAVA_TOO_OLD", message, help=f"install it: {INSTALL}")
    if java.modules is not None:
        missing = tuple(module for module in MODULES if module not in java.modules)
        if missing:
            raise incomplete(missing, f" in {java.home}")


def incomplete(missing: tuple[str, ...], where: str = "") -> UsageError:
    """Return the error for a Java that lacks modules, such as one built by jlink."""
    several = len(missing) > 1
    message = f"the Java{where} lacks {'modules' if several else 'a module'} that Spark needs: {', '.join(missing)}"
    return UsageError("JAVA_INCOMPLETE", message, help=f"install a complete Java: {INSTALL}")


def missing_module(printed: str) -> str | None:
    """Return the module that a JVM did not find at its start, from its output; None if none."""
    match = _NO_MODULE.search(printed)
    return match[1] if match else None
