"""Keep the names of the files that sources have read, as sorted lists in the folder of state.

A version has the newest names itself. When they are more than `MOST_RECENT`, they become a list. A new list
takes up the lists before it that are less than twice as long, so the lists of a source are few, and a
name is written again a logarithmic number of times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from substrait_agg.commit.documents.envelope import refuse_damage
from substrait_agg.commit.documents.file_names import run_name
from substrait_agg.commit.documents.files import FolderFiles
from substrait_agg.commit.documents.positions import FileList, FilesPosition, ReadFile
from substrait_agg.commit.log.publishing import translate_write_errors
from substrait_agg.state.storage import store_failed

MOST_RECENT = 256
"""Names that a version has itself."""

TREE = "files"
"""First part of the names of the lists."""

_SCHEMA = pa.schema([("uri", pa.string()), ("modified", pa.int64())])


def read_files(storage: FolderFiles, position: FilesPosition) -> Iterator[ReadFile]:
    """Yield the files of a position, those of the oldest list first.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    for names in position.lists:
        table = read_list(storage, names)
        pairs = zip(table["uri"].to_pylist(), table["modified"].to_pylist(), strict=True)
        yield from (ReadFile(uri, modified) for uri, modified in pairs)
    yield from position.recent


def with_files(
    storage: FolderFiles,
    position: FilesPosition,
    added: Iterable[ReadFile],
    source: int,
    version: int,
) -> FilesPosition:
    """Return the position after further files; write a list if the version would have too many names.

    Args:
        storage: the folder of state.
        position: the position before.
        added: the files.
        source: the ordinal of the source, for the name of a list.
        version: the version that reads the files.

    Raises:
        StateRefused: STATE_DAMAGED: a list cannot be read.
        RunFailed: CHECKPOINT_NOT_WRITTEN: a list cannot be written.
    """
    recent = (*position.recent, *added)
    if len(recent) <= MOST_RECENT:
        return FilesPosition(position.lists, recent)
    longer, tables = list(position.lists), [_table(recent)]
    while longer and longer[-1].rows < 2 * sum(part.num_rows for part in tables):
        tables.append(read_list(storage, longer.pop()))
    merged = pa.concat_tables(tables).combine_chunks().sort_by("uri")
    with translate_write_errors(storage.root, f"the list of files of version {version}"):
        written = _write(storage, merged, run_name(TREE, source, version))
    return FilesPosition((*longer, written))


def _table(files: Sequence[ReadFile]) -> pa.Table:
    columns = [[file.uri for file in files], [file.modified for file in files]]
    return pa.table(columns, schema=_SCHEMA)


def _write(storage: FolderFiles, table: pa.Table, name: str) -> FileList:
    with storage.create(name) as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
        writer.write_table(table)
    size, crc = storage.checksum(name)
    return FileList(name, table.num_rows, size, crc)


def read_list(storage: FolderFiles, names: FileList) -> pa.Table:
    """Return the rows of a list.

    Raises:
        StateRefused: STATE_DAMAGED.
    """
    path = f"state/{names.name}"
    try:
        if not storage.is_whole(names.name, names.bytes, names.crc):
            raise refuse_damage(path, "its size or checksum is not the one in the snapshot")
        with storage.map(names.name) as source:
            table = pa.ipc.open_file(source).read_all()
    except (OSError, pa.ArrowException) as error:
        raise store_failed(names.name, error) or refuse_damage(path, str(error)) from error
    nulls = any(column.null_count for column in table.columns)
    if nulls or (table.schema, table.num_rows) != (_SCHEMA, names.rows):
        raise refuse_damage(path, "it is not the list of files that the snapshot describes")
    return table
