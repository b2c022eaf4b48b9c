// SPDX-License-Identifier: Apache-2.0
#include "run/dry_run.h"

#include <limits>
#include <unordered_map>

namespace yuloh {
namespace {
thread_local DryRun* t_current = nullptr;
}  // namespace

DryRun* DryRun::current() { return t_current; }

DryRun::DryRun(int64_t pending_limit)
    : limit_(pending_limit > 0 ? pending_limit : std::numeric_limits<int64_t>::max()), rng_(rng_state()) {
  if (t_current) fail(ErrorKind::kRuntime, "dry run: one is running in this thread already.");
  Context::current().flush();
  memory_.emplace();
  calls_ = Context::current().calls;
  any_ = true;
  t_current = this;
}

void DryRun::finish() {
  try {
    Context::current().flush();
  } catch (const Error&) {  // what failed stays with its tensors
  }
  finished_ = true;
}

DryRun::~DryRun() {
  try {  // once more after an interrupt: what stayed pending would run for real
    if (!finished_) finish();
  } catch (...) {}
  restoring_ = true;
  for (size_t i = written_.size(); i-- > 0;) try {
      written_[i].first->set(written_[i].second);
    } catch (const Error&) {  // another thread's step failed: its error stays with what it made
    }
  for (Graded& g : graded_) g.tensor->grad = g.grad, g.tensor->grad_is_zero = g.grad_is_zero;
  set_rng_state(rng_);
  t_current = nullptr;
  memory_.reset();
}

void DryRun::note_write(Cell* cell) {
  if (restoring_ || cell->value().node->id >= first_) return;
  written_.emplace_back(Ref<Cell>(cell), cell->value());
  noted_.insert(cell);
}

void DryRun::note_gradient(Tensor* t) {
  const Cell* cell = t->cell().get();
  if (restoring_ || (cell->value().node->id >= first_ && !noted_.contains(cell)) || !noted_.insert(t).second)
    return;
  graded_.push_back({Ref<Tensor>(t), t->grad, t->grad_is_zero});
}

void DryRun::borrow(const Ref<Tensor>& t) {
  note_gradient(t.get());
  const Value v = t->cell()->value();
  if (noted_.contains(t->cell().get())) return;
  const TensorType type = v.type();
  Ints strides = row_major_strides(type.shape);
  if (v.node->materialised(v.index)) {
    const Ints& now = v.node->outputs[v.index].buffer->strides;
    if (is_dense_in_order(type.shape, now)) strides = now;
  }
  t->cell()->set(make_data(type, allocate_buffer(type, strides)));
  t->grad = nullptr, t->grad_is_zero = false;
}

namespace {
DryNode described(const Node& n, const std::unordered_map<const Node*, int32_t>& number) {
  DryNode d;
  const auto bytes = [](const TensorType& t) {
    return static_cast<size_t>(numel(t.shape)) * dtype_size(t.dtype);
  };
  size_t read = 0;
  for (const Value& v : n.inputs) {
    const auto it = number.find(v.node.get());
    d.inputs.push_back(it == number.end() ? -1 : it->second);
    read += bytes(v.type());
  }
  for (const auto& o : n.outputs) d.bytes += bytes(o.type);
  const OpDef::Eager& eager = n.op->eager;
  const size_t first = n.inputs.empty() ? 0 : bytes(n.inputs[0].type());
  d.eager_keeps = eager.first * static_cast<double>(first) + eager.results * static_cast<double>(d.bytes);
  d.eager_copies = eager.copies * static_cast<double>(read + d.bytes);
  // Names for what is there already cost nothing in any system.
  d.view = n.op->view || n.op->forwards;
  return d;
}
}  // namespace

void refuse_dry(const Buffer& b) {
  if (const DryRun* dry = DryRun::current(); dry && dry->left)
    fail(ErrorKind::kRuntime,
         "dry run: its block was left in another thread than it was entered in, so this one still is in it "
         "and "
         "computes "
         "nothing. Hint: enter and leave it in one thread.");
  if (b.storage->dry && !in_dry_memory())
    fail(ErrorKind::kRuntime,
         "dry run: a tensor of a dry run is read outside of it; its value was never computed.");
}

void refuse_dry_operand(const Value& v, std::string_view op) {
  if (v.node->kind == Node::Kind::kScalar || !v.node->materialised(v.index)) return;
  const Ref<Buffer>& b = v.node->outputs[v.index].buffer;
  if (b && b->storage->dry)
    fail(ErrorKind::kRuntime, op,
         ": a tensor of a dry run is used outside of it; its value was never computed.");
}

void DryRun::begin(const std::shared_ptr<const Plan>& plan, const std::vector<Node*>& order,
                   const std::vector<Value>& outputs) {
  const uint64_t calls = Context::current().calls;
  DryFlush f{plan, {}, {}, false, memory_stats().allocated, calls - calls_};
  calls_ = calls;
  std::unordered_map<const Node*, int32_t> number;
  for (const Node* n : order) {
    f.scopes.push_back(n->pos.scope);
    f.nodes.push_back(described(*n, number));
    parts.add(*n, static_cast<int32_t>(flushes.size()), static_cast<int32_t>(number.size()));
    number.emplace(n, static_cast<int32_t>(number.size()));
  }
  for (const Value& v : outputs)
    if (const auto it = number.find(v.node.get()); it != number.end())
      f.nodes[static_cast<size_t>(it->second)].leaves = true;
  for (const Value& v : outputs) parts.leaves(v);
  most_ = memory_stats().max_allocated;
  flushes.push_back(std::move(f));
}

void DryRun::end() {
  const MemoryStats now = memory_stats();
  if (now.max_allocated <= most_) return;
  for (DryFlush& f : flushes) f.peak = false;
  flushes.back().peak = true, at_peak = now;
}

}  // namespace yuloh
