"""Damages files of an index folder at random and uses it: a script, because damage that is not noticed may crash it.

python index_damage.py FOLDER COUNT prints one line per damage: a message of one line, "same" or a failure.
"""

import sys
from pathlib import Path

import numpy as np

import cawn
from cawn.index.features import PairFeatures, PairParts
from cawn.index.stored import stored_index


def answers(folder: Path) -> bytes:
    """What walks and features of some queries are."""
    events = cawn.read(folder)
    facts = events.stored.description["facts"]
    index = stored_index(events, tuple(facts["alpha"]), facts["unit"], PairParts(), attributes=True)
    assert index is not None
    src, dst, t = (np.asarray(column[-50:]) for column in (events.src, events.dst, events.t))
    walks = cawn.History.of(index).sample(src, t, num_walks=8, length=2, seed=0, threads=1)
    features = PairFeatures(PairParts(), index, 1.0).features(src, dst, t, threads=1)
    return walks.nodes.tobytes() + features.tobytes() + repr(events.labels[src[0]]).encode()


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """The content with a bit flipped, its end cut off, or some bytes replaced."""
    at = int(rng.integers(len(content)))
    match rng.integers(3):
        case 0:
            return content[:at] + bytes([content[at] ^ 1 << int(rng.integers(8))]) + content[at + 1 :]
        case 1:
            return content[:at]
        case _:
            some = rng.bytes(int(rng.integers(1, 40)))
            return content[:at] + some + content[at + len(some) :]


def main(folder: Path, count: int) -> None:
    expected, rng = answers(folder), np.random.default_rng(0)
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    for _ in range(count):
        path = paths[rng.integers(len(paths))]
        content = path.read_bytes()
        path.write_bytes(damaged(content, rng))
        try:
            outcome = "same" if answers(folder) == expected else "other answers"
        except cawn.StorageError as error:
            outcome = f"error: {error}"
        except BaseException as error:
            outcome = f"{path.name}: {type(error).__name__}: {error}"
        path.write_bytes(content)
        print(repr(outcome)[1:-1], flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
