// SPDX-License-Identifier: Apache-2.0
#include "run/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/cgroup.h"
#include "cpu/parallel.h"
#include "passes/passes.h"
#include "run/closing.h"
#include "run/executor.h"
#include "run/recording.h"

namespace yuloh {
namespace {
double mib(size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// One set of input types, ready to run. Null plan: the program needs data to be recorded.
struct Ready {
  std::shared_ptr<const Plan> plan;
  std::vector<Ref<Buffer>>
      bound;  // by plan input; null where fed, drawn, a number, or packed by the kernel that reads it
  std::unordered_map<PlanKey, size_t, PlanKeyHash>
      packed;  // bytes of weights that kernels keep in their own layout
  std::vector<double> scalars_double;
  std::vector<int64_t> scalars_int, drawn;
  size_t plan_bytes = 512, run_bytes = 0;
};
}  // namespace

struct Session::State {
  ~State() {
    map.clear(), constants = {};
    release_cached_memory();  // weights leave large blocks
  }
  std::shared_ptr<const Program> program;
  SessionOptions options;
  mutable std::mutex mu;  // the cache; never held while something is recorded, compiled or run
  std::list<PlanKey> order;
  struct Cached {
    std::shared_ptr<const Ready> ready;
    std::list<PlanKey>::iterator where;
  };
  std::unordered_map<PlanKey, Cached, PlanKeyHash> map;
  size_t cached_bytes = 0;
  Constants constants;  // under the executor
  std::atomic<size_t> weight_bytes{0};
  struct PackedWeight {
    size_t bytes, plans;
  };
  std::unordered_map<PlanKey, PackedWeight, PlanKeyHash>
      packed;  // of all cached plans, which share them; under mu

  static PlanKey key_of(const std::vector<TensorType>& types) {
    PlanKey k;
    for (const TensorType& t : types) {
      k.mix(static_cast<uint64_t>(t.dtype) << 8 | t.shape.size());
      for (Dim d : t.shape) k.mix(static_cast<uint64_t>(d));
    }
    return k;
  }

  std::shared_ptr<const Ready> find(const PlanKey& k) {
    std::lock_guard lock(mu);
    const auto it = map.find(k);
    if (it == map.end()) return nullptr;
    order.splice(order.end(), order, it->second.where);
    return it->second.ready;
  }

  bool cleared_after_fork = false;  // under mu

  void put(const PlanKey& k, std::shared_ptr<const Ready> r) {  // Running
    std::vector<std::shared_ptr<const Ready>> dropped;
    {
      std::lock_guard lock(mu);
      if (map.count(k)) return;
      cached_bytes += r->plan_bytes;
      for (const auto& [key, bytes] : r->packed)
        ++packed.try_emplace(key, PackedWeight{bytes, 0}).first->second.plans;
      order.push_back(k);
      map[k] = {std::move(r), std::prev(order.end())};
      while (cached_bytes > options.plan_cache_bytes && order.size() > 1) {
        const auto it = map.find(order.front());
        cached_bytes -= it->second.ready->plan_bytes;
        for (const auto& [key, bytes] : it->second.ready->packed)
          if (const auto at = packed.find(key); --at->second.plans == 0) packed.erase(at);
        dropped.push_back(std::move(it->second.ready));
        map.erase(it);
        order.pop_front();
      }
    }
    if (!dropped.empty()) {
      dropped.clear();
      constants.drop_unused();
    }
    count_weights();
  }

  void count_weights() {
    std::unordered_set<const Storage*> seen;
    std::lock_guard lock(mu);
    size_t bytes = 0;
    for (const auto& [k, c] : map) bytes += bytes_bound(c.ready->bound, &seen);
    weight_bytes = bytes + bytes_packed();
  }
  static size_t bytes_bound(const std::vector<Ref<Buffer>>& bound, std::unordered_set<const Storage*>* seen) {
    size_t bytes = 0;
    for (const Ref<Buffer>& b : bound)
      if (b && seen->insert(b->storage.get()).second) bytes += b->storage->bytes;
    return bytes;
  }

  size_t bytes_packed() const {  // under mu
    size_t bytes = 0;
    for (const auto& [k, w] : packed) bytes += w.bytes;
    return bytes;
  }

