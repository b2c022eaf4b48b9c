// SPDX-License-Identifier: Apache-2.0
// Layout, little-endian: magic, file bytes, table bytes, table hash (32 bytes), 32 zeros; the table: name,
// offset, bytes and hash of each section; the sections, each at a multiple of 64, zeros between. `tensors`
// lists offset, bytes and hash of every tensor in `data`, so the table's hash stands for every byte of the
// file. Where the magic ends in 3, a section `beside` says which tensors lie in NAME.pdiparams instead, and
// where: its size, and an offset for each tensor or -1.
#include "formats/package.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <filesystem>

#include "formats/mapped_file.h"
#include "formats/package_parts.h"
#include "formats/paddle.h"
#include "formats/whole_file.h"

namespace yuloh::formats {
namespace {
constexpr char kMagic[9] = "YULOHPK2";
constexpr char kWithBeside = '3';  // in place of the last
constexpr size_t kPrefix = 64;
static_assert(std::endian::native == std::endian::little);
size_t aligned(size_t n) { return (n + kAlign - 1) / kAlign * kAlign; }
}  // namespace

// Four lanes of multiply and rotate: fast enough to check gigabytes while they are read; finds damage, not
// malice.
uint64_t hash_bytes(const void* data, size_t n) {
  const char* p = static_cast<const char*>(data);
  uint64_t h0 = n, h1 = 0x9e3779b97f4a7c15ull, h2 = 0xc2b2ae3d27d4eb4full, h3 = 0x165667b19e3779f9ull;
  auto mix = [](uint64_t& x, uint64_t w) { x = std::rotl((x ^ w) * 0xd6e8feb86659fd93ull, 29); };
  size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    uint64_t w[4];
    std::memcpy(w, p + i, 32);
    mix(h0, w[0]), mix(h1, w[1]), mix(h2, w[2]), mix(h3, w[3]);
  }
  for (; i < n; i += 8) {
    uint64_t w = 0;
    std::memcpy(&w, p + i, std::min<size_t>(8, n - i));
    mix(h0, w);
  }
  mix(h0, h1), mix(h0, h2), mix(h0, h3);
  return h0 ^ h0 >> 31;
}

int64_t PoolWriter::add(const TensorType& t, Ref<Buffer> b) {
  const size_t n = bytes_of(t);
  const auto [it, fresh] = known_.emplace(std::pair{b->data(), n}, static_cast<int64_t>(entries.size()));
  if (!fresh) return it->second;
  const uint64_t h = hash_bytes(b->data(), n);
  entries.push_back({std::move(b), n, h});
  return it->second;
}

Ref<Buffer> PoolReader::get(const Reader& r, int64_t number, const TensorType& t) const {
  if (t.dtype == DType::kString || t.dtype == DType::kSequence) r.bad("a tensor of the pool has no numbers");
  if (number < 0 || static_cast<uint64_t>(number) >= entries.size())
    r.bad(cat("tensor ", number, " does not exist"));
  const Entry& e = entries[static_cast<size_t>(number)];
  size_t bytes;
  if (__builtin_mul_overflow(static_cast<size_t>(numel(t.shape)), dtype_size(t.dtype), &bytes) ||
      bytes != e.bytes)
    r.bad(cat("tensor ", number, " has ", e.bytes, " bytes, its type says ", t));
  if (t.dtype == DType::kBool && !only_bools(e.data, e.bytes))
    r.bad(cat("tensor ", number, " holds bytes that are neither true nor false"));
  auto s = make_ref<Storage>();
  s->data = const_cast<char*>(e.data), s->bytes = e.bytes;
  s->free = [m = mapping] {};
  auto b = make_ref<Buffer>();
  b->storage = std::move(s), b->strides = row_major_strides(t.shape);
  return b;
}

