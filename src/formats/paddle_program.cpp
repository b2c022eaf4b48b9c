// SPDX-License-Identifier: Apache-2.0
// Reads Paddle's ProgramDesc (`.pdmodel`): blocks of operators over named variables that may be written more
// than once
// (`while`, in-place operators). Every write makes a new name here, so that the names of a Model are values.
#include <set>

#include "formats/mapped_file.h"
#include "formats/paddle.h"
#include "formats/wire.h"

namespace yuloh::formats {
namespace {

struct Var {
  std::string name;
  bool persistable = false, tensor = false;
  Port port;
};
struct Block {
  int64_t parent = -1;
  std::map<std::string, Var> vars;
  std::vector<ProgramOp> ops;
};

// ---- messages (field numbers of framework.proto) ----
void read_tensor_desc(Wire w, Port* p) {
  while (w.next()) {
    if (w.field == 1) p->dtype = paddle_dtype(w.integer(), "a variable");
    else if (w.field == 2) w.integers([&](int64_t d) { p->dims.push_back(d); });
  }
}

Var read_var(Wire w) {
  Var v;
  int64_t kind = -1;
  while (w.next()) {
    if (w.field == 1) v.name = w.text();
    else if (w.field == 3) v.persistable = w.integer() != 0;
    else if (w.field == 2) {
      for (Wire t = w.message(); t.next();) {
        if (t.field == 1) kind = t.integer();
        else if (t.field == 3)  // LoDTensorDesc
          for (Wire l = t.message(); l.next();)
            if (l.field == 1) read_tensor_desc(l.message(), &v.port), v.tensor = true;
      }
    }
  }
  v.tensor = v.tensor && kind == 7;  // LOD_TENSOR
  return v;
}

std::pair<std::string, std::vector<std::string>> read_arguments(Wire w) {
  std::pair<std::string, std::vector<std::string>> a;
  while (w.next()) {
    if (w.field == 1) a.first = w.text();
    else if (w.field == 2) a.second.push_back(w.text());
  }
  return a;
}

// To both lists, so that integers stay whole; false: it is none.
bool read_scalar(Wire w, std::vector<int64_t>* ints, std::vector<double>* reals) {
  double v = 0;
  int64_t i = 0;
  bool whole = true;
  while (w.next()) {
    if (w.field == 2 || w.field == 3) i = w.integer(), v = static_cast<double>(i);
    else if (w.field == 4) w.fixeds<double>([&](double d) { v = d, whole = false; });
  }
  ints->push_back(i), reals->push_back(v);
  return whole;
}

std::pair<std::string, Attribute> read_attribute(Wire w) {
  using enum AttrType;
  std::string name, text;
  int64_t type = -1, i = 0;
  double real = 0;
  bool whole = true;
  std::vector<int64_t> ints;
  std::vector<double> reals;
  std::vector<std::string> texts;
  while (w.next()) switch (w.field) {
      case 1: name = w.text(); break;
      case 2: type = w.integer(); break;
      case 3: i = static_cast<int32_t>(w.integer()); break;
      case 4: real = w.real(); break;
      case 5:
      case 17: text = w.text(); break;
      case 6: w.integers([&](int64_t v) { ints.push_back(static_cast<int32_t>(v)); }); break;
      case 7: w.fixeds<float>([&](float v) { reals.push_back(v); }); break;
      case 8:
      case 18: texts.push_back(w.text()); break;
      case 10:
      case 12:
      case 13: i = w.integer(); break;
      case 11:
      case 14:
      case 15: w.integers([&](int64_t v) { ints.push_back(v); }); break;
      case 16: w.fixeds<double>([&](double v) { reals.push_back(v); }); break;
      case 19: w.fixeds<double>([&](double v) { real = v; }); break;
      case 20:
      case 21: whole = read_scalar(w.message(), &ints, &reals) && whole; break;
      default: break;
    }
  switch (static_cast<AttrType>(type)) {
    case kInt:
    case kBool:
    case kBlock:
    case kLong: return {name, i};
    case kFloat:
    case kFloat64: return {name, real};
    case kString:
    case kVar: return {name, text};
    case kInts:
    case kBools:
    case kBlocks:
    case kLongs: return {name, ints};
    case kFloats:
    case kFloat64s: return {name, reals};
    case kScalars: return {name, whole ? Attribute(ints) : Attribute(reals)};
    case kScalar:
      return {name, reals.empty() ? Attribute(0.0) : whole ? Attribute(ints[0]) : Attribute(reals[0])};
    case kStrings:
    case kVars: return {name, texts};
    default: return {name, Attribute{}};
  }
}

ProgramOp read_op(Wire w) {
  ProgramOp op;
  while (w.next()) {
    if (w.field == 1) op.inputs.insert(read_arguments(w.message()));
    else if (w.field == 2) op.outputs.insert(read_arguments(w.message()));
    else if (w.field == 3) op.type = w.text();
    else if (w.field == 4) op.attrs.insert(read_attribute(w.message()));
  }
  for (const char* noise :
       {"op_callstack", "op_role", "op_role_var", "op_namescope", "op_device", "with_quant_attr"})
    op.attrs.erase(noise);
  return op;
}

Block read_block(Wire w) {
  Block b;
  while (w.next()) {
    if (w.field == 2) b.parent = w.integer();
    else if (w.field == 3) {
      Var v = read_var(w.message());
      const std::string name = v.name;
      b.vars.emplace(name, std::move(v));
    } else if (w.field == 4) b.ops.push_back(read_op(w.message()));
  }
  return b;
}

// ---- blocks to graphs ----
class Builder {
 public:
  Builder(const std::string& path, std::vector<Block> blocks) : path_(path), blocks_(std::move(blocks)) {}

