// SPDX-License-Identifier: Apache-2.0
// The ONNX reader: a ModelProto in memory becomes a Model. Weights stay where they are in the file (or in its external
// data files, which must lie in the model's folder); the rest is names and small numbers. Nothing is believed: lengths,
// types, element counts, nesting; onnx_check.cpp then checks names and puts nodes in order.
#include <cstring>
#include <filesystem>

#include "formats/mapped_file.h"
#include "formats/onnx_check.h"
#include "formats/onnx_types.h"
#include "formats/readers.h"
#include "formats/wire.h"

namespace yuloh::formats {
namespace {
namespace fs = std::filesystem;

class OnnxReader {
 public:
  OnnxReader(const std::string& path, Ref<Storage> file) : path_(path), file_(std::move(file)) {}

  std::shared_ptr<Model> read() {
    auto m = std::make_shared<Model>();
    m->dialect = Dialect::kOnnx, m->path = path_;
    bool has_graph = false, has_version = false;
    const char* base = static_cast<const char*>(file_->data);
    for (Wire w(path_.c_str(), base, base, base + file_->bytes); w.next();) {
      if (w.field == 1) {
        has_version = true;
        if (w.integer() < 1 || w.integer() > 1000) w.bad("the IR version is ", w.integer());
      } else if (w.field == 2) {
        m->producer = w.text();
      } else if (w.field == 7) {
        if (has_graph) w.bad("a second graph");
        has_graph = true, m->graph = graph(w.message());
      } else if (w.field == 8) {
        opset(w.message(), &m->opsets);
      } else if (w.field == 25) {
        function(w.message(), m.get());
      }
    }
    if (!has_graph || !has_version)
      value_error("read: ", path_, " is not an ONNX model: it has no ", has_graph ? "IR version" : "graph", ".");
    if (m->opsets.empty()) m->opsets[""] = 1;
    check_onnx(m.get());
    return m;
  }

 private:
  static std::string domain_of(std::string_view s) { return s == "ai.onnx" ? std::string() : std::string(s); }

  static void opset(Wire w, std::map<std::string, int64_t>* out) {
    std::string domain;
    int64_t version = 1;
    while (w.next()) {
      if (w.field == 1) domain = domain_of(w.bytes());
      else if (w.field == 2) version = w.integer();
    }
    (*out)[domain] = version;
  }

  ModelGraph graph(Wire w) {
    ModelGraph g;
    while (w.next()) {
      switch (w.field) {
        case 1: g.nodes.push_back(node(w.message())); break;
        case 2: g.name = w.text(); break;
        case 5: {
          std::string name;
          FileTensor t = tensor(w.message(), &name);
          add_weight(w, &g, std::move(name), std::move(t));
          break;
        }
        case 11: g.inputs.push_back(port(w.message())); break;
        case 12: g.outputs.push_back(port(w.message())); break;
        case 15: {
          std::string name;
          FileTensor t = sparse(w.message(), &name);
          add_weight(w, &g, std::move(name), std::move(t));
          break;
        }
        default: break;  // documentation, types of inner values (they are inferred)
      }
    }
    return g;
  }
  static void add_weight(const Wire& w, ModelGraph* g, std::string name, FileTensor t) {
    if (name.empty()) w.bad("a weight has no name");
    if (!g->weights.emplace(name, std::move(t)).second) w.bad("two weights are named '", name, "'");
  }

  ModelNode node(Wire w) {
    ModelNode n;
    while (w.next()) {
      switch (w.field) {
        case 1: n.inputs.push_back(w.text()); break;
        case 2: n.outputs.push_back(w.text()); break;
        case 3: n.name = w.text(); break;
        case 4: n.type = w.text(); break;
        case 5: {
          std::string name;
          Attribute a = attribute(w.message(), &name);
          if (!n.attrs.emplace(name, std::move(a)).second) w.bad("two attributes are named '", name, "'");
          break;
        }
        case 7: n.domain = domain_of(w.bytes()); break;
        case 8: n.overload = w.text(); break;
        default: break;
      }
    }
    if (n.type.empty()) w.bad("a node has no operator type");
    return n;
  }

