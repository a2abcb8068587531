"""Several processes that train one system together: how they find each other, compare their input and share data.

`torchrun --nproc-per-node 4 -m cawn train ...` and `cawn train --devices 4` start them; torchrun can also start a
script that calls `cawn.train`. Each process computes a part of each batch and of each block of pairs to score; see
`cawn.systems.ranks`.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cawn import systems
from cawn.data.array_folders import map_array
from cawn.data.events import Events
from cawn.data.stored import matching_index
from cawn.devices import Device, pick_device
from cawn.errors import CawnError, DeviceError, QueryError, brief
from cawn.files import storing
from cawn.kernels.threads import num_cores
from cawn.learn.launcher import PARENT, PRINTED, STORE
from cawn.learn.run_info import current_versions
from cawn.learn.shared_links import read_links, write_links
from cawn.systems.base import Scorer, System
from cawn.systems.graphs import release_graphs
from cawn.systems.indexed import IndexedSystem
from cawn.systems.ranks import LOST, SINGLE, RankError, Ranks
from cawn.systems.settings import Settings

Array = npt.NDArray[Any]

WAIT = timedelta(minutes=60)  # for another rank; one that has ended is noticed at once
_WAIT_TO_JOIN = timedelta(minutes=10)
_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")

_joined: Ranks | None = None  # of this process, once it has joined the others


def place() -> dict[str, int] | None:
    """The place of this process among those that were started together, from its environment; None if it is alone."""
    found = {name: os.environ.get(name, "") for name in _VARIABLES}
    found["LOCAL_WORLD_SIZE"] = found["LOCAL_WORLD_SIZE"] or found["WORLD_SIZE"]
    if not all(value.isdecimal() for value in found.values()):
        return None
    return {name.lower(): int(value) for name, value in found.items()}


def is_first() -> bool:
    """Whether this process is alone, or the first of those that were started together."""
    here = place()
    return here is None or here["rank"] == 0


def join(device: Device = "auto") -> Ranks:
    """This process among those that were started with it; waits for them the first time it is called."""
    global _joined
    if _joined is None:
        here = place()
        if here is None:
            return SINGLE
        _joined = _connect(here, device)
    return _joined


def prints(reason: str, error: CawnError | None = None) -> bool:
    """Whether this process prints why it ends; others leave the reason for rank 0, which then prints it."""
    here = place()
    if here is None or here["world_size"] == 1:
        return True
    if _joined is None:
        speaks = here["local_rank"] == 0 or isinstance(error, RankError)  # the others may be waiting for this one
    else:
        speaks = _joined.first or getattr(error, "printed", False)
        if not isinstance(error, RankError):
            leave_reason(reason)
    if speaks and STORE in os.environ:
        with suppress(OSError):
            Path(os.environ[STORE]).with_name(PRINTED).touch()
    return speaks


def leave_reason(reason: str) -> None:
    """Tell the other ranks, if this process has joined any, why this one ends."""
    if _joined is not None:
        _joined.leave_reason(reason)


def _watch_parent() -> None:
    """Stop as after SIGTERM when the process that started this one ends."""

    def watch(end: int) -> None:
        with suppress(OSError):
            os.read(end, 1)
            os.kill(os.getpid(), signal.SIGTERM)

    if end := os.environ.pop(PARENT, ""):
        threading.Thread(target=watch, args=(int(end),), daemon=True).start()


def _connect(here: dict[str, int], device: Device) -> Ranks:
    import torch.distributed as dist
    from torch.distributed import PrefixStore  # type: ignore[attr-defined]

    if not dist.is_available():
        raise DeviceError("this build of PyTorch cannot train with several processes; start one")
    _watch_parent()
    rank, size = here["rank"], here["world_size"]
    store = None
    if dist.is_initialized():
        group = dist.new_group(backend="gloo", timeout=WAIT)
    else:
        try:
            store = PrefixStore("cawn", _store(rank, size))
            dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=WAIT)
        except (RuntimeError, ValueError, OSError) as error:
            reason = str(error).splitlines()[0]
            raise RankError(f"the other processes cannot be reached ({brief(reason)}); start all again") from error
        atexit.register(_leave)
        group = dist.group.WORLD
    found = Ranks(rank, size, here["local_rank"], here["local_world_size"], group, store)
    own = _own_device(found, device)
    if all(found.all_gather_objects(own is not None)):
        torch.cuda.set_device(own)
        found = replace(found, nccl=dist.new_group(backend="nccl", timeout=WAIT))
    return found


def _store(rank: int, size: int) -> Any:
    from torch.distributed import FileStore, rendezvous  # type: ignore[attr-defined]

    if path := os.environ.get(STORE):
        store = FileStore(path, size)
        store.set_timeout(_WAIT_TO_JOIN)
        return store
    store, _, _ = next(rendezvous("env://", rank, size, timeout=_WAIT_TO_JOIN))
    return store


def _leave() -> None:
    import torch.distributed as dist

    exit_if_rank_lost(1)
    with suppress(Exception):  # another rank may have ended
        release_graphs()
        dist.destroy_process_group()


def exit_if_rank_lost(code: int) -> None:
    """End this process at once if its GPU waits for a rank that has exited, which would take forever."""
    if LOST and _joined is not None and _joined.nccl is not None:
        exit_at_once(code)


def exit_at_once(code: int) -> None:
    """End this process, if it has joined others, without waiting for the threads of torch.distributed.

    These may abort a process that exits while other ranks are connected to it.
    """
    if _joined is None:
        return
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def _own_device(ranks: Ranks, device: Device) -> torch.device | None:
    """The GPU that this rank shares with no other; None on a CPU, or if there is none."""
    found = device_of(ranks, device)
    alone = ranks.local_size == 1 or (device in ("auto", "cuda") and torch.cuda.device_count() >= ranks.local_size)
    if found.type != "cuda" or not alone or not torch.distributed.is_nccl_available():
        return None
    return torch.device("cuda", found.index or 0)


def device_of(ranks: Ranks, device: Device) -> torch.device:
    """The device of a rank: as given, or one of the GPUs of its host."""
    found = pick_device(device)
    if found.type != "cuda" or found.index is not None or ranks.group is None:
        return found
    return torch.device("cuda", ranks.local_rank % torch.cuda.device_count())


def threads_of(ranks: Ranks, threads: int | None) -> int | None:
    """The threads of a rank: as given, or its share of the cores of its host; also sets those of PyTorch."""
    if threads is None and ranks.local_size > 1:
        threads = max(num_cores() // ranks.local_size, 1)
        torch.set_num_threads(threads)
    return threads


def refuse_indivisible(ranks: Ranks, config: Settings) -> None:
    """Refuse a system that several processes cannot train together."""
    name = systems.name_of(config)
    if ranks.several and not hasattr(systems.system_type(name), "same_dropout"):  # see `System`
        raise QueryError(
            f"{name} cannot be trained by several processes: it keeps state between steps, or does not train on "
            "individual links; use one process"
        )


def compare(ranks: Ranks, facts: dict[str, object]) -> None:
    """Refuse to train if a fact about the input, by its name, or a version is not the same on all ranks."""
    if not ranks.several:
        return
    versions = current_versions()
    facts = facts | {f"version of {name}": versions[name] for name in ("cawn", "torch")}
    all_facts = ranks.all_gather_objects({name: str(value) for name, value in facts.items()})
    for rank, found in enumerate(all_facts):
        names = all_facts[0] | found
        if differing := [name for name in names if found.get(name) != all_facts[0].get(name)]:
            raise QueryError(
                f"rank {rank} differs from rank 0 in {', '.join(differing)}; start all ranks with the same"
            )


def share_links(ranks: Ranks, source: str, read: Callable[[], Events]) -> Events:
    """The links that the first rank of each host reads; all ranks of the host map one copy of them into memory.

    Args:
        source: What is read, the same for all ranks of a host.
    """
    if ranks.local_size == 1:
        return read()
    given = ranks.all_gather_objects((ranks.local_rank, source))
    for rank, (local_rank, text) in enumerate(given):
        if text != given[rank - local_rank][1]:
            what = f"rank {rank} differs from rank {rank - local_rank} in the data"
            raise QueryError(f"{what}; start all ranks with the same")
    with _shared_folder(ranks) as folder:
        path, events = folder / "links", read() if ranks.local_rank == 0 else None
        mapped = events is not None and events.stored is not None
        if events is not None and not mapped:
            with storing(path):
                write_links(path, events)
        if ranks.broadcast_on_host(mapped):  # from an index folder
            return read() if events is None else events
        return read_links(path)


def share_index(ranks: Ranks, system: System, events: Events) -> None:
    """Let the first rank of each host build the index of these events; all ranks of the host map it into memory."""
    if ranks.local_size == 1 or not isinstance(system, IndexedSystem) or matching_index(events) is not None:
        return
    with _shared_folder(ranks) as folder:
        if ranks.local_rank == 0:
            for name, array in system.index(events).items():
                with storing(folder):
                    np.save(folder / f"{name}.npy", array, allow_pickle=False)
        ranks.all_gather_objects(None)
        system.load_index(events, {path.stem: map_array(path) for path in folder.glob("*.npy")})


@contextmanager
def _shared_folder(ranks: Ranks) -> Iterator[Path]:
    """A temporary folder of this host, removed when all its ranks have mapped what they need."""
    made = Path(tempfile.mkdtemp(prefix="cawn-")) if ranks.local_rank == 0 else None
    try:
        yield Path(ranks.broadcast_on_host(made))
        ranks.all_gather_objects(None)
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)


class DistributedScorer:
    """Scores a part of the pairs on each rank; each call is made on all ranks with the same pairs."""

    def __init__(self, scorer: Scorer, ranks: Ranks) -> None:
        self._scorer, self._ranks = scorer, ranks

    def __call__(self, src: Array, dst: Array, t: Array) -> Array:
        ends = cuts(src, t, self._ranks.size)
        part = slice(ends[self._ranks.rank], ends[self._ranks.rank + 1])
        return np.concatenate(self._ranks.all_gather(self._scorer(src[part], dst[part], t[part])))


def cuts(src: Array, t: Array, size: int) -> list[int]:
    """Bounds of `size` nearly equal parts of pairs; a source at one time is not divided, unless it fills a part."""
    n = len(src)
    starts = np.flatnonzero((src[1:] != src[:-1]) | (t[1:] != t[:-1])) + 1
    ends = [0]
    for rank in range(1, size):
        even = n * rank // size
        near = starts[np.searchsorted(starts, even) :][:1]
        ends.append(max(int(near[0]) if len(near) and near[0] - even < n / size else even, ends[-1]))
    return [*ends, n]


def shared(scorer: Scorer, ranks: Ranks) -> Scorer:
    """A scorer whose pairs are divided among the ranks."""
    return DistributedScorer(scorer, ranks) if ranks.several else scorer
