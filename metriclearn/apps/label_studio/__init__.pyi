"""The public names of metriclearn.apps.label_studio."""

from .backend import Backend as Backend
from .tasks import read_tasks as read_tasks
from .tasks import write_tasks as write_tasks