  // What is left for a shape that is being compiled, beside `more` that is known already. No limit:
  // everything.
  size_t room(size_t more) const {
    if (!options.memory_limit) return SIZE_MAX;
    std::lock_guard lock(mu);
    const size_t used = weight_bytes + cached_bytes + more;
    return options.memory_limit > used ? options.memory_limit - used : 0;
  }
  void check_room(size_t more, const char* what) const {
    if (more <= room(0)) return;
    std::lock_guard lock(mu);
    fail(ErrorKind::kMemory, "predictor: memory limit: ", what, " needs ", mib(more), " MiB beside ",
         mib(weight_bytes), " MiB of weights and ", mib(cached_bytes), " MiB of plans, got ",
         mib(options.memory_limit), " MiB. Hint: use a smaller batch or raise the limit.");
  }
  // Weights of this shape that no other shape has brought in yet.
  size_t new_weights(const Ready& r) const {
    std::unordered_set<const Storage*> seen;
    std::lock_guard lock(mu);
    for (const auto& [k, c] : map) bytes_bound(c.ready->bound, &seen);
    size_t bytes = bytes_bound(r.bound, &seen);
    for (const auto& [k, n] : r.packed) bytes += packed.count(k) ? 0 : n;
    return bytes;
  }

  void check(const std::vector<TensorType>& types) const;
  void check_warm(const std::vector<TensorType>& types, size_t more) const;
  std::shared_ptr<const Ready> prepare(const std::vector<TensorType>& types);
  std::shared_ptr<const Ready> compile(const Graph& g, const std::vector<TensorType>& types);
  std::vector<Ref<Buffer>> run_recorded(const std::vector<TensorType>& types,
                                        const std::vector<Ref<Buffer>>& inputs,
                                        std::vector<TensorType>* out_types);
};

// Everything is told apart by name before anything is recorded.
void Session::State::check(const std::vector<TensorType>& types) const {
  const std::vector<ProgramPort>& ports = program->inputs;
  if (types.size() != ports.size())
    value_error("predictor: the program takes ", ports.size(), " inputs, got ", types.size(), ".");
  for (size_t i = 0; i < ports.size(); ++i) {
    const ProgramPort& p = ports[i];
    const TensorType& t = types[i];
    if (t.dtype != p.dtype)
      type_error("predictor: input `", p.name, "` has the wrong dtype, got ", t.dtype, "; expected ", p.dtype,
                 ".");
    if (!p.ranked) continue;
    bool fits = t.shape.size() == p.dims.size();
    for (uint32_t d = 0; fits && d < t.shape.size(); ++d) fits = p.dims[d] < 0 || p.dims[d] == t.shape[d];
    if (!fits) {
      Shape want;
      for (int64_t d : p.dims) want.push_back(d);
      value_error("predictor: input `", p.name, "` has the wrong shape, got ", t.shape, "; expected ", want,
                  " (-1: any).");
    }
  }
}

std::shared_ptr<const Ready> Session::State::prepare(const std::vector<TensorType>& types) {
  check(types);
  const PlanKey key = key_of(types);
  if (in_forked_child()) {  // plans made before the fork expect threads that are gone
    std::lock_guard lock(mu);
    if (!std::exchange(cleared_after_fork, true)) map.clear(), order.clear(), cached_bytes = 0;
  }
  if (auto r = find(key)) return r;
  Graph g;
  std::shared_ptr<const Ready> r;
  try {
    const Recording recording(true);
    const NoGrad no_grad;
    Values in;
    for (size_t i = 0; i < types.size(); ++i) in.push_back(make_input(types[i], static_cast<int64_t>(i)));
    g.inputs.assign(in.begin(), in.end());
    const Values out = program->record(in);
    for (const Value& v :
         out) {  // what recording had to read has run, and no longer knows what it was made from
      const bool ran = v.node->kind == Node::Kind::kOp && v.node->materialised(v.index);
      g.outputs.push_back(ran ? make_data(v.type(), v.node->outputs[v.index].buffer) : v);
    }
    PassOptions po;
    po.fold_weights = options.fold_weights && options.plan.rules;
    po.precision = options.precision, po.keep_precision = options.keep_precision,
    po.min_segment = options.min_segment;
    g = run_inference_passes(g, po);
  } catch (const NeedsData&) { r = std::make_shared<Ready>(); }
  const Unlocked unlocked;
  const Running running;
  num_threads();  // the calling thread's team size, so that library kernels agree with ours
  if (auto other = find(key)) return other;  // another thread was faster
  if (!r) {
    r = compile(g, types);
    check_room(new_weights(*r) + r->plan_bytes + r->run_bytes, "this shape");
  }
  put(key, r);
  return r;
}

namespace {
// Leaves that a contraction alone takes as its weight: kernels like to keep those in a layout of their own,
// so they are computed when one is made, one after the other, and need not all be there twice.
std::vector<char> packed_alone(const Graph& g, const std::vector<Value>& leaves) {
  constexpr size_t kLeast = 64 << 10;  // bytes
  std::vector<int> uses(leaves.size(), 0), weights(leaves.size(), 0);
  const auto number = [](const Value& v) {
    return v.node->kind == Node::Kind::kInput ? v.node->attrs[0] : -1;
  };
  for (const Node* n : topological(g.outputs))
    for (uint32_t i = 0; i < n->inputs.size(); ++i)
      if (const int64_t at = number(n->inputs[i]); at >= 0)
        ++uses[static_cast<size_t>(at)], weights[static_cast<size_t>(at)] += n->op->contraction && i == 1;
  for (const Value& v : g.outputs)
    if (const int64_t at = number(v); at >= 0) ++uses[static_cast<size_t>(at)];
  std::vector<char> r(leaves.size());
  for (size_t i = 0; i < leaves.size(); ++i)
    r[i] = leaves[i] && uses[i] == 1 && weights[i] == 1 && bytes_of(leaves[i].type()) >= kLeast;
  return r;
}

std::vector<char> inputs_read(const Plan& p) {
  std::vector<char> r(p.inputs.size(), 0);
  for (const Step& s : p.steps)
    for (size_t k = 0; k < s.slots.size(); ++k)
      if (s.slots[k].kind == Slot::Kind::kInput && s.kernel->reads(k))
        r[static_cast<size_t>(s.slots[k].index)] = 1;
  for (const PlanOutput& o : p.outputs)
    if (o.slot.kind == Slot::Kind::kInput) r[static_cast<size_t>(o.slot.index)] = 1;
  return r;
}
}  // namespace

std::shared_ptr<const Ready> Session::State::compile(const Graph& g, const std::vector<TensorType>& types) {
  ClosedGraph c = close_graph(g.outputs, types, belongs_to_plan);
  auto r = std::make_shared<Ready>();
  const auto data = constants.resolve(
      c.leaves, packed_alone(c.graph, c.leaves), options.plan,
      [&](size_t bytes) { check_room(bytes, "preparing weights"); }, program->drop_pages);
  r->bound.resize(c.leaves.size());
  const auto key_at = [&](size_t i) { return PlanKey{data[i]->key[0], data[i]->key[1]}; };
  for (size_t i = 0; i < c.leaves.size(); ++i) {
    const bool scalar = c.leaves[i] && c.leaves[i].node->kind == Node::Kind::kScalar;
    r->scalars_int.push_back(scalar ? c.leaves[i].node->attrs[0] : 0);
    r->scalars_double.push_back(scalar ? scalar_as_double(*c.leaves[i].node) : 0);
    if (!data[i]) continue;
    c.inputs[i].fixed = data[i];
    if (data[i]->computed())
      r->packed[key_at(i)] = bytes_of(c.leaves[i].type());  // row-major, and not there yet
    else r->bound[i] = constants.keep(*data[i]), c.inputs[i].strides = r->bound[i]->strides;
  }
  check_room(new_weights(*r), "the model");
  r->packed.clear();
  const size_t bound = new_weights(*r);
  r->drawn = std::move(c.drawn);
  PlanOptions o = options.plan;
  o.row_major_outputs = true;
  {
    std::optional<MemoryBudget> budget;  // kernels pack weights
    if (options.memory_limit) budget.emplace(room(bound), "predictor: packing weights");
    r->plan = compile_plan(c.graph, std::move(c.inputs), o);
  }
  const std::vector<char> read = inputs_read(*r->plan);
  size_t in_kernels = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    if (!data[i]) continue;
    if (read[i] && data[i]->computed()) r->bound[i] = constants.keep(*data[i]);
    if (!read[i] && r->packed.emplace(key_at(i), bytes_of(c.leaves[i].type())).second)
      in_kernels += bytes_of(c.leaves[i].type());
    if (!read[i] && data[i]->in_file()) r->bound[i] = nullptr;  // the kernels have it, and its pages may go
    data[i]->let_go();
  }
  if (program->drop_pages) program->drop_pages();  // kernels may have packed what they read
  KeptBytes kept;
  r->plan->keeps(&kept);
  r->plan_bytes = kept.bytes() - std::min(in_kernels, kept.bytes()) + sizeof(Ready) + c.leaves.size() * 64;
  r->run_bytes = r->plan->arena_bytes;
  for (size_t b : r->plan->own_bytes) r->run_bytes += b;
  return r;
}

// The program reads data to know what to do: it is recorded on the data itself and runs piece by piece.
std::vector<Ref<Buffer>> Session::State::run_recorded(const std::vector<TensorType>& types,
                                                      const std::vector<Ref<Buffer>>& inputs,
                                                      std::vector<TensorType>* out_types) {
  const Recording recording(false);
  const NoGrad no_grad;
  Values in;
  for (size_t i = 0; i < types.size(); ++i) in.push_back(make_data(types[i], inputs[i]));
  const Values out = program->record(in);
  std::vector<Ref<Buffer>> r;
  for (const Value& v : out) r.push_back(read_value(v));
  for (uint32_t i = 0; i < out.size(); ++i) {
    r[i] = row_major_copy(out[i].type(), *r[i]);
    if (out_types) out_types->push_back(out[i].type());
  }
  return r;
}

Session::Session(std::shared_ptr<const Program> program, SessionOptions options)
    : state_(std::make_shared<State>()) {
  state_->program = std::move(program);
  state_->options = std::move(options);
  for (const auto& types : state_->program->warm) warm_up(types);
}
Session::~Session() = default;

std::vector<Ref<Buffer>> Session::run(const std::vector<TensorType>& types,
                                      const std::vector<Ref<Buffer>>& inputs,
                                      std::vector<TensorType>* out_types) {
  if (out_types) out_types->clear();
  if (inputs.size() != types.size())
    value_error("predictor: got ", inputs.size(), " buffers for ", types.size(), " types.");
  const auto ready = state_->prepare(types);
  if (!ready->plan) return state_->run_recorded(types, inputs, out_types);
  PlanRun r;
  r.inputs = ready->bound;
  r.scalars_double = ready->scalars_double, r.scalars_int = ready->scalars_int;
  RngState rng{0, 0};
  for (size_t i = 0; i < ready->drawn.size(); ++i) {
    const int64_t n = ready->drawn[i];
    if (n == 0) continue;
    if (n > 0) rng = reserve_rng(n);
    r.scalars_int[i] = n > 0 ? rng.seed : rng.offset;
    r.scalars_double[i] = static_cast<double>(r.scalars_int[i]);
  }
  const Unlocked unlocked;
  for (size_t i = 0; i < types.size(); ++i) r.inputs[i] = row_major(types[i], inputs[i]);
  {
    const Running running;
    num_threads();  // this thread's team agrees with ours
    state_->check_room(ready->run_bytes, "this request");
    run_plan(*ready->plan, &r, poll_function());
  }
  for (size_t i = 0; i < r.outputs.size(); ++i) {
    const PlanOutput& o = ready->plan->outputs[i];
    if (out_types) out_types->push_back(o.type);
    const bool shared = o.slot.kind == Slot::Kind::kInput || o.slot.kind == Slot::Kind::kConst;
    if (shared || !is_row_major(o.type.shape, r.outputs[i]->strides))
      r.outputs[i] = row_major_copy(o.type, *r.outputs[i]);
  }
  return std::move(r.outputs);
}

std::shared_ptr<const Plan> Session::prepare(const std::vector<TensorType>& types) {
  return state_->prepare(types)->plan;
}

// The shapes often come from a file, which must not decide how much of this machine's memory is touched
// before anybody has asked for anything.
void Session::State::check_warm(const std::vector<TensorType>& types, size_t more) const {
  size_t most = machine_memory().available;
  if (options.memory_limit && !more)
    most = std::min(most, options.memory_limit);  // runs are held to it by check_room
  double bytes = static_cast<double>(more);       // products of a file's numbers: no overflow
  std::string shapes;
  for (const TensorType& t : types)
    bytes += static_cast<double>(numel(t.shape)) * static_cast<double>(dtype_size(t.dtype)),
        shapes += cat(shapes.empty() ? "" : ", ", t.shape);
  if (bytes > static_cast<double>(most))
    fail(ErrorKind::kMemory, "predictor: getting ready for inputs of shape ", shapes, " takes ",
         std::ceil(bytes / (1 << 20)), " MiB, got ", mib(most),
         " MiB of available memory. Hint: choose smaller shapes for the package or the warm-up.");
}

void Session::warm_up(const std::vector<TensorType>& types) {
  state_->check(types);
  state_->check_warm(types, 0);
  const auto ready = state_->prepare(types);
  if (!ready->plan) return;
  state_->check_warm(types, ready->run_bytes);
  std::vector<Ref<Buffer>> zeros;
  for (const TensorType& t : types) {
    zeros.push_back(allocate_buffer(t));
    __builtin_memset(zeros.back()->data(), 0, bytes_of(t));
  }
  run(types, zeros, nullptr);
}

std::shared_ptr<Session> Session::clone() const { return std::shared_ptr<Session>(new Session(*this)); }
const Program& Session::program() const { return *state_->program; }

namespace {
// Resident bytes of [data, data + bytes): files that are mapped may be in memory or not.
size_t resident(const void* data, size_t bytes, int pagemap) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<uintptr_t>(data);
  const size_t first = at / page, count = (at + bytes + page - 1) / page - first;
  std::vector<uint64_t> entries(std::min<size_t>(count, 4096));
  size_t found = 0;
  for (size_t i = 0; i < count; i += entries.size()) {
    const size_t n = std::min(entries.size(), count - i);
    if (pread(pagemap, entries.data(), n * 8, static_cast<off_t>((first + i) * 8)) !=
        static_cast<ssize_t>(n * 8))
      return bytes;
    for (size_t k = 0; k < n; ++k) found += entries[k] >> 63;
  }
  return std::min(found * page, bytes);
}
size_t resident_process() {
  size_t size = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> size >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}
}  // namespace

