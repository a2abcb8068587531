"""Causal anonymous walks without a model: sample and anonymise them, from a history and from a live stream."""

import numpy as np

import cawn

# A network in which two nodes that have just linked to the same node link to each other: u-w, w-v, then u-v.
network = cawn.laws.triadic_closure(num_nodes=60, num_links=600, seed=0)
events = network.events
print(events)

# A link that closes a triangle, and a pair that does not link, at the same time.
closing = np.flatnonzero(network.caused)[-60]
u, v, t = events.src[closing], events.dst[closing], events.t[closing]
recently = events[(events.t >= t - 200) & (events.t < t)]
near = np.isin(recently.src, [u, v]) | np.isin(recently.dst, [u, v])
stranger = recently.dst[~near][-1]

history = cawn.History(events, alpha=1 / 300)  # a link of age 300 has 1/e of the weight of a new one
walks_u, walks_v, walks_s = (history.sample([node], t, num_walks=64, length=2, seed=0) for node in (u, v, stranger))
print(f"{walks_u}; the most frequent of them, with their counts:")
different, count = np.unique(walks_u.nodes[0], axis=0, return_counts=True)
for nodes, times in sorted(zip(different, count, strict=True), key=lambda pair: -pair[1])[:4]:
    print(f"  {times:2}  {' -> '.join(str(node) for node in nodes if node >= 0)}")  # -1: the walk has ended

# Relative identities: how many walks of each side have a node at each position. Shapes: the first such position.
print("\nWalks that reach a node that walks from the other side reach too:")
for description, others in (("u and v, which closes a triangle", walks_v), ("u and a stranger", walks_s)):
    counts = cawn.anonymize(walks_u, others)  # [1, 2, M, m + 1, 2, m + 1]
    shapes = cawn.walk_shapes(counts)[0]  # [2, M, m + 1, 2]: first position in walks from u and from the other node
    reached = shapes[:, :, 1:]  # without the starts
    meet = ((reached >= 0) & np.isfinite(reached)).all(axis=-1).any(axis=-1)  # [2, M]
    print(f"  {meet.sum():3} of {meet.size}   {description}")

# The same query on a live stream, which keeps only the last 4 links of each node.
stream = cawn.Stream(num_nodes=events.num_nodes, alpha=1 / 300, capacity=4)
past = events[events.t < t]
stream.append(past.src, past.dst, past.t)
live = stream.sample([v], t, num_walks=64, length=2, seed=0)
same = (live.nodes == walks_v.nodes).all(axis=-1).mean()
print(f"\n{stream}")
print(f"walks from v that are the same as from the history: {same:.0%}")
print(f"probability that the first step from v takes a dropped link: {stream.missing_mass([v], t)[0]:.1%}")
