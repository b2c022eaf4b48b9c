# SPDX-License-Identifier: Apache-2.0
"""``import paddle`` answered by Yuloh: ``paddle_alias.install()`` puts the import hook of ``yuloh run`` in place."""
from .cli.run import install  # noqa: F401
