// SPDX-License-Identifier: Apache-2.0
// Calls: decoding static attributes by name, encoding them in schema order, and `apply`, where every node is
// made.
#include <bit>
#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include "ops/bodies.h"
#include "ops/op.h"

namespace yuloh {
int words_of(const ArgSpec& a, const int64_t* w) {
  if (a.kind == ArgKind::kOptTensor || a.kind == ArgKind::kTensorList) return 1;
  if (a.is_input()) return 0;
  if (a.kind == ArgKind::kInts || a.kind == ArgKind::kFloats)
    return 1 + static_cast<int>(w[0] < 0 ? 0 : w[0]);
  return a.optional ? 2 : 1;
}

namespace {
struct Found {
  const ArgSpec* spec;
  const int64_t* words;
  uint32_t first_input;
};
Found find_arg(const Call& c, std::string_view name) {
  const int64_t* w = c.attrs.data();
  uint32_t input = 0;
  for (const ArgSpec& a : c.op.args) {
    if (a.name == name) return {&a, w, input};
    const int n = words_of(a, w);
    if (a.is_input()) input += n ? static_cast<uint32_t>(w[0]) : 1;
    w += n;
  }
  fail(ErrorKind::kRuntime, c.op.name, ": the row reads argument `", name,
       "`, which its schema does not have.");
}

std::mutex g_rng_mu;
RngState g_rng{0, 0};
constexpr int64_t kMaxBytes = int64_t{1}
                              << 46;  // more is a mistake; the product of bytes never overflows later
}  // namespace

Value Call::operator[](std::string_view arg) const {
  const Found f = find_arg(*this, arg);
  if (f.spec->kind == ArgKind::kOptTensor && f.words[0] == 0) return {};
  return in[f.first_input];
}
Values Call::list(std::string_view arg) const {
  const Found f = find_arg(*this, arg);
  Values r;
  for (int64_t i = 0; i < f.words[0]; ++i) r.push_back(in[f.first_input + i]);
  return r;
}
Value Call::out(uint32_t i) const { return Value(Ref<Node>(const_cast<Node*>(node)), i); }
bool Call::has(std::string_view arg) const {
  const Found f = find_arg(*this, arg);
  if (f.spec->kind == ArgKind::kInts || f.spec->kind == ArgKind::kFloats) return f.words[0] >= 0;
  if (f.spec->kind == ArgKind::kOptTensor || f.spec->optional) return f.words[0] != 0;
  return true;
}
int64_t Call::integer(std::string_view arg) const {
  const Found f = find_arg(*this, arg);
  return f.words[f.spec->optional ? 1 : 0];
}
double Call::real(std::string_view arg) const { return std::bit_cast<double>(integer(arg)); }
const std::string& Call::str(std::string_view arg) const {
  return *reinterpret_cast<const std::string*>(integer(arg));
}
Ints Call::ints(std::string_view arg) const {
  const Found f = find_arg(*this, arg);
  return f.words[0] < 0 ? Ints() : Ints(f.words + 1, f.words + 1 + f.words[0]);
}
std::vector<double> Call::reals(std::string_view arg) const {
  const Found f = find_arg(*this, arg);
  std::vector<double> r;
  for (int64_t i = 0; i < f.words[0]; ++i) r.push_back(std::bit_cast<double>(f.words[1 + i]));
  return r;
}

InputRange input_range(const Call& c, int arg) {
  const Found f = find_arg(c, c.op.args[arg].name);
  const bool counted = f.spec->kind == ArgKind::kOptTensor || f.spec->kind == ArgKind::kTensorList;
  return {f.first_input, counted ? static_cast<uint32_t>(f.words[0]) : 1};
}

namespace {
AttrValue parse_default(const ArgSpec& a) {
  const std::string& t = a.default_text;
  if (t == "None") return std::monostate{};
  switch (a.kind) {
    case ArgKind::kInt: return static_cast<int64_t>(std::strtoll(t.c_str(), nullptr, 0));
    case ArgKind::kFloat: return std::strtod(t.c_str(), nullptr);
    case ArgKind::kBool: return t == "True" || t == "true";
    case ArgKind::kStr: return t.size() >= 2 ? t.substr(1, t.size() - 2) : t;
    case ArgKind::kDType: {
      DType d;
      if (!dtype_from_name(t, &d)) fail(ErrorKind::kRuntime, "op table: bad dtype default ", t);
      return d;
    }
    default: break;
  }
  Ints ints;
  std::vector<double> reals;
  const char* p = t.c_str();
  while (*p) {
    if (*p == '[' || *p == ']' || *p == ',' || *p == ' ') {
      ++p;
      continue;
    }
    char* end;
    const double v = std::strtod(p, &end);
    if (end == p) fail(ErrorKind::kRuntime, "op table: bad default `", t, "` of argument ", a.name);
    ints.push_back(static_cast<int64_t>(v)), reals.push_back(v);
    p = end;
  }
  if (a.kind == ArgKind::kInts) return ints;
  return reals;
}

int64_t one_word(const ArgSpec& a, const AttrValue& v) {
  switch (a.kind) {
    case ArgKind::kInt:
      if (const auto* i = std::get_if<int64_t>(&v)) return *i;
      if (const auto* b = std::get_if<bool>(&v)) return *b;
      break;
    case ArgKind::kBool:
      if (const auto* b = std::get_if<bool>(&v)) return *b;
      if (const auto* i = std::get_if<int64_t>(&v)) return *i != 0;
      break;
    case ArgKind::kFloat:
      if (const auto* d = std::get_if<double>(&v)) return std::bit_cast<int64_t>(*d);
      if (const auto* i = std::get_if<int64_t>(&v)) return std::bit_cast<int64_t>(static_cast<double>(*i));
      break;
    case ArgKind::kStr:
      if (const auto* s = std::get_if<std::string>(&v)) return reinterpret_cast<int64_t>(intern(*s));
      break;
    case ArgKind::kDType:
      if (const auto* d = std::get_if<DType>(&v)) return static_cast<int64_t>(*d);
      if (const auto* i = std::get_if<int64_t>(&v)) return *i;
      break;
    default: break;
  }
  type_error("argument `", a.name, "`: a value of the wrong type was given.");
}
}  // namespace

void AttrEncoder::add(const ArgSpec& a, const AttrValue& v) {
  const bool none = std::holds_alternative<std::monostate>(v);
  if (a.kind == ArgKind::kInts || a.kind == ArgKind::kFloats) {
    if (none) return words.push_back(-1);
    if (const auto* i = std::get_if<int64_t>(&v)) {  // one int stands for a list of one
      words.push_back(1);
      return words.push_back(a.kind == ArgKind::kInts ? *i : std::bit_cast<int64_t>(static_cast<double>(*i)));
    }
    if (const auto* is = std::get_if<Ints>(&v)) {
      words.push_back(is->size());
      for (int64_t i : *is)
        words.push_back(a.kind == ArgKind::kInts ? i : std::bit_cast<int64_t>(static_cast<double>(i)));
      return;
    }
    if (const auto* ds = std::get_if<std::vector<double>>(&v); ds && a.kind == ArgKind::kFloats) {
      words.push_back(static_cast<int64_t>(ds->size()));
      for (double d : *ds) words.push_back(std::bit_cast<int64_t>(d));
      return;
    }
    type_error("argument `", a.name, "`: a value of the wrong type was given; expected a list.");
  }
  if (a.optional) {
    words.push_back(!none);
    words.push_back(none ? 0 : one_word(a, v));
    return;
  }
  if (none) type_error("argument `", a.name, "`: None was given; expected a value.");
  words.push_back(one_word(a, v));
}

const AttrValue& default_of(const ArgSpec& a) {
  static std::mutex mu;
  static auto* cache = new std::unordered_map<const ArgSpec*, AttrValue>;
  std::lock_guard lock(mu);
  auto it = cache->find(&a);
  if (it == cache->end()) it = cache->emplace(&a, parse_default(a)).first;
  return it->second;
}

RngState rng_state() {
  std::lock_guard lock(g_rng_mu);
  return g_rng;
}
void set_rng_state(RngState s) {
  std::lock_guard lock(g_rng_mu);
  g_rng = s;
}

RngState reserve_rng(int64_t count) {
  std::lock_guard lock(g_rng_mu);
  const RngState now = g_rng;
  g_rng.offset += count;
  return now;
}

Values apply(const OpDef& op, Values inputs, Attrs attrs) {
  bool rg = false;
  if (modes().grad && !op.no_grad)
    for (const Value& v : inputs) rg = rg || v.requires_grad();
  auto n = make_ref<Node>();
  n->op = &op;
  n->id = next_node_id();
  n->pos = modes().pos;
  n->inputs.assign(std::make_move_iterator(inputs.begin()), std::make_move_iterator(inputs.end()));
  n->attrs = std::move(attrs);
  const bool reserve = op.random && static_cast<int>(n->inputs.size()) == op.n_inputs_fixed;
  n->traced = modes().tracing && op.random;  // drawn anew in every run
  for (const Value& v : n->inputs) n->traced = n->traced || v.node->traced;
  for (TensorType& t : op.infer(Call(*n))) {
    int64_t bytes = static_cast<int64_t>(dtype_size(t.dtype));
    bool empty = false, fits = true;
    for (Dim d : t.shape) {
      if (d < 0) value_error(op.name, ": the result would have a negative extent, got ", t.shape, ".");
      if (d == 0) empty = true;
      else fits = fits && !__builtin_mul_overflow(bytes, d, &bytes) && bytes <= kMaxBytes;
    }
    if (!fits && !empty)
      fail(ErrorKind::kMemory, op.name, ": the result is too large for any machine, got ", t,
           "; expected at most 2^46 bytes.");
    n->outputs.push_back({std::move(t), nullptr});
  }
  if (reserve) {
    // A program being recorded draws when it runs.
    const RngState r = modes().tracing ? RngState{0, 0} : reserve_rng(numel(n->outputs[0].type.shape));
    n->inputs.push_back(make_scalar_int(DType::kInt64, r.seed));
    n->inputs.push_back(make_scalar_int(DType::kInt64, r.offset));
  }
  if (op.expand && ((rg && !op.vjp) || KeepNamed::refuses(op))) return op.expand(Call(*n));
  if (rg) {
    bool differentiable = false;
    for (const auto& o : n->outputs)
      differentiable = differentiable || is_float(o.type.dtype) || is_complex(o.type.dtype);
    n->requires_grad = differentiable;
  }
  Values r;
  for (uint32_t i = 0; i < n->outputs.size(); ++i) r.push_back(Value(n, i));
  return r;
}

Values call_all(std::string_view name, Values inputs, std::initializer_list<NamedAttr> attrs) {
  const OpDef& op = get_op(name);
  AttrEncoder enc;
  Values in;
  size_t fixed = 0;
  for (const ArgSpec& a : op.args) fixed += a.is_input() && a.kind != ArgKind::kTensorList;
  for (const NamedAttr& at : attrs) {
    bool known = false;
    for (const ArgSpec& a : op.args) known = known || a.name == at.name;
    if (!known) fail(ErrorKind::kRuntime, "call ", name, ": no argument `", at.name, "`.");
  }
  size_t next = 0;
  for (const ArgSpec& a : op.args) {
    if (a.kind == ArgKind::kTensorList) {
      const size_t n = inputs.size() - fixed;
      enc.add_count(static_cast<int64_t>(n));
      for (size_t i = 0; i < n; ++i) in.push_back(inputs[next++]);
    } else if (a.kind == ArgKind::kOptTensor) {
      const bool present = next < inputs.size() && inputs[next];
      enc.add_count(present);
      if (present) in.push_back(inputs[next]);
      ++next;
    } else if (a.is_input()) {
      if (next >= inputs.size())
        fail(ErrorKind::kRuntime, "call ", name, ": input `", a.name, "` is missing.");
      in.push_back(inputs[next++]);
    } else {
      const AttrValue* v = nullptr;
      for (const NamedAttr& at : attrs)
        if (at.name == a.name) v = &at.value;
      if (!v && !a.has_default)
        fail(ErrorKind::kRuntime, "call ", name, ": argument `", a.name, "` is missing.");
      enc.add(a, v ? *v : default_of(a));
    }
  }
  while (op.random && next < inputs.size()) in.push_back(inputs[next++]);  // explicit seed and offset
  return apply(op, std::move(in), std::move(enc.words));
}
Value call(std::string_view name, Values inputs, std::initializer_list<NamedAttr> attrs) {
  return call_all(name, std::move(inputs), attrs)[0];
}

namespace {
struct NeedMasks {
  uint32_t in, out;
};
NeedMasks parse_needs(const Call& c) {
  NeedMasks m{0, 0};
  std::string_view s = c.op.needs;
  while (!s.empty()) {
    const auto sp = s.find(' ');
    const std::string_view w = s.substr(0, sp);
    s = sp == s.npos ? std::string_view() : s.substr(sp + 1);
    if (w.empty()) continue;
    if (w.substr(0, 3) == "out" && (w.size() == 3 || (w[3] >= '0' && w[3] <= '9'))) {
      m.out |= 1u << (w.size() == 3 ? 0 : w[3] - '0');
      continue;
    }
    for (size_t i = 0; i < c.op.args.size(); ++i)
      if (c.op.args[i].name == w) {
        const InputRange r = input_range(c, static_cast<int>(i));
        for (uint32_t k = 0; k < r.count && r.first + k < 32; ++k) m.in |= 1u << (r.first + k);
      }
  }
  return m;
}
}  // namespace

uint32_t needs_inputs(const Node& n) {
  if (n.extra && n.extra->replay) return ~0u << std::min<int64_t>(31, Call(n).integer("n"));
  if (n.extra && n.extra->custom_vjp) return 0;
  if (n.op->vjp) return parse_needs(Call(n)).in;
  if (!n.op->scalar && !n.op->expr) return 0;
  uint32_t m = 0;  // derived: what the gradient rows of the inputs that require gradients read
  for (uint32_t i = 0; i < n.inputs.size(); ++i) {
    if (!n.inputs[i].requires_grad()) continue;
    if (const OpDef* d = scalar_gradient(*n.op, static_cast<int>(i)))
      for (int k : d->inplace_args)
        if (k < static_cast<int>(n.inputs.size())) m |= 1u << k;
  }
  return m;
}
uint32_t needs_outputs(const Node& n) {
  if (n.extra && n.extra->custom_vjp) return 0;
  return n.op->vjp ? parse_needs(Call(n)).out : 0;
}

std::string_view kernel_kind(const OpDef& op) {
  if (*op.kind) return op.kind;
  if (op.contraction) return "gemm";
  return op.scalar || op.expr ? "elementwise" : op.reduce != ReduceKind::kNone ? "reduction" : "other";
}

std::string_view op_name(const Node& n) {
  switch (n.kind) {
    case Node::Kind::kData: return "data";
    case Node::Kind::kScalar: return "scalar";
    case Node::Kind::kInput: return "input";
    default: return n.op->name;
  }
}

std::string to_string(const Graph& g) {
  std::string s;
  std::unordered_map<const Node*, size_t> number;
  for (Node* n : topological(g.outputs)) {
    number[n] = number.size();
    s += cat("%", number[n], " = ", op_name(*n), "(");
    for (uint32_t i = 0; i < n->inputs.size(); ++i) {
      const Value& v = n->inputs[i];
      s +=
          cat(i ? ", " : "", "%", number.count(v.node.get()) ? std::to_string(number[v.node.get()]) : "data");
      if (v.index) s += cat(".", v.index);
    }
    s += ") : ";
    for (uint32_t i = 0; i < n->outputs.size(); ++i) s += cat(i ? ", " : "", n->outputs[i].type);
    s += "\n";
  }
  return s;
}

}  // namespace yuloh
