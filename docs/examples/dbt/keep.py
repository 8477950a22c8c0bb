"""Keep the compiled models of a dbt project up to date: ``dbt compile``, then ``python keep.py TABLE=SPEC ...``.

Every model with the materialization ``table`` becomes a view of one checkpoint. Models with the materialization
``ephemeral`` are part of the SQL of those that read them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import substrait_agg as sa


def compiled(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the SQL of each kept model, with plain names of tables.

    dbt writes a table as ``"database"."schema"."name"``; the manifest has this text as ``relation_name``.
    """
    nodes = {**manifest["nodes"], **manifest["sources"]}
    names = {
        n["relation_name"]: n.get("identifier") or n["alias"]
        for n in nodes.values()
        if n.get("relation_name")
    }
    models = {}
    for node in manifest["nodes"].values():
        if node["resource_type"] == "model" and node["config"]["materialized"] == "table":
            text = node["compiled_code"]
            for written, name in names.items():
                text = text.replace(written, f'"{name}"')
            models[node["alias"]] = text
    return models


def main(project: Path, sources: Mapping[str, str]) -> None:
    """Process the new rows of the sources, and print the version of the views."""
    manifest = json.loads((project / "target" / "manifest.json").read_text())
    plans = {name: sa.sql(text, sources) for name, text in compiled(manifest).items()}
    checkpoint = project / "target" / "views"
    sa.run(plans, sources, checkpoint=checkpoint, outputs=["none"]).wait()
    for name in plans:
        sys.stdout.write(f"{name}: version {sa.open_view(checkpoint, name).version}\n")


if __name__ == "__main__":
    main(Path.cwd(), dict(argument.split("=", 1) for argument in sys.argv[1:]))
