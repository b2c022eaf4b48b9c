// SPDX-License-Identifier: Apache-2.0
#include "advise/split.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "advise/account.h"

namespace yuloh::advise {
namespace {
// Of the largest group's parameters: below that a group is not worth its exchange, nor the limit that its
// width sets (squeeze and excitation, low-rank adapters).
constexpr double kLeastShare = 0.02;

using Axes = uint32_t;  // bits: along which axes a value may be split
Axes bit(int64_t axis) { return axis >= 0 && axis < 32 ? Axes{1} << axis : 0; }

struct State {
  Axes axes = 0;       // none: whole
  int32_t group = -1;  // the first product it comes from
  bool constant =
      true;  // there before, drawn, or such a one renamed or cast: each device can hold its part alone
  int32_t root = -1;  // what was there before
  int32_t read = -1;  // the last flush whose forward pass reads it
};

struct Group {                         // by first product
  int32_t up = -1;                     // union-find: -1: a root
  std::vector<int32_t> firsts, lasts;  // parts
  std::set<int32_t> leaves;            // values: weights and what goes with columns
  double params = 0, flops = 0, sent = 0;
  int64_t by = 0;
  bool failed = false;
};

class Walk {
 public:
  Walk(const DryParts& all, size_t from, bool training, const std::set<int32_t>& whole)
      : all_(all), states_(all.values.size()), groups_(all.parts.size()) {
    for (size_t v = 0; v < states_.size(); ++v) states_[v].root = static_cast<int32_t>(v);
    for (size_t i = 0; i < all.parts.size(); ++i) {
      const DryPart& p = all.parts[i];
      if (static_cast<size_t>(p.flush) < from || p.scope == kScopeOptimizer) continue;
      for (int32_t v : p.in) state(v).read = p.flush;
      step(static_cast<int32_t>(i), p, whole.count(static_cast<int32_t>(i)) > 0);
    }
    if (!training)  // what the model hands out has to be whole; in training its loss reads it, and gradients
                    // keep the rest
      for (size_t v = 0; v < states_.size(); ++v)
        if (states_[v].axes && all.values[v].leaves && states_[v].read <= all.values[v].flush)
          fail(states_[v].group);
    for (Group& g : groups_)
      if (!g.firsts.empty() && g.up < 0 && g.lasts.empty()) g.failed = true;
  }
  const std::vector<State>& states() const { return states_; }
  std::vector<Group>& groups() { return groups_; }
  int32_t root(int32_t g) const {
    while (groups_[static_cast<size_t>(g)].up >= 0) g = groups_[static_cast<size_t>(g)].up;
    return g;
  }

 private:
  State& state(int32_t v) { return states_[static_cast<size_t>(v)]; }
  const Shape& shape(int32_t v) const { return all_.values[static_cast<size_t>(v)].shape; }
  Group& group(int32_t g) { return groups_[static_cast<size_t>(root(g))]; }
  void fail(int32_t g) { group(g).failed = true; }

  int32_t join(int32_t a, int32_t b) {
    if (a < 0 || b < 0) return std::max(a, b);
    a = root(a), b = root(b);
    if (a == b) return a;
    Group &x = groups_[static_cast<size_t>(a)], &y = groups_[static_cast<size_t>(b)];
    x.firsts.insert(x.firsts.end(), y.firsts.begin(), y.firsts.end());
    x.lasts.insert(x.lasts.end(), y.lasts.begin(), y.lasts.end());
    x.leaves.insert(y.leaves.begin(), y.leaves.end());
    x.params += y.params, x.flops += y.flops, x.sent += y.sent, x.failed |= y.failed,
        x.by = std::gcd(x.by, y.by), y.up = a;
    return a;
  }

  double flops_of(const DryPart& p) const {  // of a product
    const Shape& x = shape(p.in[0]);
    const int64_t sums = x[x.size() - (p.transpose_x && x.size() > 1 ? 2 : 1)];
    return 2 * static_cast<double>(numel(shape(p.out[0]))) * static_cast<double>(sums);
  }
  void take_leaf(Group& g, int32_t v) {  // shared ones once
    const int32_t leaf = state(v).root;
    if (g.leaves.insert(leaf).second) g.params += static_cast<double>(numel(shape(leaf)));
  }

  // A product with a matrix that is a parameter.
  bool weighs(const DryPart& p) {
    return p.does == DryPart::Does::kProduct && !p.transpose_x && shape(p.in[0]).size() >= 2 &&
           shape(p.in[1]).size() == 2 && state(p.in[1]).constant && !state(p.in[1]).axes;
  }

