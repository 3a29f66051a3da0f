"""Programs for people: the console, the page of metriclearn label, and Label Studio's backend."""
