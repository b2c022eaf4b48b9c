// SPDX-License-Identifier: Apache-2.0
// Memory of a Plan from lifetimes: results that leave get storages of their own (taking over a donated
// input's where that is safe), everything else an offset in one arena. Peak bytes are known here, before
// anything is allocated.
#include <algorithm>
#include <climits>
#include <map>

#include "plan/builder.h"

namespace yuloh {
namespace {

size_t aligned(size_t n) { return (std::max<size_t>(n, 1) + 63) / 64 * 64; }

class Arena {  // best fit over free holes, sorted by offset
 public:
  size_t take(size_t bytes) {
    auto best = holes_.end();
    for (auto it = holes_.begin(); it != holes_.end(); ++it)
      if (it->second >= bytes && (best == holes_.end() || it->second < best->second)) best = it;
    if (best == holes_.end()) {
      // Grow the last hole if it touches the top.
      if (!holes_.empty()) {
        auto last = std::prev(holes_.end());
        if (last->first + last->second == top_) {
          const size_t at = last->first;
          holes_.erase(last);
          top_ = at + bytes;
          return at;
        }
      }
      const size_t at = top_;
      top_ += bytes;
      return at;
    }
    const auto [at, size] = *best;
    holes_.erase(best);
    if (size > bytes) holes_[at + bytes] = size - bytes;
    return at;
  }
  void give(size_t at, size_t bytes) {
    auto it = holes_.emplace(at, bytes).first;
    if (auto next = std::next(it); next != holes_.end() && it->first + it->second == next->first)
      it->second += next->second, holes_.erase(next);
    if (it != holes_.begin())
      if (auto prev = std::prev(it); prev->first + prev->second == it->first)
        prev->second += it->second, holes_.erase(it);
  }
  size_t top() const { return top_; }

