"""Report every field that the decoder did not read, unless it cannot change the result."""

from __future__ import annotations

from collections.abc import Collection

from substrait_agg.plan.decoding.context import DecodeContext
from substrait_agg.plan.messages.node import MessageNode

IGNORED: dict[tuple[str, str], str] = {
    ("RelCommon", "direct"): "says that there is no output mapping, as its absence does",
    ("RelCommon", "hint"): "hints never change the result",
    ("RelCommon", "rel_anchor"): "only outer references use it, which are refused",
    ("Version", "git_hash"): "tells builds of one release apart",
    ("Plan", "expected_type_urls"): "lists what enhancements use, which are refused one by one",
    ("Plan", "parameter_bindings"): "only dynamic parameters use it, which are refused",
    ("Plan", "type_aliases"): "only alias types use it, which are refused where values have them",
    ("Plan", "execution_behavior"): "only context variables use it, which are refused",
    ("Plan", "named_lambdas"): "only lambdas use it, which are refused",
    (
        "Expression.MaskExpression",
        "maintain_singular_struct",
    ): "a row of one column stays a row: relations have no other output",
    ("Expression.FieldReference", "root_reference"): "the input row is what is referred to anyway",
    ("HashJoinRel", "build_input"): "says which side a hash table is built of, not what matches",
    ("ReadRel.LocalFiles.FileOrFiles", "parquet"): "the format is that of the source given",
    ("ReadRel.LocalFiles.FileOrFiles", "arrow"): "the format is that of the source given",
    ("ReadRel.LocalFiles.FileOrFiles", "orc"): "the format is that of the source given",
    ("ReadRel.LocalFiles.FileOrFiles", "dwrf"): "the format is that of the source given",
    ("ReadRel.LocalFiles.FileOrFiles", "text"): "the format is that of the source given",
    ("extensions.AdvancedExtension", "optimization"): "optimizations never change the result",
}
"""Fields that are ignored on purpose, by message and name, and why they change nothing."""

_EXTENSION = "extensions.AdvancedExtension"


def report_leftovers(
    order: list[MessageNode], handled: Collection[str], context: DecodeContext
) -> None:
    """Report the unread fields of every message that was read.

    Skip the content of refused messages.
    """
    for node in order:
        if not node.opened and node.shape.name not in handled:
            continue
        for name in node.left():
            if (node.shape.name, name) in IGNORED:
                continue
            if node.shape.by_json_name[name].type == _EXTENSION:
                _report_enhancement(node, name, context)
            else:
                context.report(
                    "FIELD_NOT_SUPPORTED", node.at(name), field=name, message=node.shape.name
                )


def _report_enhancement(node: MessageNode, name: str, context: DecodeContext) -> None:
    enhancement = node.values[name].values.get("enhancement")
    if enhancement is not None:
        url = enhancement.values.get("type_url") or "of unknown type"
        context.report(
            "ENHANCEMENT_NOT_SUPPORTED",
            f"{node.at(name)}.enhancement",
            type=url,
            message=node.shape.name,
        )
