// SPDX-License-Identifier: Apache-2.0
#include "cpu/tile_compile.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace yuloh::tile {
namespace {
using Kind = TileInstr::Kind;
constexpr int kRowBit = 1, kColBit = 2;  // a form: does the value vary over rows, over columns?
bool same_storage(DType d) {             // storage bytes are the compute type's bytes
  return d == DType::kFloat32 || d == DType::kFloat64 || d == DType::kInt64 || d == DType::kBool;
}
bool accumulates(Kind k) { return k == Kind::kColReduce || k == Kind::kAllReduce; }

// ---- code: one Step per instruction, places for registers ----
struct Value {  // a register in single-assignment form
  CType type = CType::kF32;
  int form = 0;
  int place = -1;
  bool strided = false;    // operand memory whose rows are not packed
  bool zero = false;       // the constant 0
  bool from_real = false;  // an integer cast from a real: narrowing follows the hardware's rule
  int def = -1;            // body step, -1: hoisted, constant or alias
  int last_use = -1;       // body step
  int alias_buffer = -1;   // reads of this value read that buffer
  int row_copy = -1, full_copy = -1, expanded = -1;  // derived values, made once
};

class Coder {
 public:
  Coder(const TileProgram& p, TilePlan* plan, bool alias, TileCode* code)
      : p_(p), t_(*plan), alias_(alias), c_(*code) {}
  void run() {
    for (size_t k = 0; k < t_.operands.size(); ++k) c_.places.push_back({Place::Kind::kOperand, 0});
    count_uses();
    regs_.assign(p_.n_regs, -1);
    for (const TileInstr& i : p_.instrs)
      if (i.kind != Kind::kStore) emit(i);
      else stores_.push_back({i, regs_[i.a]});
    for (auto& [i, v] : stores_) store(i, v);
    allocate();
    find_hazards();
  }

 private:
  // An operand read only by reductions may stay in place even if its rows are apart; rounding to a half type
  // before nothing but stores of that type is left to the stores.
  void count_uses() {
    std::vector<int> def(p_.n_regs, -1);
    other_use_.assign(p_.instrs.size(), false), unrounded_use_.assign(p_.instrs.size(), false);
    uses_.assign(p_.instrs.size(), 0);
    for (size_t k = 0; k < p_.instrs.size(); ++k) {
      const TileInstr& i = p_.instrs[k];
      const bool reduces = i.kind >= Kind::kRowReduce;
      const auto rounds_itself = [&](int d) {
        return i.kind == Kind::kStore && p_.operands[i.b].dtype == p_.instrs[d].dtype;
      };
      if (i.kind != Kind::kLoad)
        for (int r : {i.a, i.b, i.c})
          if (r >= 0 && r < p_.n_regs && def[r] >= 0 && !rounds_itself(def[r])) unrounded_use_[def[r]] = true;
      if (i.kind != Kind::kLoad)
        for (int r : {i.a, i.kind == Kind::kPrim ? i.b : -1, i.kind == Kind::kPrim ? i.c : -1})
          if (r >= 0 && def[r] >= 0)
            uses_[def[r]] += i.kind == Kind::kRound ? 2 : 1;  // rounded: may have other names
      if (i.kind != Kind::kLoad && !reduces)
        for (int r : {i.a, i.b, i.c}) {
          if (i.kind == Kind::kStore && r != i.a) break;
          if (r >= 0 && def[r] >= 0) other_use_[def[r]] = true;
        }
      if (i.dst >= 0 && !accumulates(i.kind)) def[i.dst] = static_cast<int>(k);
    }
  }

