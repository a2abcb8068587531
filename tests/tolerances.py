"""How closely scores agree that are computed in different ways: the promise of docs/evaluation.md, "Same question".

The same question in the same batch, on the same machine with the same number of threads, gives the same bits. In
another batch, with other threads, on another processor or by another engine, float32 sums run in another order. Logits
then agree to within SCORES, relative and absolute: |a - b| <= SCORES * (1 + |b|).

Over batches of 1 to 1,000 pairs, one and two threads, four kinds of vector units and six kinds of model, differences of
up to 5e-6 were measured at logits of up to 4. SCORES is at least four times that at every logit: 168 units in the last
place of 1 in float32. One walk that differs moves a logit by 1e-3 and more, so no mistake hides below it.
"""

import numpy as np
import torch

SCORES = 2e-5


def assert_same_scores(found: object, expected: object) -> None:
    """Logits, probabilities or embeddings of the same pairs, computed in another batch or by another engine."""
    np.testing.assert_allclose(_numbers(found), _numbers(expected), rtol=SCORES, atol=SCORES)


def _numbers(values: object) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
