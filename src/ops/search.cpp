// SPDX-License-Identifier: Apache-2.0
// Searching sorted sequences, distinct elements, histograms and counts.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/host.h"
#include "ops/rows.h"

namespace yuloh {
namespace {

// ---- search ----
void host_searchsorted(const HostCall& h) {
  const HostOperand &s = h.in[0], &v = h.in[1], &o = h.out[0];
  const bool right = h.call.flag("right");
  const int64_t n = v.numel(), len = s.shape.back(), inner = v.shape.empty() ? 1 : v.shape.back();
  const int64_t ss = static_cast<int64_t>(dtype_size(s.dtype)),
                vs = static_cast<int64_t>(dtype_size(v.dtype)),
                os = static_cast<int64_t>(dtype_size(o.dtype));
  Shape rows;
  Ints row_strides;
  for (uint32_t i = 0; i + 1 < s.shape.size(); ++i)
    rows.push_back(s.shape[i]), row_strides.push_back(s.strides[i]);
  Walk<1> w(v.shape, {v.strides});
  for (int64_t i = 0; i < n; ++i, w.next()) {
    const double x = load_double(v.as<char>() + w.offset[0] * vs, v.dtype);
    const char* row = s.as<char>() + (rows.empty() ? 0 : offset_at(rows, row_strides, i / inner)) * ss;
    int64_t lo = 0, hi = len;
    while (lo < hi) {
      const int64_t mid = (lo + hi) / 2;
      const double y = load_double(row + mid * s.strides.back() * ss, s.dtype);
      const bool before = right ? !less(x, y) : less(y, x);
      if (before) lo = mid + 1;
      else hi = mid;
    }
    store_int(o.as<char>() + i * os, o.dtype, lo);
  }
}
Types infer_search(const Call& c) {
  const Shape &s = c.type(0).shape, &v = c.type(1).shape;
  require_rank(c, 0, 1);
  bool ok = s.size() == 1 || s.size() == v.size();
  for (uint32_t i = 0; ok && s.size() > 1 && i + 1 < s.size(); ++i) ok = s[i] == v[i];
  if (!ok)
    value_error(c.name(), ": sequences and values do not fit, got shapes ", s, " and ", v,
                "; expected one sequence, or equal extents but the last.");
  return {{c.flag("out_int32") ? DType::kInt32 : DType::kInt64, v}};
}

// ---- unique ----
struct Unique {
  std::vector<int64_t> first, inverse,
      counts;  // first position of each distinct element, in order; by element
};
// Elements are rows of `x` along axis 0 when `rows`, else single values.
Unique find_unique(const HostOperand& x, bool sorted) {
  Unique u;
  const int64_t n = x.shape.empty() ? 1 : x.shape[0], size = static_cast<int64_t>(dtype_size(x.dtype));
  Shape tail;
  Ints tail_strides;
  for (uint32_t i = 1; i < x.shape.size(); ++i)
    tail.push_back(x.shape[i]), tail_strides.push_back(x.strides[i]);
  const int64_t width = yuloh::numel(tail);
  std::vector<double> v(static_cast<size_t>(n * width));
  std::vector<int64_t> raw(v.size());
  const bool integers = is_integral(x.dtype);
  for (int64_t i = 0; i < n; ++i) {
    Walk<1> w(tail, {tail_strides});
    for (int64_t j = 0; j < width; ++j, w.next()) {
      const char* p = x.as<char>() + ((x.shape.empty() ? 0 : i * x.strides[0]) + w.offset[0]) * size;
      v[i * width + j] = load_double(p, x.dtype);
      if (integers) raw[i * width + j] = load_int(p, x.dtype);
    }
  }
  auto compare = [&](int64_t a, int64_t b) {
    for (int64_t j = 0; j < width; ++j) {
      if (integers) {
        if (raw[a * width + j] != raw[b * width + j]) return raw[a * width + j] < raw[b * width + j] ? -1 : 1;
      } else if (less(v[a * width + j], v[b * width + j])) {
        return -1;
      } else if (less(v[b * width + j], v[a * width + j])) {
        return 1;
      }
    }
    return 0;
  };
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  if (sorted)
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
  u.inverse.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || compare(order[i - 1], order[i]) != 0) u.first.push_back(order[i]), u.counts.push_back(0);
    u.inverse[order[i]] = static_cast<int64_t>(u.first.size()) - 1;
    ++u.counts.back();
  }
  return u;
}
void host_unique_count(const HostCall& h) {
  *h.out[0].as<int64_t>() = static_cast<int64_t>(find_unique(h.in[0], h.call.flag("sorted")).first.size());
}
void host_unique_fill(const HostCall& h) {
  const Unique u = find_unique(h.in[0], h.call.flag("sorted"));
  auto put = [](const HostOperand& o, const std::vector<int64_t>& v) {
    for (size_t i = 0; i < v.size() && static_cast<int64_t>(i) < o.numel(); ++i) o.as<int64_t>()[i] = v[i];
  };
  put(h.out[0], u.first), put(h.out[1], u.inverse), put(h.out[2], u.counts);
}

