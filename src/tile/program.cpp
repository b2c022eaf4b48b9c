// SPDX-License-Identifier: Apache-2.0
#include "tile/program.h"

#include <bit>
#include <sstream>

namespace yuloh {
namespace {
using Kind = TileInstr::Kind;
constexpr const char* kTypeNames[] = {"f32", "f64", "i64", "b8"};
constexpr const char* kReduceNames[] = {"none", "sum", "prod", "max", "min", "any", "all"};
const char* name(CType t) { return kTypeNames[static_cast<int>(t)]; }
const char* name(ReduceKind k) { return kReduceNames[static_cast<int>(k)]; }

void print(std::ostream& o, const TileInstr& i) {
  const auto reg = [&](int r) { o << (r < 0 ? " ?" : " r") << r; };
  if (i.dst >= 0 && i.kind != Kind::kColReduce && i.kind != Kind::kAllReduce)
    o << "r" << i.dst << ":" << name(i.type) << (i.row ? "/row" : "") << " = ";
  switch (i.kind) {
    case Kind::kLoad: o << "load op" << i.a << " " << i.dtype; break;
    case Kind::kStore: o << "store op" << i.b << " " << i.dtype, reg(i.a); break;
    case Kind::kRound: o << "round " << i.dtype, reg(i.a); break;
    case Kind::kRowReduce: o << "row_" << name(i.reduce), reg(i.a); break;
    case Kind::kColReduce: o << "col_" << name(i.reduce) << " op" << i.b << " " << i.dtype, reg(i.a); break;
    case Kind::kAllReduce: o << "all_" << name(i.reduce) << " op" << i.b << " " << i.dtype, reg(i.a); break;
    case Kind::kPrim:
      o << prim_info(i.prim).name;
      if (i.from != i.type) o << "." << name(i.from);
      if (i.prim == Prim::kConst) o << " " << i.imm;
      for (int r : {i.a, i.b, i.c})
        if (r >= 0) reg(r);
  }
  o << "\n";
}

class Verifier {
 public:
  explicit Verifier(const TileProgram& p) : p_(p), type_(p.n_regs), set_(p.n_regs, false) {}
  void run() {
    if (static_cast<int>(p_.outer.size()) > TileProgram::kMaxOuter)
      bad("too many outer dimensions, got ", p_.outer.size());
    if (p_.inner < 0) bad("negative inner extent");
    if (p_.keep < 0 || p_.keep > static_cast<int>(p_.outer.size()))
      bad("keep ", p_.keep, " of ", p_.outer.size(), " outer dimensions");
    for (const Dim d : p_.outer)
      if (d < 0) bad("negative outer extent");
    for (const TileOperand& o : p_.operands) {
      if (o.outer_strides.size() != p_.outer.size())
        bad("operand with ", o.outer_strides.size(), " outer strides");
      if (o.buffer < 0 || o.buffer >= p_.n_buffers) bad("operand buffer ", o.buffer, " of ", p_.n_buffers);
      if (!dtype_has_kernels(o.dtype)) bad("operand of type ", o.dtype);
    }
    for (at_ = 0; at_ < p_.instrs.size(); ++at_) check(p_.instrs[at_]);
  }