  void main(ModelGraph* g) {
    Scope scope;
    for (const auto& [name, var] : blocks_[0].vars)
      if (var.persistable && var.tensor) scope.names[name] = name, versions_[name] = 1;
    std::map<int64_t, Port> feeds, fetches;
    for (const ProgramOp& op : blocks_[0].ops) {
      if (op.type == "feed") {
        Port p = port_of(0, only(op.outputs, op.type));
        scope.names[p.name] = p.name, versions_[p.name] = 1;
        feeds.emplace(column(op), std::move(p));
      } else if (op.type == "fetch") {
        const std::string name = only(op.inputs, op.type);
        Port p = port_of(0, name);
        p.label = name, p.name = scope.at(name);
        if (p.name.empty()) bad("fetches ", name, ", which nobody makes");
        fetches.emplace(column(op), std::move(p));
      } else {
        node(0, op, &scope, g);
      }
    }
    for (auto& [k, p] : feeds) g->inputs.push_back(std::move(p));
    for (auto& [k, p] : fetches) g->outputs.push_back(std::move(p));
  }
  std::map<std::string, TensorType> parameters() const {
    std::map<std::string, TensorType> all;
    for (const auto& [name, var] : blocks_[0].vars) {
      if (!var.persistable || !var.tensor) continue;
      TensorType t{var.port.dtype, {}};
      for (int64_t d : var.port.dims) t.shape.push_back(d);
      all.emplace(name, t);
    }
    return all;
  }

 private:
  template <class... A>
  [[noreturn]] void bad(const A&... a) const {
    value_error("read: ", path_, " ", a..., ".");
  }
  struct Scope {
    std::map<std::string, std::string> names;  // variable -> the value that it holds now
    std::string at(const std::string& v) const {
      const auto it = names.find(v);
      return it == names.end() ? std::string() : it->second;
    }
  };
  static int64_t column(const ProgramOp& op) {
    const auto it = op.attrs.find("col");
    const auto* i = it == op.attrs.end() ? nullptr : std::get_if<int64_t>(&it->second);
    return i ? *i : 0;
  }
  std::string only(const std::map<std::string, std::vector<std::string>>& slots,
                   const std::string& type) const {
    const auto it = slots.find(type == "feed" ? "Out" : "X");
    if (it == slots.end() || it->second.size() != 1) bad("has a ", type, " operator without its argument");
    return it->second[0];
  }
  Port port_of(size_t block, const std::string& name) const {
    for (int64_t b = static_cast<int64_t>(block); b >= 0; b = blocks_[static_cast<size_t>(b)].parent) {
      const auto& vars = blocks_[static_cast<size_t>(b)].vars;
      const auto it = vars.find(name);
      if (it == vars.end()) continue;
      Port p = it->second.port;
      p.name = name, p.ranked = it->second.tensor;
      return p;
    }
    Port p;
    p.name = name, p.ranked = false;
    return p;
  }

  void node(size_t block, const ProgramOp& op, Scope* scope, ModelGraph* g) {
    if (op.attrs.count("sub_block")) return control(block, op, scope, g);
    ModelNode n = renamed(op);
    for (std::string& v : n.inputs) {
      if (v.empty()) continue;
      const std::string now = scope->at(v);
      if (now.empty()) bad("uses ", v, " in ", op.type, " before it is made");
      v = now;
    }
    for (std::string& v : n.outputs)
      if (!v.empty()) v = write(scope, v);
    g->nodes.push_back(std::move(n));
  }
  std::string write(Scope* scope, const std::string& var) {
    const int version = versions_[var]++;
    std::string& now = scope->names[var];
    return now = version == 0 ? var : cat(var, "@", version);
  }

