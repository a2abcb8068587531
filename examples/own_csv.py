"""From a CSV file to predictions: string names, ISO dates, and a node that is not in the data."""

import csv
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import cawn


def write_messages(path: Path) -> tuple[str, str, str]:
    """Write messages in which people who know the same person write to each other; returns the last of these."""
    network = cawn.laws.triadic_closure(num_nodes=60, num_links=3_000, seed=0, noise=0.1)
    links, start = network.events, datetime(2024, 1, 1)
    people = [f"{first} {last}" for first in ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn") for last in "ABCDEFGHIJ"]
    messages = [
        (people[src], people[dst], f"{start + timedelta(minutes=int(minute))}")
        for src, dst, minute in zip(links.src, links.dst, links.t, strict=True)
    ]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([("sender", "receiver", "date"), *messages])
    return messages[network.caused.nonzero()[0][-1]]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path, run_folder = Path(folder) / "messages.csv", Path(folder) / "run"
        sender, receiver, date = write_messages(path)

        events = cawn.read(path)  # columns are recognised by their names; dates become Unix seconds
        print(events)

        # Small and quick; use cawn.Config() for real data.
        config = cawn.Config(num_walks=32, dim=32, epochs=3, lr=3e-3)
        run = cawn.train(events, config, seed=0, out=run_folder, quiet=True)
        tested = run.results.where(metric="ap", negatives="random", system=("cawn", "recency"))
        model, recency = (row["value"] for row in tested)
        print(f"last {tested[0]['count']} links: AP {model:.3f}, recency baseline {recency:.3f}")

        # Later, or on another machine: the run folder is all that is needed.
        predictor = cawn.LinkPredictor.load(run_folder)
        candidates = [receiver, "Ada A", "Cleo E", "Zoe, who is new"]
        print(f"\n{sender} wrote to {receiver} on {date}. Probabilities from the messages before that:")
        for name, probability in zip(candidates, predictor.score(sender, candidates, date), strict=True):
            print(f"  {probability:.2f}  {sender} and {name}")

        print(f"\nThe most probable receivers of a message from {sender} at that time:")
        for place, best in enumerate(predictor.rank(sender, date, k=3), start=1):
            print(f"  {place}. {best.name}  {best.probability:.2f}")
