"""Compress small runs. Columns that the other ones determine are left out.

In a run of an ordered tree, these are ``cum``, the running sum of ``weight``, and ``p0`` if it is an
integer or a time of 64 bits whose encoded key is ``w0``. A compressed run is an Arrow IPC file in one
zstd frame. If columns are left out, the metadata of its schema has the schema with them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

ZSTD = bytes.fromhex("28b52ffd")  # magic number of zstd files (RFC 8878)
_WHOLE = b"whole"
_SIGN = np.uint64(1 << 63)
_LEFT_OUT = ("p0", "cum")


def pack(rows: pa.Table) -> pa.Buffer:
    """Return rows of a run as a compressed file."""
    rest = _reduce(rows)
    return pa.compress(_file(rows if rest is None else rest), codec="zstd")


def unpack(packed: pa.Buffer) -> pa.Buffer:
    """Return the uncompressed file of a run from its decompressed one, with all columns.

    Raises:
        pa.ArrowException: the file is damaged.
    """
    with pa.ipc.open_file(packed) as reader:
        schema = (reader.schema.metadata or {}).get(_WHOLE)
        if schema is None:
            return packed
        try:
            return _file(_restore(reader.read_all(), schema))
        except (KeyError, TypeError, ValueError) as error:
            raise pa.ArrowInvalid(f"columns left out cannot be computed: {error}") from error


def _file(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def _reduce(rows: pa.Table) -> pa.Table | None:
    """Return the rows without the columns that others determine; None if there are none."""
    left_out = [name for name in _find_determined(rows.schema) if _is_determined(rows, name)]
    if not left_out:
        return None
    whole = rows.schema.serialize().to_pybytes()
    return rows.drop_columns(left_out).replace_schema_metadata({_WHOLE: whole})


def _restore(rows: pa.Table, whole: bytes) -> pa.Table:
    schema = pa.ipc.read_schema(pa.py_buffer(whole))
    # A forged schema could ask for columns without end.
    if len(schema) > rows.num_columns + len(_LEFT_OUT):
        raise ValueError(f"{len(schema)} columns of {rows.num_columns}")
    columns = [
        rows.column(field.name)
        if field.name in rows.column_names
        else pa.array(_compute(rows, field.name)).view(field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _find_determined(schema: pa.Schema) -> list[str]:
    """Return the columns of a run that others may determine."""
    if schema.names[:2] != ["hash", "chain"]:
        return []
    one_word = "w0" in schema.names and "w1" not in schema.names and "rest" not in schema.names
    first = 0 if one_word and _is_number(schema.field("p0").type) else 1
    return list(_LEFT_OUT[first:])


def _is_number(type_: pa.DataType) -> bool:
    return bool(type_ == pa.int64() or pa.types.is_timestamp(type_))


def _is_determined(rows: pa.Table, name: str) -> bool:
    stored = rows.column(name).combine_chunks()
    if stored.null_count:
        return False
    return bool(np.array_equal(stored.view(pa.int64()).to_numpy(), _compute(rows, name)))


def _compute(rows: pa.Table, name: str) -> npt.NDArray[np.int64]:
    if name == "cum":
        return np.cumsum(rows.column("weight").to_numpy())
    return np.asarray((rows.column("w0").to_numpy() ^ _SIGN).view(np.int64))
