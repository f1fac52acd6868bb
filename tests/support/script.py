"""A script in a process that begins with Crosscheck's imports done; `start_module` gives it script and words."""

import sys

if __name__ == "__main__":
    exec(sys.argv.pop(1), {"__name__": "__main__"})
