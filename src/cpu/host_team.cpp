// SPDX-License-Identifier: Apache-2.0
// Lends the executor team to the host rows of src/ops (which may not include this room).
#include "cpu/parallel.h"
#include "ops/host.h"

namespace yuloh {
namespace {
[[maybe_unused]] const bool lent = [] {
  set_chunk_runner(
      [](int64_t n, void (*fn)(void*, int64_t), void* context) { parallel_chunks(n, fn, context); });
  return true;
}();
}  // namespace
}  // namespace yuloh
