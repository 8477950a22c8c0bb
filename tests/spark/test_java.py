"""The Java that Spark starts is looked at before it is started."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from pyspark import SparkConf, SparkContext, java_gateway

from substrait_agg.errors import UsageError
from substrait_agg.spark.session import java
from substrait_agg.spark.session.java import MODULES, find_java, missing_module, require_java
from substrait_agg.spark.session.session import _gateway


def installed(folder: Path, release: str | None, shown: str = "") -> Path:
    """An installation whose program prints a version, and fails if the version is in `release`."""
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho '{shown}' >&2\n" if shown else "#!/bin/sh\nexit 1\n")
    binary.chmod(0o755)
    if release is not None:
        (folder / "release").write_text(release)
    return folder


WHOLE = f'JAVA_VERSION="17.0.15"\nMODULES="java.base {" ".join(MODULES)}"\n'


@pytest.mark.parametrize(
    ("release", "shown", "code", "said"),
    [
        (None, "", "JAVA_MISSING", "has no working Java"),
        (None, 'openjdk version "11.0.2"', "JAVA_TOO_OLD", "found Java 11"),
        (None, 'java version "1.8.0_1"', "JAVA_TOO_OLD", "found Java 8"),
        ('JAVA_VERSION="1.8.0_392"\n', "", "JAVA_TOO_OLD", "found Java 8"),
        ('JAVA_VERSION="16"\n', "", "JAVA_TOO_OLD", "found Java 16"),
        (WHOLE.replace(" java.sql ", " "), "", "JAVA_INCOMPLETE", "a module that Spark needs: java.sql"),
        ('JAVA_VERSION="21"\nMODULES="java.base"\n', "", "JAVA_INCOMPLETE", "lacks modules"),
    ],
)  # fmt: skip
def test_java_that_does_not_do_is_said_with_the_command_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    release: str | None,
    shown: str,
    code: str,
    said: str,
) -> None:
    """Spark itself would end in a page of shell errors."""
    monkeypatch.setenv("JAVA_HOME", str(installed(tmp_path / "java", release, shown)))
    with pytest.raises(UsageError) as raised:
        require_java()
    assert raised.value.code == code
    assert said in raised.value.message
    assert java.INSTALL in raised.value.help


@pytest.mark.parametrize(
    ("release", "shown"),
    [
        (WHOLE, ""),
        ('JAVA_VERSION="21.0.2"\n', ""),
        (None, 'openjdk version "25-ea" 2025-09-16'),
        ('IMPLEMENTOR="somebody"\n', 'openjdk version "17.0.2"'),
    ],
)
def test_java_that_does_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, release: str | None, shown: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(installed(tmp_path / "java", release, shown)))
    require_java()


def test_without_java_home_the_program_on_the_path_counts(tmp_path: Path) -> None:
    """Behind links, as Debian's alternatives are."""
    home = installed(tmp_path / "java", WHOLE)
    link = tmp_path / "links" / "java"
    link.parent.mkdir()
    link.symlink_to(home / "bin" / "java")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", str(link.parent))
        found = find_java({})
    assert found is not None
    assert (found.home, found.version) == (home, 17)


def test_the_module_that_a_jvm_did_not_find_is_read_from_what_it_printed() -> None:
    printed = (
        "Error occurred during initialization of boot layer\n"
        "java.lang.module.FindException: Module jdk.incubator.vector not found\n"
    )
    assert missing_module(printed) == "jdk.incubator.vector"
    assert missing_module("Error: A JNI error has occurred") is None


def test_a_jvm_whose_start_is_interrupted_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark waits for the JVM by sleeping; Ctrl-C comes in that time."""
    script, number = tmp_path / "bin" / "spark-submit", tmp_path / "pid"
    script.parent.mkdir()
    script.write_text(
        f"#!/bin/sh\necho $$ > {number}.draft && mv {number}.draft {number}\nexec sleep 300\n"
    )
    script.chmod(0o755)
    wait = time.sleep

    def interrupted(seconds: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            wait(seconds)  # PySpark's own threads sleep as well
            return
        while not number.exists():
            wait(0.01)
        raise KeyboardInterrupt

    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(time, "sleep", interrupted)
    before = vars(java_gateway)["Popen"]
    with pytest.raises(KeyboardInterrupt):
        _gateway(SparkConf(), None)
    assert vars(java_gateway)["Popen"] is before
    with pytest.raises(ProcessLookupError):
        os.kill(int(number.read_text()), 0)
