"""Systems that treat a network as a sequence of snapshots: EvolveGCN, VGRNN and DynAERNN."""
