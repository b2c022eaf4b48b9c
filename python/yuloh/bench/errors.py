# SPDX-License-Identifier: Apache-2.0
"""Errors of the performance test. Each is one clear line; the other contenders go on."""


class ContenderError(RuntimeError):
    """A contender cannot be set up or run: absent Python, failed installation, crashed or killed worker."""


class BudgetSpent(Exception):
    """The time or money limit does not allow the next piece of work."""
