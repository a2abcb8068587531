"""How closely scores agree that are computed in different ways: the promise of docs/evaluation.md, "Same question".

The same question in the same batch, on the same machine with the same number of threads, gives the same bits. In
another batch, with other threads, on another processor or by another engine, float32 sums run in another order. Logits
then agree to within SCORES, relative and absolute: |a - b| <= SCORES * (1 + |b|).

Measured over batches of 1 and 300 pairs, two threads, three kinds of vector units and five kinds of model, in units of
1 + |b|: up to 2e-6 at logits of up to 8, up to 1.1e-5 with weights so large that logits reach 50, and 3.5e-5 for the
transformer with such weights. SCORES is three times that, and fifty times what moderate weights show: 839 units in the
last place of 1 in float32. A walk that differs moves a logit by 1e-3 and more, so no mistake hides below it.
"""

import numpy as np
import torch

SCORES = 1e-4


def assert_same_scores(found: object, expected: object) -> None:
    """Logits, probabilities or embeddings of the same pairs, computed in another batch or by another engine."""
    np.testing.assert_allclose(_numbers(found), _numbers(expected), rtol=SCORES, atol=SCORES)


def _numbers(values: object) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