  Attribute attribute(Wire w, std::string* name) {
    std::string ref;
    int64_t type = 0, i = 0;
    double f = 0;
    std::string s;
    FileTensor t;
    std::shared_ptr<ModelGraph> g;
    std::vector<double> floats;
    std::vector<int64_t> ints;
    std::vector<std::string> strings;
    int seen = 0;
    while (w.next()) {
      switch (w.field) {
        case 1: *name = w.text(); break;
        case 2: f = w.real(), seen = 1; break;
        case 3: i = w.integer(), seen = 2; break;
        case 4: s = w.text(), seen = 3; break;
        case 5: {
          std::string unused;
          t = tensor(w.message(), &unused), seen = 4;
          break;
        }
        case 6: g = std::make_shared<ModelGraph>(graph(w.message())), seen = 5; break;
        case 7: w.fixeds<float>([&](float v) { floats.push_back(v); }), seen = 6; break;
        case 8: w.integers([&](int64_t v) { ints.push_back(v); }), seen = 7; break;
        case 9: strings.push_back(w.text()), seen = 8; break;
        case 20: type = w.integer(); break;
        case 21: ref = w.text(); break;
        case 22: {
          std::string unused;
          t = sparse(w.message(), &unused), seen = 11;
          break;
        }
        default: break;
      }
    }
    if (name->empty()) w.bad("an attribute has no name");
    if (!ref.empty()) return AttributeRef{ref};
    switch (type ? type : seen) {
      case 1: return f;
      case 2: return i;
      case 3: return s;
      case 4:
      case 11:
        if (!t.buffer && t.type.dtype != DType::kString) w.bad("attribute '", *name, "' has no tensor");
        return t;
      case 5:
        if (!g) w.bad("attribute '", *name, "' has no graph");
        return g;
      case 6: return floats;
      case 7: return ints;
      case 8: return strings;
      default: return std::monostate{};  // lists of tensors or graphs, types: no operator that is mapped reads one
    }
  }

  void function(Wire w, Model* m) {
    ModelGraph g;
    std::string domain, overload;
    while (w.next()) {
      switch (w.field) {
        case 1: g.name = w.text(); break;
        case 4: g.inputs.push_back(named(w.text())); break;
        case 5: g.outputs.push_back(named(w.text())); break;
        case 7: g.nodes.push_back(node(w.message())); break;
        case 9: opset(w.message(), &g.opsets); break;
        case 10: domain = domain_of(w.bytes()); break;
        case 11: {
          std::string name;
          Attribute a = attribute(w.message(), &name);
          g.defaults.emplace(std::move(name), std::move(a));
          break;
        }
        case 13: overload = w.text(); break;
        default: break;
      }
    }
    std::string key = domain + ":" + g.name + (overload.empty() ? "" : ":" + overload);
    if (!m->functions.emplace(key, std::move(g)).second) w.bad("function '", key, "' is defined twice");
  }
  static Port named(std::string name) {
    Port p;
    p.name = std::move(name), p.ranked = false;
    return p;
  }

  Port port(Wire w) {
    Port p;
    p.ranked = false;
    while (w.next()) {
      if (w.field == 1) p.name = w.text();
      else if (w.field == 2) value_type(w.message(), &p);
    }
    if (p.name.empty()) w.bad("an input or output has no name");
    return p;
  }
  void value_type(Wire w, Port* p) {
    while (w.next()) {
      if (w.field == 1) {
        for (Wire t = w.message(); t.next();) {
          if (t.field == 1) {
            const OnnxTypeInfo* info = onnx_type_info(t.integer());
            if (!info) {
              if (t.integer() != 0) t.bad("'", p->name, "' has element type ", t.integer(), "; expected 1 to 26");
              continue;
            }
            p->dtype = info->dtype, p->stored_as = info->wider ? static_cast<int>(t.integer()) : 0;
          } else if (t.field == 2) {
            p->ranked = true;
            for (Wire s = t.message(); s.next();)
              if (s.field == 1) dimension(s.message(), p);
          }
        }
      } else if (w.field == 9) {
        p->optional = true;
        for (Wire o = w.message(); o.next();)
          if (o.field == 1) value_type(o.message(), p);
      } else if (w.field == 4 || w.field == 5 || w.field == 8) {
        p->dtype = DType::kSequence, p->ranked = false;
      }
    }
  }
  static void dimension(Wire w, Port* p) {
    int64_t size = -1;
    std::string name;
    while (w.next()) {
      if (w.field == 1) {
        size = w.integer();
        if (size < 0) size = -1;  // some writers say "any" this way
      } else if (w.field == 2) {
        name = w.text();
      }
    }
    p->dims.push_back(size), p->dim_names.push_back(std::move(name));
  }

  // Element count and bytes in the file, checked; `named` only for messages.
  size_t elements(const Wire& w, const std::string& named, const Shape& dims) {
    size_t n = 1;
    for (Dim d : dims) {
      if (d < 0) w.bad("'", named, "' has a dimension of ", d);
      if (__builtin_mul_overflow(n, static_cast<size_t>(d), &n) || n >> 46)
        w.bad("'", named, "' has shape ", to_string(dims), ", which no file can hold");
    }
    return n;
  }

