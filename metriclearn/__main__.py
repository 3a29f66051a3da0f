"""The command ``metriclearn``, or ``python -m metriclearn``."""

import sys

from metriclearn.apps.console.commands import main

if __name__ == "__main__":
    sys.exit(main())
