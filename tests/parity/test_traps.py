# SPDX-License-Identifier: Apache-2.0
"""Inputs on which systems in use today crash, hang or answer wrongly: tensors and operators (training and data: test_traps_training.py).

Parity room. Tests are named by the trap's id; the right value stands in the test. Run with the real Paddle
(``YULOH_PARITY_MODULE=paddle``, one process a test: some end it) they fail exactly where Paddle 3.3.1 is wrong:
B02, B03, B05, B09 (no half mean on its CPU), B11, B14, B16, B19, B23 (messages), B25, B27, B29 (big-endian), B33,
B35, B39, B41, B42, B44, B45, B47.
"""

import math

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from paddle import nn

from trap_tensors import REFUSED, equal, inf, nan, number, rand, tensor


# ---- B02: kernel larger than the padded input -------------------------------------------------------------------
@pytest.mark.parametrize(
    "call",
    [
        lambda: F.conv2d(rand(1, 1, 4, 4), rand(1, 1, 7, 7)),
        lambda: nn.Conv2D(8, 8, 3, padding=1, dilation=[7, 8], groups=8)(rand(1, 8, 14, 14)),
        lambda: F.max_pool1d(rand(2, 3, 1), 4, 1, ceil_mode=True),
        lambda: F.avg_pool2d(rand(1, 1, 3, 3), 5),
        lambda: F.conv1d(rand(1, 1, 4), rand(1, 1, 3), dilation=2),
        lambda: F.conv3d(rand(1, 1, 4, 4, 4), rand(1, 1, 5, 1, 1)),
    ],
)
def test_b02_kernel_larger_than_padded_input(call):
    with pytest.raises(ValueError) as e:
        call().numpy()
    assert "kernel" in str(e.value) and any(c.isdigit() for c in str(e.value))


@pytest.mark.parametrize(
    "call",
    [
        lambda: paddle.zeros([2, -3]),
        lambda: paddle.full([-1], 0.0),
        lambda: paddle.empty([2, -2]),
        lambda: rand(4).reshape([2, -2]),
        lambda: rand(1, 4).expand([-3, 4]),
    ],
)
def test_b02_negative_extent_is_never_built(call):
    with pytest.raises(REFUSED):
        call().numpy()


# ---- B03: resize to extent 1 ------------------------------------------------------------------------------------
def test_b03_bilinear_to_extent_one():
    x = tensor(np.arange(1, 17).reshape(1, 1, 4, 4))
    y = F.interpolate(x, size=[3, 1], mode="bilinear", align_corners=False)
    # rows at (i + 0.5) * 4 / 3 - 0.5, the column at 1.5
    equal(y, (np.array([1 / 6, 1.5, 17 / 6]) * 4 + 2.5).reshape(1, 1, 3, 1), 1e-6)


def test_b03_bicubic_to_extent_one():
    x = tensor(np.arange(1, 17).reshape(1, 1, 4, 4))
    y = F.interpolate(x, size=[1, 1], mode="bicubic", align_corners=False)
    equal(y, [[[[8.5]]]], 1e-5)


# ---- B05: mean cross entropy and ignore_index -------------------------------------------------------------------
@pytest.mark.parametrize("ignore", [-100, 2, -1])
def test_b05_mean_is_over_kept_rows(ignore):
    labels = tensor([0, ignore, 1, ignore], "int64")
    loss = F.cross_entropy(paddle.zeros([4, 3]), labels, ignore_index=ignore)
    assert abs(float(loss) - math.log(3)) < 1e-6


def test_b05_gradient_is_over_kept_rows():
    x = paddle.zeros([4, 3])
    x.stop_gradient = False
    F.cross_entropy(x, tensor([0, -100, 1, -100], "int64"), ignore_index=-100).backward()
    third, row = 1 / 6, [0, 0, 0]
    equal(x.grad, [[third - 0.5, third, third], row, [third, third - 0.5, third], row], 1e-6)


def test_b05_everything_ignored_is_zero_or_nan_alike():
    x, y = paddle.zeros([2, 3]), tensor([-100, -100], "int64")
    a = float(F.cross_entropy(x, y))
    b = float(F.nll_loss(F.log_softmax(x), y, ignore_index=-100))
    assert a == 0 or a != a
    assert (a == b) or (a != a and b != b)


