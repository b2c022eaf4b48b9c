// SPDX-License-Identifier: Apache-2.0
// ONNX mappings: Fourier transforms as products with a matrix of cosines and sines, window functions, random
// numbers, Col2Im, DeformConv.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "formats/onnx_ops.h"
#include "formats/onnx_window.h"

namespace yuloh::formats {
namespace {
constexpr double kPi = std::numbers::pi;

// x [..., n, 1 or 2] (real and imaginary parts last) over the axis before the last, cut or filled to n
// points.
Value fourier(Value x, int64_t points, bool inverse, bool half) {
  const DType t = x.dtype();
  const int64_t axis = x.rank() - 2, have = x.shape()[axis], parts = x.shape().back();
  if (points < 1 || points > 1 << 14) value_error("DFT: the length is ", points, "; expected 1 to 16384.");
  if (have > points) x = narrow(x, axis, 0, points);
  const int64_t n = std::min(have, points), bins = half && !inverse ? points / 2 + 1 : points;
  std::vector<double> c, s;
  for (int64_t q = 0; q < n; ++q)
    for (int64_t k = 0; k < bins; ++k) {
      const double a = 2 * kPi * static_cast<double>(q * k % points) / static_cast<double>(points);
      c.push_back(std::cos(a)), s.push_back(inverse ? std::sin(a) : -std::sin(a));
    }
  const Value mc = data_of(c, {n, bins}, t), ms = data_of(s, {n, bins}, t);
  const Value re = squeeze(narrow(x, axis + 1, 0, 1), axis + 1);
  Value yr = matmul(re, mc), yi = matmul(re, ms);
  if (parts == 2) {
    const Value im = squeeze(narrow(x, axis + 1, 1, 1), axis + 1);
    yr = yr - matmul(im, ms), yi = yi + matmul(im, mc);
  }
  const Value y = call("stack", {yr, yi}, {{"axis", axis + 1}});
  return inverse ? y / static_cast<double>(points) : y;
}
// What is left of a transform when its input is the half of a real signal's: the other half is its mirror
// image.
Value mirrored(const Value& x, int64_t points) {
  const int64_t axis = x.rank() - 2, have = x.shape()[axis];
  const int64_t rest = points - have;
  if (rest <= 0) return x;
  const Value tail = flip(narrow(x, axis, 1, rest), axis);
  const Value sign = data_of(std::vector<double>{1, -1}, {2}, x.dtype());
  return concat({x, tail * sign}, axis);
}
void dft(Import& i) {
  need(i, {2});
  const bool old = i.opset() < 20, inverse = i.integer("inverse", 0), onesided = i.integer("onesided", 0);
  const int64_t given = old ? i.integer("axis", 1) : i.has(2) ? first(i, 2) : -2;
  const int64_t length = i.has(1) ? first(i, 1) : 0;
  Value x = i.in(0);
  const int64_t axis = axis_of(i, given, x.rank()), last = x.rank() - 2;
  Ints perm;
  for (int64_t d = 0; d < x.rank(); ++d) perm.push_back(d);
  std::swap(perm[axis], perm[last]);
  x = transpose(x, perm);
  int64_t points = length ? length : x.shape()[last];
  if (inverse && onesided) {
    if (!length) points = 2 * (x.shape()[last] - 1);
    x = mirrored(x, points);
  }
  Value y = fourier(x, points, inverse, onesided);
  if (inverse && onesided) y = narrow(y, y.rank() - 1, 0, 1);
  i.out(transpose(y, perm));
}
// signal [batch, n, 1 or 2], step, window, frame length -> [batch, frames, bins, 2]
void stft(Import& i) {
  need(i, {2});
  const int64_t step = first(i, 1);
  const int64_t size = i.has(3) ? first(i, 3) : i.has(2) ? i.in(2).shape()[0] : 0;
  Value x = i.in(0);
  if (x.rank() == 2) x = unsqueeze(x, 2);
  const int64_t batch = x.shape()[0], n = x.shape()[1], parts = x.shape()[2];
  if (step < 1 || size < 1 || size > n)
    value_error("STFT: frames of ", size, " every ", step, " of a signal of ", n, ".");
  const int64_t frames = (n - size) / step + 1;
  std::vector<int64_t> at;
  for (int64_t f = 0; f < frames; ++f)
    for (int64_t k = 0; k < size; ++k) at.push_back(f * step + k);
  Value y = reshape(gather(x, data_of(at, {frames * size}), 1), {batch, frames, size, parts});
  if (i.has(2)) y = y * reshape(i.in(2), {size, 1});
  i.out(fourier(y, size, false, i.integer("onesided", 1)));
}
void window(Import& i, double a0, double a1, double a2) {
  const int64_t n = first(i, 0);
  if (n < 0 || n > 1 << 26) value_error("window: the size is ", n, ".");
  const OnnxTypeInfo* info = onnx_type_info(i.integer("output_datatype", 1));
  if (!info) i.unsupported("the output type");
  const double span = static_cast<double>(i.integer("periodic", 1) ? n : n - 1);
  std::vector<double> v;
  for (int64_t k = 0; k < n; ++k) {
    const double t = 2 * kPi * static_cast<double>(k) / span;
    v.push_back(a0 - a1 * std::cos(t) + a2 * std::cos(2 * t));
  }
  i.out(data_of(v, {n}, info->dtype));
  i.out_stored_as(0, 0);
}
void mel_weights(Import& i) {
  const int64_t bands = first(i, 0), length = first(i, 1), rate = first(i, 2);
  const double low = i.number(3), high = i.number(4);
  const int64_t bins = length / 2 + 1;
  if (bands < 0 || bands > 1 << 16 || length < 0 || length > 1 << 24 || bins * bands > 1 << 26)
    value_error("MelWeightMatrix: ", bands, " bands of ", length, " points.");
  auto mel = [](double f) { return 2595 * std::log10(1 + f / 700); };
  std::vector<int64_t> edge;
  const double from = mel(low), by = (mel(high) - from) / static_cast<double>(bands + 2);
  for (int64_t k = 0; k < bands + 2; ++k) {
    const double hz = 700 * (std::pow(10, (static_cast<double>(k) * by + from) / 2595) - 1);
    edge.push_back(
        static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hz / static_cast<double>(rate))));
  }
  std::vector<double> w(static_cast<size_t>(bins * bands), 0);
  auto put = [&](int64_t bin, int64_t band, double v) {
    if (bin >= 0 && bin < bins) w[static_cast<size_t>(bin * bands + band)] = v;
  };
  for (int64_t b = 0; b < bands; ++b) {
    const int64_t l = edge[b], c = edge[b + 1], h = edge[b + 2];
    if (c == l) put(c, b, 1);
    for (int64_t k = l; c != l && k <= c; ++k)
      put(k, b, static_cast<double>(k - l) / static_cast<double>(c - l));
    for (int64_t k = c; h > c && k < h; ++k)
      put(k, b, static_cast<double>(h - k) / static_cast<double>(h - c));
  }
  i.out(data_of(w, {bins, bands}, dtype_attr(i, "output_datatype")));
  i.out_stored_as(0, 0);
}

