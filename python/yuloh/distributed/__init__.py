# SPDX-License-Identifier: Apache-2.0
"""Distributed room: what a script of one process asks. Programs of several processes are not built yet: they
say so.
"""
from . import fleet
from .parallel import (DataParallel, ParallelEnv, barrier, get_backend, get_rank, get_world_size,
                       init_parallel_env, is_available, is_initialized)

__all__ = ["DataParallel", "ParallelEnv", "barrier", "fleet", "get_backend", "get_rank", "get_world_size",
           "init_parallel_env", "is_available", "is_initialized"]