// ---- counting ----
void host_histogram(const HostCall& h) {
  const HostOperand& x = h.in[0];
  const int64_t n = x.numel(), bins = h.call.integer("bins"),
                size = static_cast<int64_t>(dtype_size(x.dtype));
  double lo = h.call.real("min"), hi = h.call.real("max");
  if (lo == hi && n) {
    lo = INFINITY, hi = -INFINITY;
    Walk<1> w(x.shape, {x.strides});
    for (int64_t i = 0; i < n; ++i, w.next()) {
      const double v = load_double(x.as<char>() + w.offset[0] * size, x.dtype);
      lo = std::min(lo, v), hi = std::max(hi, v);
    }
    if (!std::isfinite(lo) || !std::isfinite(hi))
      value_error("histogram: the data has no finite range, got ", lo, " to ", hi,
                  "; expected finite values or min < max.");
  }
  if (lo == hi) lo -= 1, hi += 1;
  std::vector<double> count(static_cast<size_t>(bins), 0);
  Walk<1> w(x.shape, {x.strides});
  double total = 0;
  const HostOperand* weight = h.call.has("weight") ? &h.in[1] : nullptr;
  for (int64_t i = 0; i < n; ++i, w.next()) {
    const double v = load_double(x.as<char>() + w.offset[0] * size, x.dtype);
    if (!(v >= lo && v <= hi)) continue;
    const double at =
        (v / 2 - lo / 2) / (hi / 2 - lo / 2) * static_cast<double>(bins);  // halves: no overflow
    const int64_t b = std::min(static_cast<int64_t>(at), bins - 1);
    double by = 1;
    if (weight)
      by = load_double(weight->as<char>() + offset_at(weight->shape, weight->strides, i) *
                                                static_cast<int64_t>(dtype_size(weight->dtype)),
                       weight->dtype);
    count[b] += by, total += by;
  }
  const HostOperand& o = h.out[0];
  for (int64_t i = 0; i < bins; ++i) {
    const double v = h.call.flag("density") && total > 0
                         ? count[i] / total / ((hi - lo) / static_cast<double>(bins))
                         : count[i];
    store_double(o.as<char>() + i * static_cast<int64_t>(dtype_size(o.dtype)), o.dtype, v);
  }
}
void host_bincount(const HostCall& h) {
  const HostOperand& o = h.out[0];
  const std::vector<int64_t> v = read_ints(h.in[0]);
  std::vector<double> count(static_cast<size_t>(o.numel()), 0);
  const bool weighted = h.call.has("weights");
  for (size_t i = 0; i < v.size(); ++i) {
    if (v[i] < 0)
      value_error("bincount: negative value, got ", v[i], " at position ", i, "; expected values >= 0.");
    double by = 1;
    if (weighted) {
      const HostOperand& w = h.in[1];
      by = load_double(w.as<char>() + offset_at(w.shape, w.strides, static_cast<int64_t>(i)) *
                                          static_cast<int64_t>(dtype_size(w.dtype)),
                       w.dtype);
    }
    if (v[i] < o.numel()) count[static_cast<size_t>(v[i])] += by;
  }
  for (size_t i = 0; i < count.size(); ++i)
    store_double(o.as<char>() + static_cast<int64_t>(i * dtype_size(o.dtype)), o.dtype, count[i]);
}

