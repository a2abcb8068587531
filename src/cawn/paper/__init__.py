"""Every table and figure of the paper, and experiments beyond it: `cawn paper`.

An experiment plans measurements; a sweep makes those that have no result yet, in parallel, and writes one JSON file of
results per network; the report turns the results into tables and plots, with the paper's values beside ours.
"""

from __future__ import annotations

from cawn.paper.ablation import Ablation, Authors
from cawn.paper.clocks import Clocks
from cawn.paper.complexity import Complexity
from cawn.paper.curves import Sensitivity, Tree
from cawn.paper.experiments import Experiment
from cawn.paper.grid import Grid
from cawn.paper.networks import Networks
from cawn.paper.shapes import Shapes
from cawn.paper.tables import KindsOfNegatives, Table2, Table6
from cawn.paper.transfer import Transfer

EXPERIMENTS: dict[str, type[Experiment]] = {
    experiment.name: experiment
    for experiment in (
        Table2,
        Table6,
        Ablation,
        Sensitivity,
        Grid,
        Complexity,
        Tree,
        Shapes,
        Networks,
        KindsOfNegatives,
        Clocks,
        Authors,
        Transfer,
    )
}
