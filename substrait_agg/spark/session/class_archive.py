"""Start the JVM of Spark from an archive of the classes that an earlier run has loaded.

Half of the processor time of a short run is loading, verifying and linking classes. HotSpot can
write the classes of a JVM to an archive at its exit, and map them in later JVMs (application class
data sharing). The first run of the command line writes an archive, and later runs of this user use
it.

An archive belongs to one Java, one Spark and one class path: they are in its name. Java checks them
again, and ignores an archive of others. Java does not survive a damaged archive, so the name also
has its size and checksum, which are checked before every use.

A JVM writes its archive under a name of its own, in the seconds after the command has ended. The
next run takes it over if it is complete. Several runs may do so at once.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import time
import uuid
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import pyspark

from substrait_agg.files.download_cache import cache_folder
from substrait_agg.spark.session.java import find_java

JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
"""The setting with the options of the JVM that are not the user's own."""

MINIMUM_FREE = 1 << 30
"""Bytes that are free on the disk before an archive is written. One has about 100 MB."""

ABANDONED_SECONDS = 3600
"""Age of an incomplete draft that no JVM still writes."""

UNUSED_SECONDS = 30 * 86_400
"""Age since the last use after which archives of other versions are deleted."""

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_MAGIC = (0xF00BABA8).to_bytes(4, sys.byteorder)
"""The first bytes of an archive. HotSpot writes them after everything else."""

_PLAIN = re.compile(r"[\w./@+,-]+")
"""Paths that the options of Java take without quotes. A colon separates two archives."""

_OWN = re.compile("SharedArchive|ArchiveClasses|-Xshare|-Xlog:disable")
_OF_JAVA = (
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "SPARK_SUBMIT_OPTS",
    "SPARK_LAUNCHER_OPTS",
)
_CLASS_PATH = ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "HADOOP_CONF_DIR", "YARN_CONF_DIR")  # fmt: skip
_EXTRA_PATH = "spark.driver.extraClassPath"


def archive_options(conf: Mapping[str, str], *, record: bool) -> str:
    """Return the options with which a new JVM uses an archive, or writes one at its exit.

    Args:
        conf: the settings of the Spark that the JVM runs.
        record: whether the JVM may write an archive. This takes seconds after the process has
            ended, so its output must not be that of the process.

    Returns:
        The options; empty if there is no archive and none can be written.
    """
    if _has_own_options(conf):
        return ""
    with suppress(OSError):  # the start is slower, and otherwise the same
        name = _name(conf)
        folder = cache_folder("classes") if name else None
        if folder is not None and _PLAIN.fullmatch(str(folder)):
            return _options(folder, name, record=record)
    return ""


def _options(folder: Path, name: str, *, record: bool) -> str:
    archive = _usable(folder, name) or _adopt(folder, name)
    if archive is not None:
        return f"-XX:SharedArchiveFile={archive} {_QUIET}"
    if not record or shutil.disk_usage(folder).free < MINIMUM_FREE:
        return ""
    return f"-XX:ArchiveClassesAtExit={folder / f'{name}.{uuid.uuid4().hex}.draft'} {_QUIET}"


def _has_own_options(conf: Mapping[str, str]) -> bool:
    """Return whether the user has chosen an archive, or none."""
    settings = (value for key, value in conf.items() if key.endswith("JavaOptions"))
    variables = (os.environ.get(name, "") for name in _OF_JAVA)
    return any(map(_OWN.search, (*settings, *variables, _defaults())))


def _defaults() -> str:
    """Return the settings that Spark's launcher reads from a file."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (str(Path(home, "conf")) if home else "")
    try:
        return Path(folder, "spark-defaults.conf").read_text(errors="replace") if folder else ""
    except OSError:
        return ""


def _name(conf: Mapping[str, str]) -> str:
    """Return the name of archives for a Java, a Spark and a class path; empty if none can be used."""
    java = find_java()
    if java is None or not (java.home / "lib" / "server" / "classes.jsa").is_file():
        return (
            ""  # the classes of Java itself are in no archive, to which another one could be added
        )
    digest = hashlib.sha256()
    for text in _describe(java.home, conf):
        digest.update(text.encode(errors="surrogateescape") + b"\0")
    return f"spark-{digest.hexdigest()[:16]}"


def _describe(java: Path, conf: Mapping[str, str]) -> Iterable[str]:
    release = java / "release"
    yield release.read_text(errors="replace") if release.is_file() else str(java)
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    for jar in sorted(Path(home, "jars").glob("*.jar")):
        status = jar.stat()
        yield f"{jar} {status.st_size} {status.st_mtime_ns}"
    yield from (os.environ.get(variable, "") for variable in _CLASS_PATH)
    yield conf.get(_EXTRA_PATH, "")


def _usable(folder: Path, name: str) -> Path | None:
    """Return the archive; None without one. Delete damaged ones."""
    for archive in sorted(folder.glob(f"{name}-*.jsa")):
        if archive.name == _seal(archive, name):
            os.utime(archive)
            _delete_drafts(folder, name)
            return archive
        archive.unlink(missing_ok=True)
    return None


def _seal(file: Path, name: str) -> str:
    """Return the name of an archive: it has size and checksum of the content."""
    content = file.read_bytes()
    return f"{name}-{len(content):x}-{zlib.crc32(content):08x}.jsa"


def _adopt(folder: Path, name: str) -> Path | None:
    """Return the archive that an earlier JVM has written, under its final name; None without one."""
    archive = None
    for draft in sorted(folder.glob(f"{name}.*.draft")):
        with suppress(FileNotFoundError):  # another process has taken it
            if archive is None and _is_complete(draft):
                _flush(draft)
                archive = draft.replace(folder / _seal(draft, name))
            elif archive is not None or draft.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                draft.unlink()
    if archive is not None:
        _delete_unused(folder)
    return archive


def _delete_drafts(folder: Path, name: str) -> None:
    """Delete what runs have written that started before there was an archive."""
    for draft in folder.glob(f"{name}.*.draft"):
        with suppress(FileNotFoundError):
            if _is_complete(draft) or draft.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                draft.unlink()


def _is_complete(draft: Path) -> bool:
    """Return whether a JVM has written the whole file, and the system has not failed since."""
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    with draft.open("rb") as file:
        return draft.stat().st_mtime > booted and file.read(len(_MAGIC)) == _MAGIC


def _flush(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _delete_unused(folder: Path) -> None:
    for archive in folder.glob("spark-*"):
        with suppress(FileNotFoundError):
            if archive.stat().st_mtime < time.time() - UNUSED_SECONDS:
                archive.unlink()
