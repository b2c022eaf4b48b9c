# SPDX-License-Identifier: Apache-2.0
"""Inference room: ``Config``, which model a predictor runs and how."""
import json
import os
import warnings

from .. import _core
from ..amp.lists import row_name
from .kinds import PrecisionType

__all__ = ["Config"]

# Paddle's switches for hardware and libraries that have no counterpart here: accepted, and say so when used.
_WITHOUT_EFFECT = {
    "enable_xpu": "XPUs", "set_xpu_device_id": "XPUs", "set_xpu_config": "XPUs", "enable_ipu": "IPUs",
    "set_ipu_config": "IPUs", "set_ipu_custom_info": "IPUs", "load_ipu_config": "IPUs",
    "enable_custom_device": "custom devices", "enable_cinn": "CINN (every graph is fused and compiled already)",
    "enable_onnxruntime": "ONNX Runtime", "enable_ort_optimization": "ONNX Runtime", "disable_onnxruntime": "ONNX Runtime",
    "enable_openvino_engine": "OpenVINO", "enable_tensorrt_dla": "DLA cores",
    "enable_tensorrt_varseqlen": "TensorRT plugins", "enable_tensorrt_memory_optim": "TensorRT memory pools",
    "enable_tensorrt_inspector": "TensorRT's inspector", "mark_trt_engine_outputs": "TensorRT",
    "set_tensorrt_optimization_level": "TensorRT", "enable_tensorrt_explicit_quantization": "TensorRT",
    "exp_disable_tensorrt_subgraph": "TensorRT", "exp_disable_tensorrt_dynamic_shape_ops": "TensorRT",
    "exp_specify_tensorrt_subgraph_precision": "TensorRT", "exp_enable_use_cutlass": "CUTLASS",
    "exp_sparse_conv_using_buffer": "sparse convolution", "set_mkldnn_cache_capacity": "a primitive cache of its own",
    "set_onednn_cache_capacity": "a primitive cache of its own", "set_mkldnn_op": "a choice of library per op",
    "set_onednn_op": "a choice of library per op", "disable_mkldnn_fc_passes": "library passes",
    "disable_onednn_fc_passes": "library passes", "disable_garbage_collector": "garbage collection (memory is planned)",
    "enable_low_precision_io": "low-precision inputs", "enable_save_optim_model": "optimised copies of models",
    "use_optimized_model": "optimised copies of models", "set_optim_cache_dir": "a cache on disk",
    "enable_new_executor": "another executor", "enable_new_ir": "another graph", "switch_ir_debug": "graph dumps (YULOH_EXPLAIN=plan prints plans)",
    "switch_use_feed_fetch_ops": "feed and fetch ops", "switch_specify_input_names": "unnamed inputs",
    "set_optimization_level": "levels of optimisation", "enable_custom_passes": "user-written passes",
    "enable_profile": "a log per run (paddle.profiler measures)",
}


class _PassBuilder:
    """The rewrites that a predictor makes, by name."""

    def __init__(self, config):
        self._config = config

    def all_passes(self):
        """Names that are switched on."""
        return [n for n, on in (("fold_batch_norm", self._config._fold and self._config._ir_optim), ("rewrite_rules", self._config._ir_optim),
                                ("fusion", self._config._fusion and self._config._ir_optim)) if on]

    def delete_pass(self, name):
        """As ``Config.delete_pass``."""
        self._config.delete_pass(name)


