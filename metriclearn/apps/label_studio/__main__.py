"""``python -m metriclearn.apps.label_studio``: answer Label Studio, read and write its tasks."""

import sys

from metriclearn.apps.label_studio.backend import main

if __name__ == "__main__":
    sys.exit(main())
