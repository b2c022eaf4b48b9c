// SPDX-License-Identifier: Apache-2.0
// Shorthand for writing rows: only src/ops/*.cpp include it. YULOH_BOTH("abs") is the pair of public names of
// a function that is also a Tensor method; YULOH_MAP1/2 are elementwise rows with one or two operands.
#pragma once
#include "ops/fn.h"

#define YULOH_BOTH(n) "paddle." n " paddle.Tensor." n
#define YULOH_F(n) "paddle.nn.functional." n
#define YULOH_MAP1(n, py, text, inf, ...)                                                               \
  {                                                                                                     \
    .schema = n "(Tensor x) -> Tensor", .python = py, .doc = text, .infer = inf, .scalar = __VA_ARGS__, \
    .inplace_variant = true                                                                             \
  }
#define YULOH_MAP2(n, py, text, inf, ...)                                                  \
  {                                                                                        \
    .schema = n "(number x, number y) -> Tensor", .python = py, .doc = text, .infer = inf, \
    .scalar = __VA_ARGS__, .inplace_variant = true                                         \
  }

namespace yuloh {
inline ScalarFn nullary(Scalar (*fn)(const Call&, const Scalar*)) {  // a body without operands (constants)
  ScalarFn f;
  f.fn = fn;
  return f;
}
inline Scalar to_dtype(const Scalar& x, DType t) {
  return Scalar::make(Prim::kCast, &x, nullptr, nullptr, static_cast<double>(static_cast<int>(t)));
}
}  // namespace yuloh
