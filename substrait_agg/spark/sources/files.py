"""List the files at a path or glob on any file system that Spark can read."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from substrait_agg.errors import InputRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class FoundFile(NamedTuple):
    """A file that was found.

    Attributes:
        uri: its location.
        modified: its time of modification, in milliseconds since 1970.
        size: its size in bytes.
    """

    uri: str
    modified: int
    size: int


_GLOB = frozenset("*?[]{}\\")
_COPYING = "._COPYING_"
_TAR = slice(257, 262)
"""Where a tar archive has its mark."""


class FileRules(NamedTuple):
    """Which files of a folder Spark reads.

    Attributes:
        pattern: glob for the names, as the option ``pathGlobFilter``; empty for all names.
        recursive: whether files in all folders below are read, as by ``recursiveFileLookup``.
    """

    pattern: str = ""
    recursive: bool = False


@dataclass(frozen=True, slots=True)
class InputFiles:
    """A path that exists, and its files.

    Attributes:
        path: glob of the folders to stream from.
        only_file: glob for the name of a single file; empty for all files.
        files: the current data files that Spark reads, in order of path.
        load_paths: the paths that a batch reader loads.
        modified: the modification time of each of `files`, in milliseconds since 1970.
        sizes: the size of each of `files`, in bytes.
        missed: files whose rows Spark leaves out, because of the folders that they are in.
        below: files in subfolders beside those that Spark reads.
    """

    path: str
    only_file: str
    files: tuple[str, ...]
    load_paths: list[str]
    modified: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    missed: tuple[str, ...] = ()
    below: tuple[str, ...] = ()

    @property
    def first_file(self) -> list[str]:
        """Return the first data file as a list of paths to load."""
        return [escape(file) for file in self.files[:1]]


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A data file on a local file system.

    Attributes:
        name: its path below the location of the source.
        size: its size in bytes.
        modified: its modification time, in nanoseconds since 1970.
    """

    path: Path
    name: str
    size: int
    modified: int


def escape(name: str) -> str:
    """Return a glob that matches exactly this path or name."""
    return "".join(f"\\{c}" if c in _GLOB else c for c in name)


def is_glob(location: str) -> bool:
    """Return whether a location has wildcards. A local path that exists has none."""
    return bool(_GLOB & set(location)) and not _exists_here(location)


def as_glob(location: str) -> str:
    """Return a glob for a location: itself, or the only match of a path that exists."""
    return location if is_glob(location) else escape(location)


def _exists_here(location: str) -> bool:
    try:
        return Path(location.removeprefix("file://")).exists()
    except (OSError, ValueError):
        return False


_REGEX_OF_GLOB = {"*": ".*", "?": ".", "[": "[", "[!": "[^", "{": "(?:"}
_REGEX_IN_BRACES = {**_REGEX_OF_GLOB, ",": "|", "}": ")"}


def name_test(pattern: str) -> Callable[[str], bool]:
    """Return the test of file names that Spark's option ``pathGlobFilter`` makes.

    An empty pattern accepts all names.

    Raises:
        ValueError: the pattern is invalid.

    Source: Hadoop's ``GlobPattern``.
    """
    if not pattern:
        return lambda _: True
    regex, braces, in_set = "", 0, False
    for part in re.findall(r"\\.|\[!|.", pattern, re.DOTALL):
        if in_set:
            in_set = part != "]"
            regex += part if part in ("]", "-", "^") or part[0] == "\\" else re.escape(part)
            continue
        table = _REGEX_IN_BRACES if braces else _REGEX_OF_GLOB
        regex += part if part[0] == "\\" else table.get(part, re.escape(part))
        braces += (part == "{") - (part == "}" and braces > 0)
        in_set = part in ("[", "[!")
    try:
        compiled = re.compile(regex, re.DOTALL)
    except re.error as error:
        raise ValueError(f"pathGlobFilter={pattern} is not a glob: {error}") from error
    return lambda name: compiled.fullmatch(name) is not None


def expanded_globs(location: str, folders: dict[str, int]) -> list[str]:
    """Return the paths on the local file system that a glob matches; any other path as it is.

    Args:
        location: an absolute path or glob.
        folders: gets the folders that were looked at, with their times of modification.

    Source: Hadoop's ``Globber``.
    """
    if not is_glob(location):
        return [normal_path(location)] if _exists_here(location) else []
    globs = map(normal_path, _without_slashes(location))
    return [path for glob in globs for path in _match(glob, folders)]


def normal_path(path: str) -> str:
    """Return an absolute path or glob without repeated slashes and ``..``, as Hadoop writes it."""
    return os.path.normpath(f"/{path.lstrip('/')}")


