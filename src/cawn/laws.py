"""Synthetic networks that follow a known law: the public name of `cawn.data.laws`."""

import sys

from cawn.data import laws
from cawn.data.laws import *  # noqa: F403

sys.modules[__name__] = laws
