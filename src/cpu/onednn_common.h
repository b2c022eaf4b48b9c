// SPDX-License-Identifier: Apache-2.0
// What the oneDNN candidates share: engine and stream, memory descriptors from our operands, a cache of
// prepared primitives by local signature (a plan with known shapes costs no primitive creation; DESIGN 3.6),
// and error mapping. Private to src/cpu/onednn_*.cpp.
#pragma once
#include <dnnl.hpp>
#include <memory>
#include <string>

#include "plan/kernel.h"

namespace yuloh::onednn {

dnnl::engine& engine();
dnnl::stream& stream();  // one per thread
dnnl::memory::data_type data_type(DType t);
// The dtype and instruction set allow it; otherwise *why.
bool dtype_fits(DType t, std::string* why);
bool any_empty(const KernelRequest& r, std::string* why);

dnnl::memory::dims dims_of(const Shape& s);
dnnl::memory::desc desc(const TensorType& t, const Ints& strides);
// Channels-last strides for an activation that is channels-last (extents of 1 normalised, so that the library
// sees its own format tag).
dnnl::memory::desc activation_desc(const Operand& o);

// Signature of a request: op, attributes, types, layouts, thread count.
std::string signature(const KernelRequest& r);
std::string signature_base(
    std::string_view op);  // op, thread count, instruction set: the part every signature has
// Looks up or makes the value for a signature. `make` runs under the cache's lock.
std::shared_ptr<void> cached(const std::string& key, std::shared_ptr<void> (*make)(const void*),
                             const void* arg);
template <class T, class Arg>
std::shared_ptr<T> prepared(const std::string& key, std::shared_ptr<void> (*make)(const void*),
                            const Arg& arg) {
  return std::static_pointer_cast<T>(cached(key, make, &arg));
}

// A weight that never changes, in the library's layout: made once, shared by the plans of all shapes.
struct Packed {
  std::shared_ptr<FixedData> from;  // held, so that its key stays its own
  dnnl::memory::desc user, weight;
  Ref<Storage> data;
};
std::shared_ptr<const Packed> packed(const dnnl::memory::desc& user, const dnnl::memory::desc& weight,
                                     FixedData& data);

// What one prepared primitive keeps, about: its generated code takes 60 to 240 kB (measured by resident
// memory).
constexpr size_t kPrimitiveBytes = 100 << 10;

inline size_t align64(size_t n) { return (n + 63) & ~size_t{63}; }

}  // namespace yuloh::onednn