# ---- B07: promotion ---------------------------------------------------------------------------------------------
def pair(a, b):
    return tensor([1], a), tensor([2.3], b)


@pytest.mark.parametrize(
    "a,b",
    [
        ("int64", "float32"),
        ("int32", "int64"),
        ("float64", "int64"),
        ("uint8", "int8"),
        ("bool", "float32"),
        ("int32", "float64"),
        ("float32", "float64"),
    ],
)
@pytest.mark.parametrize("op", ["add", "multiply"])
def test_b07_promote_or_refuse_never_truncate(op, a, b):
    def attempt(x, y):
        try:
            r = getattr(paddle, op)(x, y)
            return str(r.dtype), r.numpy().astype("float64").tolist()
        except TypeError:
            return "TypeError"

    x, y = pair(a, b)
    forth, back = attempt(x, y), attempt(y, x)
    assert forth == back
    if forth != "TypeError":
        want = {"add": np.add, "multiply": np.multiply}[op](
            x.numpy().astype("float64"), y.numpy().astype("float64")
        )
        equal(np.array(forth[1]), want, 1e-6)


@pytest.mark.parametrize("a,b,want", [("int64", "float32", "float32"), ("float32", "int64", "float32")])
def test_b07_python_scalars_follow_the_tensor(a, b, want):
    assert str((tensor([1, 2], "float32") * 2).dtype) == "paddle.float32"
    assert str((tensor([1, 2], "int64") + 2).dtype) == "paddle.int64"
    equal(tensor([1, 2], "int64") + 2.5, [3.5, 4.5])


# ---- B09: half-precision sums -----------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_b09_half_mean_accumulates_in_float(dtype):
    assert float(paddle.mean(paddle.full([40000], 2.0, dtype)).astype("float32")) == 2.0
    assert float(paddle.sum(paddle.ones([4096], dtype)).astype("float32")) == 4096.0
    assert float(paddle.linalg.norm(paddle.full([40000], 2.0, dtype)).astype("float32")) == 400.0


def test_b09_global_norm_of_half_gradients():
    p = paddle.create_parameter([40000], "float32")
    g = paddle.full([40000], 4.0, "float16")
    ((_, clipped),) = nn.ClipGradByGlobalNorm(1.0)([(p, g)])
    equal(clipped.astype("float32")[:2], [1 / 200, 1 / 200], 1e-3)


# ---- B11: NaN in max and min ------------------------------------------------------------------------------------
def test_b11_nan_wins_in_both_orders():
    one, n = tensor([1.0]), tensor([nan])
    for f in (paddle.maximum, paddle.minimum):
        assert math.isnan(number(f(one, n))) and math.isnan(number(f(n, one)))


@pytest.mark.parametrize("data,at", [([1, nan, 2], 1), ([nan, 1, 2], 0), ([1, 2, nan, nan], 2)])
def test_b11_argmax_points_at_the_first_nan(data, at):
    x = tensor(data)
    assert math.isnan(float(x.max())) and math.isnan(float(x.min()))
    assert int(paddle.argmax(x)) == at and int(paddle.argmin(x)) == at


