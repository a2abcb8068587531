"""Keys of pairs of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable


@register_jitable  # type: ignore[untyped-decorator]
def pair_key(u: Any, v: Any) -> Any:
    """Two nodes, in this order, as one int64: of numbers in compiled functions, or of arrays."""
    return np.int64(u) << 32 | v
