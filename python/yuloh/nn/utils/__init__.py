# SPDX-License-Identifier: Apache-2.0
"""Network room: helpers on parameters: clipping by hand, vectors, weight and spectral normalisation."""
from .clip_grad import clip_grad_norm_, clip_grad_value_
from .transform import parameters_to_vector, vector_to_parameters
from .weight_norm import remove_weight_norm, spectral_norm, weight_norm

__all__ = ["clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "remove_weight_norm",
           "spectral_norm", "vector_to_parameters", "weight_norm"]
