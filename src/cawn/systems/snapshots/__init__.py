"""Systems that see a network as a sequence of snapshots: EvolveGCN, VGRNN and DynAERNN."""