// ---- random numbers: Yuloh's own generator; `seed` attributes do not apply ----
DType random_type(const Import& i, DType otherwise) {
  if (!i.has_attr("dtype")) return otherwise;
  const OnnxTypeInfo* info = onnx_type_info(i.integer("dtype", 1));
  return info ? info->dtype : otherwise;
}
void random_numbers(Import& i, bool normal) {
  const bool like = i.has(0);
  const Ints shape = like ? to_ints(i.in(0).shape()) : i.ints_attr("shape", {});
  const DType t = random_type(i, like && is_float(i.in(0).dtype()) ? i.in(0).dtype() : DType::kFloat32);
  const Value r = call(normal ? "normal01" : "uniform01", {}, {{"shape", shape}, {"dtype", t}});
  if (normal) return i.out(affine(r, i.real("scale", 1), i.real("mean", 0)));
  const double low = i.real("low", 0), high = i.real("high", 1);
  i.out(affine(r, high - low, low));
}
void bernoulli(Import& i) {
  const Value p = i.in(0);
  i.out(to(call("bernoulli", {p}), random_type(i, p.dtype())));
}
void multinomial(Import& i) {
  const Value p = call("softmax", {i.in(0)}, {{"axis", -1}});
  i.out(
      to(call("multinomial_core", {p}, {{"num_samples", i.integer("sample_size", 1)}, {"replacement", true}}),
         random_type(i, DType::kInt32)));
}