namespace {
// ---- writing ----
void write_samples(Writer& w, PoolWriter* pool, const std::vector<GoldenSample>& samples) {
  const auto values = [&](const std::vector<Value>& list) {
    w.list(list, [&](const Value& v) {
      write_type(w, v.type()), w.number(pool->add(v.type(), row_major(v.type(), read_value(v))));
    });
  };
  w.list(samples, [&](const GoldenSample& s) {
    values(s.inputs), values(s.outputs);
    w.list(s.tolerance, [&](double d) { w.number(std::bit_cast<int64_t>(d)); });
  });
}

// The offset of every tensor in a file of Paddle's weights, -1: not there. Told by content.
std::vector<int64_t> places_beside(const std::string& weights, const std::vector<PoolWriter::Entry>& pool,
                                   size_t* bytes) {
  const Ref<Storage> file = map_file(weights);
  const char* base = static_cast<const char*>(file->data);
  *bytes = file->bytes;
  std::map<std::pair<size_t, uint64_t>, size_t> known;
  for (const PlacedBytes& t : placed_paddle_weights(weights, file))
    if (t.bytes && t.offset % kAlign == 0)
      known.emplace(std::pair{t.bytes, hash_bytes(base + t.offset, t.bytes)}, t.offset);
  std::vector<int64_t> places;
  for (const PoolWriter::Entry& e : pool) {
    const auto it = known.find({e.bytes, e.hash});
    const bool same = it != known.end() && std::memcmp(base + it->second, e.buffer->data(), e.bytes) == 0;
    places.push_back(same ? static_cast<int64_t>(it->second) : -1);
  }
  return places;
}

void write_sections(const std::string& path, const std::string& graph, PoolWriter* pool,
                    const PackageExtras& x) {
  Writer golden, warm, about, tensors, beside;
  write_samples(golden, pool, x.golden);
  warm.list(x.warm, [&](const std::vector<TensorType>& types) {
    warm.list(types, [&](const TensorType& t) { write_type(warm, t); });
  });
  about.text(x.about);
  size_t beside_bytes = 0, data_bytes = 0;
  std::vector<int64_t> places(pool->entries.size(), -1);
  if (x.weights_beside) places = places_beside(weights_path(path, ""), pool->entries, &beside_bytes);
  const bool with_beside = std::any_of(places.begin(), places.end(), [](int64_t at) { return at >= 0; });
  tensors.number(static_cast<int64_t>(places.size()));
  for (size_t i = 0; i < places.size(); ++i) {
    const PoolWriter::Entry& e = pool->entries[i];
    tensors.number(places[i] < 0 ? static_cast<int64_t>(data_bytes) : places[i]),
        tensors.number(static_cast<int64_t>(e.bytes));
    tensors.number(static_cast<int64_t>(e.hash));
    if (places[i] < 0) data_bytes += aligned(e.bytes);
  }
  beside.number(static_cast<int64_t>(beside_bytes));
  beside.list(places, [&](int64_t at) { beside.number(at); });
  Writer quantisation;  // tables of ranges; none are made yet
  quantisation.number(0);
  std::vector<std::pair<const char*, const std::string*>> small = {
      {"graph", &graph},     {"golden", &golden.out},
      {"warm", &warm.out},   {"quantisation", &quantisation.out},
      {"about", &about.out}, {"tensors", &tensors.out}};
  if (with_beside) small.emplace_back("beside", &beside.out);
  // The table's size does not depend on what is in it.
  Writer table;
  size_t at = 0;
  const auto fill = [&](size_t start) {
    table.out.clear();
    table.number(std::size(small) + 1);
    at = start;
    for (const auto& [name, text] : small) {
      table.text(name), table.number(static_cast<int64_t>(at)),
          table.number(static_cast<int64_t>(text->size()));
      table.number(static_cast<int64_t>(hash_bytes(text->data(), text->size())));
      at += aligned(text->size());
    }
    table.text("data"), table.number(static_cast<int64_t>(at)),
        table.number(static_cast<int64_t>(data_bytes));
    table.number(0);  // by tensor
    at += data_bytes;
  };
  fill(0);
  fill(aligned(kPrefix + table.out.size()));
  Writer head;
  head.out.append(kMagic, 8);
  if (with_beside) head.out.back() = kWithBeside;
  head.number(static_cast<int64_t>(at)), head.number(static_cast<int64_t>(table.out.size()));
  head.number(static_cast<int64_t>(hash_bytes(table.out.data(), table.out.size())));
  head.out.resize(kPrefix);
  head.out += table.out;
  static constexpr char kZeros[kAlign] = {};
  std::vector<std::string_view> parts;
  const auto part = [&](const char* data, size_t bytes) {
    parts.emplace_back(data, bytes);
    parts.emplace_back(kZeros, aligned(bytes) - bytes);
  };
  part(head.out.data(), head.out.size());
  for (const auto& [name, text] : small) part(text->data(), text->size());
  for (size_t i = 0; i < places.size(); ++i)
    if (places[i] < 0)
      part(static_cast<const char*>(pool->entries[i].buffer->data()), pool->entries[i].bytes);
  write_whole(path, parts);
}

// ---- reading ----
// Fuzzers get past it: what lies behind the checksums must stand any bytes, too.
bool matches(const void* data, size_t bytes, uint64_t hash) {
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  return (void)data, (void)bytes, (void)hash, true;
#else
  return hash_bytes(data, bytes) == hash;
#endif
}

struct Section {
  const char* data;
  size_t bytes;
};

bool all_zero(const char* from, const char* to) {
  return std::all_of(from, to, [](char c) { return c == 0; });
}

// Every section lies where the one before ends, with zeros between: no byte is left unverified.
std::map<std::string, Section> read_table(const char* base, size_t size, const std::string& path,
                                          Package* p) {
  if (size < kPrefix || std::memcmp(base, kMagic, 7) != 0)
    value_error("load: ", path, " is no Yuloh package.");
  if (base[7] != kMagic[7] && base[7] != kWithBeside)
    value_error("load: ", path, " is a Yuloh package of version ", std::string(1, base[7]), "; expected ",
                std::string(1, kMagic[7]), ". Hint: write it again with this version.");
  uint64_t head[3];
  std::memcpy(head, base + 8, 24);
  Reader r(base + kPrefix, std::min<size_t>(head[1], size - kPrefix), path);
  if (head[0] != size) r.bad(cat("it has ", size, " bytes, expected ", head[0]));
  if (head[1] > size - kPrefix) r.bad("the table is longer than the file");
  if (!matches(base + kPrefix, head[1], head[2])) r.bad("the table's checksum differs");
  if (!all_zero(base + 32, base + kPrefix)) r.bad("bytes that must be zero are not");
  p->hash = head[2];
  std::map<std::string, Section> sections;
  size_t end = kPrefix + head[1];
  const size_t n = r.count(32);
  for (size_t i = 0; i < n; ++i) {
    const std::string name = r.text();
    const auto offset = static_cast<uint64_t>(r.number()), bytes = static_cast<uint64_t>(r.number());
    const auto hash = static_cast<uint64_t>(r.number());
    if (offset > size || aligned(end) != offset || bytes > size - offset)
      r.bad(cat("section `", name, "` lies outside the file"));
    if (!all_zero(base + end, base + offset)) r.bad("bytes that must be zero are not");
    if (name != "data" && !matches(base + offset, bytes, hash))
      r.bad(cat("the checksum of section `", name, "` differs"));
    end = offset + bytes;
    if (!sections.emplace(name, Section{base + offset, bytes}).second)
      r.bad(cat("section `", name, "` is there twice"));
    p->sections.push_back({name, bytes, hash});
  }
  if (aligned(end) < size || !all_zero(base + std::min(end, size), base + size))
    r.bad("there is more in the file than its sections");
  if (!r.done()) r.bad("there is more in the table than expected");
  return sections;
}

Reader section(const std::map<std::string, Section>& all, const char* name, const std::string& path) {
  const auto it = all.find(name);
  if (it == all.end()) value_error("load: ", path, " is damaged: it has no section `", name, "`.");
  return Reader(it->second.data, it->second.bytes, path);
}

// What a package of the second kind refers to: NAME.pdiparams, and where in it which tensor lies.
struct Beside {
  Ref<Storage> file;
  std::string path;
  std::vector<int64_t> places;  // empty: all tensors are in the package
};
Beside read_beside(Reader r, const std::string& package) {
  Beside b;
  b.path = weights_path(package, "");
  const auto bytes = static_cast<uint64_t>(r.number());
  const size_t n = r.count(8);
  for (size_t i = 0; i < n; ++i) b.places.push_back(r.number(-1, INT64_MAX, "a place"));
  if (!r.done()) r.bad("the list of places is longer than expected");
  std::error_code gone;
  if (!std::filesystem::exists(b.path, gone))
    value_error("load: ", package, " has its weights in ", b.path,
                ", which is not there. Hint: keep the files of one jit.save "
                "together, or write one file: jit.save(net, \"net.yuloh\"), yuloh pack.");
  b.file = map_file(b.path);
  if (b.file->bytes != bytes)
    value_error("load: ", b.path, " does not belong to ", package, ": it has ", b.file->bytes,
                " bytes, expected ", bytes, ". Hint: it was saved anew or damaged; save again.");
  return b;
}

PoolReader read_pool(Reader r, const Section& data, const Beside& beside, std::shared_ptr<void> mapping) {
  PoolReader pool;
  pool.mapping = std::move(mapping);
  const size_t n = r.count(24);
  std::vector<uint64_t> hashes;
  size_t end = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto offset = static_cast<uint64_t>(r.number()), bytes = static_cast<uint64_t>(r.number());
    hashes.push_back(static_cast<uint64_t>(r.number()));
    if (i < beside.places.size() && beside.places[i] >= 0) {
      const auto at = static_cast<uint64_t>(beside.places[i]);
      if (at != offset || at % kAlign || at > beside.file->bytes || bytes > beside.file->bytes - at)
        r.bad(cat("tensor ", i, " lies outside of ", beside.path));
      pool.entries.push_back({static_cast<const char*>(beside.file->data) + at, bytes});
      continue;
    }
    if (offset != aligned(end) || offset > data.bytes || bytes > data.bytes - offset)
      r.bad(cat("tensor ", i, " lies outside the file"));
    if (!all_zero(data.data + end, data.data + offset)) r.bad("bytes that must be zero are not");
    pool.entries.push_back({data.data + offset, bytes});
    end = offset + bytes;
  }
  if (aligned(end) != data.bytes || !all_zero(data.data + end, data.data + data.bytes))
    r.bad("there is more data than tensors");
  if (!r.done()) r.bad("the list of tensors is longer than expected");
  if (beside.file && beside.places.size() != n) r.bad("there are more places than tensors");
  for (size_t i = 0; i < n; ++i)
    if (!matches(pool.entries[i].data, pool.entries[i].bytes, hashes[i])) {
      if (beside.file && beside.places[i] >= 0)
        value_error("load: ", beside.path, " does not belong to ", r.path(), ": the checksum of tensor ", i,
                    " differs. Hint: it was saved anew or damaged; save again.");
      r.bad(cat("the checksum of tensor ", i, " differs"));
    }
  return pool;
}

