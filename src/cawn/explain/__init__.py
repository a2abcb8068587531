"""Why this link: the walks behind a score, what each adds to it, and the law a model has found."""
