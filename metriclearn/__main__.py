"""``python -m metriclearn`` is the console command ``metriclearn``."""

import sys

from metriclearn.cli import main

sys.exit(main())