std::vector<MemoryItem> Session::memory_report() const {
  size_t plans = 0, workspace = 0, weights = 0, in_memory = 0;
  {
    std::lock_guard lock(state_->mu);
    plans = state_->cached_bytes;
    std::unordered_set<const Storage*> seen;
    const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    for (const auto& [k, c] : state_->map) {
      workspace = std::max(workspace, c.ready->run_bytes);
      for (const Ref<Buffer>& b : c.ready->bound)
        if (b && seen.insert(b->storage.get()).second) {
          weights += b->storage->bytes;
          in_memory += b->storage->free && pagemap >= 0
                           ? resident(b->storage->data, b->storage->bytes, pagemap)
                           : b->storage->bytes;
        }
    }
    if (pagemap >= 0) close(pagemap);
    in_memory += state_->bytes_packed(), weights += state_->bytes_packed();
  }
  const MemoryStats m = memory_stats();
  const size_t slack = m.reserved - m.allocated, process = resident_process(),
               known = in_memory + plans + slack;
  return {{"weights", in_memory},
          {"plans", plans},
          {"slack", slack},
          {"other", process > known ? process - known : 0},
          {"process", std::max(process, known)},
          {"workspace", workspace},
          {"mapped", weights - in_memory},
          {"limit", state_->options.memory_limit}};
}

