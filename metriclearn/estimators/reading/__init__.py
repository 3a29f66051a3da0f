"""Reading of what users pass to estimators: data, labels, names, groups and weights."""