  void step(int32_t i, const DryPart& p, bool whole) {
    int32_t g = -1;
    for (int32_t v : p.in)
      if (state(v).axes) g = join(g, state(v).group);
    if (weighs(p) && !(g >= 0 && !(state(p.in[0]).axes & bit(shape(p.in[0]).size() - 1))))
      return weigh(i, p, g, whole);
    for (int32_t v : p.out) state(v).axes = 0, state(v).constant = false;
    if (g < 0) return rename(p);
    bool kept = false;
    for (size_t k = 0; k < p.out.size(); ++k) {
      State& s = state(p.out[k]);
      s.axes = axes_of(p, p.out[k], g), s.group = g, kept |= s.axes != 0;
      if (std::popcount(s.axes) == 1) {
        Group& x = group(g);
        x.by = std::gcd(x.by, shape(p.out[k])[static_cast<uint32_t>(std::countr_zero(s.axes))]);
      }
      if (!s.axes) fail(g);
    }
    if (kept && p.does == DryPart::Does::kProduct) group(g).flops += flops_of(p);
  }

  void weigh(int32_t i, const DryPart& p, int32_t g, bool whole) {
    State& out = state(p.out[0]);
    out.constant = false, out.axes = 0;
    if (g >= 0) {  // by rows; the result is summed over the devices
      Group& x = group(g);
      x.by = std::gcd(x.by, shape(p.in[0])[shape(p.in[0]).size() - 1]);
      x.lasts.push_back(i), x.flops += flops_of(p), x.sent += static_cast<double>(numel(shape(p.out[0])));
      return take_leaf(x, p.in[1]);
    }
    if (whole) return;
    const int64_t last = shape(p.out[0]).size() - 1;
    out.axes = bit(last), out.group = i;
    Group& x = groups_[static_cast<size_t>(i)];
    x.firsts.push_back(i), x.by = shape(p.out[0])[static_cast<uint32_t>(last)], x.flops = flops_of(p);
    take_leaf(x, p.in[1]);
  }

  void rename(const DryPart& p) {  // of a constant: a view, a cast; of numbers alone: a mask that is drawn
    if (p.out.size() != 1) return;
    int32_t one = -1;
    for (int32_t v : p.in) {
      if (shape(v).size() == 0) continue;
      if (one >= 0 || !state(v).constant) return;
      one = v;
    }
    State& s = state(p.out[0]);
    if (one < 0) s.constant = true;
    else if ((p.does == DryPart::Does::kEach || p.does == DryPart::Does::kView) &&
             numel(shape(one)) == numel(shape(p.out[0])))
      s.constant = true, s.root = state(one).root;
  }

  Axes axes_of(const DryPart& p, int32_t out, int32_t g) {
    switch (p.does) {
      case DryPart::Does::kEach: return each(p.in, shape(out), g, 0);
      case DryPart::Does::kAlong: return along(p, shape(out));
      case DryPart::Does::kView: return renamed(p, shape(out));
      case DryPart::Does::kProduct: return product(p, shape(out), g);
      case DryPart::Does::kOther: break;
    }
    return 0;
  }

  // Axes of `to` before its last `skip` that every operand splits alike, or does not have.
  Axes each(const std::vector<int32_t>& in, const Shape& to, int32_t g, uint32_t skip) {
    Axes found = 0;
    std::vector<int32_t> with;
    for (uint32_t a = 0; a + skip < to.size(); ++a) {
      bool all = to[a] > 1;
      for (int32_t v : in) {
        const Shape& s = shape(v);
        const int64_t at =
            static_cast<int64_t>(a) - (static_cast<int64_t>(to.size()) - static_cast<int64_t>(s.size()));
        if (state(v).axes) all = all && at >= 0 && (state(v).axes & bit(at));
        else if (at >= 0 && s[static_cast<uint32_t>(at)] > 1 && skip == 0 && state(v).constant)
          with.push_back(all ? v : -1);
        else all = all && (at < 0 || s[static_cast<uint32_t>(at)] == 1);
      }
      if (all) found |= bit(a);
    }
    if (found)
      for (int32_t v : with)
        if (v >= 0 && state(v).root >= 0 && shape(state(v).root).size() == 1)
          take_leaf(group(g), v);  // a bias of the columns
    return found;
  }

  Axes along(const DryPart& p, const Shape& to) {
    Axes found = ~Axes{0};
    for (int32_t v : p.in) {
      const Shape& s = shape(v);
      const bool same = s.size() == shape(p.in[0]).size();
      if (!state(v).axes) {
        if (same && v != p.in[0]) found = 0;  // a whole one among split ones
        continue;
      }
      if (!same) return 0;
      Axes mine = 0;
      uint32_t at = 0;
      for (uint32_t a = 0; a < s.size(); ++a) {
        const bool mixed = std::find(p.axes.begin(), p.axes.end(), static_cast<int64_t>(a)) != p.axes.end();
        if (mixed && to.size() < s.size()) continue;
        if (!mixed && at < to.size() && to[at] == s[a] && (state(v).axes & bit(a))) mine |= bit(at);
        ++at;
      }
      found &= mine;
    }
    return state(p.in[0]).axes ? found : 0;
  }

  // An axis of strides t, 2 t, ... lies within a split one, or holds it whole.
  Axes renamed(const DryPart& p, const Shape& to) {
    const Shape& s = shape(p.in[0]);
    const Ints from = row_major_strides(s);
    Axes found = 0;
    for (uint32_t a = 0; a < to.size(); ++a) {
      const int64_t low = p.strides[a], high = low * to[a];
      if (to[a] <= 1 || low <= 0) continue;
      for (uint32_t b = 0; b < s.size(); ++b) {
        const int64_t begin = from[b], end = from[b] * s[b];
        if ((state(p.in[0]).axes & bit(b)) &&
            ((begin <= low && high <= end) || (low <= begin && end <= high)))
          found |= bit(a);
      }
    }
    return found;
  }

