// SPDX-License-Identifier: Apache-2.0
// ONNX mappings: quantised operators. Integer products are computed in float32 or float64, exactly: 8-bit
// values and sums below 2^24 (conv) and 2^53 (matmul); the results are those of integer arithmetic.
#include <algorithm>
#include <cmath>

#include "formats/onnx_quant.h"
#include "formats/onnx_window.h"

namespace yuloh::formats {
namespace {
struct Range {
  double low, high;
};
bool range_of(int type, Range* r) {
  switch (type) {
    case kOnnxUInt8: return *r = {0, 255}, true;
    case kOnnxInt8: return *r = {-128, 127}, true;
    case kOnnxUInt16: return *r = {0, 65535}, true;
    case kOnnxInt16: return *r = {-32768, 32767}, true;
    case kOnnxInt32: return *r = {-2147483648.0, 2147483647.0}, true;
    case kOnnxUInt4: return *r = {0, 15}, true;
    case kOnnxInt4: return *r = {-8, 7}, true;
    case kOnnxUInt2: return *r = {0, 3}, true;
    case kOnnxInt2: return *r = {-2, 1}, true;
    default: return false;
  }
}
// A scale or zero point against x: per tensor, per axis, or per block of an axis.
Value spread(const Value& v, const Value& x, int64_t axis, int64_t block) {
  if (v.rank() == 0 || numel(v.shape()) == 1) return reshape(v, {});
  if (v.rank() != (block ? x.rank() : 1) || axis >= x.rank() || block < 0 || block > 1 << 30)
    value_error("import: a scale or zero point of shape ", v.shape(), " does not fit x of shape ", x.shape(),
                ".");
  if (block) {  // repeated along the axis
    Shape grown, wide, s = v.shape();
    for (int64_t d = 0; d < v.rank(); ++d) {
      grown.push_back(s[d]), wide.push_back(s[d]);
      if (d == axis) grown.push_back(1), wide.push_back(block);
    }
    s[axis] *= block;
    const Value r = reshape(broadcast_to(reshape(v, grown), wide), s);
    return s[axis] == x.shape()[axis] ? r : narrow(r, axis, 0, x.shape()[axis]);
  }
  Shape s(static_cast<uint32_t>(x.rank()), 1);
  s[axis] = v.shape()[0];
  return reshape(v, s);
}
int64_t axis_for(const Import& i, const Value& x) {
  return x.rank() ? axis_of(i, std::clamp<int64_t>(i.integer("axis", 1), -x.rank(), x.rank() - 1), x.rank())
                  : 0;
}

}  // namespace

Value quantized(const Value& x, const Value& scale, const Value& zero, int type, bool saturate) {
  if (minifloat_format(type))
    return to_minifloat(zero ? x / scale + to(zero, x.dtype()) : x / scale, type, saturate);
  Range r;
  if (!range_of(type, &r))
    fail(ErrorKind::kNotImplemented, "onnx: QuantizeLinear to element type ", type, " is not supported.");
  Value q = call("round", {x / scale});
  if (zero) q = q + to(zero, q.dtype());
  const OnnxTypeInfo* info = onnx_type_info(type);
  return to(maximum(minimum(q, constant_like(r.high, q)), constant_like(r.low, q)), info->dtype);
}

namespace {
void quantize_linear(Import& i) {
  Value x = i.in(0), scale = i.in(1);
  int type = static_cast<int>(i.integer("output_dtype", 0));
  if (!type) type = i.has(2) ? onnx_type_of(i.in(2).dtype(), i.stored_as(2)) : kOnnxUInt8;
  const int64_t axis = axis_for(i, x), block = i.integer("block_size", 0);
  const int precision = static_cast<int>(i.integer("precision", 0));
  const DType work =
      is_half(x.dtype()) || is_integral(x.dtype()) || precision == kOnnxFloat ? DType::kFloat32 : x.dtype();
  const Value s = to(spread(scale, x, axis, block), work);
  const Value zero = i.has(2) ? spread(i.in(2), x, axis, block) : Value();
  i.out(quantized(to(x, work), s, zero, type, i.integer("saturate", 1)));
  i.out_stored_as(0, onnx_type_info(type)->wider ? type : 0);
}
void dequantize_linear(Import& i) {
  const Value x = i.in(0), scale = i.in(1);
  const int64_t axis = axis_for(i, x), block = i.integer("block_size", 0);
  const int out = static_cast<int>(i.integer("output_dtype", 0));
  Value v = to(x, DType::kFloat32);
  if (x.dtype() == DType::kInt32) v = to(x, DType::kFloat64);
  if (i.has(2)) v = v - to(spread(i.in(2), x, axis, block), v.dtype());
  const Value y = to(v, DType::kFloat32) * to(spread(scale, x, axis, block), DType::kFloat32);
  i.out(to(y, out ? dtype_attr(i, "output_dtype") : scale.dtype()));
  i.out_stored_as(0, 0);
}
}  // namespace

DynamicQuantized dynamic_quantized(const Value& x) {
  Ints axes;
  for (int64_t d = 0; d < x.rank(); ++d) axes.push_back(d);
  const Value zero = constant_like(0, x);
  const Value high = maximum(max(x, axes, false), zero),
              low = minimum(call("min", {x}, {{"axis", axes}, {"keepdim", false}}), zero);
  const Value scale = (high - low) / 255.0, flat = equal(scale, zero),
              safe = where(flat, constant_like(1, scale), scale);
  const Value point = call("round", {maximum(minimum(-low / safe, constant_like(255, x)), zero)});
  const Value zp = to(point, DType::kUInt8);
  return {quantized(x, safe, zp, kOnnxUInt8, true), scale, zp};
}

namespace {
void dynamic_quantize(Import& i) {
  const DynamicQuantized q = dynamic_quantized(i.in(0));
  i.out(0, q.y), i.out(1, q.scale), i.out(2, q.zero);
}
}  // namespace

Value less_zero(const Import& i, size_t at, size_t zero_at, int64_t axis, DType work) {
  const Value x = to(i.in(at), work);
  if (!i.has(zero_at)) return x;
  const Value z = to(i.in(zero_at), work);
  if (numel(z.shape()) == 1) return x - reshape(z, {});
  if (z.rank() > 1) return x - z;
  Shape s(static_cast<uint32_t>(x.rank()), 1);
  s[axis_of(i, axis, x.rank())] = z.shape()[0];
  return x - reshape(z, s);
}

namespace {
void mat_mul_integer(Import& i) {
  const DType work = DType::kFloat64;
  i.out(to(matmul(less_zero(i, 0, 2, -2, work), less_zero(i, 1, 3, -1, work)), DType::kInt32));
  i.out_stored_as(0, 0);
}
void conv_integer(Import& i) {
  i.out(to(conv_with(i, less_zero(i, 0, 2, 1, DType::kFloat32), less_zero(i, 1, 3, 0, DType::kFloat32)),
           DType::kInt32));
  i.out_stored_as(0, 0);
}
}  // namespace

Value scale_like(const Value& v, int64_t rank, int64_t axis) {
  const Value f = to(v, DType::kFloat32);
  if (numel(f.shape()) == 1) return reshape(f, {});
  if (f.rank() > 1) return f;
  Shape s(static_cast<uint32_t>(rank), 1);
  s[normalize_axis("import: a scale", axis, rank)] = f.shape()[0];
  return reshape(f, s);
}

namespace {
// a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero
void qlinear_mat_mul(Import& i) {
  const Value y = matmul(less_zero(i, 0, 2, -2, DType::kFloat64), less_zero(i, 3, 5, -1, DType::kFloat64));
  const int type = onnx_type_of(i.in(7).dtype(), i.stored_as(7));
  const Value scaled =
      to(y, DType::kFloat32) * scale_like(i.in(1), y.rank(), -2) * scale_like(i.in(4), y.rank(), -1);
  i.out(quantized(scaled, scale_like(i.in(6), y.rank(), -2), reshape(i.in(7), {}), type, true));
  i.out_stored_as(0, onnx_type_info(type)->wider ? type : 0);
}
// x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias (int32, scale x_scale * w_scale)
void qlinear_conv(Import& i) {
  Value y = conv_with(i, less_zero(i, 0, 2, 1, DType::kFloat32), less_zero(i, 3, 5, 0, DType::kFloat32));
  if (i.has(8)) y = y + scale_like(i.in(8), y.rank(), 1);
  const int type = onnx_type_of(i.in(7).dtype(), i.stored_as(7));
  i.out(quantized(y * (reshape(i.in(1), {}) * scale_like(i.in(4), y.rank(), 1)), reshape(i.in(6), {}),
                  reshape(i.in(7), {}), type, true));
  i.out_stored_as(0, 0);
}
// com.microsoft: A [.., K] times a weight of N rows quantised in blocks of K, 4 bits each (8 too), low nibble
// first.
void mat_mul_nbits(Import& i) {
  const int64_t k = bounded(i, "K", 0, 1, 1 << 30), n = bounded(i, "N", 0, 1, 1 << 30),
                bits = i.integer("bits", 4), block = bounded(i, "block_size", 32, 1, 1 << 20);
  if ((bits != 4 && bits != 8) || i.has(4)) i.unsupported("bits other than 4 and 8, or g_idx");
  const Value a = i.in(0), b = i.in(1);
  const int64_t blocks = (k + block - 1) / block;
  auto unpacked = [&](const Value& v, int64_t count) {  // [n, count * bits / 8] -> [n, count]
    if (bits == 8) return to(v, DType::kFloat32);
    const Value w = to(v, DType::kInt32);
    const Value low = call("bitwise_and", {w, constant(15, DType::kInt32)}),
                high = call("bitwise_right_shift", {w, constant(4, DType::kInt32)});
    const int64_t have = numel(v.shape()) / n;
    const Value both = reshape(
        call("stack", {reshape(low, {n, have}), reshape(high, {n, have})}, {{"axis", 2}}), {n, have * 2});
    return to(have * 2 == count ? both : narrow(both, 1, 0, count), DType::kFloat32);
  };
  const Value w = reshape(unpacked(b, blocks * block), {n, blocks, block});
  Value zero = constant(bits == 4 ? 8 : 128, DType::kFloat32);
  if (i.has(3))
    zero = reshape(is_float(i.in(3).dtype()) ? to(i.in(3), DType::kFloat32) : unpacked(i.in(3), blocks),
                   {n, blocks, 1});
  Value full_w =
      reshape((w - zero) * reshape(to(i.in(2), DType::kFloat32), {n, blocks, 1}), {n, blocks * block});
  if (blocks * block != k) full_w = narrow(full_w, 1, 0, k);
  Value y = matmul(a, to(full_w, a.dtype()), false, true);
  i.out(i.has(5) ? y + i.in(5) : y);
}

const ImportTable table(Dialect::kOnnx, {
                                            {"QuantizeLinear", quantize_linear},
                                            {"DequantizeLinear", dequantize_linear},
                                            {"DynamicQuantizeLinear", dynamic_quantize},
                                            {"com.microsoft.QuantizeLinear", quantize_linear},
                                            {"com.microsoft.DequantizeLinear", dequantize_linear},
                                            {"MatMulInteger", mat_mul_integer},
                                            {"ConvInteger", conv_integer},
                                            {"QLinearMatMul", qlinear_mat_mul},
                                            {"QLinearConv", qlinear_conv},
                                            {"com.microsoft.MatMulNBits", mat_mul_nbits},
                                        });
}  // namespace
}  // namespace yuloh::formats