def _without_slashes(pattern: str) -> list[str]:
    """Return globs that match what one glob matches and have no slash in braces."""
    for group in re.finditer(r"(?<!\\)\{([^{}]*)\}", pattern):
        if "/" in group[1]:
            head, tail = pattern[: group.start()], pattern[group.end() :]
            each = (f"{head}{part}{tail}" for part in group[1].split(","))
            return [glob for part in each for glob in _without_slashes(part)]
    return [pattern]


def _match(pattern: str, folders: dict[str, int]) -> list[str]:
    paths = [""]
    for part in pattern.strip("/").split("/"):
        accepts, below = name_test(part), list[str]()
        for path in paths:
            if not _GLOB & set(part) and os.path.exists(f"{path}/{part}"):  # noqa: PTH110
                below.append(f"{path}/{part}")
                continue
            try:
                folders[path or "/"] = os.stat(path or "/").st_mtime_ns  # noqa: PTH116
                names = os.listdir(path or "/") if _GLOB & set(part) else ()  # noqa: PTH208
            except OSError as error:
                unless_gone(error)
                continue
            below += [f"{path}/{name}" for name in names if accepts(name)]
        paths = below
    return sorted(paths)


def is_shown(name: str) -> bool:
    """Return whether Spark reads files and folders of this name.

    Spark skips names that begin with ``.``, names that begin with ``_`` and contain no ``=``, and
    files that Hadoop is still copying.
    """
    hidden = name.startswith(".") or (name.startswith("_") and "=" not in name)
    return not (hidden or name.endswith(_COPYING))


def _files_below(system: Any, status: Any) -> list[FoundFile]:
    if not status.isDirectory():
        return [_file(status)]
    uri = status.getPath().toUri()
    root = str(uri.getPath())
    if _is_here(str(uri.getScheme())):
        return list(_listed_here(root))
    depth = len(root.rstrip("/").split("/"))
    listed = _iter_files(system, status)
    return [file for path, file in listed if all(map(is_shown, path.split("/")[depth:]))]


def _is_here(scheme: str) -> bool:
    """Return whether a URI scheme means the local file system."""
    return scheme == "file"


def _iter_files(system: Any, status: Any) -> Iterator[tuple[str, FoundFile]]:
    """Yield the files below a folder, with their paths."""
    listing = system.listFiles(status.getPath(), True)
    while listing.hasNext():
        entry = listing.next()
        yield str(entry.getPath().toUri().getPath()), _file(entry)


def _listed_here(root: str) -> Iterator[FoundFile]:
    """Yield the files below a local folder, also empty ones."""
    for path in walk(root, {}, {}):
        try:
            status = os.stat(path)  # noqa: PTH116
        except OSError as error:
            unless_gone(error)
            continue
        uri, modified = f"file:{_readable(path)}", status.st_mtime_ns // 1_000_000
        yield FoundFile(uri, modified, status.st_size)


def walk(root: str, seen: Mapping[str, Collection[str]], folders: dict[str, int]) -> Iterator[str]:
    """Yield the paths of the files below a local folder whose names Spark reads.

    Python lists local folders, because Hadoop starts a process (``ls``) for every local file.

    Args:
        root: the folder.
        seen: folder -> names in it to leave out.
        folders: gets the folders that were listed, with their times of modification.
    """
    waiting = [root.rstrip("/")]
    while waiting:
        folder = waiting.pop()
        names = seen.get(folder, ())
        try:
            with os.scandir(folder or "/") as entries:
                unseen = [e for e in entries if e.name not in names and is_shown(e.name)]
            folders[folder or "/"] = os.stat(folder or "/").st_mtime_ns  # noqa: PTH116
        except OSError as error:
            unless_gone(error)
            continue
        for entry in unseen:
            path = f"{folder}/{entry.name}"
            if _is_folder(entry):
                waiting.append(path)
            else:
                yield path


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _data_files(files: Iterable[FoundFile], pattern: str) -> list[FoundFile]:
    """Return the files that have content and a name that Spark reads and that matches a pattern."""
    accepts = name_test(pattern)
    named = ((file, file.uri.rpartition("/")[2]) for file in files if file.size > 0)
    return [file for file, name in named if is_shown(name) and accepts(name)]


def local_files(location: str, rules: FileRules = FileRules()) -> list[LocalFile] | None:  # noqa: B008 - immutable
    """Return the data files at a local path that Spark reads, by name.

    Returns:
        None for a glob, a URL, or a path that does not exist.

    Raises:
        InputRefused: SOURCE_UNREADABLE.
    """
    place = Path(location)
    if is_glob(location) or not place.exists():
        return None
    root = place.parent if place.is_file() else place
    if place.is_file():
        return [_local_file(root, place)]
    listed = list(_listed_here(str(place)))
    read = split([(f"file:{place}", [uri for uri, *_ in listed])], recursive=rules.recursive).read
    uris = [uri for uri, *_ in _data_files(listed, rules.pattern) if uri in read]
    return [_local_file(root, Path(uri.removeprefix("file:"))) for uri in sorted(uris)]


