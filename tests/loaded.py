"""What the process has loaded that all others of the tests are copies of, compiled programs too."""

import warnings

import metriclearn.apps.label_page.server  # noqa: F401
import tests.training  # noqa: F401
from metriclearn.apps.label_page.learning.group import compile_programs

with warnings.catch_warnings(action="ignore"):
    compile_programs()
