// SPDX-License-Identifier: Apache-2.0
// What all writers of model files need of a TracedProgram: the attributes of one node by name, which of them
// depend on open sizes, and the types of inner values with open dims. pir_write.h and onnx_write.h add what
// their files are made of.
#pragma once
#include <bit>
#include <optional>
#include <string>
#include <vector>

#include "run/traced.h"

namespace yuloh::formats {

struct OpenType {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;  // -1: open
  bool operator==(const OpenType&) const = default;
  size_t rank() const { return dims.size(); }
  int64_t numel() const;  // -1: open
};

// The program recorded at two sizes of every open dim.
struct Recorded {
  std::vector<int64_t> sizes[2];
  std::vector<Values> made[2];  // by node and output: types only
};

class WriteNode {
 public:
  const TracedProgram& program;
  const TracedNode& node;
  std::vector<OpenType> out;  // one per output
  const Recorded* recorded = nullptr;

  // Numbers that depend on open sizes are refused by all but size_list.
  int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  bool flag(std::string_view name) const { return integer(name) != 0; }
  std::string text(std::string_view name) const;
  Ints ints(std::string_view name) const;
  std::vector<double> reals(std::string_view name) const;
  bool none(std::string_view name) const;                            // an optional attribute that is None
  bool open(std::string_view name) const;                            // depends on open sizes
  std::pair<uint32_t, uint32_t> range(std::string_view name) const;  // of inputs: first, count
  // The entries of an int[], or one int: numbers, with an expression where they are open.
  struct Size {
    int64_t value = 0;
    const DimExpr* expr = nullptr;
  };
  std::vector<Size> size_list(std::string_view name) const;
  // x, w and b where the input is matmul(x, w') + b with a bias of one axis.
  struct Product {
    TracedRef x, w, b;
  };
  std::optional<Product> product_of_input(size_t input) const;
  bool is_read(uint32_t output) const;
  // Everybody who reads this output takes one position of axis 0: the last, or the first.
  bool read_only_at(uint32_t output, bool last) const;
  [[noreturn]] void cannot(const std::string& why) const;

 private:
  struct Words {
    const ArgSpec* spec;
    uint32_t at;
  };
  Words words(std::string_view name) const;
  void require_fixed(std::string_view name) const;
};

// By node and output. The program is recorded twice on placeholders: what differs between two sizes of an
// open dim is open.
std::vector<std::vector<OpenType>> open_types(const TracedProgram& p, Recorded* recorded);
// A node that needs no input and draws nothing is a constant, unless it is large.
bool is_constant(const TracedNode& n, const std::vector<OpenType>& out);
// The number that a scalar node without open words stands for, as g.whole or g.number: doubles hold integers
// to 2^53 only.
template <class Graph, class... Dims>
auto write_scalar(Graph& g, const TracedNode& n, Dims... dims) {
  if (is_integral(n.dtype)) return g.whole(n.attrs[0], n.dtype, std::move(dims)...);
  return g.number(std::bit_cast<double>(n.attrs[0]), n.dtype, std::move(dims)...);
}
// Whether the expression of an elementwise row (with the defaults of its attributes) has such a primitive.
bool row_uses(const OpDef& op, bool (*prim)(Prim));
// An input and axis that has the open size `dim`.
std::pair<size_t, size_t> place_of_dim(const TracedProgram& p, int32_t dim);
// Names for the weights: the parameter's own, or as in state_dict, each once.
std::vector<std::string> weight_names(const TracedProgram& p, bool state_dict_first);

}  // namespace yuloh::formats
