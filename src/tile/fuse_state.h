// SPDX-License-Identifier: Apache-2.0
// GroupState: a group under construction. `add` accepts a node if the group still has one loop nest
// afterwards, or says why not. fuse.cpp decides which node is offered to which group; lower.cpp replays the
// same state to print the nest.
#pragma once
#include "tile/fuse.h"
#include "tile/fuse_nest.h"

namespace yuloh {

struct GroupState {
  static constexpr size_t kMaxNodes = 64;
  static constexpr size_t kMaxInputs = 16;
  static constexpr int kMaxSureOutputs = 8;  // with kMaxInputs: at most 24 memory operands
  struct Member {
    Node* node;
    Level level;
  };
  struct External {
    const Value* value;
    Ints strides;  // over the domain
  };

  Shape domain;
  int64_t elements = -1;  // of the domain; -1: empty group
  AxisMask rows = 0;      // axes that row reductions name, extents of 1 included
  Nest nest;
  std::vector<Member> members;
  std::vector<External> externals;
  bool closed = false;  // holds something that cannot share a nest

  bool add(Node* n, const FuseContext& ctx, const char** why);
  const Member* find(const Node* n) const;
  bool has_domain() const { return elements >= 0; }

 private:
  bool add_scalar(Node* n, const FuseContext& ctx, const char** why);
  bool add_reduce(Node* n, const FuseContext& ctx, const char** why);
  bool read(const Value& v, Level reader, const FuseContext& ctx, const char** why);
};

}  // namespace yuloh
