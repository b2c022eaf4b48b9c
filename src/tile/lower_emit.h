// SPDX-License-Identifier: Apache-2.0
// Emitter: writes the instructions of one group in single-assignment form; equal instructions are one
// instruction. Data path: lower.cpp walks the nodes and calls this; the result is a TileProgram's instruction
// list.
#pragma once
#include <unordered_map>
#include <vector>

#include "tile/program.h"

namespace yuloh {

class Emitter {
 public:
  // A value on the way: a register of the single-assignment form, or a constant that has no type yet.
  struct Val {
    int reg = -1;
    double imm = 0;
    bool is_const() const { return reg < 0; }
  };

  int load(int operand, DType dtype, bool row);
  void store(int reg, int operand, DType dtype, bool row_operand);
  // The whole expression of one op: arguments are registers (-1: unused) and their dtypes. Returns the root
  // in compute_type(out), not yet rounded to `out`; *exact says that it already is representable in `out`.
  int expression(const Expr& e, const std::vector<int>& args, const std::vector<DType>& arg_dtypes, DType out,
                 bool* exact);
  int round(int reg, DType dtype);  // no-op for f32, f64, int64, bool
  int cast(int reg, CType to);      // no-op if it has the type
  int full(int reg);                // a copy that has all columns
  int constant(double v, CType type);
  int row_reduce(int reg, ReduceKind kind);
  void accumulate(int reg, ReduceKind kind, bool columns, int operand, DType dtype);
  CType type(int reg) const { return regs_[reg].type; }
  bool row(int reg) const { return regs_[reg].row; }
  // Ends emission: moves the live instructions and their register count into the program.
  void finish(TileProgram* p);

 private:
  int add(TileInstr i);
  int prim(Prim p, CType type, CType from, int a, int b = -1, int c = -1);
  int as(const Val& v, CType t);
  const double* number(int reg) const;  // the value of a constant register, else null
  int fold(Prim p, CType t, int a, int b);
  CType common(const Val& a, const Val& b, CType fallback) const;
  Val apply(const ExprNode& n, const Val& a, const Val& b, const Val& c, CType op_type, DType out);
  Val apply_arithmetic(Prim p, const Val& a, const Val& b, const Val& c, CType op_type, DType out);

  std::vector<TileInstr> instrs_;
  struct Reg {
    int definition;  // its instruction
    CType type;
    bool row;
  };
  std::vector<Reg> regs_;
  std::unordered_multimap<uint64_t, int> seen_;
  int n_accumulators_ = 0;
};

}  // namespace yuloh
