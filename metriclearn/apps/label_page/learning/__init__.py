"""What the label page learns: windows, a model, names of segments, and a check of the model."""
