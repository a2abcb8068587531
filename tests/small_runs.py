"""Small trainings for tests of learn/ and of systems."""

import torch

import cawn

TINY = cawn.Config(alpha="ladder", num_walks=8, length=2, dim=8, frequencies=4, batch_size=64, epochs=3, lr=3e-3)


def weights(run: cawn.Run) -> dict[str, torch.Tensor]:
    return run.model.state_dict()


def assert_same_weights(a: cawn.Run, b: cawn.Run) -> None:
    for name, value in weights(a).items():
        assert torch.equal(value, weights(b)[name]), name
