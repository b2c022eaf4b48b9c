# SPDX-License-Identifier: Apache-2.0
"""Network room: ``paddle.nn``. Layers keep parameters and settings and call functions;
functions record ops.
"""
from . import functional, initializer, layer, utils
from .clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from .layer.activation import *  # noqa: F403
from .layer.common import *  # noqa: F403
from .layer.container import *  # noqa: F403
from .layer.conv import *  # noqa: F403
from .layer.layers import Layer
from .layer.loss import *  # noqa: F403
from .layer.norm import *  # noqa: F403
from .layer.pooling import *  # noqa: F403
from .layer.rnn import *  # noqa: F403
from .layer.transformer import *  # noqa: F403
from .layer.vision import *  # noqa: F403
from ..framework.parameter import Parameter

# torch's spellings, which Paddle 3.3 has too.
_TORCH_NAMES = {"SiLU": "Silu", "Module": "Layer", "ModuleList": "LayerList", "ModuleDict": "LayerDict",
                "HuberLoss": "SmoothL1Loss"}
for _name in ("AdaptiveAvgPool", "AdaptiveMaxPool", "Conv", "CircularPad", "ConstantPad", "ReflectionPad",
              "ReplicationPad", "ZeroPad"):
    _TORCH_NAMES.update({f"{_name}{_n}d": f"{_name}{_n}D" for _n in (1, 2, 3)})
_TORCH_NAMES.update({f"LPPool{_n}d": f"LPPool{_n}D" for _n in (1, 2)})
_TORCH_NAMES.update({f"MaxUnpool{_n}d": f"MaxUnPool{_n}D" for _n in (1, 2, 3)})
_TORCH_NAMES.update({f"Upsampling{_n}2d": f"Upsampling{_n}2D" for _n in ("Bilinear", "Nearest")})
globals().update({_alias: globals()[_name] for _alias, _name in _TORCH_NAMES.items()})

__all__ = sorted(_name for _name, _value in globals().items()
                 if _name[0].isupper() and isinstance(_value, type))
del _name
