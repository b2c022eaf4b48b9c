# SPDX-License-Identifier: Apache-2.0
"""Framework room: the random seed and the state of the core's counter-based generator."""
from .. import _core

__all__ = ["get_cuda_rng_state", "get_rng_state", "seed", "set_cuda_rng_state", "set_rng_state"]


class Generator:
    """Handle on the process's generator, as ``paddle.seed`` returns it."""

    def manual_seed(self, seed):
        """Restarts the stream at ``seed``."""
        _core.seed(int(seed))
        return self

    def get_state(self):
        """State that ``set_state`` takes."""
        return _core.get_rng_state()

    def set_state(self, state):
        """Continues from ``state``."""
        _core.set_rng_state(state)

    def initial_seed(self):
        """The seed of the last ``paddle.seed``."""
        return _last_seed


_last_seed = 0
_seed_calls = 0
default_generator = Generator()


def seed(seed):
    """Seeds every random op (initialisers, dropout, samplers of tensors). Returns the generator.

    ``seed`` is an int; the same seed gives the same numbers on any number of threads.
    """
    global _last_seed, _seed_calls
    if isinstance(seed, bool) or not hasattr(seed, "__int__"):
        raise TypeError(f"seed: expected an int, got {type(seed).__name__}.")
    _last_seed = int(seed)
    _seed_calls += 1
    return default_generator.manual_seed(_last_seed)


def explicit_seed():
    """(last seed, number of ``paddle.seed`` calls): data workers derive their streams from it."""
    return _last_seed, _seed_calls


def get_rng_state(device=None):
    """Generator states, one per device, as a list."""
    return [_core.get_rng_state()]


def set_rng_state(state_list, device=None):
    """Continues from what ``get_rng_state`` gave."""
    if not isinstance(state_list, (list, tuple)) or len(state_list) != 1:
        raise ValueError("set_rng_state: expected the list of one state that get_rng_state returns.")
    _core.set_rng_state(state_list[0])


def get_cuda_rng_state():
    """No CUDA device: an empty list."""
    return []


def set_cuda_rng_state(state_list):
    """Accepts the empty list that ``get_cuda_rng_state`` gives here."""
    if state_list:
        raise ValueError(f"set_cuda_rng_state: got {len(state_list)} states, but there is no CUDA device.")