const Register search{
    {.schema = "searchsorted(Tensor sorted_sequence, Tensor values, bool out_int32=False, bool right=False) "
               "-> Tensor",
     .python = "paddle.searchsorted",
     .doc = "Where values would be inserted to keep the last axis sorted: before equal ones, or after with "
            "right.",
     .infer = infer_search,
     .host = host_searchsorted,
     .no_grad = true},
    {.schema =
         "bucketize_core(Tensor sorted_sequence, Tensor x, bool out_int32=False, bool right=False) -> Tensor",
     .doc = "searchsorted with one sequence.",
     .infer = [](const Call& c) { return require_rank(c, 0, 1, 1), infer_search(c); },
     .host = host_searchsorted,
     .no_grad = true},
    {.schema = "unique_count(Tensor x, bool sorted=True) -> Tensor",
     .doc = "How many distinct elements (along axis 0) x has; without `sorted`, distinct runs.",
     .infer = [](const Call&) -> Types {
       return {{DType::kInt64, {}}};
     },
     .host = host_unique_count,
     .no_grad = true},
    {.schema = "unique_fill(Tensor x, int n, bool sorted=True) -> Tensor, Tensor, Tensor",
     .doc = "First position, inverse and count of the n distinct elements along axis 0.",
     .infer = [](const Call& c) -> Types {
       const int64_t rows = c.type(0).shape.empty() ? 1 : c.type(0).shape[0];
       return {{DType::kInt64, {c.integer("n")}}, {DType::kInt64, {rows}}, {DType::kInt64, {c.integer("n")}}};
     },
     .host = host_unique_fill,
     .no_grad = true},
    {.schema = "histogram(Tensor input, int bins=100, float min=0.0, float max=0.0, Tensor? weight=None, "
               "bool density=False) -> Tensor",
     .python = YULOH_BOTH("histogram"),
     .doc = "Counts in equal bins from min to max (of the data when equal); values outside are left out.",
     .infer = [](const Call& c) -> Types {
       if (c.integer("bins") < 1)
         value_error("histogram: bins is not positive, got ", c.integer("bins"), ".");
       const double lo = c.real("min"), hi = c.real("max");
       if (!(lo <= hi) || !std::isfinite(lo) || !std::isfinite(hi))
         value_error("histogram: the range is not usable, got min ", lo, " and max ", hi,
                     "; expected finite min <= max.");
       if (c.has("weight") && !(c.type(1).shape == c.type(0).shape))
         value_error("histogram: weight does not fit, got shape ", c.type(1).shape, "; expected ",
                     c.type(0).shape, ".");
       return {{c.flag("density") || c.has("weight") ? DType::kFloat32 : DType::kInt64, {c.integer("bins")}}};
     },
     .host = host_histogram,
     .no_grad = true},
    {.schema = "bincount_core(Tensor x, Tensor? weights, int n) -> Tensor",
     .doc = "How often 0..n-1 occur in x, or the sum of their weights.",
     .infer = [](const Call& c) -> Types {
       require_integral(c, 0);
       require_rank(c, 0, 1, 1);
       const Value w = c["weights"];
       if (w && !(w.shape() == c.type(0).shape))
         value_error("bincount: weights do not fit, got shape ", w.shape(), "; expected ", c.type(0).shape,
                     ".");
       return {{!w                             ? DType::kInt64
                : w.dtype() == DType::kFloat64 ? DType::kFloat64
                : is_integral(w.dtype())       ? DType::kFloat32
                                               : w.dtype(),
                {c.integer("n")}}};
     },
     .host = host_bincount,
     .no_grad = true,
     .checks = true},
};
}  // namespace
}  // namespace yuloh