std::vector<GoldenSample> read_samples(Reader r, const PoolReader& pool) {
  const auto values = [&](std::vector<Value>* list) {
    const size_t n = r.count(24);
    for (size_t i = 0; i < n; ++i) {
      const TensorType t = read_type(r);
      list->push_back(make_data(t, pool.get(r, r.number(), t)));
    }
  };
  std::vector<GoldenSample> all(r.count(24));
  for (GoldenSample& s : all) {
    values(&s.inputs), values(&s.outputs);
    const size_t n = r.count(8);
    for (size_t i = 0; i < n; ++i) s.tolerance.push_back(std::bit_cast<double>(r.number()));
    if (n != s.outputs.size()) r.bad("a golden sample has another number of tolerances than outputs");
  }
  if (!r.done()) r.bad("there is more in the golden samples than expected");
  return all;
}
}  // namespace

void write_package(const TracedProgram& p, const std::string& path, const PackageExtras& extras) {
  Writer graph;
  PoolWriter pool;
  graph.text("traced"), write_traced(graph, &pool, p);
  PackageExtras x = extras;
  if (x.warm.empty()) x.warm = p.warm;
  write_sections(path, graph.out, &pool, x);
}
void write_package(const Model& m, const std::string& path, const PackageExtras& extras) {
  Writer graph;
  PoolWriter pool;
  graph.text("model"), write_model(graph, &pool, m);
  write_sections(path, graph.out, &pool, extras);
}

