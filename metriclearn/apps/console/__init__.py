"""The commands of metriclearn, and a recording that is segmented while it runs."""