 private:
  std::map<size_t, size_t> holes_;
  size_t top_ = 0;
};

// May the program write buffer `out` over buffer `in`? Same index mapping, and nothing reads `in` after the
// instruction that makes what is stored (the interpreter aliases registers to memory).
bool inplace_safe(const TileProgram& p, int in, int out) {
  int in_op = -1, out_op = -1;
  for (size_t i = 0; i < p.operands.size(); ++i) {
    if (p.operands[i].buffer == in) {
      if (in_op >= 0) return false;
      in_op = static_cast<int>(i);
    }
    if (p.operands[i].buffer == out) {
      if (out_op >= 0) return false;
      out_op = static_cast<int>(i);
    }
  }
  if (in_op < 0 || out_op < 0) return false;
  const TileOperand &a = p.operands[in_op], &b = p.operands[out_op];
  if (a.dtype != b.dtype || a.inner_stride != b.inner_stride || !(a.outer_strides == b.outer_strides))
    return false;
  std::vector<int> made(p.n_regs, -1);   // instruction that last set each register
  std::vector<char> holds(p.n_regs, 0);  // the register is (an alias of) the input
  int last_read = -1, producer = INT_MAX;
  for (size_t i = 0; i < p.instrs.size(); ++i) {
    const TileInstr& t = p.instrs[i];
    using K = TileInstr::Kind;
    const bool is_load = t.kind == K::kLoad;
    if (is_load && t.a == in_op) last_read = static_cast<int>(i);
    if (!is_load)
      for (int r :
           {t.a, t.kind == K::kStore || t.kind == K::kColReduce || t.kind == K::kAllReduce ? -1 : t.b, t.c})
        if (r >= 0 && r < p.n_regs && holds[r]) last_read = static_cast<int>(i);
    if (t.kind == K::kStore) {
      if (t.b == out_op) producer = std::min(producer, made[t.a]);
      continue;
    }
    if ((t.kind == K::kColReduce || t.kind == K::kAllReduce) && t.b == out_op) return false;
    if (t.dst >= 0 && t.dst < p.n_regs && t.kind != K::kColReduce && t.kind != K::kAllReduce)
      made[t.dst] = static_cast<int>(i), holds[t.dst] = is_load && t.a == in_op;
  }
  return producer != INT_MAX && last_read <= producer;
}
}  // namespace

// The view is all of its root: whoever takes the one over has the other.
bool PlanBuilder::covers(int view, int root) const {
  const PlanValue &v = values_[view], &r = values_[root];
  return view == root ||
         (v.offset == 0 && v.type.dtype == r.type.dtype && numel(v.type.shape) == numel(r.type.shape) &&
          is_dense_in_order(v.type.shape, v.strides) && is_dense_in_order(r.type.shape, r.strides));
}

// A value whose storage output `out` of step `s` may take over, or -1. `offered` says which storages are on
// offer.
int PlanBuilder::take_over(const BuildStep& s, int step, int out, const std::vector<int>& last_use,
                           const std::vector<char>& taken, const std::function<bool(int)>& offered) {
  if (!options_.donate) return -1;
  const PlanValue& o = values_[s.out[out]];
  for (size_t k = 0; k < s.in.size(); ++k) {
    const int v = s.in[k], root = values_[v].root;
    if (!covers(v, root) || taken[root] || last_use[root] != step || !offered(root)) continue;
    if (values_[v].type.dtype != o.type.dtype || !(values_[v].type.shape == o.type.shape) ||
        !(values_[v].strides == o.strides))
      continue;
    bool shared = false;
    for (size_t j = 0; j < s.in.size(); ++j) shared = shared || (j != k && values_[s.in[j]].root == root);
    if (shared) continue;
    const bool safe = s.program
                          ? inplace_safe(*s.program, static_cast<int>(k), static_cast<int>(s.in.size()) + out)
                          : s.kernel->may_overwrite(k, static_cast<size_t>(out));
    if (!safe) continue;
    return root;
  }
  return -1;
}

// Storages of results exist from the start, so a temporary that the result takes over may lie there all its
// life: initial values of parameters and moments need no room beside their first update.
PlanBuilder::Homes PlanBuilder::find_homes(const std::vector<int>& last_use, const std::vector<char>& leaves,
                                           const std::vector<char>& donatable) {
  Homes found{std::vector<int>(values_.size(), -1), std::vector<int>(values_.size(), -1)};
  std::vector<char> taken(values_.size(), 0), made(values_.size(), 0);
  for (int i = 0; i < static_cast<int>(steps_.size()); ++i) {
    const BuildStep& s = steps_[i];
    for (size_t k = 0; k < s.out.size(); ++k) {
      const int o = s.out[k];
      made[o] = 1;
      if (!leaves[o]) continue;
      int r = take_over(s, i, static_cast<int>(k), last_use, taken,
                        [&](int v) { return donatable[v] && s.may_donate; });
      if (r >= 0) {
        found.donor[o] = r;
      } else {
        r = take_over(s, i, static_cast<int>(k), last_use, taken,
                      [&](int v) { return made[v] && !leaves[v]; });
        if (r >= 0) found.home[r] = o;
      }
      if (r >= 0) taken[r] = 1;
    }
  }
  return found;
}

void PlanBuilder::plan_memory() {
  Plan& plan = *plan_;
  const int n_steps = static_cast<int>(steps_.size());
  std::vector<int> last_use(values_.size(), -1);
  for (int i = 0; i < n_steps; ++i)
    for (const auto* list : {&steps_[i].in, &steps_[i].out})
      for (int v : *list) last_use[values_[v].root] = std::max(last_use[values_[v].root], i);
  std::vector<char> leaves(values_.size(), 0), taken(values_.size(), 0), donatable(values_.size(), 0);
  for (int v : output_ids_) leaves[values_[v].root] = 1, last_use[values_[v].root] = n_steps;
  std::vector<Slot> slot(values_.size(), Slot{Slot::Kind::kArena, -1, 0});
  for (Node* n : order_)
    if (n->kind == Node::Kind::kInput) {
      const int number = static_cast<int>(n->attrs[0]), v = id({n, 0});
      slot[v] = {plan.inputs[number].scalar ? Slot::Kind::kScalar : Slot::Kind::kInput, number, 0};
      donatable[v] = plan.inputs[number].donatable && !plan.inputs[number].scalar;
    }
  for (auto [v, c] : constant_of_) slot[v] = {Slot::Kind::kConst, c, 0};

  auto bytes_of = [&](int v) {
    return aligned(numel(values_[v].type.shape) * dtype_size(values_[v].type.dtype));
  };
  const auto [home, donor_of] = find_homes(last_use, leaves, donatable);
  const auto own_slot = [&](int o) {  // the storage of a result
    if (slot[o].kind == Slot::Kind::kOwn) return slot[o];
    plan.own_bytes.push_back(bytes_of(o)), plan.own_donor.push_back(-1);
    return slot[o] = {Slot::Kind::kOwn, static_cast<int32_t>(plan.own_bytes.size() - 1), 0};
  };
  Arena arena;
  std::vector<size_t> arena_size(values_.size(), 0);
  std::vector<std::vector<int>> dying(n_steps);
  std::map<int, std::pair<int, size_t>> held;  // explain: value in the arena -> (step that made it, bytes)
  size_t held_bytes = 0, most = 0;
  const auto note_peak = [&](int step, size_t workspace) {
    if (!options_.explain || held_bytes + workspace <= most) return;
    most = held_bytes + workspace;
    plan.arena_peak.clear();
    for (const auto& [v, made] : held) plan.arena_peak.push_back(made);
    if (workspace) plan.arena_peak.push_back({step, workspace});
  };
  for (int i = 0; i < n_steps; ++i) {
    BuildStep& s = steps_[i];
    Step step;
    for (size_t k = 0; k < s.out.size(); ++k) {
      const int o = s.out[k];
      // A result that leaves takes over a donated input, a temporary one that dies here.
      const int donor = leaves[o] ? donor_of[o]
                                  : take_over(s, i, static_cast<int>(k), last_use, taken,
                                              [&](int r) { return slot[r].kind == Slot::Kind::kArena; });
      if (leaves[o]) {
        const Slot own = own_slot(o);
        if (donor >= 0)
          plan.own_donor[static_cast<size_t>(own.index)] = slot[donor].index, taken[donor] = 1,
          step.donates = true;
      } else if (home[o] >= 0) {
        slot[o] = own_slot(home[o]);
      } else if (donor >= 0) {
        slot[o] = slot[donor];
        arena_size[o] = arena_size[donor];
        taken[donor] = 1;  // its bytes now belong to o
        held.erase(donor), held[o] = {i, arena_size[o]};
        dying[last_use[o]].push_back(o);
      } else {
        arena_size[o] = bytes_of(o);
        slot[o] = {Slot::Kind::kArena, 0, static_cast<int64_t>(arena.take(arena_size[o]))};
        dying[std::max(last_use[o], i)].push_back(o);
        held[o] = {i, arena_size[o]}, held_bytes += arena_size[o];
      }
    }
    for (const auto* list : {&s.in, &s.out})
      for (int v : *list) {
        Slot x = slot[values_[v].root];
        x.offset += values_[v].offset * static_cast<int64_t>(dtype_size(values_[v].type.dtype));
        x.bytes = static_cast<size_t>(numel(values_[v].type.shape)) * dtype_size(values_[v].type.dtype);
        step.slots.push_back(x);
      }
    note_peak(i, s.kernel->workspace_bytes());
    if (const size_t w = s.kernel->workspace_bytes()) {
      const size_t at = arena.take(aligned(w));
      step.slots.push_back({Slot::Kind::kArena, 0, static_cast<int64_t>(at), w});
      arena.give(at, aligned(w));  // free again after this step; nothing else is placed before the next one
    }
    for (int v : dying[i])
      if (!taken[v])
        arena.give(static_cast<size_t>(slot[v].offset), arena_size[v]), held.erase(v),
            held_bytes -= arena_size[v];
    plan.cost.flops += s.kernel->cost.flops, plan.cost.bytes += s.kernel->cost.bytes;
    step.kernel = std::move(s.kernel), step.origin = s.origin, step.what = std::move(s.what),
    step.checks = s.checks;
    step.refused = std::move(s.refused), step.kind = s.kind;
    if (!s.in.empty() || !s.out.empty()) step.dtype = values_[s.in.empty() ? s.out[0] : s.in[0]].type.dtype;
    plan.steps.push_back(std::move(step));
  }
  if (options_.lifetimes)
    for (int i = 0; i < n_steps; ++i)
      for (int o : steps_[i].out) {
        const bool out = leaves[o] != 0;
        plan.lives.push_back(
            {i, std::max(last_use[o], i), std::min(last_use[o], n_steps - 1), bytes_of(o), out});
      }
  plan.arena_bytes = arena.top();
  plan.peak_bytes = plan.arena_bytes;
  for (size_t i = 0; i < plan.own_bytes.size(); ++i)
    plan.peak_bytes += plan.own_donor[i] < 0 ? plan.own_bytes[i] : 0;
  for (const PlanInput& in : plan.inputs)
    plan.peak_bytes += in.scalar ? 0 : numel(in.type.shape) * dtype_size(in.type.dtype);
  for (int v : output_ids_) {
    Slot x = slot[values_[v].root];
    x.offset += values_[v].offset * static_cast<int64_t>(dtype_size(values_[v].type.dtype));
    plan.outputs.push_back({values_[v].type, values_[v].strides, x});
  }
}

}  // namespace yuloh
