"""The wheel has every file that the program reads."""

from __future__ import annotations

from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


def test_it_has_every_file_of_the_package() -> None:
    builder = WheelBuilder(str(ROOT))
    included = {file.distribution_path for file in builder.recurse_included_files()}
    shim = ROOT / "substrait_agg" / "spark" / "data_source" / "shim"
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "substrait_agg").rglob("*")
        if path.is_file() and path.suffix != ".pyc" and shim not in path.parents
    }
    assert "substrait_agg/spark/catalyst/Catalyst.java" in package
    assert package <= included
