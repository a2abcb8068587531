"""Why a link has its score: contributions of parts of the past and of walks; what would change it; laws of models."""
