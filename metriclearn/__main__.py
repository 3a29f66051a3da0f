"""``python -m metriclearn`` is the console command ``metriclearn``."""

import sys

from metriclearn.cli import main

if __name__ == "__main__":
    sys.exit(main())
