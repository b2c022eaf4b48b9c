// SPDX-License-Identifier: Apache-2.0
// The ONNX reader: a ModelProto in memory becomes a Model. Weights stay where they are in the file (or in its
// external data files, which must lie in the model's folder); the rest is names and small numbers. Nothing is
// believed: lengths, types, element counts, nesting; onnx_check.cpp then checks names and puts nodes in
// order.
#include "formats/onnx_check.h"
#include "formats/onnx_tensors.h"
#include "formats/onnx_types.h"
#include "formats/readers.h"
#include "formats/wire.h"

namespace yuloh::formats {
namespace {

class OnnxReader {
 public:
  OnnxReader(const std::string& path, Ref<Storage> file)
      : path_(path), file_(std::move(file)), tensors_(path_, file_) {}

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
      value_error("read: ", path_, " is not an ONNX model: it has no ", has_graph ? "IR version" : "graph",
                  ".");
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
          FileTensor t = tensors_.dense(w.message(), &name);
          add_weight(w, &g, std::move(name), std::move(t));
          break;
        }
        case 11: g.inputs.push_back(port(w.message())); break;
        case 12: g.outputs.push_back(port(w.message())); break;
        case 15: {
          std::string name;
          FileTensor t = tensors_.sparse(w.message(), &name);
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
          t = tensors_.dense(w.message(), &unused), seen = 4;
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
          t = tensors_.sparse(w.message(), &unused), seen = 11;
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
      default:
        return std::monostate{};  // lists of tensors or graphs, types: no operator that is mapped reads one
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
              if (t.integer() != 0)
                t.bad("'", p->name, "' has element type ", t.integer(), "; expected 1 to 26");
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

  const std::string path_;
  const Ref<Storage> file_;
  OnnxTensors tensors_;
};
}  // namespace

std::shared_ptr<const Model> read_onnx(const std::string& path, const Ref<Storage>& file) {
  return OnnxReader(path, file).read();
}

}  // namespace yuloh::formats