@pytest.mark.parametrize("size", [1, 3, 7, 8, 16, 17, 33, 1000, 4099])
def test_b11_any_length_any_position(size):
    for at in {0, size // 2, size - 1, min(777, size - 1)}:
        data = np.arange(size, dtype="float32")
        data[at] = nan
        x = tensor(data)
        assert math.isnan(float(x.max())) and math.isnan(float(x.min()))
        assert int(paddle.argmax(x)) == at and int(paddle.argmin(x)) == at


# ---- B14: max pooling over NaN and -inf -------------------------------------------------------------------------
@pytest.mark.parametrize("fill", [nan, -inf])
def test_b14_pool_of_nan_or_minus_infinity(fill):
    y, mask = F.max_pool2d(paddle.full([1, 1, 4, 4], fill), 2, return_mask=True)
    equal(y, np.full((1, 1, 2, 2), fill))
    m = mask.numpy().ravel()
    assert [int(v) // 8 * 2 + int(v) % 4 // 2 for v in m] == [0, 1, 2, 3], f"mask {m} lies outside its window"


def test_b14_nan_beats_numbers_in_a_window():
    assert math.isnan(number(F.max_pool2d(tensor([[[[1, nan], [2, 3]]]]), 2)))


def test_b14_backward_stays_inside():
    x = paddle.full([1, 1, 4, 4], -inf)
    x.stop_gradient = False
    F.max_pool2d(x, 2).sum().backward()
    assert float(x.grad.sum()) == 4.0


# ---- B16: attention rows with every key masked ------------------------------------------------------------------
def attention(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def test_b16_row_without_keys_is_zero_and_gradients_finite():
    q, k, v = (rand(1, 4, 2, 8, grad=True, seed=s) for s in (1, 2, 3))
    allowed = np.ones((1, 1, 4, 4), bool)
    allowed[0, 0, 2] = False
    out = attention(q, k, v, tensor(allowed, "bool"))
    equal(out[:, 2], np.zeros((1, 2, 8)))
    out.sum().backward()
    for t in (q, k, v):
        assert np.isfinite(t.grad.numpy()).all()
    equal(q.grad[:, 2], np.zeros((1, 2, 8)))


def test_b16_masked_key_cannot_leak():
    q, k, v = (rand(1, 4, 2, 8, seed=s) for s in (1, 2, 3))
    allowed = np.ones((1, 1, 4, 4), bool)
    allowed[..., 3] = False
    want = attention(q[:, :], k[:, :3], v[:, :3], tensor(allowed[..., :3], "bool"))
    broken = k.numpy()
    broken[:, 3] = nan
    equal(attention(q, tensor(broken), v, tensor(allowed, "bool")), want.numpy(), 1e-5)


# ---- B18: zero-size tensors -------------------------------------------------------------------------------------
UNARY = """abs exp log sqrt rsqrt sin cos tanh sign floor ceil round square reciprocal isnan isfinite neg cumsum
sigmoid erf""".split()
ACTIVATIONS = (
    "relu gelu silu softmax log_softmax leaky_relu elu hardswish hardsigmoid relu6 softplus mish".split()
)


@pytest.mark.parametrize("name", UNARY + ACTIVATIONS)
@pytest.mark.parametrize("shape", [[0], [0, 3], [2, 0, 3], [3, 2, 0]])
def test_b18_elementwise_on_nothing(name, shape):
    f = getattr(paddle, name) if name in UNARY else getattr(F, name)
    x = paddle.zeros(shape)
    x.stop_gradient = False
    y = f(x)
    if name != "cumsum":
        assert list(y.shape) == shape
    assert y.numpy().size == 0
    if not y.stop_gradient:
        y.sum().backward()
        assert list(x.grad.shape) == shape


@pytest.mark.parametrize("name", "add subtract multiply divide maximum minimum pow equal less_than".split())
def test_b18_binary_on_nothing(name):
    y = getattr(paddle, name)(paddle.ones([2, 0, 3]), paddle.ones([2, 1, 3]))
    assert y.numpy().shape == (2, 0, 3)


def test_b18_matmul_over_nothing_is_zero():
    a, b = paddle.zeros([2, 0]), paddle.zeros([0, 3])
    a.stop_gradient = b.stop_gradient = False
    y = paddle.matmul(a, b)
    equal(y, np.zeros((2, 3)))
    y.sum().backward()
    assert list(a.grad.shape) == [2, 0] and list(b.grad.shape) == [0, 3]


def test_b18_mean_over_an_empty_axis_is_nan():
    assert np.isnan(paddle.mean(tensor(np.zeros((3, 0))), axis=-1).numpy()).all()
    assert paddle.mean(paddle.zeros([2, 0, 4]), axis=-1).numpy().shape == (2, 0)
    assert math.isnan(float(paddle.mean(paddle.zeros([0]))))


def test_b18_cummin_concat_stack_sort_of_nothing():
    values, index = paddle.cummin(paddle.zeros([0]))
    assert values.numpy().shape == (0,) and index.numpy().shape == (0,)
    assert paddle.concat([paddle.zeros([0, 3]), paddle.ones([2, 3])]).numpy().shape == (2, 3)
    assert paddle.stack([paddle.zeros([0]), paddle.zeros([0])]).numpy().shape == (2, 0)
    assert paddle.sort(paddle.zeros([0, 3]), axis=0).numpy().shape == (0, 3)
    assert paddle.reshape(paddle.zeros([0, 4]), [2, 0]).numpy().shape == (2, 0)


def test_b18_parameters_are_checked_before_the_early_return():
    for call in (
        lambda: paddle.sum(paddle.zeros([0, 3]), axis=5),
        lambda: F.softmax(paddle.zeros([0, 3]), axis=7),
        lambda: paddle.matmul(paddle.zeros([0, 3]), paddle.zeros([4, 2])),
        lambda: paddle.concat([paddle.zeros([0, 3]), paddle.zeros([2, 4])]),
    ):
        with pytest.raises((ValueError, IndexError, TypeError)):
            call().numpy()


# ---- B19: reductions without identity ---------------------------------------------------------------------------
def test_b19_harmless_axis():
    assert paddle.max(paddle.zeros([0, 4]), axis=1).numpy().shape == (0,)
    assert paddle.argmax(paddle.zeros([0, 4]), axis=1).numpy().shape == (0,)


@pytest.mark.parametrize("f", ["max", "min", "argmax", "argmin"])
def test_b19_empty_axis_is_an_error_naming_it(f):
    with pytest.raises((ValueError, IndexError)) as e:
        getattr(paddle, f)(paddle.zeros([0, 4]), axis=0).numpy()
    assert "axis" in str(e.value) or "dim" in str(e.value)


def test_b19_reductions_with_identity():
    x = paddle.zeros([3, 0, 4])
    equal(paddle.sum(x, axis=1, keepdim=True), np.zeros((3, 1, 4)))
    equal(paddle.prod(x, axis=1, keepdim=True), np.ones((3, 1, 4)))
    equal(paddle.mean(x, axis=1, keepdim=True), np.full((3, 1, 4), nan))


# ---- B20: empty batch through layers ----------------------------------------------------------------------------
def test_b20_empty_batch_keeps_running_statistics():
    bn = nn.BatchNorm1D(5)
    bn.train()
    assert list(bn(paddle.zeros([0, 5, 9])).numpy().shape) == [0, 5, 9]
    equal(bn._mean, np.zeros(5))
    equal(bn._variance, np.ones(5))


@pytest.mark.parametrize(
    "layer,shape,out",
    [
        (lambda: nn.Linear(4, 3), [0, 4], [0, 3]),
        (lambda: nn.Conv2D(3, 5, 3), [0, 3, 8, 8], [0, 5, 6, 6]),
        (lambda: nn.MaxPool2D(2), [0, 3, 8, 8], [0, 3, 4, 4]),
        (lambda: nn.AvgPool2D(2), [0, 3, 8, 8], [0, 3, 4, 4]),
        (lambda: nn.LayerNorm(4), [0, 4], [0, 4]),
        (lambda: nn.AdaptiveAvgPool2D(1), [0, 3, 8, 8], [0, 3, 1, 1]),
    ],
)
def test_b20_empty_batch_through(layer, shape, out):
    net = layer()
    x = paddle.zeros(shape)
    x.stop_gradient = False
    y = net(x)
    assert list(y.numpy().shape) == out
    y.sum().backward()
    for p in net.parameters():
        equal(p.grad, np.zeros(p.shape))


def test_b20_cross_entropy_sum_of_nothing():
    x = paddle.zeros([0, 3])
    x.stop_gradient = False
    loss = F.cross_entropy(x, paddle.zeros([0], "int64"), reduction="sum")
    assert float(loss) == 0.0
    loss.backward()
    assert list(x.grad.shape) == [0, 3]


# ---- B22: linear algebra over a zero batch ----------------------------------------------------------------------
def test_b22_zero_batch():
    x = paddle.zeros([3, 6, 0, 2, 2])
    assert paddle.linalg.inv(x).numpy().shape == (3, 6, 0, 2, 2)
    assert paddle.linalg.solve(x, paddle.zeros([3, 6, 0, 2, 1])).numpy().shape == (3, 6, 0, 2, 1)
    assert paddle.linalg.matrix_power(x, 3).numpy().shape == (3, 6, 0, 2, 2)
    assert paddle.linalg.det(x).numpy().shape == (3, 6, 0)
    u, s, _ = paddle.linalg.svd(x)
    assert u.numpy().shape == (3, 6, 0, 2, 2) and s.numpy().shape == (3, 6, 0, 2)
    q, r = paddle.linalg.qr(x)
    assert q.numpy().shape == r.numpy().shape == (3, 6, 0, 2, 2)


@pytest.mark.xfail(reason="eig gives complex numbers, which have no kernels yet", raises=AttributeError, strict=True)
def test_b22_eig_of_zero_batch():
    w, v = paddle.linalg.eig(paddle.zeros([3, 6, 0, 2, 2]))
    assert list(w.shape) == [3, 6, 0, 2] and list(v.shape) == [3, 6, 0, 2, 2]


# ---- B23: index out of range ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "call,value",
    [
        (lambda: F.embedding(tensor(1000000, "int64"), rand(4, 3)), "1000000"),
        (lambda: F.embedding(tensor([0, -5], "int64"), rand(4, 3)), "-5"),
        (lambda: paddle.take_along_axis(rand(2), tensor([-7], "int64"), 0), "-7"),
        (lambda: paddle.take_along_axis(rand(2), tensor([2], "int64"), 0), "2"),
        (lambda: paddle.gather(rand(3, 4), tensor([3], "int64")), "3"),
        (lambda: paddle.index_select(rand(3, 4), tensor([5], "int64")), "5"),
        (lambda: rand(3)[tensor([3], "int64")], "3"),
        (lambda: rand(3)[7], "7"),
        (lambda: F.cross_entropy(rand(2, 3), tensor([0, 3], "int64")), "3"),
        (lambda: F.one_hot(tensor([4], "int64"), 4), "4"),
    ],
)
def test_b23_index_error_with_the_value(call, value):
    with pytest.raises((IndexError, ValueError)) as e:
        call().numpy()
    assert value in str(e.value)


def test_b23_bad_axis():
    with pytest.raises((IndexError, ValueError)):
        paddle.gather(rand(3, 4), tensor([0], "int64"), axis=-5).numpy()


def test_b23_negative_indices_wrap_and_scalar_id():
    x = rand(3)
    equal(x[tensor([-1, -3], "int64")], x.numpy()[[-1, -3]])
    equal(paddle.take_along_axis(x, tensor([-1], "int64"), 0), x.numpy()[[-1]])
    assert F.embedding(tensor(1, "int64"), rand(4, 3)).numpy().shape == (3,)


# ---- B25: shapes of index-like operands -------------------------------------------------------------------------
@pytest.mark.parametrize(
    "call",
    [
        lambda: paddle.repeat_interleave(rand(2), tensor([[1], [2]], "int64")),
        lambda: paddle.repeat_interleave(rand(2), tensor([1, -2], "int64")),
        lambda: paddle.repeat_interleave(rand(2), -1),
        lambda: paddle.repeat_interleave(rand(2), tensor([2**62, 2**62], "int64")),
        lambda: paddle.repeat_interleave(rand(2, 3), tensor([1, 2, 3], "int64"), axis=0),
        lambda: paddle.put_along_axis(rand(2, 3), tensor([0], "int64"), tensor([1.0]), 0),
        lambda: paddle.put_along_axis(
            rand(2, 3), tensor([[0, 0, 0, 0]], "int64"), rand(1, 4), 0, broadcast=False
        ),
        lambda: paddle.put_along_axis(
            rand(2, 3), tensor([[0, 0, 0]], "int64"), rand(1, 2), 0, broadcast=False
        ),
        lambda: paddle.zeros([2**40, 2**40]),
        lambda: rand(1, 1).expand([2**40, 2**40]),
    ],
)
def test_b25_refused_before_any_allocation(call):
    with pytest.raises((ValueError, IndexError, MemoryError)):
        call().numpy()


# ---- B27: indexed assignment ------------------------------------------------------------------------------------
def test_b27_chained_index_changes_the_tensor():
    d = tensor(np.arange(1, 13).reshape(3, 4))
    mask = tensor([True, False, True, False], "bool")
    d[2][mask] *= 0
    equal(d, [[1, 2, 3, 4], [5, 6, 7, 8], [0, 10, 0, 12]])
    d[1, mask] = 0
    equal(d, [[1, 2, 3, 4], [0, 6, 0, 8], [0, 10, 0, 12]])


def test_b27_empty_mask_is_a_no_op():
    x = rand(3, 2)
    before = x.numpy()
    x[tensor([False, False, False], "bool")] = tensor([1.0, 2.0])
    equal(x, before)


# ---- B29: odd strides -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "make",
    [
        lambda: np.arange(6)[::-1],
        lambda: np.arange(24).reshape(4, 6)[::-1, ::-2],
        lambda: np.arange(6.0).reshape(2, 3).T,
        lambda: np.arange(12).reshape(3, 1, 4)[:, ::-1],
        lambda: np.broadcast_to(np.arange(3.0), (2, 3)),
        lambda: np.arange(10.0)[::3],
        lambda: np.arange(4, dtype=">f4"),
    ],
)
def test_b29_any_stride_is_accepted(make):
    a = make()
    equal(paddle.to_tensor(a), np.ascontiguousarray(a))


def test_b29_dlpack_of_a_view():
    x = tensor(np.arange(12).reshape(3, 4))
    capsule = paddle.utils.dlpack.to_dlpack(x[:, 1:3])
    equal(paddle.utils.dlpack.from_dlpack(capsule), x.numpy()[:, 1:3])


# ---- B31: in-place on an expanded tensor ------------------------------------------------------------------------
def once_or_refused(op, want):
    x = tensor([0.5])
    y = x.expand([3])
    try:
        op(y)
    except (ValueError, RuntimeError):
        equal(x, [0.5])
        return
    equal(y, want, 1e-6)
    equal(x, [0.5])


def test_b31_inplace_on_expanded_applies_once():
    once_or_refused(lambda y: y.cos_(), np.full(3, math.cos(0.5)))
    once_or_refused(lambda y: y.masked_fill_(tensor([True, False, True], "bool"), 2.0), [2, 0.5, 2])
    once_or_refused(lambda y: y.add_(tensor([1.0, 2.0, 3.0])), [1.5, 2.5, 3.5])


# ---- B33: prod and zeros ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "data,want", [([2, 0, 3], [0, 6, 0]), ([0, 2, 0], [0, 0, 0]), ([2, 4, 3], [12, 6, 8])]
)
def test_b33_prod_gradient(data, want):
    x = tensor(data, grad=True)
    paddle.prod(x).backward()
    equal(x.grad, want, 1e-6)


