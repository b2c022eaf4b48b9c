// SPDX-License-Identifier: Apache-2.0
#include "run/recording.h"

#include "run/program.h"

namespace yuloh {

Recording::Recording(bool on_placeholders)
    : first_(next_node_id()), outer_(modes().recording), outer_tracing_(modes().tracing) {
  modes().recording = this;
  modes().tracing = on_placeholders;
}

Recording::~Recording() {
  modes().recording = outer_;
  modes().tracing = outer_tracing_;
  for (size_t i = written_.size(); i-- > 0;) try {
      written_[i].first->set(written_[i].second);
    } catch (const Error&) {  // another thread's step failed: its error stays with what it made
    }
}

// Cells that are younger than the recording need no old value back.
void Recording::note_write(Cell* cell) {
  if (cell->value().node->id < first_) written_.emplace_back(Ref<Cell>(cell), cell->value());
}

Ref<Buffer> read_value(const Value& v) {
  if (v.node->traced) {
    const std::string at = describe_position(modes().pos);
    throw NeedsData(ErrorKind::kRuntime,
                    cat("to_static: the value of a tensor that depends on the program's inputs is read while the program is "
                        "recorded", at.empty() ? "" : " at " + at, ", where it is not known (a Python `if`, `while`, float(), "
                        "item() or numpy() over a tensor). Turning Python control flow over tensors into graph control flow "
                        "comes later. Hint: decide by shapes or Python values, or use paddle.where."));
  }
  if (v.node->kind == Node::Kind::kScalar) {
    auto b = allocate_buffer(v.type());
    if (is_integral(v.dtype())) store_int(b->data(), v.dtype(), v.node->attrs[0]);
    else store_double(b->data(), v.dtype(), scalar_as_double(*v.node));
    return b;
  }
  if (pending(v)) Context::current().compute(v);
  return v.node->outputs[v.index].buffer;
}

size_t bytes_of(const TensorType& t) { return static_cast<size_t>(numel(t.shape)) * dtype_size(t.dtype); }

Ref<Buffer> row_major_copy(const TensorType& t, const Buffer& b) {
  Ref<Buffer> r = allocate_buffer(t);
  const size_t width = dtype_size(t.dtype);
  const char* from = static_cast<const char*>(b.data());
  char* to = static_cast<char*>(r->data());
  if (is_row_major(t.shape, b.strides)) {
    __builtin_memcpy(to, from, bytes_of(t));
    return r;
  }
  const int64_t n = numel(t.shape), rank = t.shape.size();
  Ints at(static_cast<uint32_t>(rank), 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < n; ++i) {
    __builtin_memcpy(to + i * static_cast<int64_t>(width), from + offset * static_cast<int64_t>(width), width);
    for (int64_t d = rank; d-- > 0;) {
      const auto u = static_cast<uint32_t>(d);
      offset += b.strides[u];
      if (++at[u] < t.shape[u]) break;
      offset -= b.strides[u] * t.shape[u];
      at[u] = 0;
    }
  }
  return r;
}

Ref<Buffer> row_major(const TensorType& t, Ref<Buffer> b) {
  return is_row_major(t.shape, b->strides) ? std::move(b) : row_major_copy(t, *b);
}

}  // namespace yuloh
