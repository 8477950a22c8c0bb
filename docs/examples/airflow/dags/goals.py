"""A DAG that maintains a folder of SQL views, and then uses the versions that it has made."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import dag, task
from views_operator import MaintainViews

HERE = Path(__file__).parent
DATA = Path(os.environ.get("GOALS_DATA", HERE))


@dag(schedule="@hourly", catchup=False, max_active_runs=1, tags=["views"])
def goals() -> None:
    """Keep the views of goals current."""
    views = MaintainViews(
        task_id="views",
        sql=HERE / "sql",
        sources={"matches": f"parquet:{DATA}/matches"},
        checkpoint=DATA / "checkpoint",
        outputs=[f"view-parquet={DATA}/views"],
        retries=2,
        retry_delay=timedelta(seconds=10),
    )

    @task
    def report(version: int) -> str:
        """Say what there is to see. Real DAGs load a dashboard here."""
        return f"version {version} of the views is in {DATA}/views"

    report(views.output)


goals()
