"""A process that moves links from Redis into a log until it is killed: python tests/redis_pump.py URL FOLDER."""

import sys
import time
from pathlib import Path

from cawn.serve.ingest import Ingest
from cawn.serve.log import LinkLog
from cawn.serve.sources.pump import Pumps
from live_history import ListHistory

if __name__ == "__main__":
    url, folder = sys.argv[1], Path(sys.argv[2])
    log = LinkLog(folder)
    ingest = Ingest(ListHistory(), log)
    ingest.start()
    Pumps([url], log.offset, ingest.submit, folder).start()
    print("started", flush=True)
    time.sleep(600)
