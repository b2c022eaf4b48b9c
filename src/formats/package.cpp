// SPDX-License-Identifier: Apache-2.0
// Layout, little-endian: magic, version, header bytes, header hash, file bytes (40 bytes); header; weights, each at a
// multiple of 64.
#include "formats/package.h"

#include "formats/whole_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <map>

namespace yuloh::formats {
namespace {
constexpr char kMagic[9] = "YULOHPK1";
constexpr size_t kPrefix = 40, kAlign = 64;
static_assert(std::endian::native == std::endian::little);

// Four lanes of multiply and rotate: fast enough to check gigabytes while they are read; finds damage, not malice.
uint64_t hash_bytes(const void* data, size_t n) {
  const char* p = static_cast<const char*>(data);
  uint64_t h[4] = {n, 0x9e3779b97f4a7c15ull, 0xc2b2ae3d27d4eb4full, 0x165667b19e3779f9ull};
  auto mix = [](uint64_t& x, uint64_t w) { x = std::rotl((x ^ w) * 0xd6e8feb86659fd93ull, 29); };
  size_t i = 0;
  for (; i + 32 <= n; i += 32)
    for (size_t k = 0; k < 4; ++k) {
      uint64_t w;
      std::memcpy(&w, p + i + 8 * k, 8);
      mix(h[k], w);
    }
  for (; i < n; i += 8) {
    uint64_t w = 0;
    std::memcpy(&w, p + i, std::min<size_t>(8, n - i));
    mix(h[0], w);
  }
  for (int k = 1; k < 4; ++k) mix(h[0], h[k]);
  return h[0] ^ h[0] >> 31;
}

class Writer {
 public:
  std::string out;
  void number(int64_t v) { out.append(reinterpret_cast<const char*>(&v), 8); }
  void text(std::string_view s) { number(static_cast<int64_t>(s.size())), out.append(s); }
  template <class C, class F>
  void list(const C& c, F f) {
    number(static_cast<int64_t>(c.size()));
    for (const auto& x : c) f(x);
  }
};

class Reader {
 public:
  Reader(const char* p, size_t n, const std::string& path) : p_(p), end_(p + n), path_(path) {}
  [[noreturn]] void bad(const std::string& what) const { value_error("load: ", path_, " is damaged: ", what, "."); }
  int64_t number() {
    if (end_ - p_ < 8) bad("the header ends early");
    int64_t v;
    std::memcpy(&v, p_, 8);
    p_ += 8;
    return v;
  }
  int64_t number(int64_t low, int64_t high, const char* what) {
    const int64_t v = number();
    if (v < low || v > high) bad(cat(what, " is ", v, ", expected ", low, " to ", high));
    return v;
  }
  size_t count(size_t least_bytes) {  // of a list whose items take at least so many bytes
    const int64_t n = number();
    if (n < 0 || static_cast<uint64_t>(n) > static_cast<uint64_t>(end_ - p_) / least_bytes) bad("a list is longer than the file");
    return static_cast<size_t>(n);
  }
  std::string text() {
    const size_t n = count(1);
    std::string s(p_, n);
    p_ += n;
    return s;
  }
  DType dtype() {
    const std::string s = text();
    DType t;
    if (!dtype_from_name(s, &t)) bad("unknown dtype " + s);
    return t;
  }
  bool done() const { return p_ == end_; }