def test_b33_prod_gradient_per_axis():
    x = tensor([[2, 0, 3], [1, 2, 3]], grad=True)
    paddle.prod(x, axis=1).sum().backward()
    equal(x.grad, [[0, 6, 0], [6, 3, 2]], 1e-6)


def test_b33_cumprod_gradient():
    x = tensor([0, 2, 3], grad=True)
    paddle.cumprod(x, dim=0).sum().backward()
    equal(x.grad, [9, 0, 0], 1e-6)


# ---- B35: integer division at its edges -------------------------------------------------------------------------
@pytest.mark.parametrize("dtype,low", [("int32", -(2**31)), ("int64", -(2**63))])
def test_b35_lowest_by_minus_one(dtype, low):
    a, b = paddle.to_tensor([low], dtype=dtype), paddle.to_tensor([-1], dtype=dtype)
    assert number(paddle.floor_divide(a, b)) == low
    assert number(paddle.remainder(a, b)) == 0
    assert int((a // -1)[0]) == low and int((a % -1)[0]) == 0


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_b35_zero_divisor_is_a_typed_error(dtype):
    a, b = paddle.to_tensor([1, 5], dtype=dtype), paddle.to_tensor([2, 0], dtype=dtype)
    for f in (paddle.floor_divide, paddle.remainder):
        with pytest.raises((ZeroDivisionError, ValueError)):
            f(a, b).numpy()
