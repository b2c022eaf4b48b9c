# SPDX-License-Identifier: Apache-2.0
"""`python -m yuloh.cli` is the `yuloh` command of that very Python."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
