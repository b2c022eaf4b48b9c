// SPDX-License-Identifier: Apache-2.0
// A closed graph run node by node or group by group with the element-wise tile reference and the rows' own
// host loops: the yardstick of fusion and pass tests. Layout of values is a parameter, as the plan's layouts
// are.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "cpu/tile_kernel.h"
#include "ops/op.h"
#include "tile/fuse.h"
#include "tile_reference.h"

namespace yuloh::testing {

struct HostTensor {
  TensorType type;
  Ints strides;
  std::shared_ptr<std::vector<char>> bytes;
  int64_t offset = 0;  // elements
  void* data() const { return bytes->data() + offset * static_cast<int64_t>(dtype_size(type.dtype)); }
  std::vector<double> values() const {  // in logical order
    std::vector<double> r;
    const int64_t n = numel(type.shape);
    for (int64_t k = 0; k < n; ++k) r.push_back(load_double(at(k), type.dtype));
    return r;
  }
  void fill(const std::vector<double>& v) {
    for (size_t k = 0; k < v.size(); ++k) store_double(at(static_cast<int64_t>(k)), type.dtype, v[k]);
  }

 private:
  char* at(int64_t k) const {
    int64_t p = offset;
    for (int d = static_cast<int>(type.shape.size()) - 1; d >= 0; --d)
      p += k % type.shape[d] * strides[d], k /= type.shape[d];
    return bytes->data() + p * static_cast<int64_t>(dtype_size(type.dtype));
  }
};

struct RunOptions {
  bool fusion = true;
  bool channels_last = false;  // rank >= 3 values
  bool device = false;         // groups run on the CPU's tile interpreter instead of the reference
};

class GraphRun {
 public:
  GraphRun(const Graph& g, const RunOptions& o) : graph_(g), options_(o), order_(topological(g.outputs)) {
    ctx_.enabled = o.fusion;
    ctx_.explain = &explain;
    ctx_.strides = [this](const Value& v) -> const Ints& { return tensor(v).strides; };
    ctx_.needed_outside = [this](const Value& v) {
      return std::find(graph_.outputs.begin(), graph_.outputs.end(), v) != graph_.outputs.end();
    };
    for (Node* n : order_) allocate(*n);
    groups = fuse(order_, ctx_);
  }
  std::vector<std::vector<double>> run(const std::vector<std::vector<double>>& inputs) {
    for (size_t i = 0; i < graph_.inputs.size(); ++i)
      if (values_.count({graph_.inputs[i].node.get(), 0})) tensor(graph_.inputs[i]).fill(inputs[i]);
    size_t next = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      if (order_[i]->kind == Node::Kind::kOp && !is_tile_node(*order_[i]) && !order_[i]->op->view)
        run_host(*order_[i]);
      while (next < groups.size() && groups[next].position == i) run_group(groups[next++]);
    }
    if (next != groups.size()) fail(ErrorKind::kRuntime, "a group has no place to run");
    std::vector<std::vector<double>> out;
    for (const Value& v : graph_.outputs) out.push_back(tensor(v).values());
    return out;
  }
  TileProgram program(size_t group) const { return lower(groups[group], ctx_); }

  std::vector<TileGroup> groups;
  std::vector<std::string> explain;

 private:
  using Key = std::pair<const Node*, uint32_t>;
  HostTensor& tensor(const Value& v) {
    const auto it = values_.find({v.node.get(), v.index});
    if (it == values_.end()) fail(ErrorKind::kRuntime, "value of ", op_name(*v.node), " is not in the graph");
    return it->second;
  }
  void allocate(Node& n) {
    for (uint32_t k = 0; k < n.outputs.size(); ++k) {
      const TensorType& t = n.outputs[k].type;
      HostTensor h{t,
                   options_.channels_last && t.shape.size() >= 3 ? channels_last_strides(t.shape)
                                                                 : row_major_strides(t.shape),
                   {},
                   0};
      if (n.kind == Node::Kind::kOp && n.op->view) {
        HostTensor& base = tensor(n.inputs[0]);
        Ints strides;
        int64_t offset = 0;
        if (n.op->view(Call(n), base.strides, &strides, &offset)) {
          h.strides = strides, h.offset = base.offset + offset, h.bytes = base.bytes;
        } else {  // a copy, made by hand when read: only allowed on row-major data here
          fail(ErrorKind::kNotImplemented, "graph reference: ", n.op->name, " needs a copy");
        }
      } else {
        h.bytes = std::make_shared<std::vector<char>>(
            static_cast<size_t>(numel(t.shape)) * dtype_size(t.dtype) + 8);
      }
      values_[{&n, k}] = std::move(h);
    }
  }
  void run_group(const TileGroup& g) {
    const TileProgram p = lower(g, ctx_);
    verify(p);
    std::vector<void*> ptrs;
    for (const Value& v : g.inputs) ptrs.push_back(tensor(v).data());
    for (const Value& v : g.outputs) ptrs.push_back(tensor(v).data());
    if (!options_.device) return run_reference(p, ptrs.data());
    static const bool ready = (register_cpu_tile(), true);
    (void)ready;
    const auto kernel = make_tile_kernel(p);
    std::vector<char> workspace(kernel->workspace_bytes() + 64);
    ptrs.push_back(reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(workspace.data()) + 63) / 64 * 64));
    kernel->run(ptrs.data());
  }
  void run_host(Node& n) {
    if (!n.op->host) fail(ErrorKind::kNotImplemented, "graph reference: ", n.op->name, " has no host loop");
    std::vector<HostOperand> in, out;
    for (const Value& v : n.inputs) in.push_back({tensor(v).data(), v.dtype(), v.shape(), tensor(v).strides});
    std::vector<HostTensor> made;
    for (auto& o : n.outputs) {
      made.push_back({o.type, row_major_strides(o.type.shape),
                      std::make_shared<std::vector<char>>(
                          static_cast<size_t>(numel(o.type.shape)) * dtype_size(o.type.dtype) + 8)});
      out.push_back({made.back().data(), o.type.dtype, o.type.shape, made.back().strides});
    }
    const Call c(n);
    n.op->host(HostCall{c, in, out});
    for (uint32_t k = 0; k < made.size(); ++k) tensor(Value(Ref<Node>(&n), k)).fill(made[k].values());
  }

  Graph graph_;
  RunOptions options_;
  std::vector<Node*> order_;
  FuseContext ctx_;
  std::map<Key, HostTensor> values_;
};

inline std::vector<std::vector<double>> evaluate(const Graph& g,
                                                 const std::vector<std::vector<double>>& inputs,
                                                 RunOptions o = {}) {
  return GraphRun(g, o).run(inputs);
}

}  // namespace yuloh::testing