  FileTensor tensor(Wire w, std::string* name) {
    int64_t type = 0;
    Shape dims;
    std::vector<char> decoded;  // typed fields, as raw data would be
    std::string_view raw;
    bool has_raw = false, external = false;
    std::map<std::string, std::string> where;
    FileTensor t;
    size_t width = 0;  // of a decoded element
    auto put = [&](auto v) {
      const size_t old = decoded.size();
      decoded.resize(old + sizeof v);
      std::memcpy(decoded.data() + old, &v, sizeof v), width = sizeof v;
    };
    while (w.next()) {
      switch (w.field) {
        case 1:
          w.integers([&](int64_t d) {
            if (dims.size() >= 32) w.bad("a tensor has more than 32 dimensions");
            dims.push_back(d);
          });
          break;
        case 2: type = w.integer(); break;
        case 4: w.fixeds<float>(put); break;
        case 5: w.integers([&](int64_t v) { put(static_cast<int32_t>(v)); }); break;
        case 6: t.strings.push_back(w.text()); break;
        case 7: w.integers(put); break;
        case 8: *name = w.text(); break;
        case 9: raw = w.bytes(), has_raw = true; break;
        case 10: w.fixeds<double>(put); break;
        case 11: w.integers(put); break;
        case 13: entry(w.message(), &where); break;
        case 14: external = w.integer() == 1; break;
        default: break;
      }
    }
    const OnnxTypeInfo* info = onnx_type_info(type);
    if (!info) w.bad("tensor '", *name, "' has element type ", type, "; expected 1 to 26");
    const size_t n = elements(w, *name, dims);
    t.type = {info->dtype, dims}, t.stored_as = info->wider ? static_cast<int>(type) : 0;
    if (info->dtype == DType::kString) {
      if (t.strings.size() != n) w.bad("tensor '", *name, "' has ", t.strings.size(), " strings; expected ", n);
      return t;
    }
    const size_t bytes = (n * static_cast<size_t>(info->bits) + 7) / 8;
    if (external) {
      size_t offset = 0;
      const Ref<Storage> file = external_data(w, *name, where, bytes, &offset);
      return finish(std::move(t), *info, file, offset, n);
    }
    if (has_raw) {
      if (raw.size() != bytes) wrong_size(w, *name, raw.size(), bytes, t.type);
      return finish(std::move(t), *info, file_, static_cast<size_t>(raw.data() - static_cast<const char*>(file_->data)), n);
    }
    narrow(&decoded, width, *info);
    if (decoded.size() != bytes) wrong_size(w, *name, decoded.size(), bytes, t.type);
    auto own = allocate_storage(decoded.size());
    if (!decoded.empty()) std::memcpy(own->data, decoded.data(), decoded.size());
    return finish(std::move(t), *info, own, 0, n);
  }
  [[noreturn]] static void wrong_size(const Wire& w, const std::string& name, size_t got, size_t want, const TensorType& t) {
    w.bad("tensor '", name, "' has ", got, " bytes of data; expected ", want, " for ", t.dtype, " ", to_string(t.shape));
  }

  // int32_data carries everything up to 32 bits and uint64_data uint32, one element (or one packed byte) per entry.
  static void narrow(std::vector<char>* data, size_t width, const OnnxTypeInfo& info) {
    const size_t want = info.bits < 8 ? 1 : static_cast<size_t>(info.bits) / 8;
    if (width <= want) return;
    const size_t n = data->size() / width;
    for (size_t i = 0; i < n; ++i) std::memmove(data->data() + i * want, data->data() + i * width, want);
    data->resize(n * want);
  }

  static FileTensor finish(FileTensor t, const OnnxTypeInfo& info, const Ref<Storage>& file, size_t offset, size_t n) {
    if (!info.wider || info.bits == 64) {
      t.buffer = slice_of(file, offset, t.type);
      return t;
    }
    t.buffer = allocate_buffer(t.type);
    const auto* p = static_cast<const unsigned char*>(file->data) + offset;
    for (size_t i = 0; i < n; ++i) {
      uint32_t bits = 0;
      if (info.bits >= 8) {
        std::memcpy(&bits, p + i * (info.bits / 8), info.bits / 8);
      } else {
        const size_t per = 8 / info.bits;
        bits = p[i / per] >> (i % per * info.bits) & ((1u << info.bits) - 1);
      }
      char* to = static_cast<char*>(t.buffer->data()) + i * dtype_size(t.type.dtype);
      if (t.type.dtype == DType::kFloat32) {
        store_double(to, t.type.dtype, minifloat_to_float(t.stored_as, bits));
      } else {
        const bool negative = t.type.dtype == DType::kInt8 && bits >> (info.bits - 1);
        store_int(to, t.type.dtype, static_cast<int64_t>(bits) - (negative ? int64_t{1} << info.bits : 0));
      }
    }
    return t;
  }

