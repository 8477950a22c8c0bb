from __future__ import annotations

import substrait_agg  # noqa: F401 - before numpy, which reads its settings when it is imported
