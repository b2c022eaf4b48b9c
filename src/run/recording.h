// SPDX-License-Identifier: Apache-2.0
// Recording: while one lives, what this thread records belongs to a Program, not to the thread's pending
// graph. On placeholders a value that depends on them has a type and no data: reading it throws NeedsData.
// Reading anything else computes that value and leaves the rest of the pending graph as it is. Tensors
// written meanwhile get their old value back at the end.
#pragma once
#include <utility>
#include <vector>

#include "base/strided.h"
#include "ir/node.h"
#include "run/tensor.h"

namespace yuloh {

class Recording {
 public:
  explicit Recording(bool on_placeholders);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  uint64_t first() const { return first_; }  // nodes with smaller ids were there before
  void note_write(Cell* cell);               // called before a cell takes a new value
  const std::vector<std::pair<Ref<Cell>, Value>>& written() const { return written_; }

 private:
  uint64_t first_;
  Recording* outer_;
  bool outer_tracing_;
  std::vector<std::pair<Ref<Cell>, Value>> written_;
};

// The data of a value, computed if need be. Throws NeedsData (run/program.h) for what depends on a
// placeholder.
Ref<Buffer> read_value(const Value& v);
size_t bytes_of(const TensorType& t);

}  // namespace yuloh