  int add_value(CType type, int form) {
    values_.push_back({.type = type, .form = form});
    return static_cast<int>(values_.size()) - 1;
  }
  static Extent extent_of(int form) {
    return form == 0         ? Extent::kOne
           : form == kRowBit ? Extent::kRows
           : form == kColBit ? Extent::kCols
                             : Extent::kAll;
  }
  // Appends a step computing `v` (by number; places are filled in later) from operand values.
  Step& add_step(int v, std::initializer_list<int> operands) {
    const bool hoist = v >= 0 && !(values_[v].form & kRowBit);
    auto& list = hoist ? hoisted_ : body_;
    list.push_back({});
    Pending& s = list.back();
    s.result = v;
    const int at = hoist ? -1 : static_cast<int>(body_.size()) - 1;
    if (v >= 0) values_[v].def = at;
    int k = 0;
    for (int o : operands) {
      s.operands[k++] = o;
      if (o >= 0) values_[o].last_use = std::max(values_[o].last_use, hoist ? -1 : at);
    }
    s.step.size = v >= 0 ? size_of(values_[v].type) : 0;
    s.step.extent = v >= 0 ? extent_of(values_[v].form) : Extent::kAll;
    return s.step;
  }

  void emit(const TileInstr& i) {
    switch (i.kind) {
      case Kind::kLoad: regs_[i.dst] = load(i); break;
      case Kind::kPrim: regs_[i.dst] = prim(i); break;
      case Kind::kRound: regs_[i.dst] = round(i); break;
      case Kind::kRowReduce: regs_[i.dst] = row_reduce(i); break;
      default: accumulate(i);
    }
  }

  int operand_form(const Operand& o) const {
    int form = t_.cols != 1 && o.inner != 0 ? kColBit : 0;
    for (size_t d = 0; d < t_.outer.size(); ++d)
      if (o.outer[d] != 0) form |= kRowBit;
    if (t_.rows <= 1 && form)
      form = t_.cols == 1 ? kRowBit : kRowBit | kColBit;  // a flat array: blocks, nothing hoisted
    return form;
  }
  // Is the memory of a block packed like a register of this form?
  bool packed(const Operand& o, int form, bool any_rows) const {
    if (!same_storage(o.dtype)) return false;
    if ((form & kColBit) && o.inner != o.size) return false;
    if (!(form & kRowBit) || t_.rows <= 1) return true;
    const bool steady = o.linear || t_.clamp;
    if (form == kRowBit) return t_.block_rows == 1 || (steady && o.row == o.size);
    if (any_rows) return steady || t_.block_rows == 1;
    return t_.block_rows == 1 || (steady && o.row == t_.cols * o.size && t_.block_cols == t_.cols);
  }
  int load(const TileInstr& i) {
    const Operand& o = t_.operands[i.a];
    const int form = operand_form(o), v = add_value(compute_type(o.dtype), form);
    const size_t at = &i - p_.instrs.data();
    const bool dense = packed(o, form, false),
               strided = !dense && !other_use_[at] && form == 3 && packed(o, form, true);
    if (alias_ && (dense || strided)) {
      values_[v].place = i.a, values_[v].strided = strided, values_[v].alias_buffer = o.buffer;
      return v;
    }
    Step& s = add_step(v, {});
    s.kind = Step::Kind::kLoad, s.operand = static_cast<int16_t>(i.a);
    s.load = t_.table->load[static_cast<int>(o.dtype)];
    return v;
  }
  int constant(const TileInstr& i) {
    const int v = add_value(i.type, 0);
    const size_t at = (t_.constants.size() + 7) / 8 * 8;
    t_.constants.resize(at + 8);
    char* p = t_.constants.data() + at;
    const auto put = [&](auto x) { std::memcpy(p, &x, sizeof x); };
    if (i.type == CType::kF32) put(static_cast<float>(i.imm));
    if (i.type == CType::kF64) put(i.imm);
    if (i.type == CType::kI64) put(i.imm >= 9223372036854775808.0 ? INT64_MAX : static_cast<int64_t>(i.imm));
    if (i.type == CType::kB8) put(static_cast<uint8_t>(i.imm != 0));
    c_.places.push_back({Place::Kind::kConst, static_cast<int64_t>(at)});
    values_[v].place = static_cast<int>(c_.places.size()) - 1;
    values_[v].zero = i.imm == 0 && !std::signbit(i.imm);
    return v;
  }

