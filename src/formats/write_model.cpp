// SPDX-License-Identifier: Apache-2.0
#include "formats/write_model.h"

#include "formats/onnx_write.h"
#include "formats/package.h"
#include "formats/pir_write.h"
#include "run/retrace.h"

namespace yuloh::formats {
namespace {

// A format that programs can be written in. `write` only makes sure that everything has a counterpart where
// `dry`.
struct Writer {
  const char* suffix;
  KeepNamed::Keep (*keep)(const WriteOptions&);
  void (*write)(const TracedProgram&, const std::string& path, const WriteOptions&, Refusals* dry);
};

const Writer kWriters[] = {
    {".yuloh", [](const WriteOptions&) { return KeepNamed::Keep(); },
     [](const TracedProgram& p, const std::string& path, const WriteOptions&, Refusals* dry) {
       if (!dry) write_package(p, path);
     }},
    {".json", [](const WriteOptions&) { return KeepNamed::Keep(has_pir_rule); },
     [](const TracedProgram& p, const std::string& path, const WriteOptions&, Refusals* dry) {
       write_pir(p, path, dry);
     }},
    {".pdmodel", [](const WriteOptions&) { return KeepNamed::Keep(has_pir_rule); },
     [](const TracedProgram& p, const std::string& path, const WriteOptions&, Refusals* dry) {
       write_program_desc(p, path, dry);
     }},
    {".onnx",
     [](const WriteOptions& o) {
       return KeepNamed::Keep([opset = checked_opset(o.opset)](const OpDef& op) {
         return find_onnx_rule(op, opset) != nullptr;
       });
     },
     write_onnx},
};

const Writer& writer_of(const std::string& path) {
  std::string known;
  for (const Writer& w : kWriters) {
    const std::string_view suffix = w.suffix;
    if (path.size() > suffix.size() && std::string_view(path).substr(path.size() - suffix.size()) == suffix)
      return w;
    known += cat(known.empty() ? "" : ", ", suffix);
  }
  value_error("write_model: the format is not known by the suffix, got '", path, "'; expected one of ", known,
              ".");
}

void choose_results(TracedProgram* p, const WriteOptions& o) {
  if (!o.results.empty()) {
    const auto results = p->results;
    const auto outputs = p->outputs;
    p->results.clear(), p->outputs.clear();
    for (int64_t k : o.results) {
      if (k < 0 || k >= static_cast<int64_t>(results.size()))
        value_error("write_model: there is no result ", k, "; expected 0 to ", results.size() - 1, ".");
      p->results.push_back(results[static_cast<size_t>(k)]),
          p->outputs.push_back(outputs[static_cast<size_t>(k)]);
    }
  }
  if (o.output_names.empty()) return;
  if (o.output_names.size() != p->outputs.size())
    value_error("write_model: ", o.output_names.size(), " output names were given; expected ",
                p->outputs.size(), ".");
  for (size_t k = 0; k < p->outputs.size(); ++k) p->outputs[k].name = o.output_names[k];
}

void write(const Program& p, const std::string& path, const WriteOptions& o, Refusals* dry) {
  const Writer& w = writer_of(path);
  RetraceOptions r;
  r.keep = w.keep(o), r.shapes = o.shapes;
  const auto* traced = dynamic_cast<const TracedProgram*>(&p);
  if (traced && !r.keep && r.shapes.empty() && o.results.empty() && o.output_names.empty())
    return w.write(*traced, path, o, dry);
  const auto made = retrace(p, r);
  choose_results(made.get(), o);
  w.write(*made, path, o, dry);
}
}  // namespace

void write_model(const Program& p, const std::string& path, const WriteOptions& o) {
  write(p, path, o, nullptr);
}
std::vector<Unwritable> unwritable(const Program& p, const std::string& path, const WriteOptions& o) {
  Refusals r;
  write(p, path, o, &r);
  return std::move(r.list);
}

void Refusals::add(const std::string& op, const std::string& place, const std::string& why) {
  for (Unwritable& u : list)
    if (u.op == op && u.why == why) return void(++u.count);
  list.push_back({op, 1, place, why});
}
void Refusals::raise(const char* who, const std::string& format) const {
  if (list.empty()) return;
  std::string s;
  for (const Unwritable& u : list)
    s += cat("\n  ", u.op, " x", u.count, u.place.empty() ? "" : cat(", first at ", u.place), ": ", u.why);
  fail(ErrorKind::kNotImplemented, who, ": ", list.size() == 1 ? "one op has" : cat(list.size(), " ops have"),
       " no counterpart in ", format, ":", s,
       "\nHint: compute these outside of the program, write them with other ops, or save as .yuloh, which "
       "keeps every op.");
}

}  // namespace yuloh::formats