  Axes product(const DryPart& p, const Shape& to, int32_t g) {
    const Shape &x = shape(p.in[0]), &y = shape(p.in[1]);
    if (x.size() < 2 || y.size() < 2 || p.in.size() != 2) return 0;
    const State &a = state(p.in[0]), &b = state(p.in[1]);
    Axes found = each(p.in, to, g, 2);
    const uint32_t row = x.size() - (p.transpose_x ? 1 : 2), column = y.size() - (p.transpose_y ? 2 : 1);
    if (!b.axes && (a.axes & bit(row))) found |= bit(to.size() - 2);
    if (!a.axes && (b.axes & bit(column))) found |= bit(to.size() - 1);
    return found;
  }

  const DryParts& all_;
  std::vector<State> states_;
  std::vector<Group> groups_;
};

double weight_of(const DryParts& all, int32_t part) {
  return static_cast<double>(
      numel(all.values[static_cast<size_t>(all.parts[static_cast<size_t>(part)].in[1])].shape));
}

// Of the bytes that the backward pass keeps, those of values that are split.
double kept_share(const DryRun& run, size_t from, const Walk& walk) {
  std::vector<std::vector<bool>> split(run.flushes.size());
  for (size_t k = 0; k < run.flushes.size(); ++k) split[k].resize(run.flushes[k].nodes.size());
  for (size_t v = 0; v < walk.states().size(); ++v) {
    const DryValue& d = run.parts.values[v];
    if (walk.states()[v].axes && d.node >= 0)
      split[static_cast<size_t>(d.flush)][static_cast<size_t>(d.node)] = true;
  }
  double part = 0, whole = 0;
  for (size_t k = from; k < run.flushes.size(); ++k) {
    const DryFlush& f = run.flushes[k];
    for (const ValueLife& v : f.plan->lives) {
      if (v.made < 0 || static_cast<size_t>(v.made) >= f.plan->steps.size()) continue;
      const Step& made = f.plan->steps[static_cast<size_t>(v.made)];
      const int32_t reader =
          v.last_reader < 0 ? 0 : f.scope_of(f.plan->steps[static_cast<size_t>(v.last_reader)]);
      if (f.scope_of(made) < kScopeFirstLayer || (!v.leaves && reader >= 0)) continue;
      whole += static_cast<double>(v.bytes);
      if (made.origin >= 0 && split[k][static_cast<size_t>(made.origin)])
        part += static_cast<double>(v.bytes);
    }
  }
  return whole > 0 ? part / whole : 0;
}
}  // namespace

SplitFacts split_of(const DryRun& run, size_t from, const Facts& facts) {
  const DryParts& all = run.parts;
  std::set<int32_t> whole;
  for (;;) {  // each round leaves the least first product of a group that cannot be whole
    Walk walk(all, from, facts.training, whole);
    double largest = 0;
    for (const Group& g : walk.groups())
      if (g.up < 0 && !g.failed) largest = std::max(largest, g.params);
    const size_t before = whole.size();
    const auto lighter = [&](int32_t a, int32_t b) { return weight_of(all, a) < weight_of(all, b); };
    for (const Group& g : walk.groups())
      if (g.up < 0 && g.failed) whole.insert(*std::min_element(g.firsts.begin(), g.firsts.end(), lighter));
    if (whole.size() == before)  // only once no group fails: a small one may be all there is
      for (const Group& g : walk.groups())
        if (g.up < 0 && !g.firsts.empty() && g.params < kLeastShare * largest)
          whole.insert(g.firsts.begin(), g.firsts.end());
    if (whole.size() > before) continue;
    SplitFacts s;
    std::set<int32_t> leaves;
    for (const Group& g : walk.groups()) {
      if (g.up >= 0 || g.firsts.empty()) continue;
      s.by = std::gcd(s.by, g.by), s.flops += g.flops, s.sent += g.sent;
      leaves.insert(g.leaves.begin(), g.leaves.end());
      for (const std::vector<int32_t>* list : {&g.firsts, &g.lasts})
        for (int32_t i : *list) {
          ++s.products;
          const int32_t layer = all.parts[static_cast<size_t>(i)].scope - kScopeFirstLayer;
          if (layer >= 0 && static_cast<size_t>(layer) < facts.layers.size()) s.layers.push_back(layer);
        }
    }
    for (int32_t v : leaves)
      s.parameters += static_cast<double>(numel(all.values[static_cast<size_t>(v)].shape));
    s.kept_share = s.products ? kept_share(run, from, walk) : 0;
    std::sort(s.layers.begin(), s.layers.end());
    s.layers.erase(std::unique(s.layers.begin(), s.layers.end()), s.layers.end());
    return s;
  }
}

}  // namespace yuloh::advise