bool switch_value(const std::string& key, const std::string& v) {
  if (v != "0" && v != "1") value_error("config: ", key, " is a switch, got '", v, "'; expected 0 or 1.");
  return v == "1";
}
size_t number_value(const std::string& key, const std::string& v) {
  char* end = nullptr;
  errno = 0;
  const unsigned long long n = std::strtoull(v.c_str(), &end, 10);
  if (v.empty() || v[0] < '0' || v[0] > '9' || *end || errno)
    value_error("config: ", key, " is a number, got '", v, "'.");
  return static_cast<size_t>(n);
}

bool set_option(SessionOptions* o, const std::string& key, const std::string& v) {
  if (key == "precision") {
    DType t;
    if (!dtype_from_name(v, &t) || (t != DType::kFloat32 && t != DType::kBFloat16))
      value_error("config: precision, got '", v, "'; expected float32 or bfloat16.");
    o->precision = t;
  } else if (key == "keep_precision") {
    std::vector<std::string> names;
    for (size_t at = 0; at <= v.size();) {
      const size_t end = std::min(v.find(',', at), v.size());
      if (end > at) names.push_back(v.substr(at, end - at));
      at = end + 1;
    }
    for (const std::string& n : names)
      if (!find_op(n))
        value_error("config: keep_precision names an op that does not exist, got '", n,
                    "'. Hint: docs/ops.md lists them.");
    o->keep_precision = std::move(names);
  } else if (key == "min_segment") {
    o->min_segment = number_value(key, v);
  } else if (key == "memory_limit") {
    o->memory_limit = number_value(key, v);
  } else if (key == "plan_cache_bytes") {
    o->plan_cache_bytes = number_value(key, v);
  } else if (key == "fold_weights") {
    o->fold_weights = switch_value(key, v);
  } else if (key == "fusion") {
    o->plan.fusion = switch_value(key, v);
  } else if (key == "library") {
    o->plan.library = switch_value(key, v);
  } else if (key == "rules") {
    o->plan.rules = switch_value(key, v);
  } else {
    return false;
  }
  return true;
}

}  // namespace yuloh
