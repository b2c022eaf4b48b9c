// SPDX-License-Identifier: Apache-2.0
#include "advise/facts.h"

#include "base/error.h"

namespace yuloh::advise {
namespace {
using Json = nlohmann::json;
constexpr const char* kOrigins[] = {"measured", "computed", "catalogue", "user", "assumed"};

// One list of fields serves both directions: `io(name, field)`.
template <class Io>
void fields(Io& io, Figure& f) {
  io("value", f.value), io("low", f.low), io("high", f.high), io("origin", f.origin);
}
template <class Io>
void fields(Io& io, LayerFacts& l) {
  io("name", l.name), io("type", l.type), io("parent", l.parent), io("depth", l.depth),
      io("parameters", l.parameters);
  io("weight_bytes", l.weight_bytes), io("activation_bytes", l.activation_bytes);
  io("input_bytes", l.input_bytes), io("output_bytes", l.output_bytes);
  io("flops_forward", l.flops_forward), io("flops_backward", l.flops_backward);
  io("moved_forward", l.moved_forward), io("moved_backward", l.moved_backward);
  io("seconds_forward", l.seconds_forward), io("seconds_backward", l.seconds_backward);
}
template <class Io>
void fields(Io& io, KindFacts& k) {
  io("kind", k.kind), io("dtype", k.dtype), io("calls", k.calls), io("flops", k.flops), io("moved", k.moved);
  io("seconds", k.seconds), io("origin", k.origin);
}
template <class Io>
void fields(Io& io, MemoryFacts& m) {
  io("weights", m.weights), io("buffers", m.buffers), io("gradients", m.gradients),
      io("optimizer", m.optimizer);
  io("activations", m.activations), io("temporaries", m.temporaries), io("workspace", m.workspace),
      io("inputs", m.inputs);
  io("slack", m.slack), io("peak", m.peak), io("reserved", m.reserved), io("interpreter", m.interpreter);
  io("code", m.code), io("scratch", m.scratch), io("process", m.process),
      io("gradients_all", m.gradients_all), io("eager", m.eager);
}
template <class Io>
void fields(Io& io, SplitFacts& s) {
  io("products", s.products), io("by", s.by), io("parameters", s.parameters), io("flops", s.flops);
  io("kept_share", s.kept_share), io("sent", s.sent), io("layers", s.layers);
}
template <class Io>
void fields(Io& io, Facts& f) {
  io("subject", f.subject), io("training", f.training), io("precision", f.precision),
      io("optimizer", f.optimizer);
  io("batch", f.batch), io("accumulate", f.accumulate), io("recompute", f.recompute),
      io("parameters", f.parameters);
  io("trainable", f.trainable), io("memory", f.memory), io("flops", f.flops), io("moved", f.moved),
      io("kernels", f.kernels);
  io("seconds", f.seconds), io("device", f.device), io("layers", f.layers), io("kinds", f.kinds),
      io("split", f.split), io("notes", f.notes);
}

template <class T>
concept Record = std::is_same_v<T, Figure> || std::is_same_v<T, LayerFacts> || std::is_same_v<T, KindFacts> ||
    std::is_same_v<T, MemoryFacts> || std::is_same_v<T, SplitFacts> || std::is_same_v<T, Facts>;

struct Writer {
  Json j = Json::object();
  template <class T>
  static Json of(T& x) {
    if constexpr (Record<T>) {
      Writer w;
      fields(w, x);
      return std::move(w.j);
    } else if constexpr (std::is_same_v<T, Origin>) {
      return origin_name(x);
    } else {
      return x;
    }
  }
  template <class T>
  static Json of(std::vector<T>& x) {
    Json list = Json::array();
    for (T& e : x) list.push_back(of(e));
    return list;
  }
  template <class T>
  void operator()(const char* name, T& x) {
    j[name] = of(x);
  }
};

struct Reader {
  const Json& j;
  template <class T>
  static void to(const Json& j, T& x) {
    if constexpr (Record<T>) {
      Reader r{j};
      fields(r, x);
    } else if constexpr (std::is_same_v<T, Origin>) {
      const auto s = j.get<std::string>();
      for (size_t i = 0; i < std::size(kOrigins); ++i)
        if (s == kOrigins[i]) return (void)(x = static_cast<Origin>(i));
      value_error("facts: unknown origin, got `", s, "`.");
    } else {
      x = j.get<T>();
    }
  }
  template <class T>
  static void to(const Json& j, std::vector<T>& x) {
    x.clear();
    for (const Json& e : j) to(e, x.emplace_back());
  }
  template <class T>
  void operator()(const char* name, T& x) {
    to(j.at(name), x);
  }
};
}  // namespace

const char* origin_name(Origin o) { return kOrigins[static_cast<size_t>(o)]; }

Json to_json(const Facts& f) {
  Facts copy = f;
  Json j = Writer::of(copy);
  j["version"] = Facts::kVersion;
  return j;
}

Facts facts_from_json(const Json& j) {
  try {
    if (const int v = j.at("version").get<int>(); v != Facts::kVersion)
      value_error("facts: written by another version, got ", v, "; expected ", Facts::kVersion, ".");
    Facts f;
    Reader::to(j, f);
    return f;
  } catch (const Json::exception& e) { value_error("facts: not a facts record (", e.what(), ")."); }
}

}  // namespace yuloh::advise
