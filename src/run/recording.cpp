// SPDX-License-Identifier: Apache-2.0
#include "run/recording.h"

#include "run/dry_run.h"
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
                    cat("to_static: the value of a tensor that depends on the program's inputs is read while "
                        "the program is "
                        "recorded",
                        at.empty() ? "" : " at " + at,
                        ", where it is not known (a Python `if`, `while`, float(), "
                        "item() or numpy() over a tensor). Turning Python control flow over tensors into "
                        "graph control flow "
                        "comes later. Hint: decide by shapes or Python values, or use paddle.where."));
  }
  if (v.node->kind == Node::Kind::kScalar) {
    auto b = allocate_buffer(v.type());
    if (is_integral(v.dtype())) store_int(b->data(), v.dtype(), v.node->attrs[0]);
    else store_double(b->data(), v.dtype(), scalar_as_double(*v.node));
    return b;
  }
  if (pending(v)) Context::current().compute(v);
  const Ref<Buffer>& b = v.node->outputs[v.index].buffer;
  refuse_dry(*b);
  return b;
}

size_t bytes_of(const TensorType& t) { return static_cast<size_t>(numel(t.shape)) * dtype_size(t.dtype); }

}  // namespace yuloh
