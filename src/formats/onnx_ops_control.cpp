// SPDX-License-Identifier: Apache-2.0
// ONNX mappings: control flow, sequences, optionals. All of it happens while recording: a branch is chosen
// when its condition is known, loops are unrolled, sequences are lists of values.
#include <algorithm>

#include "formats/onnx_ops.h"

namespace yuloh::formats {
namespace {
Item item_of(Value v) {
  Item i;
  i.value = std::move(v);
  return i;
}
List list_of_values(std::vector<Value> v) { return std::make_shared<const std::vector<Value>>(std::move(v)); }

void branch(Import& i) {
  const bool yes = first(i, 0) != 0;
  std::vector<Item> r = i.run_items(i.graph_attr(yes ? "then_branch" : "else_branch"), {});
  for (size_t k = 0; k < r.size(); ++k) i.set_item(k, std::move(r[k]));
}

// Loop: inputs trip count, condition, state; the body takes (iteration, condition, state) and gives
// (condition, state, one slice of each scan output).
void loop(Import& i) {
  const bool limited = i.has(0), conditional = i.has(1);
  const int64_t trips = limited ? first(i, 0) : INT64_MAX;
  bool go = !conditional || first(i, 1) != 0;
  const ModelGraph& body = i.graph_attr("body");
  const size_t n_state = i.n_inputs() > 2 ? i.n_inputs() - 2 : 0;
  if (body.outputs.size() < 1 + n_state || body.inputs.size() != 2 + n_state)
    value_error("Loop: the body has ", body.inputs.size(), " inputs and ", body.outputs.size(),
                " outputs for ", n_state, " state values.");
  if (limited && go && (!conditional || body.outputs[0].name == body.inputs[1].name))
    i.expect_trips(trips, body);
  const size_t n_scan = body.outputs.size() - 1 - n_state;
  std::vector<Item> state;
  for (size_t k = 0; k < n_state; ++k) state.push_back(i.item(k + 2));
  std::vector<Values> scans(n_scan);
  std::vector<int> stored(n_scan, 0);
  Value condition = full({}, 1, DType::kBool);
  for (int64_t t = 0; t < trips && go; ++t) {
    std::vector<Item> in{item_of(data_of(std::vector<int64_t>{t}, {})), item_of(condition)};
    in.insert(in.end(), state.begin(), state.end());
    const Import::Held held(i, &state, &scans);  // a condition that is read may run what was recorded
    std::vector<Item> out = i.run_items(body, std::move(in));
    for (size_t k = 0; k < n_state; ++k) state[k] = out[1 + k];
    for (size_t k = 0; k < n_scan; ++k)
      scans[k].push_back(out[1 + n_state + k].value), stored[k] = out[1 + n_state + k].stored_as;
    go = i.truth(out[0].value, "the loop's condition");
  }
  for (size_t k = 0; k < n_state; ++k) i.set_item(k, state[k]);
  for (size_t k = 0; k < n_scan; ++k) {
    if (scans[k].empty()) {
      const Port& p = body.outputs[1 + n_state + k];
      Shape s{0};
      for (int64_t d : p.dims) s.push_back(std::max<int64_t>(d, 0));
      i.set_item(n_state + k, item_of(full(s, 0, p.dtype)));
      continue;
    }
    Item r = item_of(call("stack", scans[k], {{"axis", 0}}));
    r.stored_as = stored[k];
    i.set_item(n_state + k, std::move(r));
  }
}

void scan(Import& i) {
  if (i.opset() < 9) {  // with a batch axis and an optional first input
    if (i.has(0)) i.unsupported("sequence_lens");
  }
  const bool old = i.opset() < 9;
  const size_t first = old ? 1 : 0;
  const ModelGraph& body = i.graph_attr("body");
  const size_t n_scan = static_cast<size_t>(bounded(i, "num_scan_inputs", 1, 0, 1 << 20)),
               n_in = i.n_inputs() - first;
  if (n_scan > n_in || body.inputs.size() != n_in)
    value_error("Scan: the body takes ", body.inputs.size(), " inputs; expected ", n_in, ".");
  expect(i, i.n_inputs() > first && body.outputs.size() >= n_in - n_scan,
         "a body that gives every state back");
  const size_t n_state = n_in - n_scan, n_out = body.outputs.size() - n_state;
  const Ints in_axes = i.ints_attr("scan_input_axes", Ints(static_cast<uint32_t>(n_scan), 0));
  const Ints in_dirs =
      i.ints_attr(old ? "directions" : "scan_input_directions", Ints(static_cast<uint32_t>(n_scan), 0));
  const Ints out_axes = i.ints_attr("scan_output_axes", Ints(static_cast<uint32_t>(n_out), 0));
  const Ints out_dirs = i.ints_attr("scan_output_directions", Ints(static_cast<uint32_t>(n_out), 0));
  expect(i,
         in_axes.size() == n_scan && in_dirs.size() == n_scan && out_axes.size() == n_out &&
             out_dirs.size() == n_out,
         "an axis and a direction for every scanned value");
  const int64_t batches = old ? i.in(first).shape()[0] : 1;
  std::vector<Values> per_output(n_state + n_out);
  for (int64_t b = 0; b < batches; ++b) {
    auto entry = [&](size_t k) {
      const Value v = i.in(first + k);
      return old ? squeeze(narrow(v, 0, b, 1), 0) : v;
    };
    std::vector<Item> state;
    for (size_t k = 0; k < n_state; ++k) state.push_back(item_of(entry(k)));
    std::vector<Values> outs(n_out);
    std::vector<Values> slices(n_scan);
    int64_t steps = -1;
    for (size_t k = 0; k < n_scan; ++k) {
      const Value v = entry(n_state + k);
      const int64_t axis = axis_of(i, in_axes[k], v.rank()), n = v.shape()[axis];
      if (steps >= 0 && steps != n) value_error("Scan: inputs have ", steps, " and ", n, " steps.");
      steps = n;
      for (int64_t t = 0; t < n; ++t)
        slices[k].push_back(squeeze(narrow(v, axis, in_dirs[k] ? n - 1 - t : t, 1), axis));
    }
    for (int64_t t = 0; t < steps; ++t) {
      std::vector<Item> in = state;
      for (size_t k = 0; k < n_scan; ++k) in.push_back(item_of(slices[k][t]));
      std::vector<Item> r = i.run_items(body, std::move(in));
      for (size_t k = 0; k < n_state; ++k) state[k] = r[k];
      for (size_t k = 0; k < n_out; ++k) outs[k].push_back(r[n_state + k].value);
    }
    for (size_t k = 0; k < n_state; ++k) per_output[k].push_back(state[k].value);
    for (size_t k = 0; k < n_out; ++k) {
      if (outs[k].empty()) i.unsupported("no steps");
      Values& v = outs[k];
      if (out_dirs[k]) std::reverse(v.begin(), v.end());
      per_output[n_state + k].push_back(
          call("stack", v, {{"axis", axis_of(i, out_axes[k], v[0].rank() + 1)}}));
    }
  }
  for (size_t k = 0; k < per_output.size(); ++k)
    i.set_item(k, item_of(old ? call("stack", per_output[k], {{"axis", 0}}) : per_output[k][0]));
}

// ---- sequences ----
const std::vector<Value>& sequence(const Import& i, size_t k) {
  const List l = i.list_in(k);
  if (!l) type_error(describe_node(i.node), ": input ", k, " is a tensor; expected a sequence.");
  return *l;
}
int64_t position(const Import& i, size_t k, int64_t n, int64_t otherwise, int64_t limit) {
  if (!i.has(k)) return otherwise;
  int64_t p = first(i, k);
  if (p < 0) p += n;
  if (p < 0 || p >= limit) index_error(describe_node(i.node), ": position ", p, " of a sequence of ", n, ".");
  return p;
}
void construct(Import& i) {
  std::vector<Value> v;
  for (size_t k = 0; k < i.n_inputs(); ++k) v.push_back(i.in(k));
  i.list_out(0, list_of_values(std::move(v)));
}
void at(Import& i) {
  const auto& s = sequence(i, 0);
  const int64_t n = static_cast<int64_t>(s.size());
  i.set_item(0, item_of(s[position(i, 1, n, 0, n)]));
}
void insert(Import& i) {
  std::vector<Value> v = sequence(i, 0);
  const int64_t n = static_cast<int64_t>(v.size());
  v.insert(v.begin() + position(i, 2, n, n, n + 1), i.in(1));
  i.list_out(0, list_of_values(std::move(v)));
}
void erase(Import& i) {
  std::vector<Value> v = sequence(i, 0);
  const int64_t n = static_cast<int64_t>(v.size());
  v.erase(v.begin() + position(i, 1, n, n - 1, n));
  i.list_out(0, list_of_values(std::move(v)));
}
void split_to(Import& i) {
  const Value x = i.in(0);
  const int64_t axis = axis_of(i, i.integer("axis", 0), x.rank()), n = x.shape()[axis];
  Ints sizes;
  bool keep = true;
  if (!i.has(1)) {
    sizes = Ints(static_cast<uint32_t>(n), 1), keep = i.integer("keepdims", 1);
  } else {
    const Ints given = i.ints(1);
    if (i.in(1).rank() == 0) {
      if (given[0] < 1) value_error("SplitToSequence: split is ", given[0], ".");
      for (int64_t k = 0; k < n; k += given[0]) sizes.push_back(std::min(given[0], n - k));
    } else {
      sizes = given;
    }
  }
  std::vector<Value> v;
  for (const Value& part : split(x, sizes, axis)) v.push_back(keep ? part : squeeze(part, axis));
  i.list_out(0, list_of_values(std::move(v)));
}
void concat_from(Import& i) {
  Values v;
  for (const Value& x : sequence(i, 0)) v.push_back(x);
  if (v.empty()) value_error("ConcatFromSequence: the sequence is empty.");
  const bool stack = i.integer("new_axis", 0);
  const int64_t axis = axis_of(i, i.integer("axis", 0), v[0].rank() + stack);
  i.set_item(0, item_of(stack ? call("stack", v, {{"axis", axis}}) : concat(v, axis)));
}
void sequence_map(Import& i) {
  const ModelGraph& body = i.graph_attr("body");
  const auto& first = sequence(i, 0);
  std::vector<std::vector<Value>> out(body.outputs.size());
  for (size_t t = 0; t < first.size(); ++t) {
    std::vector<Item> in;
    for (size_t k = 0; k < i.n_inputs(); ++k) {
      const List l = i.list_in(k);
      in.push_back(l ? item_of(l->at(t)) : i.item(k));
    }
    const std::vector<Item> r = i.run_items(body, std::move(in));
    for (size_t k = 0; k < r.size(); ++k) out[k].push_back(r[k].value);
  }
  for (size_t k = 0; k < out.size(); ++k) i.list_out(k, list_of_values(std::move(out[k])));
}
// ---- optionals: what they hold, or an item of nothing ----
void optional(Import& i) { i.set_item(0, i.has(0) ? i.item(0) : Item()); }
void get_element(Import& i) {
  if (!i.has(0)) value_error("OptionalGetElement: the optional is empty.");
  i.set_item(0, i.item(0));
}
void has_element(Import& i) { i.set_item(0, item_of(full({}, i.has(0) ? 1 : 0, DType::kBool))); }

const ImportTable table(
    Dialect::kOnnx,
    {
        {"If", branch},
        {"Loop", loop},
        {"Scan", scan},
        {"SequenceConstruct", construct},
        {"SequenceAt", at},
        {"SequenceInsert", insert},
        {"SequenceEmpty", [](Import& i) { i.list_out(0, list_of_values({})); }},
        {"SequenceErase", erase},
        {"SequenceLength",
         [](Import& i) {
           i.set_item(
               0, item_of(data_of(std::vector<int64_t>{static_cast<int64_t>(sequence(i, 0).size())}, {})));
         }},
        {"SplitToSequence", split_to},
        {"ConcatFromSequence", concat_from},
        {"SequenceMap", sequence_map},
        {"Optional", optional},
        {"OptionalGetElement", get_element},
        {"OptionalHasElement", has_element},
    });
}  // namespace
}  // namespace yuloh::formats
