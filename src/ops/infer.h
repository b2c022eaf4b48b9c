// SPDX-License-Identifier: Apache-2.0
// Shared type inference: what result type an op call has, and the checks that go with it. Rows in src/ops/
// name these functions; they run when a call is recorded, so shape and dtype mistakes are reported at the
// user's line.
#pragma once
#include "ops/op.h"

namespace yuloh {

inline Ints to_ints(const Shape& s) { return Ints(s.begin(), s.end()); }
inline bool is_real(DType t) { return is_integral(t) || is_float(t); }
inline DType float_of(DType t) { return is_integral(t) ? DType::kFloat32 : t; }

Shape broadcast_inputs(const Call& c);  // of every input
DType promoted(const Call& c);  // of Tensor, Tensor[] and number inputs (run-time scalars do not count)
void require_float(const Call& c, uint32_t input);
void require_integral(const Call& c, uint32_t input);
void require_same_shape(const Call& c, uint32_t a, uint32_t b);
void require_same_type(const Call& c, uint32_t a, uint32_t b);
void require_rank(const Call& c, uint32_t input, int64_t low, int64_t high = 1 << 20);

// Elementwise.
Types same(const Call& c);        // promoted dtype, broadcast shape
Types same_float(const Call& c);  // the same, integers become float32
Types like_first(const Call& c);  // exactly the type of input 0
Types boolean(const Call& c);     // bool, broadcast shape
Types integral(const Call& c);    // promoted, must be bool or integer
Types by_dtype(const Call& c);    // argument `dtype`, broadcast shape

// Reductions over argument `axis` (None or [] = all) with argument `keepdim`.
Ints reduced_axes_of(const Call& c);
Shape reduced_shape(const Call& c, bool keepdim);
Types reduce_same(const Call& c);
Types reduce_sum(const Call& c);   // argument `dtype`, else bool and int32 sum in int64
Types reduce_prod(const Call& c);  // argument `dtype`, else the same
Types reduce_bool(const Call& c);
Types reduce_float(const Call& c);
Types reduce_extreme(const Call& c);  // max, min: an empty reduced axis is an error
int64_t reduced_count(const Call& c);

// Static shape arguments: one -1 is filled from the element count, 0 copies the extent of x (reshape).
Shape resolve_reshape(const Call& c, const Shape& x, const Ints& want);
Shape shape_arg(const Call& c, const char* name = "shape");

}  // namespace yuloh
