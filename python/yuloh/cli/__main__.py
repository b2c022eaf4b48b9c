# SPDX-License-Identifier: Apache-2.0
"""`python -m yuloh.cli` is the `yuloh` command of that very Python."""

import sys

from . import main as command


def main() -> int:
    try:
        return command()
    except KeyboardInterrupt:  # once more, while the first was being told
        return 130


if __name__ == "__main__":
    sys.exit(main())
