// SPDX-License-Identifier: Apache-2.0
#include "tile/fuse_nest.h"

#include <algorithm>

#include "ops/op.h"

namespace yuloh {
namespace {
bool has(AxisMask m, int64_t axis) { return m >> axis & 1; }
}  // namespace

bool join_nests(const Nest& a, const Nest& b, Nest* joint) {
  if (!(a.order == b.order)) return false;
  const bool a_wins = a.mode == Nest::Mode::kRow || b.mode == Nest::Mode::kAll;  // kRow, then kCol, then kAll
  *joint = a_wins ? a : b;
  if (a.mode == b.mode) return a.reduced == b.reduced && a.n_keep == b.n_keep && a.n_inner == b.n_inner;
  if (a.n_keep || b.n_keep) return false;
  // A total is a walk of all elements in order, whatever the inner loop; rows and columns need the same one.
  return a.mode == Nest::Mode::kAll || b.mode == Nest::Mode::kAll || a.n_inner == b.n_inner;
}

Ints axis_order(const Shape& domain, const Ints& strides) {
  Ints order;
  for (uint32_t i = 0; i < domain.size(); ++i)
    if (domain[i] > 1) order.push_back(i);
  auto step = [&](int64_t a) { return strides[a] == 0 ? INT64_MAX : std::abs(strides[a]); };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return step(a) > step(b); });
  return order;
}

bool run_merges(const Shape& domain, const Ints& order, uint32_t n, const Ints& strides) {
  for (uint32_t i = order.size() - n; n > 0 && i + 1 < order.size(); ++i)
    if (strides[order[i]] != strides[order[i + 1]] * domain[order[i + 1]]) return false;
  return true;
}

Nest reduce_nest(const Shape& domain, AxisMask reduced, const Ints& in, const Ints& out) {
  Nest nest;
  const Ints natural = axis_order(domain, in);
  for (int64_t a : natural)
    if (has(reduced, a)) nest.reduced |= 1u << a;
  if (!nest.reduced) {
    nest.order = natural;
    return nest;
  }
  uint32_t run = 1;
  const bool inner_reduced = has(nest.reduced, natural.back());
  int64_t columns = domain[natural.back()];
  while (run < natural.size()) {
    const int64_t a = natural[natural.size() - run - 1];
    if (has(nest.reduced, a) != inner_reduced || !run_merges(domain, natural, run + 1, in) ||
        !run_merges(domain, natural, run + 1, out))
      break;
    columns *= domain[a];
    ++run;
  }
  const uint32_t rest = natural.size() - run;
  for (uint32_t pass = 0; pass < 2; ++pass)  // kept axes first, then reduced ones
    for (uint32_t i = 0; i < rest; ++i)
      if (has(nest.reduced, natural[i]) == (pass == 1))
        nest.order.push_back(natural[i]), nest.n_keep += pass == 0;
  const bool only_run = nest.n_keep == rest;
  for (uint32_t i = rest; i < natural.size(); ++i) nest.order.push_back(natural[i]);
  nest.n_inner = run;
  if (!inner_reduced) {
    nest.mode = Nest::Mode::kCol;
  } else if (only_run && columns <= kMaxRow) {
    nest.mode = Nest::Mode::kRow;
    nest.n_keep = 0;
  } else {
    nest.mode = Nest::Mode::kAll;
    nest.n_inner = 0;
  }
  return nest;
}

AxisMask reduced_axes(const Node& n) {
  AxisMask m = 0;
  for (int64_t a : normalize_axes(n.op->name, Call(n).ints("axis"), n.inputs[0].rank())) m |= 1u << a;
  return m;
}

Ints domain_strides(const Shape& domain, AxisMask reduced, Level level, const Shape& shape,
                    const Ints& strides) {
  Ints out(domain.size(), 0);
  int64_t j = static_cast<int64_t>(shape.size()) - 1;
  for (int64_t i = static_cast<int64_t>(domain.size()) - 1; i >= 0 && j >= 0; --i) {
    if (level == Level::kRowDrop && has(reduced, i)) continue;
    if (shape[j] != 1) out[i] = strides[j];
    --j;
  }
  return out;
}

Shape row_shape(const Shape& domain, AxisMask reduced, Level level) {
  Shape s;
  for (uint32_t i = 0; i < domain.size(); ++i) {
    if (!has(reduced, i)) s.push_back(domain[i]);
    else if (level == Level::kRowKeep) s.push_back(1);
  }
  return s;
}

Level scalar_level(const Shape& domain, AxisMask reduced, bool rows, const Shape& out, bool* ok) {
  *ok = true;
  if (out == domain) return Level::kFull;
  if (rows) {
    if (out == row_shape(domain, reduced, Level::kRowKeep)) return Level::kRowKeep;
    const Shape dropped = row_shape(domain, reduced, Level::kRowDrop);
    if (out == dropped) return dropped.empty() ? Level::kRowKeep : Level::kRowDrop;
  }
  if (numel(domain) == 1 && numel(out) == 1) return Level::kFull;
  *ok = false;
  return Level::kFull;
}

}  // namespace yuloh
