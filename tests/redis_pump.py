"""Moves links from Redis into a live state until it is killed: python tests/redis_pump.py URL RUN FOLDER."""

import sys
import time
from pathlib import Path

from cawn.serve.sources import redis
from cawn.serve.sources.pump import Pumps
from live import Live

SMALL = 100  # entries in a batch
PAUSE = 0.02  # seconds between the write of a batch and its acknowledgement


def main(url: str, run: Path, folder: Path) -> None:
    redis.ENTRIES = SMALL
    commit = redis.RedisSource.commit
    redis.RedisSource.commit = lambda source, batch: time.sleep(PAUSE * (len(batch) > 0)) or commit(source, batch)
    live = Live(run, folder)
    Pumps([url], live.store.offset, live.writer.submit, folder).start()
    time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
