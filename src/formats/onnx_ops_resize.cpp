// SPDX-License-Identifier: Apache-2.0
// ONNX mappings: Resize, Upsample, GridSample, AffineGrid, RoiAlign: values between grid points.
#include <algorithm>
#include <cmath>

#include "formats/onnx_ops.h"

namespace yuloh::formats {
namespace {
struct AxisPlan {
  int64_t in, out;
  double scale, roi_begin = 0, roi_end = 1;
};
double source(const AxisPlan& p, const std::string& mode, int64_t k) {
  const double x = static_cast<double>(k), in = static_cast<double>(p.in), out = static_cast<double>(p.out);
  if (mode == "half_pixel") return (x + .5) / p.scale - .5;
  if (mode == "half_pixel_symmetric") {
    const double adjust = out / (p.scale * in), centre = in / 2;
    return centre * (1 - adjust) + (x + .5) / p.scale - .5;
  }
  const double resized = p.scale * in;  // not rounded
  if (mode == "pytorch_half_pixel") return resized > 1 ? (x + .5) / p.scale - .5 : 0;
  if (mode == "align_corners") return resized > 1 ? x * (in - 1) / (resized - 1) : 0;
  if (mode == "asymmetric") return x / p.scale;
  if (mode == "tf_half_pixel_for_nn") return (x + .5) / p.scale;
  if (mode == "tf_crop_and_resize")
    return p.out > 1 ? p.roi_begin * (in - 1) + x * (p.roi_end - p.roi_begin) * (in - 1) / (out - 1)
                     : .5 * (p.roi_begin + p.roi_end) * (in - 1);
  value_error("Resize: unknown coordinate_transformation_mode '", mode, "'.");
}
double nearest(double p, const std::string& mode) {
  if (mode == "round_prefer_floor") return std::ceil(p - .5);
  if (mode == "round_prefer_ceil") return std::floor(p + .5);
  return mode == "floor" ? std::floor(p) : std::ceil(p);
}
double kernel(double t, bool cubic, double a) {
  t = std::fabs(t);
  if (!cubic) return std::max(0.0, 1 - t);
  if (t < 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}
// Linear and cubic along one axis; antialias widens the kernel when the axis shrinks.
Value weighted(const Value& x, int64_t axis, const AxisPlan& p, const std::string& coordinates, bool cubic,
               double a, bool exclude, bool antialias) {
  const double stretch = antialias && p.scale < 1 ? 1 / p.scale : 1, reach = (cubic ? 2 : 1) * stretch;
  const int64_t taps = 2 * static_cast<int64_t>(std::ceil(std::min(reach, 1e7)));
  if (taps * p.out > int64_t{1} << 26)
    value_error("Resize: ", taps, " taps for each of ", p.out, " elements of an axis are too many.");
  Ints index;
  std::vector<double> weight;
  for (int64_t k = 0; k < p.out; ++k) {
    const double at = source(p, coordinates, k);
    const int64_t from = static_cast<int64_t>(std::floor(at)) - taps / 2 + 1;
    std::vector<double> w;
    double total = 0;
    for (int64_t q = from; q < from + taps; ++q) {
      double v = kernel((static_cast<double>(q) - at) / stretch, cubic, a);
      if (exclude && (q < 0 || q >= p.in)) v = 0;
      w.push_back(v), total += v;
    }
    for (int64_t q = 0; q < taps; ++q) {
      index.push_back(std::clamp<int64_t>(from + q, 0, p.in - 1));
      weight.push_back(exclude || antialias ? w[q] / total : w[q]);
    }
  }
  return call("resample", {x}, {{"axis", axis}, {"taps", taps}, {"index", index}, {"weight", weight}});
}

// The axes that change as one `interpolate_core`, whose sizes may stay open when the model is written; null
// where its positions are not exactly these.
Value interpolated(const Import& i, const Value& x, const Ints& axes, const std::vector<AxisPlan>& plans,
                   bool scaled, const std::string& coordinates, const std::string& mode,
                   const std::string& round) {
  const bool nearest = mode == "nearest", cubic = mode == "cubic", corners = coordinates == "align_corners";
  const bool centres = coordinates == "half_pixel" || coordinates == "pytorch_half_pixel";
  if (nearest ? coordinates != "asymmetric" || round != "floor"
              : !corners && !centres && (cubic || coordinates != "asymmetric"))
    return {};
  if (!nearest && (i.integer("exclude_outside", 0) || (cubic && i.real("cubic_coeff_a", -.75) != -.75)))
    return {};
  Ints at, size;
  std::vector<double> scale;
  for (size_t k = 0; k < plans.size(); ++k) {
    const AxisPlan& p = plans[k];
    if (p.in == p.out && p.scale == 1) continue;
    int exponent;
    const bool exact =
        std::frexp(p.scale, &exponent) == .5;  // a power of two: dividing and multiplying agree
    if (p.out < 1 || (nearest && !exact) || (i.integer("antialias", 0) && p.scale < 1) ||
        (coordinates == "pytorch_half_pixel" && p.out < 2))
      return {};
    if (corners && p.scale * static_cast<double>(p.in) != static_cast<double>(p.out)) return {};
    at.push_back(axes[k]), size.push_back(p.out), scale.push_back(scaled ? p.scale : 0.0);
  }
  if (at.empty()) return {};
  return call("interpolate_core", {x},
              {{"axes", at},
               {"size", size},
               {"scale", scale},
               {"mode", nearest ? "nearest"
                        : cubic ? "bicubic"
                                : "bilinear"},
               {"align_corners", corners},
               {"align_mode", coordinates == "asymmetric" ? 1 : 0}});
}

void resize(Import& i) {
  const bool upsample = i.node.type == "Upsample", old = i.opset() < 11;
  const size_t scales_at = upsample || old ? 1 : 2;
  std::vector<double> scales = i.reals_attr("scales");
  if (i.has(scales_at)) {
    const FileTensor t = i.host(scales_at);
    for (int64_t k = 0; k < numel(t.type.shape); ++k)
      scales.push_back(load_double(static_cast<const char*>(t.buffer->data()) + k * dtype_size(t.type.dtype),
                                   t.type.dtype));
  }
  const Ints sizes = !upsample && !old && i.has(3) ? i.ints(3) : Ints();
  std::vector<double> roi;
  const std::string coordinates =
      upsample || old ? "asymmetric" : i.text("coordinate_transformation_mode", "half_pixel");
  if (coordinates == "tf_crop_and_resize" && i.has(1)) {
    const FileTensor t = i.host(1);
    for (int64_t k = 0; k < numel(t.type.shape); ++k)
      roi.push_back(load_double(static_cast<const char*>(t.buffer->data()) + k * dtype_size(t.type.dtype),
                                t.type.dtype));
  }
  const Value x = i.in(0);
  Ints axes = i.ints_attr("axes", {});
  if (axes.empty())
    for (int64_t d = 0; d < x.rank(); ++d) axes.push_back(d);
  const size_t n = axes.size();
  if ((sizes.empty() ? scales.size() : sizes.size()) != n)
    value_error("Resize: sizes or scales do not fit x of shape ", x.shape(), ".");
  std::vector<AxisPlan> plans(n);
  const std::string policy = i.text("keep_aspect_ratio_policy", "stretch");
  double common = 0;
  if (!sizes.empty() && policy != "stretch")
    for (size_t k = 0; k < n; ++k) {
      const double s =
          static_cast<double>(sizes[k]) / static_cast<double>(x.shape()[axis_of(i, axes[k], x.rank())]);
      common = k == 0 ? s : policy == "not_larger" ? std::min(common, s) : std::max(common, s);
    }
  for (size_t k = 0; k < n; ++k) {
    const int64_t axis = axis_of(i, axes[k], x.rank()), in = x.shape()[axis];
    axes[k] = axis;
    AxisPlan& p = plans[k];
    p.in = in;
    if (roi.size() == 2 * n) p.roi_begin = roi[k], p.roi_end = roi[k + n];
    const double crop = coordinates == "tf_crop_and_resize" ? p.roi_end - p.roi_begin : 1;
    if (common > 0 && common < 1e9)
      p.scale = common, p.out = static_cast<int64_t>(std::floor(common * static_cast<double>(in) + .5));
    else if (!sizes.empty()) p.out = sizes[k], p.scale = static_cast<double>(p.out) / static_cast<double>(in);
    else
      p.scale = scales[k],
      p.out =
          static_cast<int64_t>(std::floor(std::clamp(static_cast<double>(in) * crop * p.scale, -1.0, 1e12)));
    if (!(p.scale > 0 && p.scale < 1e9) || p.out < 0 || p.out > (int64_t{1} << 24) || (p.out > 0 && in == 0))
      value_error("Resize: axis ", axis, " of ", x.shape(), " becomes ", p.out, ".");
  }
  const std::string mode = i.text("mode", "nearest");
  const DType t = x.dtype();
  Value y = mode == "nearest" || is_float(t) ? x : to(x, DType::kFloat32);
  const std::string round = upsample || old ? "floor" : i.text("nearest_mode", "round_prefer_floor");
  const Value whole = interpolated(i, y, axes, plans, sizes.empty(), coordinates, mode, round);
  if (whole) return i.out(is_integral(t) && y.dtype() != t ? to(call("round", {whole}), t) : whole);
  Value outside;  // positions beyond the crop take the extrapolation value
  for (size_t k = 0; k < n; ++k) {
    const AxisPlan& p = plans[k];
    const bool crop = coordinates == "tf_crop_and_resize";
    if (p.in == p.out && p.scale == 1 && !crop) continue;
    if (mode == "nearest") {
      std::vector<double> where_at;
      for (int64_t q = 0; q < p.out; ++q) where_at.push_back(nearest(source(p, coordinates, q), round));
      y = resize_axis(y, axes[k], Resize::kNearest, where_at);
    } else {
      y = weighted(y, axes[k], p, coordinates, mode == "cubic", i.real("cubic_coeff_a", -.75),
                   i.integer("exclude_outside", 0), i.integer("antialias", 0));
    }
    if (crop) {
      std::vector<int64_t> beyond;
      for (int64_t q = 0; q < p.out; ++q) {
        const double at = source(p, coordinates, q);
        beyond.push_back(at < 0 || at > static_cast<double>(p.in - 1));
      }
      Shape s(static_cast<uint32_t>(x.rank()), 1);
      s[axes[k]] = p.out;
      const Value b = data_of(beyond, s, DType::kBool);
      outside = outside ? call("logical_or", {outside, b}) : b;
    }
  }
  if (outside) y = where(outside, constant_like(i.real("extrapolation_value", 0), y), y);
  i.out(is_integral(t) && y.dtype() != t ? to(call("round", {y}), t) : y);
}

// ---- sampling at computed positions ----
// x [N, C, D1..Dn] at integer positions at[d] [N, M]: [N, C, M]. Positions outside read as 0 when `zeros`,
// else the edge.
Value at_points(const Value& x, const Values& at, bool zeros) {
  const size_t n = at.size();
  const int64_t batch = x.shape()[0], c = x.shape()[1], m = at[0].shape()[1];
  Value flat, inside;
  int64_t plane = 1;
  for (size_t d = 0; d < n; ++d) {
    const int64_t size = x.shape()[d + 2];
    plane *= size;
    const Value p = at[d], low = constant_like(0, p), high = constant_like(static_cast<double>(size - 1), p);
    const Value in = call("logical_and", {call("greater_equal", {p, low}), call("less_equal", {p, high})});
    inside = inside ? call("logical_and", {inside, in}) : in;
    const Value clamped = minimum(maximum(p, low), high);
    flat = flat ? flat * static_cast<double>(size) + clamped : clamped;
  }
  const Value index = broadcast_to(reshape(to(flat, DType::kInt64), {batch, 1, m}), {batch, c, m});
  const Value v =
      call("take_along_axis", {reshape(x, {batch, c, plane}), index}, {{"axis", 2}, {"broadcast", false}});
  return zeros ? where_or(reshape(inside, {batch, 1, m}), v, 0) : v;
}
Value reflected(const Value& p, double low, double high) {
  const double span = high - low;
  if (span <= 0) return full(p.shape(), 0, p.dtype());
  const Value d = abs(p - low), turns = call("floor", {d / span}), rest = d - turns * span;
  const Value odd = not_equal(turns - call("floor", {turns / 2.0}) * 2.0, constant_like(0, turns));
  return where(odd, high - rest, rest + low);
}
// Reflects an integer position for cubic taps and keeps it within the axis.
void grid_sample(Import& i) {
  need(i, {3, 3});
  const Value x = i.in(0), grid = i.in(1);
  expect(i,
         grid.rank() == x.rank() && grid.shape().back() == x.rank() - 2 && grid.shape()[0] == x.shape()[0] &&
             x.rank() <= 6,
         "a grid [batch, out..., spatial dims]");
  for (int64_t d = 2; d < x.rank(); ++d) expect(i, x.shape()[d] > 0, "an x that is not empty");
  std::string mode = i.text("mode", "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  const std::string padding = i.text("padding_mode", "zeros");
  const bool corners = i.integer("align_corners", 0);
  const int64_t batch = x.shape()[0], n = x.rank() - 2;
  Shape out{batch, x.shape()[1]};
  int64_t m = 1;
  for (int64_t d = 0; d < n; ++d) out.push_back(grid.shape()[d + 1]), m *= grid.shape()[d + 1];
  const Value flat = reshape(to(grid, DType::kFloat32), {batch, m, n});
  Values p(static_cast<uint32_t>(n));
  auto fold_back = [&](const Value& v, int64_t d) {
    const double size = static_cast<double>(x.shape()[d + 2]);
    const Value r = corners ? reflected(v, 0, size - 1) : reflected(v, -.5, size - .5);
    return minimum(maximum(r, constant_like(0, r)), constant_like(size - 1, r));
  };
  for (int64_t d = 0; d < n; ++d) {  // the grid's last axis is x first
    const double size = static_cast<double>(x.shape()[d + 2]);
    const Value g = squeeze(narrow(flat, 2, n - 1 - d, 1), 2);
    Value v = corners ? affine(g, (size - 1) / 2, (size - 1) / 2) : affine(g, size / 2, (size - 1) / 2);
    if (mode == "nearest") v = call("round", {v});
    if (mode != "cubic" && padding == "border")
      v = minimum(maximum(v, constant_like(0, v)), constant_like(size - 1, v));
    if (mode != "cubic" && padding == "reflection") v = fold_back(v, d);
    p[d] = v;
  }
  const bool zeros = padding == "zeros";
  if (mode == "nearest") return i.out(to(reshape(at_points(x, p, zeros), out), x.dtype()));
  const int taps = mode == "linear" ? 2 : 4;
  Values low(static_cast<uint32_t>(n)), part(static_cast<uint32_t>(n));
  for (int64_t d = 0; d < n; ++d) low[d] = call("floor", {p[d]}), part[d] = p[d] - low[d];
  auto weight = [&](const Value& t, int k) {
    if (mode == "linear") return k ? t : 1.0 - t;
    const double a = -.75;
    auto near = [a](const Value& u) { return ((u * (a + 2)) - (a + 3)) * u * u + 1.0; };
    auto far = [a](const Value& u) { return ((u * a - 5 * a) * u + 8 * a) * u - 4 * a; };
    return k == 0 ? far(t + 1.0) : k == 1 ? near(t) : k == 2 ? near(1.0 - t) : far(2.0 - t);
  };
  Value total;
  int64_t combinations = 1;
  for (int64_t d = 0; d < n; ++d) combinations *= taps;
  for (int64_t q = 0; q < combinations; ++q) {
    Values at(static_cast<uint32_t>(n));
    Value w;
    int64_t left = q;
    for (int64_t d = n; d-- > 0; left /= taps) {
      const int k = static_cast<int>(left % taps);
      at[d] = low[d] + static_cast<double>(k - (taps == 4));
      if (mode == "cubic" && padding == "reflection") at[d] = fold_back(at[d], d);
      const Value wd = weight(part[d], k);
      w = w ? w * wd : wd;
    }
    const Value v = to(at_points(x, at, zeros), DType::kFloat32) * reshape(w, {batch, 1, m});
    total = total ? total + v : v;
  }
  i.out(to(reshape(total, out), x.dtype()));
}

void affine_grid(Import& i) {
  const Ints size = i.ints(1);
  need(i, {3});
  expect(i, size.size() == 4 || size.size() == 5, "a size of 4 or 5 numbers");
  for (int64_t s : size) expect(i, s >= 0 && s <= 1 << 20, "sizes from 0 to 2^20");
  const Value theta = i.in(0);
  const bool corners = i.integer("align_corners", 0);
  const int64_t n = static_cast<int64_t>(size.size()) - 2;
  Shape out{size[0]}, plane;
  int64_t m = 1;
  for (int64_t d = 0; d < n; ++d) out.push_back(size[d + 2]), plane.push_back(size[d + 2]), m *= size[d + 2];
  out.push_back(n);
  Values columns;
  for (int64_t d = n; d-- > 0;) {  // x first
    std::vector<double> v;
    const double steps = static_cast<double>(size[d + 2]);
    for (int64_t k = 0; k < size[d + 2]; ++k)
      v.push_back(corners ? (size[d + 2] > 1 ? -1 + 2 * static_cast<double>(k) / (steps - 1) : 0)
                          : (2 * static_cast<double>(k) + 1) / steps - 1);
    Shape s(static_cast<uint32_t>(n), 1);
    s[d] = size[d + 2];
    columns.push_back(reshape(broadcast_to(data_of(v, s, theta.dtype()), plane), {m, 1}));
  }
  columns.push_back(full({m, 1}, 1, theta.dtype()));
  i.out(reshape(matmul(unsqueeze(concat(columns, 1), 0), swap_last(theta)), out));
}

// Means (or maxima) of sampling points in each bin of each region.
void roi_align(Import& i) {
  need(i, {4, 2, 1});
  const Value x = i.in(0), batch = i.in(2);
  const int64_t oh = bounded(i, "output_height", 1, 1, 4096), ow = bounded(i, "output_width", 1, 1, 4096),
                ratio = bounded(i, "sampling_ratio", 0, 0, 256);
  expect(i,
         i.in(1).shape()[1] == 4 && i.in(1).shape()[0] == batch.shape()[0] && x.shape()[2] > 0 &&
             x.shape()[3] > 0,
         "rois [n, 4] with n batch indices");
  const double scale = i.real("spatial_scale", 1);
  const bool half = i.text("coordinate_transformation_mode",
                           i.opset() < 16 ? "output_half_pixel" : "half_pixel") == "half_pixel";
  const bool maximal = i.text("mode", "avg") == "max";
  const FileTensor rois = ratio == 0 ? i.host(1) : FileTensor();
  const Value boxes = i.in(1);
  const int64_t r = boxes.shape()[0], c = x.shape()[1], h = x.shape()[2], w = x.shape()[3];
  auto one = [&](int64_t k, int64_t sy, int64_t sx) {
    const Value b = affine(narrow(boxes, 0, k, 1), scale, half ? -.5 : 0);
    auto side = [&](int64_t from, int64_t bins, int64_t samples) {
      const Value lo = narrow(b, 1, from, 1), hi = narrow(b, 1, from + 2, 1);
      Value length = hi - lo;
      if (!half) length = maximum(length, constant_like(1, length));
      std::vector<double> at;
      for (int64_t q = 0; q < bins * samples; ++q)
        at.push_back((static_cast<double>(q / samples) +
                      (static_cast<double>(q % samples) + .5) / static_cast<double>(samples)) /
                     static_cast<double>(bins));
      return lo + length * data_of(at, {1, bins * samples}, b.dtype());
    };
    const Value ys = side(1, oh, sy), xs = side(0, ow, sx);
    const int64_t ny = oh * sy, nx = ow * sx, m = ny * nx;
    const Value Y = reshape(broadcast_to(reshape(ys, {ny, 1}), {ny, nx}), {1, m}),
                X = reshape(broadcast_to(reshape(xs, {1, nx}), {ny, nx}), {1, m});
    auto within = [](const Value& p, int64_t size) {
      return call("logical_and", {call("greater_equal", {p, constant_like(-1, p)}),
                                  call("less_equal", {p, constant_like(static_cast<double>(size), p)})});
    };
    const Value valid = call("logical_and", {within(Y, h), within(X, w)});
    auto clamp = [](const Value& p, int64_t size) {
      return minimum(maximum(p, constant_like(0, p)), constant_like(static_cast<double>(size - 1), p));
    };
    const Value cy = clamp(Y, h), cx = clamp(X, w), y0 = call("floor", {cy}), x0 = call("floor", {cx}),
                fy = cy - y0, fx = cx - x0;
    const Value plane = gather(x, reshape(narrow(batch, 0, k, 1), {1}), 0);
    Value total;
    for (int q = 0; q < 4; ++q) {
      const Value weight = (q & 2 ? fy : 1.0 - fy) * (q & 1 ? fx : 1.0 - fx);
      const Value v = at_points(plane, {y0 + (q & 2 ? 1.0 : 0.0), x0 + (q & 1 ? 1.0 : 0.0)}, false) *
                      reshape(weight, {1, 1, m});
      total = total ? (maximal ? maximum(total, v) : total + v) : v;
    }
    total = reshape(where_or(reshape(valid, {1, 1, m}), total, 0), {1, c, oh, sy, ow, sx});
    return maximal ? max(total, {3, 5}, false) : mean(total, {3, 5}, false);
  };
  Values all;
  for (int64_t k = 0; k < r; ++k) {
    int64_t sy = ratio, sx = ratio;
    if (ratio == 0) {
      auto get = [&](int64_t q) {
        return load_double(
                   static_cast<const char*>(rois.buffer->data()) + (4 * k + q) * dtype_size(rois.type.dtype),
                   rois.type.dtype) *
               scale;
      };
      auto samples = [&](double length, int64_t bins) {
        if (!half) length = std::max(length, 1.0);
        return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(length / static_cast<double>(bins))), 1,
                                   1 << 12);
      };
      sy = samples(get(3) - get(1), oh), sx = samples(get(2) - get(0), ow);
    }
    all.push_back(one(k, sy, sx));
  }
  i.out(all.empty() ? full({0, c, oh, ow}, 0, x.dtype()) : concat(all, 0));
}

const ImportTable table(Dialect::kOnnx, {
                                            {"Resize", resize},
                                            {"Upsample", resize},
                                            {"GridSample", grid_sample},
                                            {"AffineGrid", affine_grid},
                                            {"RoiAlign", roi_align},
                                        });
}  // namespace
}  // namespace yuloh::formats
