"""Why a link has its score: the walks behind it, the contribution of each, and the shapes a model relies on."""
