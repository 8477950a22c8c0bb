"""Read the specification of a Spark Declarative Pipeline: ``spark-pipeline.yml``.

The fields are those of Spark 4.3 (`pyspark.pipelines.cli`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from substrait_agg.errors import UsageError
from substrait_agg.notices import notice
from substrait_agg.scripts.script import script_text

SPEC_NAMES = ("spark-pipeline.yaml", "spark-pipeline.yml")

IGNORED = ("catalog", "database", "schema")
"""Fields that say where Spark stores the tables."""

_REQUIRED = ("name", "storage")
_FIELDS = (*_REQUIRED, *IGNORED, "configuration", "libraries")
CHANGES_ROWS: dict[str, str] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.session.timeZone": "UTC",
}
"""Spark configuration that changes the rows of a view -> the only value that is followed."""

_RECURSIVE = "/**"
_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """The specification of a pipeline.

    Attributes:
        storage: folder or URL for the metadata of the pipeline.
        configuration: Spark configuration.
        files: the files with the definitions of its views.
        ignored: fields that have no effect.
    """

    file: Path
    name: str
    storage: str
    configuration: Mapping[str, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def checkpoint(self) -> str:
        """Return where a run keeps its checkpoint if the user does not say."""
        plain = self.storage.removeprefix("file://") if self.storage[7:8] == "/" else self.storage
        return f"{plain.rstrip('/')}/substrait_agg"


def is_spec(path: str | Path) -> bool:
    """Return whether a path is a specification, by its suffix."""
    return Path(path).suffix.lower() in (".yml", ".yaml")


def find_spec(path: Path) -> Path | None:
    """Return the specification that a path means: the file itself, or the one in a folder.

    Raises:
        UsageError: PIPELINE_SPEC_INVALID: the folder has two.
    """
    if not path.is_dir():
        return path if is_spec(path) else None
    specs = [path / name for name in SPEC_NAMES if (path / name).is_file()]
    if len(specs) > 1:
        raise UsageError(
            "PIPELINE_SPEC_INVALID",
            f"the folder has {' and '.join(SPEC_NAMES)}",
            help="remove one of them, or name the one to use",
            path=str(path),
        )
    return specs[0] if specs else None


def read_spec(file: Path) -> PipelineSpec:
    """Read a specification, and find the files of its libraries.

    Raises:
        UsageError: FILE_NOT_FOUND, FILE_NOT_READABLE, PIPELINE_SPEC_INVALID or SQL_FOLDER_EMPTY.
    """
    spec = _SpecFile(file)
    root = spec.parse(script_text(file))
    fields = spec.mapping(root, "the specification")
    for name, (key, _) in fields.items():
        if name not in _FIELDS:
            raise spec.refuse(key, f"there is no field {name}", f"use {', '.join(_FIELDS)}")
    for name in _REQUIRED:
        if name not in fields:
            raise spec.refuse(root, f"the field {name} is missing", f"add {name}: ...")
    files = tuple(spec.library_files(fields["libraries"][1])) if "libraries" in fields else ()
    if not files:
        raise UsageError(
            "SQL_FOLDER_EMPTY",
            "the libraries of the pipeline have no file",
            help="add a glob under libraries, such as transformations/**",
            path=str(file),
        )
    configuration = (
        spec.configuration(fields["configuration"][1]) if "configuration" in fields else {}
    )
    name, storage = (spec.text(fields[n][1], n) for n in _REQUIRED)
    ignored = tuple(name for name in IGNORED if name in fields)
    return PipelineSpec(file, name, storage, configuration, files, ignored)


def note_ignored(spec: PipelineSpec) -> None:
    """Log a notice for every field of a specification that has no effect."""
    for name in spec.ignored:
        notice(
            "PIPELINE_FIELD_IGNORED",
            f"{name} has no effect: it says where Spark stores the tables",
            help="open a view with --name NAME, without catalog and database",
            path=str(spec.file),
        )


class _SpecFile:
    """The nodes of a YAML file, with errors that have line and column."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def refuse(self, at: Any, message: str, help: str) -> UsageError:
        """Return an error at a node."""
        mark = at if isinstance(at, yaml.Mark) else at.start_mark
        place = f"{self._file}:{mark.line + 1}:{mark.column + 1}"
        return UsageError("PIPELINE_SPEC_INVALID", message, help=help, path=place)

    def parse(self, text: str) -> Any:
        """Return the root node."""
        start = yaml.Mark("", 0, 0, 0, None, None)
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            place = getattr(error, "problem_mark", None) or start
            reason = getattr(error, "problem", error)
            raise self.refuse(place, f"this is not YAML: {reason}", "correct it") from error
        if root is None:
            raise self.refuse(start, "the file is empty", "add name, storage and libraries")
        return root

    def mapping(self, node: Any, what: str) -> dict[str, tuple[Any, Any]]:
        """Return the nodes of key and value by key."""
        if not isinstance(node, yaml.MappingNode):
            raise self.refuse(node, f"{what} is not a mapping", "write NAME: VALUE lines")
        return {self.text(key, "a name"): (key, value) for key, value in node.value}

    def text(self, node: Any, what: str) -> str:
        """Return a string."""
        if not isinstance(node, yaml.ScalarNode) or node.tag != "tag:yaml.org,2002:str":
            raise self.refuse(node, f"{what} is not a string", "put it in quotes")
        return str(node.value)

    def configuration(self, node: Any) -> dict[str, str]:
        """Return the Spark configuration."""
        settings = {}
        for name, (_, value) in self.mapping(node, "configuration").items():
            settings[name] = self.text(value, name)
            followed = CHANGES_ROWS.get(name)
            if followed is not None and settings[name].lower() != followed.lower():
                message = f"{name} is {settings[name]}, which changes the rows of the views"
                raise self.refuse(value, message, f"set it to {followed}, or remove it")
        return settings

    def library_files(self, node: Any) -> Iterator[Path]:
        """Yield the files of the libraries.

        A glob is a path, or a folder followed by ``/**``, as in Spark.
        """
        help = "write libraries as a list of `- glob: {include: FOLDER/**}`"
        if not isinstance(node, yaml.SequenceNode):
            raise self.refuse(node, "libraries is not a list", help)
        for entry in node.value:
            glob = self.mapping(entry, "a library").get("glob")
            if glob is None:
                raise self.refuse(entry, "a library has no glob", help)
            include = self.mapping(glob[1], "glob").get("include")
            if include is None:
                raise self.refuse(glob[1], "a glob has no include", help)
            yield from self._iter_matches(include[1])

    def _iter_matches(self, node: Any) -> Iterator[Path]:
        """Yield the files of a glob."""
        pattern = self.text(node, "include")
        folder = pattern.removesuffix(_RECURSIVE)
        if _WILDCARDS & set(folder) or not folder or Path(folder).is_absolute():
            help = "name a file, or a folder followed by /**, below the folder of the specification"
            raise self.refuse(node, f"Spark does not accept the glob {pattern}", help)
        place = self._file.parent / folder
        matches = sorted(place.rglob("*")) if folder != pattern else [place]
        for file in matches:
            if not file.is_file() or "__pycache__" in file.parts:
                continue
            if file.suffix not in (".sql", ".py"):
                help = "move the file out of the folder, or name files in libraries"
                raise self.refuse(
                    node, f"{file} is neither SQL nor Python, so Spark refuses it", help
                )
            yield file
