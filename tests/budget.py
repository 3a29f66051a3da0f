"""Number of random cases of a property: few by default, many in ``make fuzz``."""

import os


def examples(many: int) -> int:
    """A quarter of ``many``, or EXAMPLES times ``many`` where that variable is set."""
    return round(many * float(os.environ.get("EXAMPLES", "0.25")))
