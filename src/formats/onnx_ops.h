// SPDX-License-Identifier: Apache-2.0
// Shorthand for ONNX mappings (onnx_ops_*.cpp). A mapping reads what must be known (ints, host, number)
// before it makes its first op: in a run on real tensors that read may run everything recorded so far.
#pragma once
#include "formats/compose.h"
#include "formats/import.h"
#include "formats/onnx_check.h"
#include "formats/onnx_types.h"
#include "ops/fn.h"

namespace yuloh::formats {

inline Value to(const Value& v, DType t) { return v.dtype() == t ? v : cast(v, t); }
inline int64_t axis_of(const Import& i, int64_t axis, int64_t rank) {
  return normalize_axis(i.node.type, axis, rank);
}
inline Value flip(const Value& v, int64_t axis) { return call("flip", {v}, {{"axis", Ints{axis}}}); }
inline Value unsqueeze(const Value& v, int64_t axis) {
  return call("unsqueeze", {v}, {{"axis", Ints{axis}}});
}
inline Value squeeze(const Value& v, int64_t axis) { return call("squeeze", {v}, {{"axis", Ints{axis}}}); }
inline Value gather(const Value& v, const Value& index, int64_t axis) {
  return call("gather", {v, index}, {{"axis", axis}});
}
inline Values split(const Value& v, Ints sizes, int64_t axis) {
  return call_all("split", {v}, {{"sizes", std::move(sizes)}, {"axis", axis}});
}
inline bool unsigned_type(DType t) { return t == DType::kUInt8 || t == DType::kBool; }

inline Value list_of(const Ints& v, DType t = DType::kInt64) {  // a 1-D constant
  return data_of(std::vector<int64_t>(v.begin(), v.end()), {static_cast<Dim>(v.size())}, t);
}
// What a mapping relies on. `need`: the first inputs are there and have at least these ranks.
void need(const Import& i, std::initializer_list<int64_t> ranks);
void expect(const Import& i, bool condition, const char* what);
int64_t bounded(const Import& i, const char* name, int64_t otherwise, int64_t low,
                int64_t high);             // an attribute
int64_t first(const Import& i, size_t k);  // the first element of an integer input
DType dtype_attr(const Import& i, const char* name,
                 int otherwise = kOnnxFloat);            // an attribute that is an element type
Value non_negative(const Value& index, int64_t extent);  // indices below 0 count from the end
Value wrapped(const Value& v, int stored_as);            // into the range of a type that is held wider
Value cast_to(const Value& v, int from_stored_as, int onnx_type, bool saturate);  // ONNX Cast; onnx_types.h
Value to_minifloat(const Value& x, int type, bool saturate);  // rounded to an 8- or 4-bit float, as float32
void out_cast(Import& i, const Value& v, int onnx_type, bool saturate);
Ints spatial_ones(size_t n);

// Per-operator bodies that several operators or opsets share.
Value mat_mul(const Value& a, const Value& b);
Value softmax_from(const Value& x, int64_t axis, const char* op);

}  // namespace yuloh::formats