 private:
  template <class... A>
  [[noreturn]] void bad(const A&... a) {
    fail(ErrorKind::kRuntime, "tile program: ", a..., " at instruction ", at_, "\n", to_string(p_));
  }
  void use(int r, CType t) {
    if (r < 0 || r >= p_.n_regs || !set_[r]) bad("register ", r, " read before it is set");
    if (type_[r] != t) bad("register ", r, " is ", name(type_[r]), ", read as ", name(t));
  }
  void def(int r, CType t) {
    if (r < 0 || r >= p_.n_regs) bad("register ", r, " of ", p_.n_regs);
    set_[r] = true, type_[r] = t;
  }
  const TileOperand& operand(int i) {
    if (i < 0 || i >= static_cast<int>(p_.operands.size())) bad("operand ", i, " of ", p_.operands.size());
    return p_.operands[i];
  }
  void prim(const TileInstr& i) {
    const int arity = i.prim == Prim::kConst ? 0 : i.prim == Prim::kCast ? 1 : prim_info(i.prim).arity;
    const int regs[] = {i.a, i.b, i.c};
    for (int k = 0; k < arity; ++k) use(regs[k], i.prim == Prim::kSelect && k == 0 ? CType::kB8 : i.from);
    if (i.prim == Prim::kArg) bad("kArg has no place in a program");
    if (i.prim != Prim::kConst && i.prim != Prim::kCast && !prim_info(i.prim).to_bool && i.type != i.from)
      bad("result type ", name(i.type), " from ", name(i.from));
    if (i.prim != Prim::kConst && i.prim != Prim::kCast && prim_info(i.prim).to_bool && i.type != CType::kB8)
      bad("a truth value must be b8, got ", name(i.type));
    def(i.dst, i.type);
  }
  void check(const TileInstr& i) {
    switch (i.kind) {
      case Kind::kLoad: def(i.dst, compute_type(operand(i.a).dtype)); break;
      case Kind::kStore: use(i.a, compute_type(operand(i.b).dtype)); break;
      case Kind::kPrim: prim(i); break;
      case Kind::kRound: use(i.a, i.type), def(i.dst, i.type); break;
      case Kind::kRowReduce:
        if (!p_.needs_whole_rows) bad("row reduction without needs_whole_rows");
        use(i.a, i.type), def(i.dst, i.type);
        break;
      case Kind::kColReduce:
      case Kind::kAllReduce: use(i.a, compute_type(operand(i.b).dtype)); break;
    }
    const bool reduces = i.kind >= Kind::kRowReduce;
    if (reduces && i.reduce == ReduceKind::kNone) bad("reduction without a kind");
  }
  const TileProgram& p_;
  std::vector<CType> type_;
  std::vector<bool> set_;
  size_t at_ = 0;
};
}  // namespace

CType compute_type(DType t) {
  if (t == DType::kBool) return CType::kB8;
  if (is_integer(t)) return CType::kI64;
  return t == DType::kFloat64 ? CType::kF64 : CType::kF32;
}

std::string to_string(const TileProgram& p) {
  std::ostringstream o;
  o << "tile " << to_string(p.outer) << " x " << p.inner << (p.needs_whole_rows ? " whole rows" : "");
  if (p.keep) o << " keep " << p.keep;
  o << "\n";
  for (size_t i = 0; i < p.operands.size(); ++i) {
    const TileOperand& t = p.operands[i];
    o << "  op" << i << " " << t.dtype << " buffer " << t.buffer << " strides";
    for (const int64_t s : t.outer_strides) o << " " << s;
    o << " | " << t.inner_stride << "\n";
  }
  for (const TileInstr& i : p.instrs) o << "  ", print(o, i);
  return std::move(o).str();
}

std::string key_of(const TileProgram& p) {
  static_assert(sizeof(TileInstr) == 40 && sizeof(TileOperand) == 2 * sizeof(int64_t) + 8 + sizeof(Ints),
                "a new field belongs to the key");
  std::vector<int64_t> k{p.inner, p.n_regs, p.n_buffers, p.needs_whole_rows, p.keep, p.outer.size()};
  k.reserve(8 + p.outer.size() + p.operands.size() * 8 + p.instrs.size() * 4);
  const auto pair = [](int64_t a, int64_t b) { return a << 32 | static_cast<uint32_t>(b); };
  const auto bytes = [](auto... v) {
    int64_t w = 0;
    ((w = w << 8 | static_cast<uint8_t>(v)), ...);
    return w;
  };
  k.insert(k.end(), p.outer.begin(), p.outer.end());
  k.push_back(static_cast<int64_t>(p.operands.size()));
  for (const TileOperand& o : p.operands) {
    k.insert(k.end(), {bytes(o.dtype), o.inner_stride, o.buffer, o.outer_strides.size()});
    k.insert(k.end(), o.outer_strides.begin(), o.outer_strides.end());
  }
  for (const TileInstr& i : p.instrs)
    k.insert(k.end(), {bytes(i.kind, i.prim, i.reduce, i.type, i.from, i.dtype, i.row), pair(i.dst, i.a),
                       pair(i.b, i.c), std::bit_cast<int64_t>(i.imm)});
  return {reinterpret_cast<const char*>(k.data()), k.size() * sizeof(int64_t)};
}

void verify(const TileProgram& p) { Verifier(p).run(); }

}  // namespace yuloh
