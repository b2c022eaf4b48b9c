// SPDX-License-Identifier: Apache-2.0
// ONNX mappings of the com.microsoft domain: what ONNX Runtime's quantiser and graph optimiser write.
#include <cmath>

#include "formats/onnx_quant.h"
#include "formats/onnx_window.h"

namespace yuloh::formats {
namespace {
// Float value of inputs (x, scale, zero) at `at`.
Value real_of(const Import& i, size_t at) {
  Value x = to(i.in(at), DType::kFloat32);
  if (i.has(at + 2)) x = x - to(reshape(i.in(at + 2), {}), DType::kFloat32);
  return x * reshape(i.in(at + 1), {});
}
// Quantised to (scale, zero) at `at`; the zero point's type is the result's, `like` says it where there is
// none.
void out_quantized(Import& i, const Value& y, size_t at, size_t like = 0) {
  const size_t typed = i.has(at + 1) ? at + 1 : like;
  const Value zero = i.has(at + 1) ? reshape(i.in(at + 1), {}) : Value();
  i.out(
      quantized(y, reshape(i.in(at), {}), zero, onnx_type_of(i.in(typed).dtype(), i.stored_as(typed)), true));
}
void qlinear_binary(Import& i, const char* op) {
  out_quantized(i, call(op, {real_of(i, 0), real_of(i, 3)}), 6);
}
void qlinear_unary(Import& i, const char* op) { out_quantized(i, call(op, {real_of(i, 0)}), 3); }
void qlinear_leaky(Import& i) {
  out_quantized(i, call("leaky_relu", {real_of(i, 0)}, {{"negative_slope", i.real("alpha", .01)}}), 3);
}
void qlinear_softmax(Import& i) {
  const Value x = real_of(i, 0);
  const int64_t axis = axis_of(i, i.integer("axis", -1), x.rank());
  out_quantized(
      i,
      i.integer("opset", 13) < 13 ? softmax_from(x, axis, "softmax") : call("softmax", {x}, {{"axis", axis}}),
      3);
}
void qlinear_global_pool(Import& i) {
  const Value x = real_of(i, 0);
  const bool last = i.integer("channels_last", 0);
  Ints axes;
  for (int64_t d = last ? 1 : 2; d < x.rank() - last; ++d) axes.push_back(d);
  out_quantized(i, mean(x, axes), 3);
}
void qlinear_average_pool(Import& i) {
  if (i.integer("channels_last", 0)) i.unsupported("channels_last");
  const Value x = real_of(i, 0);
  const OnnxWindow w = window_of(i, x.shape(), i.ints_attr("kernel_shape", {}));
  out_quantized(i,
                call("avg_pool", {x},
                     {{"kernel_size", w.kernel},
                      {"stride", w.stride},
                      {"padding", w.reach},
                      {"exclusive", i.integer("count_include_pad", 0) == 0}}),
                3);
}
void qlinear_concat(Import& i) {  // y scale, y zero, then (x, scale, zero) of each
  Values xs;
  for (size_t k = 2; i.has(k); k += 3) xs.push_back(real_of(i, k));
  expect(i, !xs.empty(), "something to join");
  out_quantized(i, concat(xs, axis_of(i, i.integer("axis", 0), xs[0].rank())), 0, 2);
}
void qlinear_where(Import& i) { out_quantized(i, where(i.in(0), real_of(i, 1), real_of(i, 4)), 7, 1); }

// a, a_scale, a_zero, b, b_scale, b_zero, c (int32), y_scale, y_zero; without y_scale the result is float.
void qgemm(Import& i) {
  const bool ta = i.integer("transA", 0), tb = i.integer("transB", 0);
  const int64_t axis = tb ? 0 : 1;
  Value y = matmul(less_zero(i, 0, 2, 1, DType::kFloat64), less_zero(i, 3, 5, axis, DType::kFloat64), ta, tb);
  if (i.real("alpha", 1) != 1) y = y * i.real("alpha", 1);
  if (i.has(6)) y = y + to(i.in(6), DType::kFloat64);
  const Value r = to(y, DType::kFloat32) * (reshape(i.in(1), {}) * scale_like(i.in(4), 2, 1));
  if (!i.has(7)) return i.out(r);
  out_quantized(i, r, 7);
}
Value unary_by_name(const Import& i, const Value& y) {
  const std::string a = i.text("activation", "");
  const std::vector<double> p = i.reals_attr("activation_params");
  auto param = [&](size_t k, double otherwise) { return k < p.size() ? p[k] : otherwise; };
  if (a.empty()) return y;
  if (a == "Relu") return call("relu", {y});
  if (a == "Sigmoid") return call("sigmoid", {y});
  if (a == "Tanh") return call("tanh", {y});
  if (a == "LeakyRelu") return call("leaky_relu", {y}, {{"negative_slope", param(0, .01)}});
  if (a == "Clip")
    return minimum(maximum(y, constant_like(param(0, -INFINITY), y)), constant_like(param(1, INFINITY), y));
  if (a == "HardSigmoid")
    return call("hardsigmoid", {y}, {{"slope", param(0, .2)}, {"offset", param(1, .5)}});
  i.unsupported("activation " + a);
}
void fused_conv(Import& i) {  // x, w, bias, z (added before the activation)
  Value y = conv_with(i, i.in(0), i.in(1));
  if (i.has(2)) {
    Shape s(static_cast<uint32_t>(y.rank()), 1);
    expect(i, i.in(2).rank() == 1, "a bias of one dim");
    s[1] = i.in(2).shape()[0];
    y = y + reshape(i.in(2), s);
  }
  if (i.has(3)) y = y + i.in(3);
  i.out(unary_by_name(i, y));
}
void fused_gemm(Import& i) {
  Value y = matmul(i.in(0), i.in(1), i.integer("transA", 0), i.integer("transB", 0)) * i.real("alpha", 1);
  if (i.has(2)) y = y + i.in(2) * i.real("beta", 1);
  i.out(unary_by_name(i, y));
}
// a (float), b, b_scale, b_zero, bias
void dynamic_quantize_mat_mul(Import& i) {
  const DynamicQuantized a = dynamic_quantized(i.in(0));
  const Value x = to(a.y, DType::kFloat64) - to(a.zero, DType::kFloat64);
  const Value y = to(matmul(x, less_zero(i, 1, 3, -1, DType::kFloat64)), DType::kFloat32) *
                  (a.scale * scale_like(i.in(2), i.in(0).rank(), -1));
  i.out(i.has(4) ? y + i.in(4) : y);
}
// a, b, a_scale, b_scale, a_zero, b_zero, bias
void mat_mul_integer_to_float(Import& i) {
  const Value y = matmul(less_zero(i, 0, 4, -2, DType::kFloat64), less_zero(i, 1, 5, -1, DType::kFloat64));
  const Value r =
      to(y, DType::kFloat32) * (scale_like(i.in(2), y.rank(), -2) * scale_like(i.in(3), y.rank(), -1));
  i.out(i.has(6) ? r + i.in(6) : r);
}
// ids, segments, word, position and segment embeddings, gamma, beta, mask, position ids
void embed_layer_norm(Import& i) {
  expect(i, i.n_inputs() >= 7 && i.in(0).rank() == 2 && i.in(2).rank() == 2 && i.in(3).rank() == 2,
         "ids [batch, time] and tables [n, width]");
  const Value ids = i.in(0);
  const int64_t b = ids.shape()[0], n = ids.shape()[1];
  auto rows = [&](size_t table, const Value& index) {
    return reshape(gather(i.in(table), reshape(to(index, DType::kInt64), {numel(index.shape())}), 0),
                   {index.shape()[0], n, i.in(table).shape()[1]});
  };
  Value x = rows(2, ids) + rows(3, i.has(8) ? i.in(8) : iota({1, n}, 1, DType::kInt64));
  if (i.has(1) && i.has(4)) x = x + rows(4, i.in(1));
  i.out(call_all("layer_norm", {x, i.in(5), i.in(6)},
                 {{"begin_axis", 2}, {"epsilon", i.real("epsilon", 1e-12)}})[0]);
  const Value count = i.has(7)
                          ? to(sum_in(to(i.in(7), DType::kInt64), {1}, false, DType::kInt64), DType::kInt32)
                          : full({b}, 0, DType::kInt32);
  i.out(1, count), i.out(2, x);
}

const ImportTable table(Dialect::kOnnx,
                        {
                            {"com.microsoft.QLinearAdd", [](Import& i) { qlinear_binary(i, "add"); }},
                            {"com.microsoft.QLinearMul", [](Import& i) { qlinear_binary(i, "multiply"); }},
                            {"com.microsoft.QLinearSigmoid", [](Import& i) { qlinear_unary(i, "sigmoid"); }},
                            {"com.microsoft.QLinearLeakyRelu", qlinear_leaky},
                            {"com.microsoft.QLinearSoftmax", qlinear_softmax},
                            {"com.microsoft.QLinearGlobalAveragePool", qlinear_global_pool},
                            {"com.microsoft.QLinearAveragePool", qlinear_average_pool},
                            {"com.microsoft.QLinearConcat", qlinear_concat},
                            {"com.microsoft.QLinearWhere", qlinear_where},
                            {"com.microsoft.QGemm", qgemm},
                            {"com.microsoft.FusedConv", fused_conv},
                            {"com.microsoft.FusedGemm", fused_gemm},
                            {"com.microsoft.DynamicQuantizeMatMul", dynamic_quantize_mat_mul},
                            {"com.microsoft.MatMulIntegerToFloat", mat_mul_integer_to_float},
                            {"com.microsoft.EmbedLayerNormalization", embed_layer_norm},
                        });
}  // namespace
}  // namespace yuloh::formats