  // ---- changes of form ----
  int copied(int v, int form, Step::Kind kind, Extent extent) {
    const int w = add_value(values_[v].type, form);
    Step& s = add_step(w, {v});
    s.kind = kind, s.extent = extent, s.prim = t_.table->expand[static_cast<int>(values_[v].type)];
    return w;
  }
  int rows_of(int v) {  // 0 -> one copy per row; hoisted, for the largest block
    if (values_[v].row_copy < 0) {
      const int w = copied(v, kRowBit, Step::Kind::kPrim, Extent::kRows);
      move_to_hoisted(w);
      values_[v].row_copy = w;
    }
    return values_[v].row_copy;
  }
  int block_of(int v) {  // any form -> rows x columns
    if (values_[v].form == 3) return v;
    if (values_[v].full_copy >= 0) return values_[v].full_copy;
    const int from = values_[v].form;
    int w;
    if (from == kRowBit) {
      w = copied(v, 3, Step::Kind::kPrim, Extent::kGrid);
    } else if (from == kColBit) {
      if (t_.block_rows == 1) return v;  // one row: already packed
      w = copied(v, 3, Step::Kind::kReplicate, Extent::kGrid);
      move_to_hoisted(w);
    } else {
      w = copied(v, 3, Step::Kind::kPrim, Extent::kAll);  // expand with rows = 1
      move_to_hoisted(w);
    }
    return values_[v].full_copy = w;
  }
  int cols_of(int v) {  // adds the column bit
    if (values_[v].form & kColBit) return v;
    if (values_[v].form == kRowBit) return block_of(v);
    if (values_[v].expanded < 0) values_[v].expanded = copied(v, kColBit, Step::Kind::kPrim, Extent::kCols);
    return values_[v].expanded;
  }
  void move_to_hoisted(int w) {  // the step just added depends on no row
    hoisted_.push_back(body_.back());
    body_.pop_back();
    values_[w].def = -1;
    for (int o : hoisted_.back().operands)
      if (o >= 0 && values_[o].last_use == static_cast<int>(body_.size())) values_[o].last_use = -1;
  }

