"""The archive of loaded classes is used if it is whole, and a start without one is the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from substrait_agg.spark.session import class_archive
from substrait_agg.spark.session.class_archive import archive_options
from substrait_agg.spark.session.java import find_java
from tests import jvm

USE, RECORD = "-XX:SharedArchiveFile=", "-XX:ArchiveClassesAtExit="


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of archives, for a process whose JVMs have no options of tests."""
    monkeypatch.setenv("SUBSTRAIT_AGG_CACHE", str(tmp_path / "cache"))
    for name in jvm.NAMES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache" / "classes"


def recorded(options: str) -> Path:
    """The draft that a JVM would write."""
    assert RECORD in options
    return Path(options.removeprefix(RECORD).partition(" ")[0])


def used(options: str) -> Path:
    assert USE in options
    return Path(options.removeprefix(USE).partition(" ")[0])


def drafted(content: bytes = b"classes") -> Path:
    """A draft as a JVM leaves it."""
    draft = recorded(archive_options({}, record=True))
    draft.write_bytes(class_archive._MAGIC + content)
    return draft


def test_an_archive_that_a_jvm_has_written_is_used_by_later_ones(folder: Path) -> None:
    """Of two JVMs that wrote one at once, one counts."""
    assert archive_options({}, record=False) == ""
    first = recorded(archive_options({}, record=True))
    second = drafted(b"second")
    first.write_bytes(class_archive._MAGIC + b"first")
    archive = used(archive_options({}, record=True))
    assert archive.parent == folder
    assert [*folder.iterdir()] == [archive]
    assert used(archive_options({}, record=False)) == archive
    assert not second.exists()


def test_a_draft_that_is_complete_after_the_archive_is_in_use_is_deleted(folder: Path) -> None:
    """Two runs start without an archive; the draft of the second one does not stay on the disk."""
    first = recorded(archive_options({}, record=True))
    late = recorded(archive_options({}, record=True))
    first.write_bytes(class_archive._MAGIC + b"classes")
    archive = used(archive_options({}, record=True))
    late.write_bytes(class_archive._MAGIC + b"classes")
    assert used(archive_options({}, record=True)) == archive
    assert [*folder.iterdir()] == [archive]


@pytest.mark.parametrize("left", [b"", bytes(100), b"other bytes"])
def test_a_draft_that_is_incomplete_is_left_to_its_jvm_and_deleted_later(
    folder: Path, left: bytes
) -> None:
    draft = recorded(archive_options({}, record=True))
    draft.write_bytes(left)
    assert recorded(archive_options({}, record=True)) != draft
    assert draft.exists()
    old = time.time() - class_archive.ABANDONED_SECONDS - 10
    os.utime(draft, (old, old))
    assert archive_options({}, record=False) == ""
    assert not [*folder.iterdir()]


def test_a_draft_from_before_a_failure_of_the_system_is_not_used(folder: Path) -> None:
    """Its content may not have reached the disk."""
    draft = drafted()
    os.utime(draft, (1, 1))
    assert archive_options({}, record=False) == ""
    assert not [*folder.iterdir()]


@pytest.mark.parametrize("damage", ["cut", "changed", "grown"])
def test_a_damaged_archive_is_deleted(folder: Path, damage: str) -> None:
    """A JVM would crash."""
    drafted(b"x" * 100)
    archive = used(archive_options({}, record=False))
    content = archive.read_bytes()
    damaged = {
        "cut": content[:-1],
        "changed": content[:50] + b"y" + content[51:],
        "grown": content + b"x",
    }
    archive.write_bytes(damaged[damage])
    assert RECORD in archive_options({}, record=True)
    assert not [*folder.iterdir()]


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.driver.extraJavaOptions": "-Xshare:off"},
        {"spark.driver.extraJavaOptions": "-Xmx1g -XX:SharedArchiveFile=own.jsa"},
        {"spark.driver.defaultJavaOptions": "-XX:ArchiveClassesAtExit=own.jsa"},
    ],
)
def test_a_users_own_archive_comes_first(folder: Path, conf: dict[str, str]) -> None:
    drafted()
    assert archive_options(conf, record=True) == ""
    assert USE in archive_options({"spark.driver.extraJavaOptions": "-Xmx1g"}, record=True)


def test_a_users_own_options_of_java_and_of_spark_come_first(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafted()
    with monkeypatch.context() as patched:
        patched.setenv("JDK_JAVA_OPTIONS", "-Xshare:off")
        assert archive_options({}, record=True) == ""
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions -Xshare:off")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert archive_options({}, record=True) == ""


def test_another_class_path_has_another_archive(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafted()
    assert archive_options({"spark.driver.extraClassPath": "/more"}, record=False) == ""
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert archive_options({}, record=False) == ""


@pytest.mark.parametrize("obstacle", ["open folder", "space in path", "full disk", "no java"])
def test_a_start_without_an_archive_is_no_failure(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    match obstacle:
        case "open folder":
            (tmp_path / "cache").mkdir(mode=0o755)
        case "space in path":
            monkeypatch.setenv("SUBSTRAIT_AGG_CACHE", str(tmp_path / "a b"))
        case "full disk":
            monkeypatch.setattr(class_archive, "MINIMUM_FREE", shutil.disk_usage(tmp_path).total)
        case _:
            monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert archive_options({}, record=True) == ""


def test_archives_that_are_not_used_any_more_are_deleted(folder: Path) -> None:
    drafted()
    other = folder / "spark-0123456789abcdef-1-00000000.jsa"
    other.write_bytes(b"x")
    old = time.time() - class_archive.UNUSED_SECONDS - 10
    os.utime(other, (old, old))
    assert [used(archive_options({}, record=False))] == [*folder.iterdir()]


def test_java_writes_and_uses_the_archive(folder: Path) -> None:
    """A real one; nothing is printed about it."""

    def java(options: str) -> str:
        home = find_java()
        assert home is not None
        command = [
            str(home.home / "bin" / "java"),
            *options.split(),
            "-Xlog:class+load",
            "-version",
        ]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert "(top)" not in java(archive_options({}, record=True))
    archive = used(archive_options({}, record=True))
    loaded = java(archive_options({}, record=False))
    assert "shared objects file (top)" in loaded
    assert "[cds" not in loaded
    assert archive.stat().st_size > 1000
