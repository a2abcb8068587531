"""A training loop to edit: what `cawn.train` does in an epoch, on the parts of the package, and a test at the end.

python examples/train_loop.py [edges.csv]
"""

import sys
from collections.abc import Iterator

import torch

import cawn
from cawn import systems
from cawn.kernels.rng import seed_for
from cawn.learn.evaluation import score_contrast
from cawn.learn.metrics import average_precision
from cawn.learn.negatives import negatives, training_links, validation_negatives
from cawn.learn.splits import split
from cawn.systems.base import Context, Scorer
from cawn.systems.settings import Settings
from cawn.systems.training import Optimizer, seed_step


def train(events: cawn.Events, config: Settings, seed: int = 0) -> Iterator[tuple[float, Scorer]]:
    """Train the system of these settings; after each epoch, its AP on validation links and a scorer."""
    parts, device = split(events, "transductive", seed=seed), torch.device("cpu")
    training, visible = training_links(events, parts, config, seed), events[parts.visible]
    torch.manual_seed(seed_for(seed, "weights"))
    system = systems.build(systems.name_of(config), Context(config, visible, seed, device, training=training))
    steps = getattr(system, "steps_per_epoch", training.steps_per_epoch)  # a system may have steps of its own
    optimizer, wrong = Optimizer(system.module, config, steps), validation_negatives(events, parts, seed)
    for epoch in range(config.epochs):
        system.module.train()
        losses = system.updates(epoch, 0, optimizer)
        for step in range(steps):
            seed_step(device, training.seed_for("dropout", epoch, step))
            loss = next(losses)  # of a batch of links and their negatives; add a term of your own here
            optimizer.set_learning_rate(optimizer.learning_rate(epoch, step))
            optimizer.minimise(loss)  # backward, clip, update
        scorer, links = system.scorer(visible), parts.val
        scores = score_contrast(scorer, events.src[links], events.dst[links], wrong, events.t[links])
        yield average_precision(*scores), system.scorer(events)


if __name__ == "__main__":
    events = cawn.read(sys.argv[1]) if sys.argv[1:] else cawn.laws.triadic_closure(seed=0).events
    for epoch, trained in enumerate(train(events, cawn.Config(num_walks=16, epochs=2)), start=1):
        ap, scorer = trained
        print(f"epoch {epoch}: validation AP {ap:.4f}")
    parts = split(events, "transductive", seed=0)
    (test,) = parts.test.values()
    drawn = negatives(events, test, "historical", seen=parts.train, visible=parts.visible, seed=1).dst
    scores = score_contrast(scorer, events.src[test], events.dst[test], drawn, events.t[test])
    print(f"test AP against historical negatives {average_precision(*scores):.4f}")