  int prim(const TileInstr& i) {
    if (i.prim == Prim::kConst) return constant(i);
    int in[3] = {i.a >= 0 ? regs_[i.a] : -1, i.b >= 0 ? regs_[i.b] : -1, i.c >= 0 ? regs_[i.c] : -1};
    int form = 0;
    for (int v : in)
      if (v >= 0) form |= values_[v].form;
    int mask = 0;
    bool per_row = false;
    if (form == 3) {
      for (int v : in) per_row |= v >= 0 && values_[v].form == kRowBit;
      for (int& v : in)
        if (v >= 0 && values_[v].form == kColBit) v = block_of(v);
    }
    for (int k = 0; k < 3; ++k) {
      if (in[k] < 0) continue;
      const int f = values_[in[k]].form;
      const bool scalar = form == 3 ? !(f & kColBit) : f != form;
      if (scalar) mask |= 1 << k;
      if (scalar && per_row && f == 0) in[k] = rows_of(in[k]);
    }
    const int type = static_cast<int>(i.from);
    const PrimFn fn = i.prim == Prim::kCast ? t_.table->cast[type][static_cast<int>(i.type)]
                                            : t_.table->prim[static_cast<int>(i.prim)][type][mask];
    if (!fn)
      fail(ErrorKind::kRuntime, "tile: no kernel for ", prim_info(i.prim).name, " of type ", type,
           " in form ", mask, ".\n", to_string(p_));
    if (const int v = chain(i, in, form, mask, per_row); v >= 0) return v;
    const int v = add_value(i.type, form);
    Step& s = add_step(v, {in[0], in[1], in[2]});
    s.kind = Step::Kind::kPrim, s.prim = fn;
    note_first(i, v, mask, per_row);
    values_[v].from_real =
        i.prim == Prim::kCast && i.type == CType::kI64 && (i.from == CType::kF32 || i.from == CType::kF64);
    if (per_row) s.extent = Extent::kGrid;
    const bool divides =
        i.prim == Prim::kDiv || i.prim == Prim::kFloorDiv || i.prim == Prim::kMod || i.prim == Prim::kFMod;
    if (divides && i.from == CType::kI64) {
      t_.checks = true;
      list_of(v).back().flag = true;
    }
    return v;
  }
  // ---- two primitives in one pass ----
  static First first_of(const TileInstr& i) {
    if (i.from != CType::kF32) return First::kNone;
    switch (i.prim) {
      case Prim::kAdd: return First::kAdd;
      case Prim::kSub: return First::kSub;
      case Prim::kMul: return First::kMul;
      case Prim::kLt: return First::kLt;
      case Prim::kGt: return First::kGt;
      default: return First::kNone;
    }
  }
  void note_first(const TileInstr& i, int v, int mask, bool per_row) {
    Pending& s = list_of(v).back();
    if (uses_[&i - p_.instrs.data()] == 1) s.first = first_of(i);
    s.mask = mask, s.per_row = per_row;
  }
  // Joins `i` to the step before it if that one made an operand which nothing else reads. Returns the result
  // or -1.
  int chain(const TileInstr& i, const int (&in)[3], int form, int mask, bool per_row) {
    if (!join_primitives || !(form & kRowBit) || body_.empty() || i.type != CType::kF32 ||
        i.from != CType::kF32)
      return -1;
    const Pending last = body_.back();
    const bool left = last.result == in[0];
    if (last.result < 0 || last.first == First::kNone || (!left && last.result != in[1]) ||
        values_[last.result].form != form)
      return -1;
    int other = left ? 1 : 0;
    Second second = Second::kNone;
    if (i.prim == Prim::kAdd) second = Second::kAdd;
    if (i.prim == Prim::kMul) second = Second::kMul;
    if (i.prim == Prim::kSub) second = left ? Second::kSub : Second::kFrom;
    if (i.prim == Prim::kSelect && left && values_[in[2]].zero) second = Second::kOrZero;
    if (second == Second::kNone) return -1;
    const int bits = last.mask | (mask >> other & 1) << 2;
    const PrimFn fn = t_.table->chain[static_cast<int>(last.first)][static_cast<int>(second)][bits];
    if (!fn) return -1;
    body_.pop_back();
    int operands[3] = {last.operands[0], last.operands[1], in[other]};
    if (per_row || last.per_row)
      for (int k = 0; k < 3; ++k)
        if ((bits >> k & 1) && values_[operands[k]].form == 0) operands[k] = rows_of(operands[k]);
    const int v = add_value(i.type, form);
    Step& s = add_step(v, {operands[0], operands[1], operands[2]});
    s.kind = Step::Kind::kPrim, s.prim = fn;
    if (per_row || last.per_row) s.extent = Extent::kGrid;
    return v;
  }
  int round(const TileInstr& i) {
    const int a = regs_[i.a];
    const int to = static_cast<int>(i.dtype);
    if (is_half(i.dtype) && !unrounded_use_[&i - p_.instrs.data()]) return a;  // the stores round
    const PrimFn narrow = values_[a].from_real ? t_.table->narrow[to] : nullptr;
    const PrimFn fn = narrow ? narrow : t_.table->round[to][static_cast<int>(values_[a].type)];
    if (!fn) return a;
    const int v = add_value(values_[a].type, values_[a].form);
    Step& s = add_step(v, {a});
    s.kind = Step::Kind::kPrim, s.prim = fn;
    return v;
  }
  const ReduceEntry& entry(const TileInstr& i, CType type) {
    const ReduceEntry& e = t_.table->reduce[static_cast<int>(i.reduce)][static_cast<int>(type)];
    if (!e.row) fail(ErrorKind::kRuntime, "tile: no reduction of this type.\n", to_string(p_));
    return e;
  }
  int row_reduce(const TileInstr& i) {
    const int a = cols_of(regs_[i.a]);
    const CType type = values_[a].type;
    const int form = values_[a].form & kRowBit, v = add_value(type, form);
    Step& s = add_step(v, {a});
    s.kind = Step::Kind::kRowReduce, s.row = entry(i, type).row, s.strided = values_[a].strided;
    if (s.strided) s.operand = static_cast<int16_t>(values_[a].place);
    return v;
  }
  void accumulate(const TileInstr& i) {
    const int a = block_of(regs_[i.a]);
    const CType type = values_[a].type;
    const ReduceEntry& e = entry(i, type);
    const bool columns = i.kind == Kind::kColReduce;
    Step& s = add_step(-1, {a});
    s.size = static_cast<uint8_t>(size_of(type)), s.strided = values_[a].strided;
    if (s.strided) s.operand = static_cast<int16_t>(values_[a].place);
    s.kind = columns ? Step::Kind::kColReduce : Step::Kind::kAllReduce;
    s.d = static_cast<uint16_t>(n_accumulators_++);
    if (columns) s.col = e.col;
    else s.lanes = e.lanes;
    if (alias_) t_.accumulators.push_back({&e, i.b, size_of(type), columns});  // both variants share them
  }
  void store(const TileInstr& i, int v) {
    const Operand& o = t_.operands[i.b];
    const int form = operand_form(o);
    if ((form | kColBit) == 3 && (values_[v].form & kRowBit) == 0 && (form & kRowBit)) {
      v = form == 3 ? block_of(v) : rows_of(v);
    }
    if ((form & kColBit) && !(values_[v].form & kColBit)) v = form == 3 ? block_of(v) : cols_of(v);
    if (values_[v].strided) fail(ErrorKind::kRuntime, "tile: internal, a strided alias is stored");
    const int f = values_[v].form;
    if ((f & kColBit) && !(form & kColBit) && t_.cols != 1)
      fail(ErrorKind::kRuntime, "tile: a value with columns is stored where there are none.\n",
           to_string(p_));
    const int def = values_[v].def;
    // The last step writes the output itself if the block of output memory looks like the register.
    if (alias_ && f == form && def >= 0 && values_[v].place < 0 && packed(o, form, false)) {
      values_[v].place = i.b;
      written_.push_back({o.buffer, def});
      return;
    }
    Step& s = add_step(-1, {v});
    s.kind = Step::Kind::kStore, s.operand = static_cast<int16_t>(i.b),
    s.size = static_cast<uint8_t>(size_of(values_[v].type));
    s.load = t_.table->store[static_cast<int>(o.dtype)];
    s.extent = extent_of(form ? form : 0);
    written_.push_back({o.buffer, static_cast<int>(body_.size()) - 1});
  }

