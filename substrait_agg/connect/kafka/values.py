"""Turn messages into rows: JSON objects, change events of Debezium, and tombstones."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from substrait_agg.connect.kafka.consumer import Messages
from substrait_agg.connect.kafka.settings import TopicTable
from substrait_agg.connect.protocol import WEIGHT
from substrait_agg.connect.weights import with_weights
from substrait_agg.errors import InputRefused
from substrait_agg.redaction import safe_cause

BLOCK = 1 << 20
"""Bytes that a thread parses at once."""

MOST_PARSED = 64 << 20
"""Bytes of messages that are joined."""

_SEEN = ("c", "r", "u", "d", "m")
"""Operations of events; ``m`` is a message without a row."""


UNAVAILABLE = b"__debezium_unavailable_value"
"""What Debezium writes for a large value that an update did not change; in a list of numbers its bytes."""


class BadValueError(Exception):
    """A message that is not what its table says."""


def rows_of(table: TopicTable, messages: Messages) -> pa.Table:
    """Return the rows of messages in their order, with their weights.

    Raises:
        InputRefused: ROW_UNREADABLE, SOURCE_TRUNCATED, VALUE_UNAVAILABLE.
    """
    decode = _decode_events if table.is_debezium else _decode_rows
    rows = _locate(lambda part: decode(table, part), messages)
    _check_required(table, rows, messages)
    return rows


def _locate(decode: Callable[[Messages], pa.Table], messages: Messages) -> pa.Table:
    """Decode messages; if that fails, look for the first bad one, and name it."""
    try:
        return decode(messages)
    except (pa.ArrowException, UnicodeDecodeError, BadValueError) as error:
        if len(messages.offsets) == 1:
            raise _unreadable(messages, str(error)) from safe_cause(error)
    first, second = messages.divide(messages.offsets[len(messages.offsets) // 2])
    return pa.concat_tables([_locate(decode, first), _locate(decode, second)])


def _unreadable(messages: Messages, reason: str) -> InputRefused:
    topic, partition = messages.place
    return InputRefused(
        "ROW_UNREADABLE",
        f"the message is not a row of the table: {reason}",
        help="correct columns=, key= or cdc=; a message that stays wrong needs another topic, or reader=spark with bad-rows=quarantine",
        path=f"{topic}/{partition}/{messages.offsets[0]}",
    )


def _check_required(table: TopicTable, rows: pa.Table, messages: Messages) -> None:
    """Refuse a null in a column that has none."""
    inserted = rows.filter(pc.greater(rows.column(WEIGHT), 0))
    for field in table.schema:
        if (not field.nullable or field.name in table.keys) and inserted.column(
            field.name
        ).null_count:
            raise InputRefused(
                "ROW_UNREADABLE",
                f"the column {field.name} is null in a message with an offset of {messages.offsets[0]} to {messages.offsets[-1]}",
                help="remove NOT NULL from columns=, or the column from key=",
                path="/".join(map(str, messages.place)),
            )  # fmt: skip


# --- rows ----------------------------------------------------------------------------------------


def _decode_rows(table: TopicTable, messages: Messages) -> pa.Table:
    """Return a row per message; a message without a value deletes the row of its key."""
    tombstones = np.array([value is None for value in messages.values], bool)
    if not tombstones.any():
        return with_weights(_parse(messages.values, table.schema))
    if not table.keys:
        raise BadValueError("it has no value, and the table has no key=")
    values = [value for value in messages.values if value is not None]
    keys = [key for key, is_gone in zip(messages.keys, tombstones, strict=True) if is_gone]
    both = pa.concat_tables([_parse(values, table.schema), _of_keys(table, keys)])
    order = np.empty(len(tombstones), np.int64)
    order[~tombstones] = np.arange(len(values))
    order[tombstones] = np.arange(len(values), len(tombstones))
    return with_weights(both.take(pa.array(order)), np.where(tombstones, -1, 1))


def _of_keys(table: TopicTable, keys: Sequence[bytes | None]) -> pa.Table:
    """Return rows that have only the columns of the keys of messages.

    A key is an object with the columns, or the value of the only column.
    """
    if any(key is None for key in keys):
        raise BadValueError("it has neither a key nor a value")
    schema = pa.schema([table.schema.field(name) for name in table.keys])
    texts = pc.utf8_trim_whitespace(pa.array(keys, pa.binary()).cast(pa.string()))
    if len(table.keys) == 1:
        name = pa.scalar(f'{{"{_escape(table.keys[0])}":', pa.string())
        whole = pc.binary_join_element_wise(name, texts, "}", "")
        texts = pc.if_else(pc.starts_with(texts, "{"), texts, whole)
    nested = pa.schema([*schema, pa.field("payload", pa.struct(list(schema)))])
    records = _parse(texts.cast(pa.binary()).to_pylist(), nested, has_days=table.is_debezium)
    columns = {
        name: pc.coalesce(records.column(name), pc.struct_field(records.column("payload"), [name]))
        for name in table.keys
    }
    if any(column.null_count for column in columns.values()):
        raise BadValueError(f"its key does not have {', '.join(table.keys)}")
    empty = {field.name: pa.nulls(len(keys), field.type) for field in table.schema}
    return pa.table({**empty, **columns}, _nullable(table.schema))


def _escape(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


# --- change events -------------------------------------------------------------------------------


def _decode_events(table: TopicTable, messages: Messages) -> pa.Table:
    """Return the old rows with weight -1 and the new ones with 1; with keys, no old row of an update.

    With keys a message without a value deletes the row of its key. Otherwise it says nothing new: the
    event before it has the old row.
    """
    tombstones = np.array([value is None for value in messages.values], bool)
    places = np.arange(len(tombstones))
    values = [value for value in messages.values if value is not None]
    op, before, after = _envelopes(table, values)
    at = places[~tombstones]
    inserts, deletes = _masks(table, op, before, after)
    without_old = np.zeros(len(at), bool)
    if table.keys:
        without_old = deletes & _is_null(before)
    new = after.filter(pa.array(inserts))
    old = before.filter(pa.array(deletes & ~without_old))
    _check_available(table, new if table.keys else pa.concat_arrays([old, new]))
    parts, order = [old, new], [at[deletes & ~without_old] * 2, at[inserts] * 2 + 1]
    if table.keys:
        by_key = np.sort(np.concatenate([at[without_old], places[tombstones]]))
        parts.append(_struct(_of_keys(table, [messages.keys[i] for i in by_key.tolist()])))
        order.append(by_key * 2)
    weights = np.concatenate([np.full(len(p), 1 if p is new else -1, np.int64) for p in parts])
    sorted_ = np.argsort(np.concatenate(order), kind="stable")
    rows = pa.Table.from_struct_array(pa.concat_arrays(parts)).take(pa.array(sorted_))
    return with_weights(rows, weights[sorted_])


def _envelopes(
    table: TopicTable, values: Sequence[bytes]
) -> tuple[pa.Array, pa.StructArray, pa.StructArray]:
    """Return operation, old row and new row of events, with their schema around them or without."""
    row = pa.struct(list(_nullable(table.schema)))
    envelope = [pa.field("before", row), pa.field("after", row), pa.field("op", pa.string())]
    whole = pa.schema([*envelope, pa.field("payload", pa.struct(envelope))])
    records = _parse(values, whole, has_days=True)
    payload = records.column("payload").combine_chunks()
    parts = [
        pc.coalesce(records.column(name).combine_chunks(), pc.struct_field(payload, [name]))
        for name in ("op", "before", "after")
    ]
    return parts[0], parts[1], parts[2]


def _masks(
    table: TopicTable, op: pa.Array, before: pa.StructArray, after: pa.StructArray
) -> tuple[np.ndarray, np.ndarray]:
    """Return which events have a new row, and which one takes a row away."""
    names = np.array(op.to_pylist(), object)
    if (names == "t").any():
        raise InputRefused(
            "SOURCE_TRUNCATED",
            "the table of the events was truncated",
            help="delete rows with DELETE, or start a new checkpoint",
            path=table.topic,
        )
    if not np.isin(names.astype(str), _SEEN).all():
        raise BadValueError("it is not a change event: op is not c, r, u or d")
    inserts = np.isin(names.astype(str), ("c", "r", "u"))
    deletes = (names == "d") | ((names == "u") & (not table.keys))
    if (inserts & _is_null(after)).any():
        raise BadValueError("the change event has no new row")
    if not table.keys and (deletes & _is_null(before)).any():
        raise BadValueError("the change event has no old row; give key=, or let the database log old rows")  # fmt: skip
    return inserts, deletes


def _check_available(table: TopicTable, rows: pa.StructArray) -> None:
    """Refuse rows without a value that PostgreSQL did not send."""
    for field in table.schema:
        if _has_placeholder(pc.struct_field(rows, [field.name])):
            raise InputRefused(
                "VALUE_UNAVAILABLE",
                f"an update has no value of the column {field.name}, which is large and did not change",
                help="set REPLICA IDENTITY FULL for the table, remove the column from columns=, or give reader=spark with key=",
                path=table.topic,
            )


def _has_placeholder(values: pa.Array) -> bool:
    """Return whether one of the texts or lists is the placeholder of Debezium."""
    if pa.types.is_string(values.type):
        return bool(pc.any(pc.equal(values, UNAVAILABLE.decode())).as_py())
    if not pa.types.is_list(values.type):
        return False
    if pa.types.is_date(values.type.value_type):
        values = values.cast(pa.list_(pa.int32()))
    if not pa.types.is_integer(values.type.value_type):
        return _has_placeholder(values.flatten())
    lists = values.filter(pc.equal(pc.list_value_length(values), len(UNAVAILABLE)))
    numbers = pc.fill_null(lists.flatten(), 0).to_numpy().reshape(-1, len(UNAVAILABLE))
    return bool((numbers == np.frombuffer(UNAVAILABLE, np.uint8)).all(axis=1).any())


def _is_null(values: pa.Array) -> np.ndarray:
    mask: np.ndarray = values.is_null().to_numpy(zero_copy_only=False)
    return mask


def _struct(rows: pa.Table) -> pa.StructArray:
    arrays = [column.combine_chunks() for column in rows.columns]
    return pa.StructArray.from_arrays(arrays, fields=list(_nullable(rows.schema)))


# --- JSON ----------------------------------------------------------------------------------------


def _parse(
    values: Sequence[bytes | None], schema: pa.Schema, *, has_days: bool = False
) -> pa.Table:
    """Parse one JSON object per message; other members than those of the schema are ignored.

    Args:
        values: the messages.
        schema: the members.
        has_days: whether dates are numbers of days, as in change events, and not texts.

    Raises:
        ArrowInvalid, UnicodeDecodeError, BadValueError: a message is something else.
    """
    target = _nullable(schema)
    as_parsed = pa.schema([(field.name, _as_parsed(field.type, has_days)) for field in target])
    tables = [_parse_lines(part, target, as_parsed) for part in _parts(values)]
    return pa.concat_tables([target.empty_table(), *tables]).combine_chunks()


def _parts(values: Sequence[bytes | None]) -> list[pa.Array]:
    """Return messages as arrays of a size that can be joined."""
    if not values:
        return []
    texts = pa.array(values, pa.large_binary())
    ends = np.cumsum(pc.binary_length(texts).to_numpy())
    cuts = np.flatnonzero(np.diff(ends // MOST_PARSED)) + 1
    borders = [0, *cuts.tolist(), len(texts)]
    return [texts.slice(a, b - a) for a, b in pairwise(borders)]


def _parse_lines(texts: pa.Array, target: pa.Schema, as_parsed: pa.Schema) -> pa.Table:
    """Parse messages, each as a line.

    If each begins and ends with a brace, an object cannot end in a later message: the next one would
    begin after a brace without a comma. So equal numbers say that each message is one object.
    """
    plain = pc.utf8_trim_whitespace(texts.cast(pa.large_string()))
    if not pc.all(pc.and_(pc.starts_with(plain, "{"), pc.ends_with(plain, "}"))).as_py():
        raise BadValueError("it is not a JSON object")
    one_line = pc.replace_substring_regex(plain, r"[\r\n]", " ")
    longest = pc.max(pc.binary_length(one_line)).as_py()
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(plain)], one_line.cast(pa.string())), "\n")  # fmt: skip
    parsed = pj.read_json(
        io.BytesIO(joined[0].as_buffer()),
        read_options=pj.ReadOptions(block_size=max(BLOCK, 2 * longest + 2)),
        parse_options=pj.ParseOptions(
            explicit_schema=as_parsed, unexpected_field_behavior="ignore"
        ),
    )
    if parsed.num_rows != len(plain):
        raise BadValueError("it is more than one JSON object")
    columns = [_cast(parsed.column(f.name).combine_chunks(), f.type) for f in target]
    return pa.table(columns, target)


def _as_parsed(type_: pa.DataType, has_days: bool) -> pa.DataType:
    """Return the type as which a value is parsed: a time is a text."""
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, _as_parsed(field.type, has_days)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(_as_parsed(type_.value_type, has_days))
    if has_days and pa.types.is_date(type_):
        return pa.int32()
    return pa.string() if pa.types.is_date(type_) or pa.types.is_timestamp(type_) else type_


def _cast(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return values in their type. Arrow's own cast fails for what a null struct or list hides.

    Raises:
        ArrowInvalid: a text is not a date or a time; one with a zone needs its offset.
    """
    if array.type == type_ or not pa.types.is_nested(type_):
        return array.cast(type_)
    if pa.types.is_list(type_):
        values = _cast(array.flatten(), type_.value_type)
        sizes = pc.fill_null(pc.list_value_length(array), 0)
        offsets = np.concatenate([[0], np.cumsum(sizes.to_numpy())]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), values, type_, mask=array.is_null())
    children = [_cast(child, f.type) for child, f in zip(array.flatten(), type_, strict=True)]
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=array.is_null())