 private:
  const char *p_, *end_;
  const std::string& path_;
};

void write_type(Writer& w, const TensorType& t) {
  w.text(dtype_name(t.dtype));
  w.list(t.shape, [&](Dim d) { w.number(d); });
}
TensorType read_type(Reader& r) {
  TensorType t;
  t.dtype = r.dtype();
  const size_t n = r.count(8);
  if (n > 32) r.bad("a tensor has more than 32 axes");
  for (size_t i = 0; i < n; ++i) t.shape.push_back(r.number(0, int64_t{1} << 46, "an extent"));
  return t;
}

void write_port(Writer& w, const ProgramPort& p) {
  w.text(p.name), w.text(dtype_name(p.dtype));
  w.list(p.dims, [&](int64_t d) { w.number(d); });
  w.list(p.dim_names, [&](const std::string& s) { w.text(s); });
}
ProgramPort read_port(Reader& r) {
  ProgramPort p;
  p.name = r.text(), p.dtype = r.dtype();
  const size_t n = r.count(8);
  if (n > 32) r.bad("an input has more than 32 axes");
  for (size_t i = 0; i < n; ++i) p.dims.push_back(r.number(-1, int64_t{1} << 46, "an extent"));
  const size_t names = r.count(8);
  for (size_t i = 0; i < names; ++i) p.dim_names.push_back(r.text());
  return p;
}

// Arguments by name: a row may gain arguments with defaults and old files still load.
void write_attrs(Writer& w, const TracedNode& n) {
  uint32_t at = 0;
  w.number(static_cast<int64_t>(n.op->args.size()));
  for (const ArgSpec& a : n.op->args) {
    const auto count = static_cast<uint32_t>(words_of(a, n.attrs.data() + at));
    w.text(a.name);
    w.number(count);
    for (uint32_t k = 0; k < count; ++k) {
      const int64_t word = n.attrs[at + k];
      if (a.kind == ArgKind::kStr && k + 1 == count) w.text(word ? *reinterpret_cast<const std::string*>(word) : "");
      else if (a.kind == ArgKind::kDType && k + 1 == count) w.text(dtype_name(static_cast<DType>(word)));
      else w.number(word);
      const auto open = std::find_if(n.open.begin(), n.open.end(), [&](const auto& o) { return o.first == at + k; });
      w.number(open != n.open.end());
      if (open == n.open.end()) continue;
      const DimExpr& e = open->second;
      w.number(e.divisor), w.number(static_cast<int64_t>(e.rounding));
      w.list(e.terms, [&](const DimExpr::Term& t) {
        w.number(t.coefficient);
        w.list(t.dims, [&](int32_t d) { w.number(d); });
      });
    }
    at += count;
  }
}

DimExpr read_expr(Reader& r, size_t n_dims) {
  DimExpr e;
  e.divisor = r.number(1, INT64_MAX, "a divisor");
  e.rounding = static_cast<DimExpr::Rounding>(r.number(0, 2, "a rounding"));
  const size_t terms = r.count(16);
  for (size_t i = 0; i < terms; ++i) {
    DimExpr::Term t{r.number(), {}};
    const size_t n = r.count(8);
    for (size_t k = 0; k < n; ++k) t.dims.push_back(static_cast<int32_t>(r.number(0, static_cast<int64_t>(n_dims) - 1, "an open size")));
    e.terms.push_back(std::move(t));
  }
  return e;
}

void read_attrs(Reader& r, TracedNode& n, size_t n_dims) {
  struct Given {
    std::vector<int64_t> words;
    std::vector<std::pair<uint32_t, DimExpr>> open;
  };
  std::map<std::string, Given> given;
  const size_t n_args = r.count(16);
  for (size_t i = 0; i < n_args; ++i) {
    const std::string name = r.text();
    const auto spec = std::find_if(n.op->args.begin(), n.op->args.end(), [&](const ArgSpec& a) { return a.name == name; });
    if (spec == n.op->args.end()) r.bad(cat("op ", n.op->name, " has no argument `", name, "`"));
    Given& g = given[name];
    const size_t count = r.count(16);
    for (size_t k = 0; k < count; ++k) {
      if (spec->kind == ArgKind::kStr && k + 1 == count) g.words.push_back(reinterpret_cast<int64_t>(intern(r.text())));
      else if (spec->kind == ArgKind::kDType && k + 1 == count) g.words.push_back(static_cast<int64_t>(r.dtype()));
      else g.words.push_back(r.number());
      // Only numbers may follow from open sizes: not the count of a list, the flag of an optional or a string.
      const bool list = spec->kind == ArgKind::kInts || spec->kind == ArgKind::kFloats;
      const bool number = (list || spec->kind == ArgKind::kInt || spec->kind == ArgKind::kFloat) && k >= (list || spec->optional ? 1u : 0u);
      if (r.number(0, number, "a flag")) g.open.emplace_back(static_cast<uint32_t>(k), read_expr(r, n_dims));
    }
    const bool counted = spec->kind == ArgKind::kOptTensor || spec->kind == ArgKind::kTensorList;
    if (count && (counted || spec->kind == ArgKind::kInts || spec->kind == ArgKind::kFloats) &&
        (g.words[0] < (counted ? 0 : -1) || g.words[0] > 1 << 24))
      r.bad(cat("op ", n.op->name, ": argument `", name, "` has a count of ", g.words[0]));
    if (spec->is_input() && spec->kind != ArgKind::kOptTensor && spec->kind != ArgKind::kTensorList ? count != 0
        : count == 0 || static_cast<size_t>(words_of(*spec, g.words.data())) != count)
      r.bad(cat("op ", n.op->name, ": argument `", name, "` has the wrong length"));
  }
  int64_t n_inputs = 0;
  for (const ArgSpec& a : n.op->args) {
    const auto g = given.find(a.name);
    const bool counted = a.kind == ArgKind::kOptTensor || a.kind == ArgKind::kTensorList;
    if (g == given.end()) {
      if (counted) n.attrs.push_back(0);
      else if (a.is_input() || !a.has_default) r.bad(cat("op ", n.op->name, ": argument `", a.name, "` is missing"));
      else {
        AttrEncoder enc;
        enc.add(a, default_of(a));
        for (int64_t w : enc.words) n.attrs.push_back(w);
      }
      continue;
    }
    n_inputs += counted ? g->second.words[0] : a.is_input();
    for (auto& [k, e] : g->second.open) n.open.emplace_back(n.attrs.size() + k, std::move(e));
    for (int64_t w : g->second.words) n.attrs.push_back(w);
  }
  if (n_inputs != static_cast<int64_t>(n.inputs.size()))
    r.bad(cat("op ", n.op->name, " has ", n.inputs.size(), " inputs, its arguments say ", n_inputs));
}

void write_node(Writer& w, const TracedNode& n) {
  w.number(static_cast<int64_t>(n.kind)), w.number(n.number), w.text(n.where);
  w.list(n.inputs, [&](const TracedRef& r) { w.number(r.node), w.number(r.index); });
  if (n.kind == TracedNode::Kind::kScalar) {
    w.text(dtype_name(n.dtype)), w.number(n.attrs[0]);
    w.number(!n.open.empty());
    if (n.open.empty()) return;
    const DimExpr& e = n.open[0].second;
    w.number(e.divisor), w.number(static_cast<int64_t>(e.rounding));
    w.list(e.terms, [&](const DimExpr::Term& t) {
      w.number(t.coefficient);
      w.list(t.dims, [&](int32_t d) { w.number(d); });
    });
  } else if (n.kind == TracedNode::Kind::kOp) {
    w.text(n.op->name);
    write_attrs(w, n);
  }
}
TracedNode read_node(Reader& r, size_t i, size_t n_inputs, size_t n_weights, size_t n_dims) {
  TracedNode n;
  n.kind = static_cast<TracedNode::Kind>(r.number(0, 3, "a node's kind"));
  const size_t most = n.kind == TracedNode::Kind::kInput ? n_inputs : n.kind == TracedNode::Kind::kWeight ? n_weights : 1;
  n.number = static_cast<uint32_t>(r.number(0, static_cast<int64_t>(most) - 1, "a node's number"));
  n.where = r.text();
  const size_t inputs = r.count(16);
  for (size_t k = 0; k < inputs; ++k) {
    const auto node = static_cast<uint32_t>(r.number(0, static_cast<int64_t>(i) - 1, "an input"));  // made before
    n.inputs.push_back({node, static_cast<uint32_t>(r.number(0, 1 << 20, "an output"))});
  }
  if (n.kind == TracedNode::Kind::kScalar) {
    n.dtype = r.dtype();
    n.attrs.push_back(r.number());
    if (r.number(0, 1, "a flag")) n.open.emplace_back(0, read_expr(r, n_dims));
  } else if (n.kind == TracedNode::Kind::kOp) {
    const std::string name = r.text();
    n.op = find_op(name);
    if (!n.op)
      fail(ErrorKind::kNotImplemented, "load: the file uses op `", name, "`, which this version does not have. Hint: it was "
           "written by a newer version.");
    read_attrs(r, n, n_dims);
  }
  return n;
}

[[noreturn]] void os_error(const char* what, const std::string& path) {
  fail(ErrorKind::kOs, what, ": ", path, ": ", std::strerror(errno), ".");
}

struct File {
  int fd;
  ~File() {
    if (fd >= 0) close(fd);
  }
};
size_t aligned(size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }
}  // namespace

void write_package(const TracedProgram& p, const std::string& path) {
  std::vector<Ref<Buffer>> data;
  for (const TracedWeight& w : p.weights) {
    const TensorType& t = w.value.type();
    Ref<Buffer> b = read_value(w.value);
    if (!is_row_major(t.shape, b->strides)) b = row_major_copy(t, *b);
    data.push_back(std::move(b));
  }
  Writer w;
  auto str = [&](const std::string& s) { w.text(s); };
  w.list(p.inputs, [&](const ProgramPort& x) { write_port(w, x); });
  w.list(p.outputs, [&](const ProgramPort& x) { write_port(w, x); });
  w.list(p.dims, str);
  w.list(p.warm, [&](const std::vector<TensorType>& types) { w.list(types, [&](const TensorType& t) { write_type(w, t); }); });
  size_t offset = 0;  // from the end of the header
  w.number(static_cast<int64_t>(p.weights.size()));
  for (size_t i = 0; i < p.weights.size(); ++i) {
    const TracedWeight& x = p.weights[i];
    const TensorType& t = x.value.type();
    const size_t bytes = static_cast<size_t>(numel(t.shape)) * dtype_size(t.dtype);
    w.text(x.name), w.text(x.parameter), w.number(x.trainable), w.number(x.is_parameter);
    write_type(w, t);
    w.number(static_cast<int64_t>(offset)), w.number(static_cast<int64_t>(bytes));
    w.number(static_cast<int64_t>(hash_bytes(data[i]->data(), bytes)));
    offset += aligned(bytes);
  }
  w.list(p.nodes, [&](const TracedNode& n) { write_node(w, n); });
  w.list(p.results, [&](const TracedRef& r) { w.number(r.node), w.number(r.index); });
  const size_t start = aligned(kPrefix + w.out.size());
  Writer head;
  head.out.append(kMagic, 8);
  head.number(static_cast<int64_t>(w.out.size()));
  head.number(static_cast<int64_t>(hash_bytes(w.out.data(), w.out.size())));
  head.number(static_cast<int64_t>(start + offset));
  head.number(0);
  head.out += w.out;
  head.out.resize(start);
  static constexpr char kZeros[kAlign] = {};
  std::vector<std::string_view> parts{head.out};
  for (size_t i = 0; i < data.size(); ++i) {
    const size_t bytes = bytes_of(p.weights[i].value.type());
    parts.emplace_back(static_cast<const char*>(data[i]->data()), bytes);
    parts.emplace_back(kZeros, aligned(bytes) - bytes);
  }
  write_whole(path, parts);
}

bool is_package(const std::string& path) {
  File f{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  char magic[8] = {};
  return f.fd >= 0 && read(f.fd, magic, 8) == 8 && std::memcmp(magic, kMagic, 8) == 0;
}

std::shared_ptr<TracedProgram> read_package(const std::string& path) {
  File f{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (f.fd < 0) os_error("load", path);
  struct stat st {};
  if (fstat(f.fd, &st) != 0) os_error("load", path);
  const auto size = static_cast<size_t>(st.st_size);
  if (!S_ISREG(st.st_mode) || size < kPrefix) value_error("load: ", path, " is no Yuloh program: it has ", size, " bytes.");
  void* map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, f.fd, 0);
  if (map == MAP_FAILED) os_error("load", path);
  const std::shared_ptr<void> mapping(map, [size](void* p) { munmap(p, size); });
  const char* base = static_cast<const char*>(map);
  if (std::memcmp(base, kMagic, 8) != 0) value_error("load: ", path, " is no Yuloh program.");
  uint64_t head[3];
  std::memcpy(head, base + 8, 24);
  Reader r(base + kPrefix, std::min<size_t>(head[0], size - kPrefix), path);
  if (head[2] != size) r.bad(cat("it has ", size, " bytes, expected ", head[2]));
  if (head[0] > size - kPrefix) r.bad("the header is longer than the file");
  if (hash_bytes(base + kPrefix, head[0]) != head[1]) r.bad("the header's checksum differs");
  const size_t start = aligned(kPrefix + head[0]);
  auto p = std::make_shared<TracedProgram>();
  p->drop_pages = [mapping, size] { madvise(mapping.get(), size, MADV_DONTNEED); };  // private, never written
  const size_t n_in = r.count(24);
  for (size_t i = 0; i < n_in; ++i) p->inputs.push_back(read_port(r));
  const size_t n_out = r.count(24);
  for (size_t i = 0; i < n_out; ++i) p->outputs.push_back(read_port(r));
  const size_t n_dims = r.count(8);
  for (size_t i = 0; i < n_dims; ++i) p->dims.push_back(r.text());
  const size_t n_warm = r.count(8);
  for (size_t i = 0; i < n_warm; ++i) {
    auto& types = p->warm.emplace_back();
    const size_t n = r.count(16);
    for (size_t k = 0; k < n; ++k) types.push_back(read_type(r));
  }
  const size_t n_weights = r.count(80);
  for (size_t i = 0; i < n_weights; ++i) {
    TracedWeight w;
    w.name = r.text(), w.parameter = r.text();
    w.trainable = r.number(0, 1, "a flag") != 0, w.is_parameter = r.number(0, 1, "a flag") != 0;
    const TensorType t = read_type(r);
    const auto offset = static_cast<uint64_t>(r.number(0, INT64_MAX, "an offset"));
    const auto bytes = static_cast<uint64_t>(r.number(0, INT64_MAX, "a length"));
    const auto hash = static_cast<uint64_t>(r.number());
    if (bytes != static_cast<uint64_t>(numel(t.shape)) * dtype_size(t.dtype)) r.bad(cat("weight ", w.name, " has the wrong length"));
    if (offset % kAlign || start > size || offset > size - start || bytes > size - start - offset)
      r.bad(cat("weight ", w.name, " lies outside the file"));
    if (hash_bytes(base + start + offset, bytes) != hash) r.bad(cat("the checksum of weight ", w.name, " differs"));
    auto s = make_ref<Storage>();
    s->data = const_cast<char*>(base + start + offset), s->bytes = bytes;
    s->free = [mapping] {};
    auto b = make_ref<Buffer>();
    b->storage = std::move(s), b->strides = row_major_strides(t.shape);
    w.value = make_data(t, std::move(b));
    p->weights.push_back(std::move(w));
  }
  const size_t n_nodes = r.count(32);
  for (size_t i = 0; i < n_nodes; ++i) p->nodes.push_back(read_node(r, i, n_in, n_weights, n_dims));
  const size_t n_results = r.count(16);
  for (size_t i = 0; i < n_results; ++i) {
    const auto node = static_cast<uint32_t>(r.number(0, static_cast<int64_t>(n_nodes) - 1, "a result"));
    p->results.push_back({node, static_cast<uint32_t>(r.number(0, 1 << 20, "an output"))});
  }
  if (n_results != n_out) r.bad("the number of results differs");
  if (!r.done()) r.bad("there is more in the header than expected");
  p->drop_pages();  // reading it all for the checksums made them resident
  return p;
}

}  // namespace yuloh::formats