  // ---- places ----
  struct Pending {
    Step step;
    int result = -1;
    int operands[3] = {-1, -1, -1};
    bool flag = false;
    First first = First::kNone;  // of a primitive that the next one may join
    int mask = 0;
    bool per_row = false;
  };
  std::vector<Pending>& list_of(int v) { return values_[v].form & kRowBit ? body_ : hoisted_; }
  int64_t bytes(const Value& v) const {
    const int64_t r = v.form & kRowBit ? t_.block_rows : 1, c = v.form & kColBit ? t_.block_cols : 1;
    return (r * c * size_of(v.type) + 63) / 64 * 64;
  }
  int new_place(int64_t size) {
    c_.places.push_back({Place::Kind::kScratch, c_.scratch});
    c_.scratch += size;
    return static_cast<int>(c_.places.size()) - 1;
  }
  void allocate() {
    for (Pending& s : hoisted_)
      if (values_[s.result].place < 0) values_[s.result].place = new_place(bytes(values_[s.result]));
    std::vector<std::pair<int64_t, int>> free;  // (bytes, place)
    for (size_t k = 0; k < body_.size(); ++k) {
      Pending& s = body_[k];
      Value* r = s.result >= 0 ? &values_[s.result] : nullptr;
      const bool own = r && r->place < 0;
      const auto release = [&](bool in_place) {
        for (int j = 0; j < 3; ++j) {
          const int o = s.operands[j];
          if (o < 0 || (j > 0 && o == s.operands[0]) || (j > 1 && o == s.operands[1])) continue;
          Value& v = values_[o];
          if (v.def < 0 || v.last_use != static_cast<int>(k) ||
              c_.places[v.place].kind != Place::Kind::kScratch)
            continue;
          const bool same = own && s.step.kind == Step::Kind::kPrim && v.form == r->form &&
                            size_of(v.type) == size_of(r->type);
          if (same == in_place) free.push_back({bytes(v), v.place});
        }
      };
      release(true);
      if (own) {
        const int64_t need = bytes(*r);
        auto it = std::find_if(free.rbegin(), free.rend(), [&](auto& f) { return f.first == need; });
        if (it != free.rend()) {
          r->place = it->second;
          free.erase(std::next(it).base());
        } else {
          r->place = new_place(need);
        }
        if (r->last_use < 0) free.push_back({need, r->place});  // dead value
      }
      release(false);
    }
    finish(hoisted_, &c_.hoisted), finish(body_, &c_.body);
  }
  void finish(std::vector<Pending>& from, std::vector<Step>* to) {
    for (Pending& s : from) {
      const auto place = [&](int v) { return static_cast<uint16_t>(v < 0 ? 0 : values_[v].place); };
      if (s.result >= 0) s.step.d = place(s.result);
      s.step.a = place(s.operands[0]), s.step.b = place(s.operands[1]), s.step.c = place(s.operands[2]);
      if (s.flag) s.step.c = UINT16_MAX;
      to->push_back(s.step);
    }
  }
  void find_hazards() {
    const auto note = [&](int buffer, int at) {
      for (auto& [out, first] : written_)
        if (first < at && out != buffer) {
          const std::pair<int, int> h{out, buffer};
          if (std::find(c_.hazards.begin(), c_.hazards.end(), h) == c_.hazards.end()) c_.hazards.push_back(h);
        }
    };
    for (size_t k = 0; k < body_.size(); ++k) {
      const Pending& s = body_[k];
      if (s.step.kind == Step::Kind::kLoad) note(t_.operands[s.step.operand].buffer, static_cast<int>(k));
      for (int o : s.operands)
        if (o >= 0 && values_[o].alias_buffer >= 0) note(values_[o].alias_buffer, static_cast<int>(k));
    }
  }