// ---- columns back to an image: the adjoint of taking blocks, as a scatter of sums ----
void col2im(Import& i) {
  const Ints image = i.ints(1), block = i.ints(2);
  const Value x = i.in(0);
  const size_t n = block.size();
  const Ints stride = i.ints_attr("strides", spatial_ones(n)),
             dilation = i.ints_attr("dilations", spatial_ones(n));
  const Ints pads = i.ints_attr("pads", Ints(static_cast<uint32_t>(2 * n), 0));
  need(i, {3});
  expect(i, n >= 1 && image.size() == n && stride.size() == n && dilation.size() == n && pads.size() == 2 * n,
         "sizes for every dim of the image");
  for (const Ints* v : std::initializer_list<const Ints*>{&image, &block, &stride, &dilation, &pads})
    for (int64_t k : *v) expect(i, k >= (v == &pads ? 0 : 1) && k <= 1 << 20, "sizes from 1 to 2^20");
  int64_t taps = 1, positions = 1, plane = 1;
  Ints count;
  for (size_t d = 0; d < n; ++d) {
    count.push_back((image[d] + pads[d] + pads[d + n] - ((block[d] - 1) * dilation[d] + 1)) / stride[d] + 1);
    expect(i, count.back() >= 1, "a block within the image");
    taps *= block[d], positions *= count[d], plane *= image[d];
    expect(i, taps < 1 << 20 && positions < 1 << 20 && plane < 1 << 28 && taps * positions < 1 << 26,
           "an image that memory can hold");
  }
  const int64_t batch = x.shape()[0], c = x.shape()[1] / taps;
  if (x.shape()[1] % taps || x.shape()[2] != positions || plane > 1 << 28)
    value_error("Col2Im: columns ", x.shape(), " do not fit the image.");
  std::vector<int64_t> at;  // [taps, positions] -> place in the plane, `plane` itself for the padding
  for (int64_t q = 0; q < taps; ++q)
    for (int64_t p = 0; p < positions; ++p) {
      int64_t place = 0, step = 1, ql = q, pl = p;
      bool inside = true;
      for (size_t d = n; d-- > 0;) {
        const int64_t k = pl % count[d] * stride[d] - pads[d] + ql % block[d] * dilation[d];
        ql /= block[d], pl /= count[d];
        inside = inside && k >= 0 && k < image[d];
        place += k * step, step *= image[d];
      }
      at.push_back(inside ? place : plane);
    }
  const int64_t m = taps * positions;
  const Value index = broadcast_to(data_of(at, {1, m}), {batch * c, m});
  const Value sums = call("put_along_axis_core",
                          {full({batch * c, plane + 1}, 0, x.dtype()), index, reshape(x, {batch * c, m})},
                          {{"axis", 1}, {"reduce", "add"}, {"broadcast", false}});
  Shape out{batch, c};
  out.insert(2, image[0]);
  for (size_t d = 1; d < n; ++d) out.push_back(image[d]);
  i.out(reshape(narrow(sums, 1, 0, plane), out));
}