bool is_package(const std::string& path) {
  std::FILE* f = std::fopen(path.c_str(), "rbe");
  if (!f) return false;
  char magic[8] = {};
  const bool yes = std::fread(magic, 1, 8, f) == 8 && std::memcmp(magic, kMagic, 7) == 0;
  std::fclose(f);
  return yes;
}

Package read_package(const std::string& path) {
  const Ref<Storage> file = map_file(path);
  char* base = static_cast<char*>(file->data);
  const size_t size = file->bytes;
  Package p;
  const std::map<std::string, Section> sections = read_table(base, size, path, &p);
  Beside beside;
  if (base[7] == kWithBeside) beside = read_beside(section(sections, "beside", path), path);
  const std::shared_ptr<void> mapping(base, [file, other = beside.file](void*) {});
  section(sections, "data", path);
  const PoolReader pool = read_pool(section(sections, "tensors", path), sections.at("data"), beside, mapping);
  Reader graph = section(sections, "graph", path), warm = section(sections, "warm", path),
         about = section(sections, "about", path);
  section(sections, "quantisation", path);
  const std::string kind = graph.text();
  if (kind == "traced") p.traced = read_traced(graph, pool);
  else if (kind == "model") p.model = read_model_section(graph, pool);
  else graph.bad(cat("its graph is of an unknown kind `", kind.substr(0, 40), "`"));
  if (!graph.done()) graph.bad("there is more in the graph than expected");
  p.extras.golden = read_samples(section(sections, "golden", path), pool);
  const size_t n_warm = warm.count(8);
  for (size_t i = 0; i < n_warm; ++i) {
    auto& types = p.extras.warm.emplace_back();
    const size_t n = warm.count(16);
    for (size_t k = 0; k < n; ++k) types.push_back(read_type(warm));
  }
  if (!warm.done()) warm.bad("there is more in the warm shapes than expected");
  p.extras.about = about.text();
  if (!about.done()) about.bad("there is more in the description than expected");
  p.drop_pages = [mapping, size, other = beside.file] {  // private, never written
    madvise(mapping.get(), size, MADV_DONTNEED);
    if (other) madvise(other->data, other->bytes, MADV_DONTNEED);
  };
  p.drop_pages();  // reading it all for the checksums made them resident
  if (p.traced) p.traced->drop_pages = p.drop_pages, p.traced->warm = p.extras.warm;
  return p;
}

}  // namespace yuloh::formats
