// SPDX-License-Identifier: Apache-2.0
#include "run/retrace.h"

#include <algorithm>
#include <set>

#include "run/tensor.h"

namespace yuloh {
namespace {

using Sizes = std::array<int64_t, 5>;

struct Slot {
  size_t input, axis;
};
struct OpenDims {
  std::vector<std::string> names;
  std::vector<size_t> first_axis;          // where it stands in the first input that has it
  std::vector<std::vector<int>> of_input;  // by input and axis; -1: fixed
};

// Equal names are one size; dims without a name are sizes of their own, or one per axis where `tied`.
OpenDims number_dims(const std::vector<ProgramPort>& inputs, bool tied) {
  OpenDims r;
  std::map<std::string, int> known;
  std::set<std::string> taken;
  for (const ProgramPort& p : inputs)
    for (const std::string& n : p.dim_names) taken.insert(n);
  for (size_t i = 0; i < inputs.size(); ++i) {
    r.of_input.emplace_back();
    for (size_t d = 0; d < inputs[i].dims.size(); ++d) {
      if (inputs[i].dims[d] >= 0) {
        r.of_input[i].push_back(-1);
        continue;
      }
      std::string name = d < inputs[i].dim_names.size() ? inputs[i].dim_names[d] : "";
      const std::string key = tied           ? cat("axis ", d)
                              : name.empty() ? cat("input ", i, " axis ", d)
                                             : cat("name ", name);
      const auto [it, fresh] = known.emplace(key, static_cast<int>(r.names.size()));
      if (fresh) {
        for (size_t k = r.names.size(); name.empty(); ++k)
          if (taken.insert(cat("s", k)).second) name = cat("s", k);
        r.names.push_back(name), r.first_axis.push_back(d);
      }
      r.of_input[i].push_back(it->second);
    }
  }
  return r;
}

Trace run_at(const Program& p, const std::vector<ProgramPort>& inputs, const OpenDims& dims,
             const std::vector<int64_t>& sizes, const RetraceOptions& o) {
  const NoGrad no_grad;
  const Recording recording(true);
  const KeepNamed keep(o.keep);
  std::vector<Value> in;
  for (size_t i = 0; i < inputs.size(); ++i) {
    TensorType t{inputs[i].dtype, {}};
    for (size_t d = 0; d < inputs[i].dims.size(); ++d)
      t.shape.push_back(dims.of_input[i][d] < 0 ? inputs[i].dims[d]
                                                : sizes[static_cast<size_t>(dims.of_input[i][d])]);
    in.push_back(make_input(t, static_cast<int64_t>(i)));
  }
  std::vector<std::pair<uint64_t, std::string>> places;  // nodes up to this id stem from there
  const Values out = p.record_by_place(Values(in.begin(), in.end()),
                                       [&](const std::string& s) { places.emplace_back(next_node_id(), s); });
  const auto where = [&](const Node& n) {
    const auto it = std::lower_bound(places.begin(), places.end(), n.id,
                                     [](const auto& a, uint64_t id) { return a.first < id; });
    return it == places.end() ? std::string() : it->second;
  };
  Trace t = take_trace(recording, in, std::vector<Value>(out.begin(), out.end()), p.named_weights(), where);
  t.sizes = sizes;
  return t;
}

std::shared_ptr<TracedProgram> at_sizes(const Program& p, const std::vector<ProgramPort>& inputs,
                                        const OpenDims& dims, const std::vector<const Sizes*>& table,
                                        const RetraceOptions& o) {
  const size_t n = dims.names.size();
  const auto run = [&](auto pick) {
    std::vector<int64_t> sizes;
    for (size_t k = 0; k < n; ++k) sizes.push_back((*table[k])[pick(k)]);
    return run_at(p, inputs, dims, sizes, o);
  };
  std::vector<Trace> corners, more;
  for (size_t mask = 0; mask < size_t{1} << n; ++mask)
    corners.push_back(run([&](size_t k) { return mask >> k & 1; }));
  if (n) more.push_back(run([](size_t) { return 2; }));
  for (size_t i = 0; i < n; ++i)
    for (const size_t odd : {3, 4}) try {  // one at a time: others may have to divide
        more.push_back(run([&](size_t k) { return k == i ? odd : 0; }));
      } catch (const NeedsData&) { throw; } catch (const Error&) {
      }
  std::vector<ProgramPort> ports = inputs;
  for (size_t i = 0; i < ports.size(); ++i) {
    ports[i].dim_names.clear();
    for (int k : dims.of_input[i])
      ports[i].dim_names.push_back(k < 0 ? "" : dims.names[static_cast<size_t>(k)]);
  }
  std::vector<std::string> outputs;
  for (const ProgramPort& q : p.outputs) outputs.push_back(q.name);
  return generalise(corners, more, std::move(ports), std::move(outputs), dims.names);
}

std::vector<ProgramPort> fixed_inputs(const Program& p, const RetraceOptions& o) {
  std::vector<ProgramPort> r = p.inputs;
  for (const auto& [name, dims] : o.shapes) {
    const auto it =
        std::find_if(r.begin(), r.end(), [&, n = name](const ProgramPort& q) { return q.name == n; });
    if (it == r.end())
      value_error("write_model: shapes names an input that does not exist, got '", name, "'.");
    bool fits = !it->ranked || it->dims.size() == dims.size();
    for (size_t d = 0; fits && it->ranked && d < dims.size(); ++d)
      fits = dims[d] >= 0 ? it->dims[d] < 0 || it->dims[d] == dims[d] : dims[d] == -1;
    if (!fits)
      value_error("write_model: the shape given for input `", name,
                  "` does not fit its own; -1 stands for a size that stays as it is.");
    if (!it->ranked) it->dims = dims, it->dim_names.clear(), it->ranked = true;
    else
      for (size_t d = 0; d < dims.size(); ++d)
        if (dims[d] >= 0) it->dims[d] = dims[d];
    // Other inputs that share a size by name have it, too.
    for (size_t d = 0; d < it->dim_names.size() && d < dims.size(); ++d)
      if (!it->dim_names[d].empty() && dims[d] >= 0)
        for (ProgramPort& q : r)
          for (size_t k = 0; k < q.dim_names.size() && k < q.dims.size(); ++k)
            if (q.dim_names[k] == it->dim_names[d] && q.dims[k] < 0) q.dims[k] = dims[d];
  }
  for (const ProgramPort& q : r)
    if (!q.ranked)
      value_error("write_model: input `", q.name,
                  "` takes any number of axes. Hint: give its shape, shapes={'", q.name, "': [...]}.");
  return r;
}
}  // namespace

std::shared_ptr<TracedProgram> retrace(const Program& p, const RetraceOptions& o) {
  Context::current().flush();  // what was pending before has its values now
  const std::vector<ProgramPort> inputs = fixed_inputs(p, o);
  std::exception_ptr first;
  for (const bool tied : {false, true}) {
    const OpenDims dims = number_dims(inputs, tied);
    if (tied && dims.names.size() == number_dims(inputs, false).names.size()) break;
    if (dims.names.size() > trial_sizes.most_open) {
      if (!first)
        first = std::make_exception_ptr(
            Error(ErrorKind::kValue,
                  cat("write_model: ", dims.names.size(),
                      " open sizes are too many, "
                      "expected at most ",
                      trial_sizes.most_open, ". Hint: fix some of them, shapes={name: [...]}.")));
      continue;
    }
    const bool inner =
        std::any_of(dims.first_axis.begin(), dims.first_axis.end(), [](size_t a) { return a != 0; });
    std::vector<std::pair<const Sizes*, const Sizes*>> attempts;
    for (const Sizes& s : trial_sizes.other)
      if (inner || attempts.empty()) attempts.emplace_back(&trial_sizes.batch, &s);
    for (const Sizes& s : trial_sizes.other) attempts.emplace_back(&s, &s);
    for (const auto& [batch, other] : attempts) {
      try {
        std::vector<const Sizes*> table;
        for (size_t axis : dims.first_axis) table.push_back(axis == 0 ? batch : other);
        auto r = at_sizes(p, inputs, dims, table, o);
        if (inputs.size() == p.inputs.size() && o.shapes.empty()) r->warm = p.warm;
        return r;
      } catch (const NeedsData&) {
        throw;
      } catch (const Error&) {  // these sizes do not suit the program; others may
        if (!first) first = std::current_exception();
      }
      if (dims.names.empty()) break;
    }
  }
  std::rethrow_exception(first);
}

}  // namespace yuloh
