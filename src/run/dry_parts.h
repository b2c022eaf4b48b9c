// SPDX-License-Identifier: Apache-2.0
// What a dry run keeps of a forward pass beside its DryNodes: composites taken apart, and for each part which
// axes of its operands meet which of its results. Facts of the op table alone (lowering, strides of a view,
// `axis`), no op by name. advise/split reads from it what several devices could share. Values keep their
// number from one flush to the next.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "ir/node.h"

namespace yuloh {

struct DryValue {
  Shape shape;
  int32_t flush = -1, node = -1;  // DryFlush::nodes; -1: there before, or inside of a composite
  bool leaf = false;              // no part makes it
  bool leaves = false;            // somebody holds it after the flush
};

struct DryPart {
  // kEach: every element by itself, operands broadcast. kAlong: `axes` of the operands mix, the others do
  // not. kView: names for elements of operand 0. kProduct: matrices in the last two axes, batches before
  // them. kOther: unknown.
  enum class Does : uint8_t { kEach, kAlong, kView, kProduct, kOther };
  Does does = Does::kOther;
  std::vector<int32_t> in, out;  // DryParts::values
  Ints axes;                     // kAlong, not negative
  Ints strides;                  // kView: of the result, in a row-major operand
  bool transpose_x = false, transpose_y = false;
  int32_t flush = 0, scope = 0;
};

class DryParts {
 public:
  void add(const Node& n, int32_t flush,
           int32_t number);     // forward passes only: SourcePos::scope is 0 or more
  void leaves(const Value& v);  // after its node was added

  std::vector<DryValue> values;
  std::vector<DryPart> parts;

 private:
  int32_t number_of(const Value& v);
  void take_apart(const Node& n, int32_t flush, int32_t number);
  void add_part(const Node& n, int32_t flush, int32_t number);

  std::unordered_map<uint64_t, std::vector<int32_t>> numbers_;  // by Node::id, by output
  int32_t scope_ = 0, flush_ = 0;
};

}  // namespace yuloh
