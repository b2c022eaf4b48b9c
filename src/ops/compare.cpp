// SPDX-License-Identifier: Apache-2.0
// Comparison, logic, bits, selection and conversion, elementwise.
#include "ops/rows.h"

#define YULOH_COMPARE(n, text, ...)                                                                       \
  {                                                                                                       \
    .schema = n "(number x, number y) -> Tensor", .python = YULOH_BOTH(n), .doc = text, .infer = boolean, \
    .scalar = __VA_ARGS__, .no_grad = true, .inplace_variant = true                                       \
  }
#define YULOH_TEST(n, text, ...)                                                                \
  {                                                                                             \
    .schema = n "(Tensor x) -> Tensor", .python = YULOH_BOTH(n), .doc = text, .infer = boolean, \
    .scalar = __VA_ARGS__, .no_grad = true                                                      \
  }
#define YULOH_BITS(n, py, text, ...)                                                            \
  {                                                                                             \
    .schema = n "(number x, number y) -> Tensor", .python = py, .doc = text, .infer = integral, \
    .scalar = __VA_ARGS__, .no_grad = true, .inplace_variant = true                             \
  }

namespace yuloh {
namespace {
using S = Scalar;

const Register comparisons{
    YULOH_COMPARE("equal", "x == y; NaN equals nothing.", [](S x, S y) { return x == y; }),
    YULOH_COMPARE("not_equal", "x != y.", [](S x, S y) { return x != y; }),
    YULOH_COMPARE("less_than", "x < y.", [](S x, S y) { return x < y; }),
    YULOH_COMPARE("less_equal", "x <= y.", [](S x, S y) { return x <= y; }),
    YULOH_COMPARE("greater_than", "x > y.", [](S x, S y) { return x > y; }),
    YULOH_COMPARE("greater_equal", "x >= y.", [](S x, S y) { return x >= y; }),
    YULOH_COMPARE("logical_and", "True where x and y are both non-zero.",
                  [](S x, S y) { return (x != S(0)) & (y != S(0)); }),
    YULOH_COMPARE("logical_or", "True where x or y is non-zero.",
                  [](S x, S y) { return (x != S(0)) | (y != S(0)); }),
    YULOH_COMPARE("logical_xor", "True where exactly one of x and y is non-zero.",
                  [](S x, S y) { return (x != S(0)) ^ (y != S(0)); }),
    YULOH_TEST("logical_not", "True where x is zero.", [](S x) { return x == S(0); }),
    YULOH_TEST("isnan", "True where x is NaN.", [](S x) { return isnan(x); }),
    YULOH_TEST("isinf", "True where x is an infinity.", [](S x) { return isinf(x); }),
    YULOH_TEST("isfinite", "True where x is neither NaN nor an infinity.", [](S x) { return isfinite(x); }),
    YULOH_TEST("isposinf", "True where x is positive infinity.", [](S x) { return isinf(x) & (x > S(0)); }),
    YULOH_TEST("isneginf", "True where x is negative infinity.", [](S x) { return isinf(x) & (x < S(0)); }),
    YULOH_TEST("signbit", "True where x is negative, -0.0 included.",
               [](S x) { return (x < S(0)) | ((x == S(0)) & (S(1) / x < S(0))); }),
    {.schema =
         "isclose(Tensor x, Tensor y, float rtol=1e-5, float atol=1e-8, bool equal_nan=False) -> Tensor",
     .python = YULOH_BOTH("isclose"),
     .doc = "True where |x - y| <= atol + rtol * |y|; NaN equals NaN only if equal_nan.",
     .infer = boolean,
     .scalar =
         [](const Call& c, S x, S y) {
           const S near =
               (x == y) | (isfinite(y) & (abs(x - y) <= S(c.real("atol")) + S(c.real("rtol")) * abs(y)));
           return c.flag("equal_nan") ? near | (isnan(x) & isnan(y)) : near;
         },
     .no_grad = true},
};

const Register bits{
    YULOH_BITS("bitwise_and", YULOH_BOTH("bitwise_and"), "Bits set in x and y.",
               [](S x, S y) { return x & y; }),
    YULOH_BITS("bitwise_or", YULOH_BOTH("bitwise_or"), "Bits set in x or y.", [](S x, S y) { return x | y; }),
    YULOH_BITS("bitwise_xor", YULOH_BOTH("bitwise_xor"), "Bits set in exactly one of x and y.",
               [](S x, S y) { return x ^ y; }),
    {.schema = "bitwise_left_shift(number x, number y, bool is_arithmetic=True) -> Tensor",
     .python = YULOH_BOTH("bitwise_left_shift"),
     .doc = "x shifted left by y bits (the same bits whether arithmetic or not).",
     .infer = [](const Call& c) { return c.flag("is_arithmetic"), integral(c); },
     .scalar = [](S x, S y) { return x << y; },
     .no_grad = true,
     .inplace_variant = true},
    {.schema = "bitwise_right_shift(number x, number y, bool is_arithmetic=True) -> Tensor",
     .python = YULOH_BOTH("bitwise_right_shift"),
     .doc = "x shifted right by y bits; the sign is kept, or zeros come in when is_arithmetic is False.",
     .infer = integral,
     .scalar =
         [](const Call& c, S x, S y) {
           if (c.flag("is_arithmetic") || c.n_in == 0) return x >> y;
           const S bits(static_cast<double>(dtype_bits(c.type(0).dtype)));
           return select(y == S(0), x, (x >> y) & ((S(1) << (bits - y)) - S(1)));
         },
     .no_grad = true,
     .inplace_variant = true},
    {.schema = "bitwise_not(Tensor x) -> Tensor",
     .python = YULOH_BOTH("bitwise_not") " paddle.bitwise_invert paddle.Tensor.bitwise_invert",
     .doc = "All bits flipped; logical not for bool.",
     .infer = integral,
     .scalar = [](S x) { return !x; },
     .no_grad = true,
     .inplace_variant = true},
};

Types infer_where(const Call& c) {
  if (c.type(0).dtype != DType::kBool)
    type_error("where: dtype is not supported, got condition of dtype ", c.type(0).dtype, "; expected bool.");
  return {{promote(c.type(1).dtype, c.type(2).dtype), broadcast_inputs(c)}};
}
Types infer_select(const Call& c) { return {{c.type(1).dtype, broadcast_inputs(c)}}; }
Types infer_masked_fill(const Call& c) {
  if (c.type(1).dtype != DType::kBool)
    type_error("masked_fill: dtype is not supported, got mask of dtype ", c.type(1).dtype,
               "; expected bool.");
  return {{c.type(0).dtype, broadcast_inputs(c)}};
}
Types infer_cast(const Call& c) {
  for (DType t : {c.type(0).dtype, c.dtype("dtype")})
    if (!dtype_has_kernels(t))
      type_error("cast: dtype is not supported, got ", t, "; expected a bool, integer or real dtype.");
  return {{c.dtype("dtype"), c.type(0).shape}};
}

const Register selection{
    {.schema = "where(Tensor condition, number x, number y) -> Tensor",
     .doc = "x where condition is True, else y.",
     .infer = infer_where,
     .scalar = [](S c, S x, S y) { return select(c, x, y); }},
    {.schema = "select_or(Tensor condition, Tensor x, float otherwise=0.0) -> Tensor",
     .doc = "x where condition is True, else a constant.",
     .infer = infer_select,
     .scalar = [](const Call& c, S k, S x) { return select(k, x, S(c.real("otherwise"))); }},
    {.schema = "masked_fill(Tensor x, Tensor mask, number value) -> Tensor",
     .python = YULOH_BOTH("masked_fill"),
     .doc = "value where mask is True, else x.",
     .infer = infer_masked_fill,
     .scalar = [](S x, S m, S v) { return select(m, v, x); },
     .inplace_variant = true},
    {.schema = "cast(Tensor x, dtype dtype) -> Tensor",
     .python = "paddle.cast paddle.Tensor.cast paddle.Tensor.astype",
     .doc = "x converted to dtype: floats truncate towards zero, integers wrap, non-zero is True.",
     .infer = infer_cast,
     .scalar = [](S x) { return x; },
     .vjp = [](const Call& c, const Values& g) -> Values {
       return is_float(c.type(0).dtype) ? Values{cast(g[0], c.type(0).dtype)} : Values{Value()};
     }},
};

// The integer divisor check: passes y on, raises ZeroDivisionError on the first zero. Floats never reach it.
void check_divisor(const HostCall& h) {
  const HostOperand& y = h.in[0];
  const int64_t n = y.numel();
  Ints at(y.shape.size(), 0);
  const size_t size = dtype_size(y.dtype);
  for (int64_t i = 0; i < n; ++i) {
    int64_t off = 0;
    for (uint32_t d = 0; d < at.size(); ++d) off += at[d] * y.strides[d];
    const char* p = y.as<char>() + off * static_cast<int64_t>(size);
    if (load_int(p, y.dtype) == 0)
      fail(ErrorKind::kZeroDivision, h.call.str("who"),
           ": integer division by zero, got divisor 0 at element ", i, " of shape ", y.shape,
           "; expected non-zero divisors.");
    __builtin_memcpy(h.out[0].as<char>() + i * static_cast<int64_t>(size), p, size);
    for (int d = static_cast<int>(at.size()) - 1; d >= 0 && ++at[d] == y.shape[d]; --d) at[d] = 0;
  }
}
Value checked(const Call& c, const Value& y) {
  if (!is_integral(c.type(0).dtype) || !is_integral(y.dtype())) return y;
  return call("check_divisor", {y}, {{"who", std::string(c.name())}});
}
// The row's own gradient comes from the unchecked row; the check passes gradients of floats through
// unchanged.
#define YULOH_CHECKED(n, py, inner, text)                                                   \
  {                                                                                         \
    .schema = n "(number x, number y) -> Tensor", .python = py, .doc = text, .infer = same, \
    .expand = [](const Call& c) -> Values {                                                 \
      return {call(inner, {c["x"], checked(c, c["y"])})};                                   \
    },                                                                                      \
    .inplace_variant = true                                                                 \
  }

const Register division{
    {.schema = "check_divisor(Tensor y, str who) -> Tensor",
     .doc = "y itself; a zero in it raises ZeroDivisionError.",
     .infer = like_first,
     .host = check_divisor,
     .no_grad = true,
     .checks = true},
    YULOH_CHECKED("floor_divide", YULOH_BOTH("floor_divide"), "floor_div_unchecked",
                  "floor(x / y); an integer divided by zero is an error, the lowest integer by -1 wraps."),
    YULOH_CHECKED(
        "remainder",
        YULOH_BOTH("remainder") " paddle.mod paddle.Tensor.mod paddle.floor_mod paddle.Tensor.floor_mod",
        "mod_unchecked", "x - y * floor(x / y), with the sign of y; an integer modulo zero is an error."),
    YULOH_CHECKED("fmod", "", "fmod_unchecked", "x - y * trunc(x / y), with the sign of x."),
};
}  // namespace
}  // namespace yuloh