// Convolution whose taps are moved by offsets: each tap is sampled bilinearly, then one product. 2-D.
void deform_conv(Import& i) {
  need(i, {4, 4, 4});
  const Value x = i.in(0), w = i.in(1), offset = i.in(2);
  if (x.rank() != 4) i.unsupported("other than two spatial dims");
  const OnnxWindow win = window_of(i, x.shape(), {w.shape()[2], w.shape()[3]});
  const int64_t n = x.shape()[0], c = x.shape()[1], h = x.shape()[2], wd = x.shape()[3], kh = win.kernel[0],
                kw = win.kernel[1], taps = kh * kw;
  const int64_t oh = win.out[0], ow = win.out[1], group = bounded(i, "group", 1, 1, 1 << 20),
                og = bounded(i, "offset_group", 1, 1, 1 << 20), m = oh * ow;
  expect(i,
         c % group == 0 && c % og == 0 && w.shape()[0] % group == 0 && h > 0 && wd > 0 && taps * m < 1 << 26,
         "channels that the groups divide");
  std::vector<double> by, bx;
  for (int64_t q = 0; q < taps; ++q)
    for (int64_t p = 0; p < m; ++p) {
      by.push_back(static_cast<double>(p / ow * win.stride[0] - win.pads[0] + q / kw * win.dilation[0]));
      bx.push_back(static_cast<double>(p % ow * win.stride[1] - win.pads[2] + q % kw * win.dilation[1]));
    }
  const Value off = reshape(offset, {n * og, taps, 2, m});
  const Value py = squeeze(narrow(off, 2, 0, 1), 2) + data_of(by, {taps, m}, x.dtype()),
              px = squeeze(narrow(off, 2, 1, 1), 2) + data_of(bx, {taps, m}, x.dtype());
  const Value y = reshape(py, {n * og, taps * m}), xx = reshape(px, {n * og, taps * m}),
              y0 = call("floor", {y}), x0 = call("floor", {xx});
  const Value fy = y - y0, fx = xx - x0, planes = reshape(x, {n * og, c / og, h * wd});
  Value total;
  for (int q = 0; q < 4; ++q) {
    const Value cy = y0 + (q & 2 ? 1.0 : 0.0), cx = x0 + (q & 1 ? 1.0 : 0.0);
    auto in = [](const Value& p, int64_t size) {
      return call("logical_and", {call("greater_equal", {p, constant_like(0, p)}),
                                  call("less_equal", {p, constant_like(static_cast<double>(size - 1), p)})});
    };
    const Value inside = call("logical_and", {in(cy, h), in(cx, wd)});
    const Value place = to(where_or(inside, cy * static_cast<double>(wd) + cx, 0), DType::kInt64);
    const Value weight = where_or(inside, (q & 2 ? fy : 1.0 - fy) * (q & 1 ? fx : 1.0 - fx), 0);
    const Value v =
        call("take_along_axis",
             {planes, broadcast_to(reshape(place, {n * og, 1, taps * m}), {n * og, c / og, taps * m})},
             {{"axis", 2}, {"broadcast", false}});
    const Value term = v * reshape(weight, {n * og, 1, taps * m});
    total = total ? total + term : term;
  }
  Value columns = reshape(total, {n, og, c / og, taps, m});
  if (i.has(4)) columns = columns * reshape(i.in(4), {n, og, 1, taps, m});
  const int64_t o = w.shape()[0];
  columns = reshape(columns, {n, group, c / group * taps, m});
  Value r = reshape(matmul(reshape(w, {1, group, o / group, c / group * taps}), columns), {n, o, oh, ow});
  if (i.has(3)) r = r + reshape(i.in(3), {o, 1, 1});
  i.out(r);
}

const ImportTable table(Dialect::kOnnx,
                        {
                            {"DFT", dft},
                            {"STFT", stft},
                            {"HannWindow", [](Import& i) { window(i, .5, .5, 0); }},
                            {"HammingWindow", [](Import& i) { window(i, 25.0 / 46, 21.0 / 46, 0); }},
                            {"BlackmanWindow", [](Import& i) { window(i, .42, .5, .08); }},
                            {"MelWeightMatrix", mel_weights},
                            {"RandomNormal", [](Import& i) { random_numbers(i, true); }},
                            {"RandomNormalLike", [](Import& i) { random_numbers(i, true); }},
                            {"RandomUniform", [](Import& i) { random_numbers(i, false); }},
                            {"RandomUniformLike", [](Import& i) { random_numbers(i, false); }},
                            {"Bernoulli", bernoulli},
                            {"Multinomial", multinomial},
                            {"Col2Im", col2im},
                            {"DeformConv", deform_conv},
                        });
}  // namespace
}  // namespace yuloh::formats