def _local_file(root: Path, path: Path) -> LocalFile:
    try:
        status = path.stat()
    except OSError as error:
        raise _unreadable(str(error)) from error
    name = path.relative_to(root).as_posix()
    return LocalFile(path, name, status.st_size, status.st_mtime_ns)


def unless_gone(error: OSError) -> None:
    """Raise for an unreadable file; ignore files deleted during the listing and broken links."""
    if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        raise _unreadable(str(error)) from error


def _readable(path: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise unreadable_name(path) from error
    return path


def unreadable_name(path: str) -> InputRefused:
    """Return the error for a path that is not UTF-8."""
    return _unreadable(f"the name {path!a} is not UTF-8")


def _unreadable(why: str) -> InputRefused:
    return InputRefused(
        "SOURCE_UNREADABLE", f"a folder of the source cannot be listed: {why}",
        help="check the names and the permissions of its content",
    )  # fmt: skip


def _file(status: Any) -> FoundFile:
    path, modified = str(status.getPath().toString()), int(status.getModificationTime())
    return FoundFile(path, modified, int(status.getLen()))


def is_local(uri: str) -> bool:
    """Return whether a URI as Spark writes it is that of a local file."""
    return _is_here(uri.partition(":")[0])


def refuse_archive(begin: bytes, uri: str, table: str) -> None:
    """Refuse a tar archive, which would be read as rows; `begin` is the begin of a file.

    Raises:
        InputRefused: SOURCE_UNREADABLE.
    """
    if begin[_TAR] == b"ustar":
        raise InputRefused(
            "SOURCE_UNREADABLE",
            f"a file of table {table} is a tar archive, and its content is no text",
            help="unpack the archive, and give the files in it",
            path=uri,
        )


def refuse_archives(uris: Iterable[str], table: str) -> None:
    """Refuse local files that are tar archives, compressed or not. Others are not read.

    Raises:
        InputRefused: SOURCE_UNREADABLE.
    """
    import pyarrow as pa  # noqa: PLC0415 - most commands look at no file

    for uri in filter(is_local, uris):
        begin, path = b"", unquote(urlsplit(uri).path)
        with suppress(OSError, pa.ArrowException), pa.input_stream(path, "detect") as stream:
            begin = stream.read(_TAR.stop)
        refuse_archive(begin, uri, table)


def found_file(spark: SparkSession, uri: str) -> FoundFile | None:
    """Return the time and the size of a file by a URI as Spark names it; None if it is gone."""
    path = _hadoop_path(spark, getattr(spark.sparkContext._jvm, "java.net.URI")(uri))
    system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    if not system.exists(path):
        return None
    status = system.getFileStatus(path)
    return FoundFile(uri, int(status.getModificationTime()), int(status.getLen()))


def exists(spark: SparkSession, uri: str) -> bool:
    """Return whether a file exists at a URI as Spark writes it."""
    if is_local(uri):
        return Path(unquote(urlsplit(uri).path)).exists()
    context = spark.sparkContext
    path = _hadoop_path(spark, getattr(context._jvm, "java.net.URI")(uri))
    return bool(path.getFileSystem(context._jsc.hadoopConfiguration()).exists(path))


def read_end(spark: SparkSession, uri: str, length: int) -> bytes:
    """Return the last bytes of a file at a URI as Spark writes it.

    Raises:
        Py4JJavaError: the file cannot be read.
    """
    context = spark.sparkContext
    path = _hadoop_path(spark, getattr(context._jvm, "java.net.URI")(uri))
    system = path.getFileSystem(context._jsc.hadoopConfiguration())
    size = int(system.getFileStatus(path).getLen())
    stream = system.open(path)
    try:
        stream.seek(max(0, size - length))
        return bytes(stream.readNBytes(min(size, length)))
    finally:
        stream.close()


def _hadoop_path(spark: SparkSession, location: Any) -> Any:
    """Return Hadoop's path of a text or a URI.

    The class is asked for by its whole name. Part by part, the JVM searches all its archives for
    classes that are called like the packages.
    """
    return getattr(spark.sparkContext._jvm, "org.apache.hadoop.fs.Path")(location)


def local_location(spark: SparkSession, location: str) -> str | None:
    """Return the path or glob of an absolute location on the local file system; None for another one."""
    system = _hadoop_path(spark, location).getFileSystem(
        spark.sparkContext._jsc.hadoopConfiguration()
    )
    if not _is_here(str(system.getUri().getScheme())):
        return None
    path = location.removeprefix("file:")
    return path if path == location else path.removeprefix("//")


def absolute(spark: SparkSession, location: str) -> str:
    """Return a location; a relative local path is relative to the working folder of this process.

    The JVM has the working folder of its start, which is not always that of Python.
    """
    path = _hadoop_path(spark, location)
    if path.isAbsolute():
        return location
    system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    is_here = _is_here(str(system.getUri().getScheme()))
    return os.path.abspath(location) if is_here else location  # noqa: PTH100 - it may be a glob


def look_up(
    spark: SparkSession,
    location: str,
    rules: FileRules = FileRules(),  # noqa: B008 - immutable
) -> InputFiles | None:
    """Return the files at a path or glob; None if no path exists.

    Spark's file stream reads folders only. A single file is therefore streamed as its folder,
    filtered by the name of the file.

    Raises:
        InputRefused: SOURCE_UNREADABLE.
    """
    location = absolute(spark, location)
    glob = as_glob(location)
    path = _hadoop_path(spark, glob)
    system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    statuses = list(system.globStatus(path) or [])
    if not statuses:
        return None
    single = len(statuses) == 1 and not statuses[0].isDirectory() and not is_glob(location)
    roots = [str(status.getPath().toString()) for status in statuses]
    below = [_files_below(system, status) for status in statuses]
    every = dict.fromkeys(file for files in below for file in files)
    listed = sorted(_data_files(every, "" if single else rules.pattern))
    uris = ([uri for uri, *_ in files] for files in below)
    parts = split(zip(roots, uris, strict=True), recursive=rules.recursive)
    read = [file for file in listed if file[0] in parts.read]
    only = statuses[0].getPath()
    return InputFiles(
        escape(str(only.getParent().toString())) if single else glob,
        escape(str(only.getName())) if single else "",
        tuple(uri for uri, _, _ in read),
        [glob],
        tuple(instant for _, instant, _ in read),
        tuple(size for _, _, size in read),
        tuple(uri for uri, *_ in listed if uri in parts.missed),
        tuple(uri for uri, *_ in listed if uri in parts.below),
    )


class SplitFiles(NamedTuple):
    """Files by what Spark does with them, as in `InputFiles`."""

    read: frozenset[str]
    missed: frozenset[str] = frozenset()
    below: frozenset[str] = frozenset()


def split(folders: Iterable[tuple[str, Iterable[str]]], *, recursive: bool = False) -> SplitFiles:
    """Divide files into those that Spark reads, and others.

    Spark reads the files directly in a folder. If a file is in a partition folder (``name=value``)
    below one of the folders, Spark reads files in partition folders alone. Files of checkpoints are
    none of these.

    Args:
        folders: each folder with the files below it; a file may be its own folder.
        recursive: whether Spark reads the files in all folders below.
    """
    direct: list[str] = []
    partitioned: list[str] = []
    others: list[str] = []
    for folder, files in folders:
        for file in files:
            parents = file[len(folder.rstrip("/")) + 1 :].split("/")[:-1]
            kind = direct if not parents else partitioned if "=" in parents[-1] else others
            kind.append(file)
    if recursive:
        return SplitFiles(frozenset((*direct, *partitioned, *others)))
    others = _without_checkpoints(others)
    if partitioned:
        return SplitFiles(frozenset(partitioned), frozenset((*direct, *others)))
    missed, below = ((), others) if direct else (others, ())
    return SplitFiles(frozenset(direct), frozenset(missed), frozenset(below))


_PLAN_OF_CHECKPOINT = "/plan.json"


def _without_checkpoints(files: Sequence[str]) -> list[str]:
    """Return the files that are not in the folder of a checkpoint."""
    plans = [f.removesuffix(_PLAN_OF_CHECKPOINT) for f in files if f.endswith(_PLAN_OF_CHECKPOINT)]
    checkpoints = tuple(
        f"{folder}/" for folder in plans if any(f.startswith(f"{folder}/snapshots/") for f in files)
    )
    return [file for file in files if not file.startswith(checkpoints)]


def files_unread(source: str, files: Sequence[str]) -> InputRefused:
    """Return the error for files of a source that Spark would leave out."""
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return InputRefused(
        "SOURCE_FILES_UNREAD",
        f"{source} has files that Spark does not read, because of their folders: {files[0]}{more}",
        help="put all files directly into the folder, or all into partition folders (name=value); or give a glob "
        "such as FOLDER/*.csv; or add ?recursiveFileLookup=true, which reads all files without partition columns",
    )
