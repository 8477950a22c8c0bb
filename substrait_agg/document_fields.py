"""Name the metadata of dataclass fields that decide how documents store them.

Documents are formats. A field or a value that gets another name in the program keeps its stored
form.
"""

from __future__ import annotations

DOCUMENT_KEY = "key"
"""Metadata of a dataclass field: its key in documents if that differs from its name.

Example: ``field(metadata={DOCUMENT_KEY: "old_name"})``.
"""

DOCUMENT_VALUES = "values"
"""Metadata of a dataclass field: the stored form of its values, if that differs.

It is a mapping from a value of the program to a value of the document. In a field with a tuple it
applies to each item. Values that the mapping does not contain are stored as they are.
"""

OPTIONAL_ORDINAL: dict[str, dict[int | None, int]] = {DOCUMENT_VALUES: {None: -1}}
"""Metadata of ordinals that may be missing: documents have -1 for None."""

DOCUMENT_OMITTED = "omitted"
"""Metadata of a dataclass field: documents leave out its key if it has its default value.

Documents that were written before the field existed can then be read.
"""