  static void entry(Wire w, std::map<std::string, std::string>* out) {
    std::string key, value;
    while (w.next()) {
      if (w.field == 1) key = w.text();
      else if (w.field == 2) value = w.text();
    }
    (*out)[key] = value;
  }
  static size_t count(const Wire& w, const std::string& name, const std::map<std::string, std::string>& where, const char* key,
                      size_t otherwise) {
    const auto it = where.find(key);
    if (it == where.end() || it->second.empty()) return otherwise;
    if (it->second.size() > 18 || it->second.find_first_not_of("0123456789") != it->second.npos)
      w.bad("external data of '", name, "': ", key, " is '", it->second.substr(0, 40), "'; expected a number");
    return std::stoull(it->second);
  }

  // A file beside the model or below its folder; links may not lead out of it either.
  Ref<Storage> external_data(const Wire& w, const std::string& name, const std::map<std::string, std::string>& where, size_t bytes,
                             size_t* offset) {
    const auto it = where.find("location");
    const std::string location = it == where.end() ? std::string() : it->second;
    const fs::path relative(location);
    if (location.empty() || relative.is_absolute() || location.find('\0') != location.npos)
      w.bad("external data of '", name, "' is at '", location, "'; expected a path relative to the model");
    Ref<Storage>& file = external_[location];
    if (!file) {
      std::error_code e;
      const fs::path folder = fs::weakly_canonical(fs::absolute(fs::path(path_)).parent_path(), e);
      const fs::path full = fs::weakly_canonical(folder / relative, e);
      const fs::path inside = full.lexically_relative(folder);
      if (e || inside.empty() || *inside.begin() == "..")
        w.bad("external data of '", name, "' is at '", location, "', outside the model's folder");
      file = map_file(full.string());
    }
    *offset = count(w, name, where, "offset", 0);
    const size_t left = *offset <= file->bytes ? file->bytes - *offset : 0;
    const size_t length = count(w, name, where, "length", bytes);
    if (length != bytes || bytes > left)
      w.bad("external data of '", name, "': ", std::min(length, left), " bytes at ", *offset, " of '", location, "'; expected ", bytes);
    return file;
  }

  // Made dense: values at row-major positions, or at coordinates [n, rank]. Bounded by the size of the file, so that few
  // bytes cannot ask for much memory.
  FileTensor sparse(Wire w, std::string* name) {
    FileTensor values, at;
    Shape dims;
    std::string unused;
    while (w.next()) {
      if (w.field == 1) values = tensor(w.message(), name);
      else if (w.field == 2) at = tensor(w.message(), &unused);
      else if (w.field == 3) w.integers([&](int64_t d) {
        if (dims.size() >= 32) w.bad("a tensor has more than 32 dimensions");
        dims.push_back(d);
      });
    }
    if (!values.buffer || values.type.shape.size() != 1 || (at.buffer && at.type.dtype != DType::kInt64))
      w.bad("sparse tensor '", *name, "' has no list of values with int64 positions");
    const size_t total = elements(w, *name, dims), n = static_cast<size_t>(values.type.shape[0]);
    const size_t size = dtype_size(values.type.dtype);
    if (total * size > (size_t{64} << 20) + 64 * file_->bytes)
      w.bad("sparse tensor '", *name, "' has shape ", to_string(dims), ", out of proportion to its file");
    const bool flat = at.type.shape.size() == 1;
    if (n && (!at.buffer || !(at.type.shape == (flat ? Shape{static_cast<Dim>(n)} : Shape{static_cast<Dim>(n), static_cast<Dim>(dims.size())}))))
      w.bad("sparse tensor '", *name, "' has ", n, " values and positions ", to_string(at.type.shape));
    FileTensor t;
    t.type = {values.type.dtype, dims}, t.stored_as = values.stored_as;
    t.buffer = allocate_buffer(t.type);
    char* to = static_cast<char*>(t.buffer->data());
    std::memset(to, 0, total * size);
    const int64_t* p = n ? static_cast<const int64_t*>(at.buffer->data()) : nullptr;
    const Ints strides = row_major_strides(dims);
    for (size_t i = 0; i < n; ++i) {
      int64_t k = flat ? p[i] : 0;
      for (size_t d = 0; !flat && d < dims.size(); ++d) {
        const int64_t c = p[i * dims.size() + d];
        if (c < 0 || c >= dims[d]) w.bad("sparse tensor '", *name, "' has a position outside its shape");
        k += c * strides[d];
      }
      if (k < 0 || k >= static_cast<int64_t>(total)) w.bad("sparse tensor '", *name, "' has a position outside its shape");
      std::memcpy(to + static_cast<size_t>(k) * size, static_cast<const char*>(values.buffer->data()) + i * size, size);
    }
    return t;
  }

  const std::string path_;
  const Ref<Storage> file_;
  std::map<std::string, Ref<Storage>> external_;
};
}  // namespace

std::shared_ptr<const Model> read_onnx(const std::string& path, const Ref<Storage>& file) { return OnnxReader(path, file).read(); }

}  // namespace yuloh::formats
