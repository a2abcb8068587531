"""Studies: several trainings side by side, compared, searched or repeated over seeds."""