class Config:
    """``Config()``, ``Config(model_dir)`` or ``Config(prog_file, params_file)``.

    The file may be what ``paddle.jit.save`` wrote (here or in Paddle) or an ONNX file; its content decides.
    """

    def __init__(self, *files):
        if len(files) > 2:
            raise TypeError(f"Config: expected a folder, or a program and a params file, got {len(files)} arguments.")
        for file in files:
            if not isinstance(file, (str, os.PathLike)):
                raise TypeError(f"Config: a path is {file!r}; expected a str or os.PathLike.")
        self._dir = self._prog = self._params = ""
        self._buffers = None
        self._engine = None       # of enable_tensorrt_engine
        self._precision = PrecisionType.Float32
        self._keep, self._only = set(), None
        self._ir_optim = self._fold = self._fusion = True
        self._memory_optim, self._glog, self._mkldnn = False, True, True
        self._threads = None
        self._memory_limit = 0
        self._cache_bytes = 256 << 20
        self._shapes = {}         # min, max, opt of set_trt_dynamic_shape_info
        self._collect, self._tuned = "", ""
        self._golden = False
        self._gpu_mb, self._gpu_id = 0, 0
        if len(files) == 1:
            self.set_model(files[0])
        elif files:
            self.set_model(*files)

    # ---- which model ---------------------------------------------------------------------------------------
    def set_model(self, model, params=None):
        """A folder, or a program file and its params file."""
        model = os.fspath(model)
        if params is None and os.path.isdir(model):
            self._dir, self._prog, self._params = model, "", ""
        else:
            self._dir, self._prog, self._params = "", model, os.fspath(params or "")

    def set_prog_file(self, path):
        """The program file."""
        self._prog = os.fspath(path)

    def set_params_file(self, path):
        """The params file."""
        self._params = os.fspath(path)

    def set_model_buffer(self, prog, prog_size, params, params_size):
        """The program and its params as bytes."""
        self._buffers = bytes(prog[:prog_size]), bytes(params[:params_size])

    def model_dir(self):
        """The folder, or ''."""
        return self._dir

    def prog_file(self):
        """The program file, or ''."""
        return self._prog

    def params_file(self):
        """The params file, or ''."""
        return self._params

    def model_from_memory(self):
        """Whether ``set_model_buffer`` was called."""
        return self._buffers is not None

    def is_valid(self):
        """Whether a model was named."""
        return bool(self._dir or self._prog or self._buffers)

    # ---- device --------------------------------------------------------------------------------------------
    def enable_use_gpu(self, memory_pool_init_size_mb=100, device_id=0, precision_mode=PrecisionType.Float32):
        """Asks for a GPU. This build has none: it warns and the CPU is used."""
        self._gpu_mb, self._gpu_id = int(memory_pool_init_size_mb), int(device_id)
        if precision_mode != PrecisionType.Float32:
            self._precision = PrecisionType(precision_mode)
        warnings.warn("Config: this build has no GPU support; the CPU is used.", stacklevel=2)

    def disable_gpu(self):
        """The CPU, which is used in any case."""

    def use_gpu(self):
        """False in this build."""
        return False

    def use_xpu(self):
        """False."""
        return False

    def gpu_device_id(self):
        """As given to ``enable_use_gpu``."""
        return self._gpu_id

    def xpu_device_id(self):
        """0."""
        return 0

    def memory_pool_init_size_mb(self):
        """As given to ``enable_use_gpu``."""
        return self._gpu_mb

    def fraction_of_gpu_memory_for_pool(self):
        """0.0 without a GPU."""
        return 0.0

    def set_cpu_math_library_num_threads(self, n):
        """Threads of the executor team. There is one team per process, so the last predictor that is created decides."""
        if int(n) < 1:
            raise ValueError(f"set_cpu_math_library_num_threads: expected at least 1, got {n}.")
        self._threads = int(n)

    def cpu_math_library_num_threads(self):
        """Threads of the executor team."""
        return self._threads or _core.get_num_threads()

    # ---- engine --------------------------------------------------------------------------------------------
    def enable_tensorrt_engine(self, workspace_size=1 << 30, max_batch_size=1, min_subgraph_size=3,
                               precision_mode=PrecisionType.Float32, use_static=False, use_calib_mode=True,
                               use_cuda_graph=False, disabled_ops=()):
        """Selects this system's own engine: batch norm folded into convolutions, fusion, and products in ``precision_mode``
        (Half and Bfloat16 are bfloat16 on the CPU).

        ``disabled_ops`` (names as in Paddle or in docs/ops.md) stay in float32 and cut the graph into segments; so do the
        products of a segment of fewer than ``min_subgraph_size`` ops (views do not count). Int8 needs a quantised model. The other arguments have no counterpart.
        """
        self._engine = {"workspace_size": int(workspace_size), "max_batch_size": int(max_batch_size),
                        "min_subgraph_size": int(min_subgraph_size)}
        self._precision = PrecisionType(precision_mode)
        self._keep |= {row_name(n) for n in disabled_ops}

    def exp_disable_tensorrt_ops(self, ops):
        """These ops stay in float32."""
        self._keep |= {row_name(n) for n in ops}

    exp_disable_mixed_precision_ops = exp_disable_tensorrt_ops

    def exp_enable_mixed_precision_ops(self, ops):
        """Only these ops compute in reduced precision."""
        self._only = {row_name(n) for n in ops}

    def tensorrt_engine_enabled(self):
        """Whether ``enable_tensorrt_engine`` was called."""
        return self._engine is not None

    def tensorrt_precision_mode(self):
        """The PrecisionType."""
        return self._precision

    def set_trt_dynamic_shape_info(self, min_input_shape=None, max_input_shape=None, optim_input_shape=None,
                                   disable_trt_plugin_fp16=False):
        """Shapes by input name. Those of ``optim_input_shape`` are compiled when the predictor is created; others are
        compiled when they come, so ``min`` and ``max`` bound nothing.
        """
        self._shapes = {"min": dict(min_input_shape or {}), "max": dict(max_input_shape or {}),
                        "opt": dict(optim_input_shape or {})}

    def tensorrt_dynamic_shape_enabled(self):
        """Whether shapes were given."""
        return bool(self._shapes)

    def collect_shape_range_info(self, path):
        """The shapes of all requests are written to ``path`` for ``enable_tuned_tensorrt_dynamic_shape``."""
        self._collect = os.fspath(path)

    def shape_range_info_path(self):
        """As given to ``collect_shape_range_info``."""
        return self._collect

    def shape_range_info_collected(self):
        """Whether shapes are collected."""
        return bool(self._collect)

    def enable_tuned_tensorrt_dynamic_shape(self, shape_range_info_path="", allow_build_at_runtime=True):
        """The collected shapes are compiled when the predictor is created."""
        self._tuned = os.fspath(shape_range_info_path)

    def tuned_tensorrt_dynamic_shape(self):
        """Whether collected shapes are used."""
        return bool(self._tuned)

    def trt_allow_build_at_runtime(self):
        """True: other shapes are compiled when they come."""
        return True

    def enable_mkldnn(self):
        """oneDNN, which is used where it is fastest in any case."""
        self._mkldnn = True

    enable_onednn = enable_mkldnn

    def disable_mkldnn(self):
        """Noted; kernels are chosen by measurement, and some are oneDNN's."""
        self._mkldnn = False

    disable_onednn = disable_mkldnn

    def mkldnn_enabled(self):
        """As switched."""
        return self._mkldnn

    onednn_enabled = mkldnn_enabled

    def enable_mkldnn_bfloat16(self):
        """Products and convolutions in bfloat16."""
        self._precision = PrecisionType.Bfloat16

    enable_onednn_bfloat16 = enable_mkldnn_bfloat16

    def set_bfloat16_op(self, ops):
        """Only these ops compute in bfloat16."""
        self.exp_enable_mixed_precision_ops(ops)

    def enable_mkldnn_int8(self, ops=()):
        """Int8: needs a quantised model."""
        self._precision = PrecisionType.Int8

    enable_onednn_int8 = enable_mkldnn_int8

    def mkldnn_int8_enabled(self):
        """Whether Int8 was asked for."""
        return self._precision == PrecisionType.Int8

    onednn_int8_enabled = mkldnn_int8_enabled

    # ---- graph and memory ----------------------------------------------------------------------------------
    def verify_golden_samples(self, x=True):
        """Yuloh's own: ``create_predictor`` runs the golden samples of the package and raises RuntimeError where one does not
        come out as it did.
        """
        self._golden = bool(x)

    def switch_ir_optim(self, x=True):
        """False: ops run as recorded: no fusion, folding or rewriting."""
        self._ir_optim = bool(x)

    def ir_optim(self):
        """Whether the graph is optimised."""
        return self._ir_optim

    def pass_builder(self):
        """The passes by name."""
        return _PassBuilder(self)

    def delete_pass(self, name):
        """Switches a pass off: 'fold_batch_norm' (also as 'conv_bn_fuse_pass' and the like), 'fusion', 'rewrite_rules'."""
        if "bn" in name or "batch_norm" in name:
            self._fold = False
        elif name == "rewrite_rules":
            self._ir_optim = False
        elif "fus" in name:
            self._fusion = False
        else:
            warnings.warn(f"Config.delete_pass: there is no pass {name!r} here.", stacklevel=2)

    def enable_memory_optim(self, x=True):
        """Memory is planned and reused in any case."""
        self._memory_optim = bool(x)

    def memory_optim_enabled(self):
        """As switched."""
        return self._memory_optim

    def set_memory_limit(self, nbytes):
        """Bytes for weights, plans and work together; a request that needs more raises MemoryError before it allocates."""
        if int(nbytes) < 0:
            raise ValueError(f"set_memory_limit: expected a number of bytes, got {nbytes}.")
        self._memory_limit = int(nbytes)

    def set_memory_fraction(self, fraction):
        """``set_memory_limit`` as a part of the machine's (or container's) memory."""
        if not 0 < float(fraction) <= 1:
            raise ValueError(f"set_memory_fraction: expected a number above 0, at most 1, got {fraction}.")
        self._memory_limit = int(_core.machine_memory()[0] * float(fraction))

    def set_plan_cache_bytes(self, nbytes):
        """Bytes for plans of different shapes; the least recently used go first."""
        self._cache_bytes = int(nbytes)

    def disable_glog_info(self):
        """There is no log."""
        self._glog = False

    def glog_info_disabled(self):
        """As switched."""
        return not self._glog

    def summary(self):
        """The settings as a table."""
        rows = [("model_file", self._dir or self._prog), ("params_file", self._params), None,
                ("cpu_math_thread", self.cpu_math_library_num_threads()), ("enable_mkldnn", self._mkldnn), None,
                ("use_gpu", False), None, ("engine", "yuloh" if self._engine else "default"),
                ("precision", self._precision.name), ("disabled_ops", ", ".join(sorted(self._keep))), None,
                ("ir_optim", self._ir_optim), ("memory_optim", self._memory_optim),
                ("memory_limit", self._memory_limit or "none"), ("collect_shape_range_info", bool(self._collect))]
        rows = [r and (r[0], str(r[1]).lower() if isinstance(r[1], bool) else str(r[1])) for r in rows]
        left = max(len(r[0]) for r in rows if r)
        right = max([len("Value")] + [len(r[1]) for r in rows if r])
        rule = f"+{'-' * (left + 2)}+{'-' * (right + 2)}+"
        body = [rule if r is None else f"| {r[0]:<{left}} | {r[1]:<{right}} |" for r in rows]
        return "\n".join([rule, f"| {'Option':<{left}} | {'Value':<{right}} |", rule, *body, rule]) + "\n"

    def __getattr__(self, name):
        if name not in _WITHOUT_EFFECT:
            raise AttributeError(f"Config has no attribute {name!r}.")

        def accepted(*args, **kwargs):
            warnings.warn(f"Config.{name} has no effect: this engine has no {_WITHOUT_EFFECT[name]}.", stacklevel=2)
        return accepted

    def __dir__(self):
        return sorted({*super().__dir__(), *_WITHOUT_EFFECT})

    # ---- for create_predictor ------------------------------------------------------------------------------
    def _session_options(self):
        precision = self._precision
        keep = set(self._keep)
        if self._only is not None:
            keep |= {row["name"] for row in _core.op_rows()} - self._only
        return {"precision": "bfloat16" if precision in (PrecisionType.Half, PrecisionType.Bfloat16) else "float32",
                "keep_precision": sorted(keep),
                "min_segment": self._engine["min_subgraph_size"] if self._engine else 1, "memory_limit": self._memory_limit, "plan_cache_bytes": self._cache_bytes,
                "fold_weights": self._fold and self._ir_optim, "rules": self._ir_optim,
                "fusion": self._fusion and self._ir_optim}

    def _warm_shapes(self):
        """[{input: shape}] to be compiled ahead."""
        found = [self._shapes["opt"]] if self._shapes.get("opt") else []
        if self._tuned and os.path.exists(self._tuned):
            with open(self._tuned, encoding="utf-8") as f:
                found += json.load(f)
        return found
