// SPDX-License-Identifier: Apache-2.0
#include "diff/subject.h"

#include "diff/subject_kinds.h"
#include "formats/package.h"
#include "ops/fn.h"
#include "run/recording.h"

namespace yuloh::diff {
namespace {
uint64_t scrambled(uint64_t x) {  // SplitMix64's finaliser
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}
}  // namespace

Value widened(const Value& v, const Perturbation& p, uint64_t stream) {
  if (!is_float(v.dtype())) return v;
  if (v.node->traced) return cast(v, DType::kFloat64);
  const TensorType t{DType::kFloat64, v.shape()};
  const Ref<Buffer> from = row_major(v.type(), read_value(v));
  Ref<Buffer> to = allocate_buffer(t);
  const char* x = static_cast<const char*>(from->data());
  double* y = static_cast<double*>(to->data());
  const int64_t n = numel(t.shape);
  const uint64_t key = scrambled(p.seed * 0x9e3779b97f4a7c15ull + stream + 1);
  for (int64_t i = 0; i < n; ++i) {
    y[i] = load_double(x + static_cast<size_t>(i) * dtype_size(v.dtype()), v.dtype());
    if (p.size != 0) y[i] *= 1 + (scrambled(key + static_cast<uint64_t>(i)) & 1 ? p.size : -p.size);
  }
  return make_data(t, std::move(to));
}

bool has_product(const Value& v, uint64_t first) {
  for (const Node* n : reached(
           {v}, [first](const Value& x) { return x.node->kind == Node::Kind::kOp && x.node->id >= first; })) {
    if (n->op->contraction) return true;
    if (!n->op->expand) continue;
    const uint64_t since = next_node_id();
    for (const Value& out : n->op->expand(Call(*n)))
      if (out && has_product(out, since)) return true;
  }
  return false;
}

std::shared_ptr<Subject> read_subject(const std::string& path, const std::string& params) {
  if (formats::is_package(path)) {
    formats::Package p = formats::read_package(path);
    return p.model ? subject_of(p.model) : subject_of(std::shared_ptr<const TracedProgram>(p.traced));
  }
  return subject_of(formats::read_model(path, params));
}

}  // namespace yuloh::diff
