# SPDX-License-Identifier: Apache-2.0
"""Distributed room: the process's rank and the number of processes, 0 and 1 here."""
import contextlib
import os

from ..nn.layer.layers import Layer

__all__ = ["DataParallel", "ParallelEnv", "barrier", "get_backend", "get_rank", "get_world_size",
           "init_parallel_env", "is_available", "is_initialized"]

_initialized = False


def _world_from_environment():
    return int(os.environ.get("PADDLE_TRAINERS_NUM", "1") or 1)


class ParallelEnv:
    """Rank, number of processes and device of this process."""

    rank = local_rank = device_id = 0
    world_size = nranks = 1
    device_type = "cpu"
    current_endpoint = ""
    trainer_endpoints = ()


def get_rank(group=None):
    """Number of this process: 0."""
    return 0


def get_world_size(group=None):
    """Number of processes: 1."""
    return 1


def is_initialized():
    """True after ``init_parallel_env``."""
    return _initialized


def is_available():
    """True: the functions of one process are there."""
    return True


def get_backend(group=None):
    """Name of the library that would exchange tensors; none is needed for one process."""
    return "GLOO"


def init_parallel_env(nccl_config=None):
    """Nothing to set up for one process. Raises RuntimeError where a launcher started several."""
    global _initialized
    count = _world_from_environment()
    if count > 1:
        raise RuntimeError(f"init_parallel_env: {count} processes were started, but this build of Yuloh "
                           "trains in one. " "Hint: start the script without a launcher.")
    _initialized = True
    return None


def barrier(group=None):
    """One process never waits."""


class DataParallel(Layer):
    """``layers`` itself behind the interface of data parallel training; with one process there is nothing to
    share.
    """

    def __init__(self, layers, strategy=None, comm_buffer_size=25, last_comm_buffer_size=1,
                 find_unused_parameters=False, group=None):
        super().__init__(layers.full_name() + "_data_parallel")
        self._layers = layers
        self.find_unused_parameters = find_unused_parameters

    def forward(self, *inputs, **kwargs):
        return self._layers(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self):
        """Gradients are not exchanged inside; they never are with one process."""
        yield

    def scale_loss(self, loss):
        """``loss`` itself."""
        return loss

    def apply_collective_grads(self):
        """Nothing to exchange."""

    def state_dict(self, *args, **kwargs):
        """The wrapped layer's state, without a prefix."""
        return self._layers.state_dict(*args, **kwargs)

    def set_state_dict(self, state_dict, use_structured_name=True):
        """Loads into the wrapped layer."""
        return self._layers.set_state_dict(state_dict, use_structured_name)

    set_dict = load_dict = set_state_dict