  const TileProgram& p_;
  TilePlan& t_;
  const bool alias_;
  TileCode& c_;
  std::vector<Value> values_;
  std::vector<int> regs_;
  std::vector<bool> other_use_;      // by instruction: its result has readers other than reductions
  std::vector<int> uses_;            // by instruction: how often its result is read
  std::vector<bool> unrounded_use_;  // ... readers that do not round it to its own type anyway
  std::vector<Pending> hoisted_, body_;
  std::vector<std::pair<TileInstr, int>> stores_;
  std::vector<std::pair<int, int>> written_;  // (buffer, body step of the first write)
  int n_accumulators_ = 0;
};

void plan_workspace(TilePlan* t) {
  for (Accumulator& a : t->accumulators) {
    a.workspace = t->workspace;
    const int64_t n = a.columns ? t->row_chunks * t->cols : (t->rows * t->cols + kLeaf - 1) / kLeaf + 1;
    t->workspace += (n * a.size + 63) / 64 * 64;
  }
}
}  // namespace

TilePlan compile(const TileProgram& p) {
  TilePlan t;
  t.isa = cpu_isa();
  t.table = &table_for(t.isa);
  plan_geometry(p, &t);
  Coder(p, &t, true, &t.fast).run();
  const std::vector<char> constants = t.constants;
  Coder(p, &t, false, &t.safe).run();
  plan_workspace(&t);
  return t;
}

}  // namespace yuloh::tile
