"""The catalog of networks: the public name of `cawn.data.datasets`."""

import sys

from cawn.data import datasets
from cawn.data.datasets import *  # noqa: F403

sys.modules[__name__] = datasets
