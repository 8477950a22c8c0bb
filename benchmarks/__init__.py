from __future__ import annotations

from substrait_agg.api.numpy_features import avoid_slow_sorts

avoid_slow_sorts()  # as the command does, and before numpy is imported