  // `while` (X..., Condition -> Out...) and `conditional_block` (Cond, Input... -> Out...): what the body
  // writes of the outer variables are its outputs; for `while` these are its inputs, too, and the condition
  // comes first.
  void control(size_t block, const ProgramOp& op, Scope* scope, ModelGraph* g) {
    const auto* sub = std::get_if<int64_t>(&op.attrs.at("sub_block"));
    if (!sub || *sub <= static_cast<int64_t>(block) || *sub >= static_cast<int64_t>(blocks_.size()))
      bad("has an operator ", op.type, " without a block of its own");
    // A block belongs to one operator: else a few of them stand for any number of graphs.
    if (!owned_.insert(*sub).second) bad("has two operators on block ", *sub);
    if (op.type != "while" && op.type != "conditional_block") {
      ModelNode n;
      n.type = op.type;
      g->nodes.push_back(std::move(n));  // reported as unsupported
      return;
    }
    if (++depth_ > kMaxDepth) bad("has blocks nested more than ", kMaxDepth, " deep");
    const bool loop = op.type == "while";
    const std::string condition = first(op.inputs, loop ? "Condition" : "Cond");
    std::vector<std::string> carried;
    const auto outs = op.outputs.find("Out");
    if (outs != op.outputs.end())
      for (const std::string& v : outs->second)
        if (v != condition) carried.push_back(v);
    ModelNode n;
    n.type = loop ? "while" : "if";
    n.inputs.push_back(scope->at(condition));
    n.list_sizes.push_back(1);
    auto body = std::make_shared<ModelGraph>();
    Scope inner = *scope;
    for (const std::string& v : carried) {
      if (!loop) continue;
      const std::string outer = scope->at(v);
      if (outer.empty()) continue;
      n.inputs.push_back(outer), n.list_sizes.push_back(1);
      Port p = port_of(block, v);
      p.name = write(&inner, v);
      body->inputs.push_back(std::move(p));
    }
    for (const ProgramOp& o : blocks_[static_cast<size_t>(*sub)].ops)
      node(static_cast<size_t>(*sub), o, &inner, body.get());
    auto add_output = [&](const std::string& v) {
      Port p = port_of(block, v);
      p.name = inner.at(v);
      if (p.name.empty()) bad("has a block that does not make ", v);
      body->outputs.push_back(std::move(p));
    };
    if (loop) add_output(condition);
    std::vector<std::string> results;
    for (const std::string& v : carried)
      if (!loop || !scope->at(v).empty()) add_output(v), results.push_back(v);
    if (!loop) {  // the other branch leaves everything as it was
      auto other = std::make_shared<ModelGraph>();
      for (const std::string& v : results) {
        Port p = port_of(block, v);
        p.name = scope->at(v);
        other->outputs.push_back(std::move(p));
      }
      n.attrs["region1"] = std::move(other);
    }
    n.attrs["region0"] = std::move(body);
    for (const std::string& v : results) n.outputs.push_back(write(scope, v));
    g->nodes.push_back(std::move(n));
    --depth_;
  }
  std::string first(const std::map<std::string, std::vector<std::string>>& slots, const char* slot) const {
    const auto it = slots.find(slot);
    if (it == slots.end() || it->second.empty()) bad("has an operator without its ", slot);
    return it->second[0];
  }

  static constexpr int kMaxDepth = 100;
  int depth_ = 0;
  const std::string& path_;
  std::vector<Block> blocks_;
  std::set<int64_t> owned_;
  std::map<std::string, int> versions_;
};
}  // namespace

std::shared_ptr<const Model> read_program_desc(const std::string& path, const Ref<Storage>& file,
                                               const std::string& params) {
  const char* begin = static_cast<const char*>(file->data);
  std::vector<Block> blocks;
  auto m = std::make_shared<Model>();
  m->dialect = Dialect::kPaddle;
  m->producer = "ProgramDesc";
  for (Wire w(path.c_str(), begin, begin, begin + file->bytes); w.next();) {
    if (w.field == 1) blocks.push_back(read_block(w.message()));
    else if (w.field == 4)
      for (Wire v = w.message(); v.next();)
        if (v.field == 1) m->producer = cat("ProgramDesc ", v.integer());
  }
  if (blocks.empty()) value_error("read: ", path, " has no block of operators; expected a Paddle program.");
  for (size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i].parent >= static_cast<int64_t>(i))
      value_error("read: ", path, " has a block ", i, " inside block ", blocks[i].parent, ".");
  Builder b(path, std::move(blocks));
  b.main(&m->graph);
  m->path = path;
  m->graph.weights = read_paddle_weights(weights_path(path, params), b.parameters());
  return m;
}

}  // namespace yuloh::formats
