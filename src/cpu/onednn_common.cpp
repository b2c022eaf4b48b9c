// SPDX-License-Identifier: Apache-2.0
#include "cpu/onednn_common.h"

#include <chrono>
#include <mutex>
#include <unordered_map>

#include "base/weak_cache.h"
#include "cpu/cpu_features.h"
#include "cpu/parallel.h"
#include "plan/plan.h"

namespace yuloh::onednn {

dnnl::engine& engine() {
  static auto* e = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *e;
}
dnnl::stream& stream() {
  thread_local dnnl::stream s(engine());
  (void)
      num_threads();  // tells OpenMP, which the library asks, how many threads this thread's kernels may use
  return s;
}

dnnl::memory::data_type data_type(DType t) {
  switch (t) {
    case DType::kFloat32: return dnnl::memory::data_type::f32;
    case DType::kBFloat16: return dnnl::memory::data_type::bf16;
    case DType::kInt32: return dnnl::memory::data_type::s32;
    case DType::kInt8: return dnnl::memory::data_type::s8;
    case DType::kUInt8: return dnnl::memory::data_type::u8;
    default: fail(ErrorKind::kRuntime, "onednn: no data type for ", t, ".");
  }
}

bool dtype_fits(DType t, std::string* why) {
  if (t == DType::kFloat32) return true;
  if (t == DType::kBFloat16) {
    if (cpu_isa() == Isa::kAvx512) return true;
    *why = "bfloat16 needs AVX-512 on this library";
    return false;
  }
  *why = cat("dtype ", t);
  return false;
}

bool any_empty(const KernelRequest& r, std::string* why) {
  for (const auto* list : {&r.in, &r.out})
    for (const Operand& o : *list)
      if (numel(o.type.shape) == 0) {
        *why = "an operand is empty";
        return true;
      }
  return false;
}

dnnl::memory::dims dims_of(const Shape& s) { return {s.begin(), s.end()}; }

dnnl::memory::desc desc(const TensorType& t, const Ints& strides) {
  return {dims_of(t.shape), data_type(t.dtype), dims_of(strides)};
}
dnnl::memory::desc activation_desc(const Operand& o) {
  return desc(o.type, channels_last_strides(o.type.shape));
}

std::string signature_base(std::string_view op) {
  return cat(op, "/", num_threads(), "/", static_cast<int>(cpu_isa()), "/");
}

std::string signature(const KernelRequest& r) {
  std::string s = signature_base(r.call.op.name);
  const auto put = [&s](int64_t v) { s.append(reinterpret_cast<const char*>(&v), sizeof v); };
  for (int64_t a : r.call.attrs) put(a);
  for (const auto* list : {&r.in, &r.out})
    for (const Operand& o : *list) {
      put(static_cast<int64_t>(o.type.dtype)), put(o.type.shape.size());
      for (int64_t d : o.type.shape) put(d);
      for (int64_t d : o.strides) put(d);
    }
  return s;
}

std::shared_ptr<void> cached(const std::string& key, std::shared_ptr<void> (*make)(const void*),
                             const void* arg) {
  static auto* cache = new WeakCache<void>;
  static const bool once =
      (dnnl::set_primitive_cache_capacity(0), true);  // one cache, bounded with the plans
  (void)once;
  static bool child_cleared = false;
  if (in_forked_child() && !child_cleared) {  // primitives made before a fork expect threads that are gone
    child_cleared = true;
    cache->clear();
  }
  return cache->get(key, [&] {
    const auto start = std::chrono::steady_clock::now();
    auto made = make(arg);
    compile_seconds().primitives +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return made;
  });
}

std::shared_ptr<const Packed> packed(const dnnl::memory::desc& user, const dnnl::memory::desc& weight,
                                     FixedData& data) {
  static std::mutex mu;
  static auto* known = new std::unordered_multimap<uint64_t, std::weak_ptr<const Packed>>;
  std::lock_guard lock(mu);
  for (auto [it, end] = known->equal_range(data.key[0]); it != end; ++it)
    if (auto k = it->second.lock(); k && k->from->key == data.key && k->user == user && k->weight == weight)
      return k;
  std::erase_if(*known, [](const auto& e) { return e.second.expired(); });
  auto k = std::make_shared<Packed>(
      Packed{data.shared_from_this(), user, weight, allocate_storage(weight.get_size())});
  dnnl::memory from(user, engine(), data.get().data()), to(weight, engine(), k->data->data);
  dnnl::reorder(from, to).execute(stream(), from, to);
  stream().wait();
  data.let_go();
  known->emplace(data.key[0], k);
  return k;
}

}  // namespace yuloh::onednn
