// SPDX-License-Identifier: Apache-2.0
// Paddle's model files: `.json` (PIR) and `.pdmodel` (ProgramDesc) with `.pdiparams` beside them. Both are
// read into a Model whose nodes carry PIR's operator names (paddle_names.cpp renames ProgramDesc's), so that
// one set of mappings (paddle_ops*.cpp) serves both.
#pragma once
#include "formats/model.h"

namespace yuloh::formats {

// What an attribute of a ProgramDesc holds (framework.proto), by number.
enum class AttrType : int64_t {
  kInt,
  kFloat,
  kString,
  kInts,
  kFloats,
  kStrings,
  kBool,
  kBools,
  kBlock,
  kLong,
  kBlocks,
  kLongs,
  kFloat64s,
  kVar,
  kVars,
  kFloat64,
  kScalar,
  kScalars
};

std::shared_ptr<const Model> read_pir(const std::string& path, const Ref<Storage>& file,
                                      const std::string& params);
std::shared_ptr<const Model> read_program_desc(const std::string& path, const Ref<Storage>& file,
                                               const std::string& params);

// Tensors of a `.pdiparams` file: no names inside, the order is that of the sorted names. `expected`: name ->
// type by the program; what the file says must agree. An empty path: there must be nothing expected.
std::map<std::string, FileTensor> read_paddle_weights(const std::string& path,
                                                      const std::map<std::string, TensorType>& expected);
// Where each tensor's bytes lie in a .pdiparams file, whatever its name is. Throws as read_paddle_weights.
struct PlacedBytes {
  size_t offset, bytes;
};
std::vector<PlacedBytes> placed_paddle_weights(const std::string& path, const Ref<Storage>& file);
std::string weights_path(const std::string& model,
                         const std::string& given);  // given, or the model's with another ending

// VarType's numbers of element types.
DType paddle_dtype(int64_t number, const std::string& where);
int paddle_dtype_number(DType t);

// One operator of a ProgramDesc as read: arguments by slot.
struct ProgramOp {
  std::string type;
  std::map<std::string, std::vector<std::string>> inputs, outputs;
  std::map<std::string, Attribute> attrs;
};
// In PIR's names and argument order. Operators that have no row keep name and attributes, and their arguments
// in slot order.
ModelNode renamed(const ProgramOp& op);

// The other way: what an operator of PIR is in a ProgramDesc. Null: the same name with X and Out.
struct WriteRow {
  std::string old;
  std::vector<std::string> inputs, outputs, unread;   // slots by position; outputs that nobody reads
  std::map<std::string, std::string> renamed, kinds;  // attributes
  std::map<size_t, std::string> constants;            // position -> attribute where it is a constant
};
const WriteRow* write_row(const std::string& name);

}  // namespace yuloh::formats
