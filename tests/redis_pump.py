"""A process that moves links from Redis into a log until it is killed: python tests/redis_pump.py URL FOLDER."""

import sys
import time
from pathlib import Path

from cawn.serve.ingest import Ingest, Receipt
from cawn.serve.log import LinkLog
from cawn.serve.sources import redis
from cawn.serve.sources.pump import Pumps
from live_history import ListHistory

SMALL = 100  # entries in a batch
PAUSE = 0.02  # seconds between the write of a batch and its acknowledgement


def recover(log: LinkLog) -> None:
    """Read from the log what the catalog does not include, as `open_state` does."""
    for record in log.replay(log.settled):
        log.settle(record, Receipt(len(record.links), 0, 0, 0))


def main(url: str, folder: Path) -> None:
    redis.ENTRIES = SMALL
    commit = redis.RedisSource.commit
    redis.RedisSource.commit = lambda source, batch: time.sleep(PAUSE * (len(batch) > 0)) or commit(source, batch)
    log = LinkLog(folder)
    recover(log)
    ingest = Ingest(ListHistory(), log)
    ingest.start()
    Pumps([url], log.offset, ingest.submit, folder).start()
    time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
