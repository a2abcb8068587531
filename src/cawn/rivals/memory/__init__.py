"""TGN, and JODIE and DyRep in their TGN form: every node has a memory that its links update, batch by batch.

A link between u and v at t sends u the message [s_u | s_v | phi(t - last_u) | e], and v the same with u and v
exchanged. The messages of a batch are aggregated per node, and a recurrent cell computes the new memory:
s = updater(message, s). The stream is divided into batches that do not depend on the queries. A query at t uses the
memory after the last batch that was complete before t, and all links strictly before t as neighbours.
"""
