// SPDX-License-Identifier: Apache-2.0
// Advice in Python: plain dicts in, plain dicts out, for the functions of src/advise. python/yuloh/advise
// puts catalogue, words and pages around them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "advise/choice.h"
#include "advise/decode.h"
#include "advise/grid.h"
#include "advise/group.h"
#include "advise/queue.h"
#include "py/py_tensor.h"

namespace nb = nanobind;

namespace yuloh::py {
namespace {
using namespace advise;

// One list of fields per struct serves reading and writing.
template <class V, class T>
void fields_network(V& v, T& n) {
  v("name", n.name), v("kind", n.kind), v("params", n.params), v("layers", n.layers), v("hidden", n.hidden),
      v("heads", n.heads);
  v("kv_heads", n.kv_heads), v("ffn", n.ffn), v("seq", n.seq), v("vocab", n.vocab), v("gated", n.gated),
      v("tied", n.tied);
  v("rotary", n.rotary), v("forward_flops", n.forward_flops), v("kept_elements", n.kept_elements);
  v("again_flops", n.again_flops), v("moved_elements", n.moved_elements);
  v("working_elements", n.working_elements), v("spread", n.spread), v("fixed_bytes", n.fixed_bytes);
  v("split_params", n.split_params), v("split_flops", n.split_flops), v("split_kept", n.split_kept),
      v("split_sent", n.split_sent), v("split_by", n.split_by);
  v("head_dim", n.head_dim), v("kv_rank", n.kv_rank), v("q_rank", n.q_rank), v("rope_dim", n.rope_dim);
  v("experts", n.experts), v("active", n.active), v("shared", n.shared), v("expert_ffn", n.expert_ffn),
      v("dense_layers", n.dense_layers);
}
template <class V, class T>
void fields_job(V& v, T& j) {
  v("training", j.training), v("precision", j.precision), v("optimizer", j.optimizer),
      v("recompute", j.recompute);
  v("recompute_layers", j.recompute_layers), v("offload", j.offload), v("flash", j.flash),
      v("batch", j.batch), v("micro", j.micro);
  v("new_tokens", j.new_tokens), v("dp", j.dp), v("mp", j.mp), v("pp", j.pp), v("sharding", j.sharding),
      v("stage", j.stage);
  v("sequence_parallel", j.sequence_parallel);
  v("lora", j.lora), v("lora_targets", j.lora_targets), v("weight_bits", j.weight_bits),
      v("cache_bits", j.cache_bits), v("eager", j.eager);
  v("cp", j.cp), v("ep", j.ep), v("vpp", j.vpp);
}
template <class V, class T>
void fields_device(V& v, T& d) {
  v("name", d.name), v("kind", d.kind), v("memory", d.memory), v("bandwidth", d.bandwidth);
  for (const PrecisionRow& p : Table<Precision>::rows) v(p.name, d.peaks[static_cast<size_t>(p.id)]);
  v("link", d.link), v("pair_link", d.pair_link), v("host_link", d.host_link);
  v("watts", d.watts), v("per_node", d.per_node), v("matrix_efficiency", d.matrix_efficiency);
  v("stream_efficiency", d.stream_efficiency), v("spread", d.spread), v("price", d.price),
      v("slower", d.slower);
  v("runtime", d.runtime), v("runtime_doubt", d.runtime_doubt);
}
template <class V, class T>
void fields_fabric(V& v, T& f) {
  v("rate", f.rate), v("rate_server", f.rate_server), v("latency", f.latency), v("alone", f.alone);
}
template <class V, class T>
void fields_axes(V& v, T& a) {
  v("precision", a.precision), v("recompute", a.recompute), v("mp", a.mp), v("pp", a.pp), v("data", a.data),
      v("stage", a.stage);
  v("micro", a.micro), v("cp", a.cp), v("vpp", a.vpp), v("shards", a.shards), v("ep", a.ep);
}
template <class V, class T>
void fields_freedom(V& v, T& f) {
  v("recompute", f.recompute), v("stage", f.stage), v("micro", f.micro), v("most_mp", f.most_mp);
  for (const Degree& k : kDegrees) v(k.name, f.*k.fixed);
}
template <class V, class T>
void fields_goals(V& v, T& g) {
  v("samples", g.samples), v("hours", g.hours), v("rate", g.rate), v("p99", g.p99),
      v("max_batch", g.max_batch);
  v("most", g.most), v("count", g.count), v("counts", g.counts), v("named", g.named);
}
template <class V, class T>
void fields_market(V& v, T& m) {
  v("use", m.use), v("small", m.small), v("common", m.common), v("host", m.host);
}
template <class V, class T>
void fields_way(V& v, T& w) {
  v("device", w.device), v("count", w.count), v("cost", w.cost), v("watts", w.watts), v("time", w.time);
  v("able", w.able), v("tight", w.tight);
}
template <class V, class T>
void fields_asked(V& v, T& a) {
  v("named", a.named), v("limited", a.limited), v("training", a.training), v("size", a.size),
      v("number", a.number), v("given", a.given);
}

template <class T>
void read(nb::handle h, T& to) {
  to = nb::cast<T>(h);
}
template <Word E>
void read(nb::handle h, E& to) {
  to = read_word<E>(nb::cast<std::string>(h));
}
template <Word E>
void read(nb::handle h, std::vector<E>& to) {
  for (const std::string& w : nb::cast<std::vector<std::string>>(h)) to.push_back(read_word<E>(w));
}
void read(nb::handle h, Targets& to) { to = read_targets(nb::cast<std::string>(h)); }

struct Reader {
  nb::dict from;
  size_t used = 0;
  template <class T>
  void operator()(const char* name, T& to) {
    if (!from.contains(name)) return;
    ++used;
    try {
      read(from[name], to);
    } catch (const nb::cast_error&) {
      value_error("advise: ", name, " has the wrong type, got ", nb::repr(from[name]).c_str(), ".");
    }
  }
  void end(const char* what) const {
    if (used != nb::len(from))
      value_error("advise: unknown field in the ", what, ", got ", nb::repr(from).c_str(), ".");
  }
};
struct Writer {
  nb::dict to;
  template <class T>
  void operator()(const char* key, const T& v) {
    if constexpr (Word<T> || std::is_same_v<T, Targets>) to[key] = name(v);
    else to[key] = v;
  }
};

#define YULOH_READ(Type, fields)                     \
  Type read_##fields(nb::dict from) {                \
    Type r;                                          \
    Reader reader{from};                             \
    fields_##fields(reader, r), reader.end(#fields); \
    return r;                                        \
  }
YULOH_READ(Network, network)
YULOH_READ(Job, job)
YULOH_READ(Device, device)
YULOH_READ(Fabric, fabric)
YULOH_READ(Freedom, freedom)
YULOH_READ(Axes, axes)
YULOH_READ(Goals, goals)
YULOH_READ(Market, market)
YULOH_READ(Way, way)
YULOH_READ(Asked, asked)
#undef YULOH_READ

nb::tuple object_of(const Interval& i) { return nb::make_tuple(i.low, i.point, i.high); }
nb::object object_of(const Layout& l, const Device& d) {
  Writer job;
  fields_job(job, l.job);
  nb::list items, times;
  for (const MemoryItem& i : l.memory.items)
    items.append(nb::make_tuple(name(i.what), i.bytes.low, i.bytes.point, i.bytes.high));
  for (const TimeItem& i : l.step.items) times.append(nb::make_tuple(name(i.what), i.seconds));
  nb::dict r;
  r["job"] = job.to, r["devices"] = l.job.devices(), r["micro_batch"] = l.job.micro_batch(),
  r["passes"] = l.job.passes(), r["of_server"] = of_server(l.job.devices(), l.job.mp, d);
  r["memory"] = items, r["total"] = object_of(l.memory.total), r["host"] = l.memory.host,
  r["verdict"] = verdict(l.memory, d);
  r["time"] = times, r["seconds"] = object_of(l.step.seconds), r["bubble"] = l.step.bubble,
  r["flops"] = l.step.flops;
  r["share_of_peak"] = l.step.share_of_peak, r["precision_used"] = name(l.step.precision),
  r["rate_assumed"] = l.step.rate_assumed, r["measured"] = l.step.measured;
  return r;
}

struct Question {  // what nearly every function takes
  Network n;
  Job j;
  Fabric f;
  Question(nb::dict network, nb::dict job, nb::dict fabric)
      : n(read_network(network)), j(read_job(job)), f(read_fabric(fabric)) {
    complete(n), check(j, n), check(f);
  }
};
Device device_from(nb::dict d) {
  Device r = read_device(d);
  return check(r), r;
}
std::vector<Device> devices_from(nb::list l) {
  std::vector<Device> r;
  for (nb::handle h : l) r.push_back(device_from(nb::cast<nb::dict>(h)));
  return r;
}

nb::object completed(nb::dict network) {
  Network n = read_network(network);
  nb::list remarks;
  for (const Remark& m : complete(n)) {
    nb::list one;
    one.append(name(m.what));
    for (double x : m.numbers) one.append(x);
    remarks.append(nb::tuple(one));
  }
  Writer w;
  fields_network(w, n);
  nb::dict r;
  r["network"] = w.to, r["remarks"] = remarks, r["class"] = size_class(n.params),
  r["forward_flops"] = forward_flops(n);
  r["layer_params"] = layer_params(n), r["embedding_params"] = embedding_params(n),
  r["head_params"] = head_params(n), r["shape_params"] = n.transformer() ? shape_params(n) : n.params;
  r["active_params"] = active_params(n), r["expert_params"] = expert_params(n);
  return r;
}
nb::object layout(nb::dict network, nb::dict job, nb::dict device, nb::dict fabric) {
  const Question q(network, job, fabric);
  const Device d = device_from(device);
  nb::object r = object_of(layout_of(q.n, q.j, d, q.f), d);
  r["largest_micro_batch"] = largest_micro_batch(q.n, q.j, d);
  r["largest_tight"] = largest_micro_batch(q.n, q.j, d, false);
  return r;
}
nb::object search(nb::dict network, nb::dict job, nb::dict device, nb::dict fabric, double devices,
                  nb::dict freedom, size_t keep) {
  const Question q(network, job, fabric);
  const Device d = device_from(device);
  nb::list r;
  for (const Layout& l : search_layouts(q.n, q.j, d, q.f, devices, read_freedom(freedom), keep))
    r.append(object_of(l, d));
  return r;
}
nb::object change_list(nb::dict network, nb::dict job, nb::dict device, nb::dict fabric, bool together) {
  const Question q(network, job, fabric);
  const Device d = device_from(device);
  nb::list r;
  for (const Change& c : together ? changes_to_fit(q.n, q.j, d, q.f) : changes(q.n, q.j, d, q.f)) {
    nb::dict one;
    one["what"] = name(c.what), one["detail"] = c.detail, one["saved"] = c.saved,
    one["time_factor"] = c.time_factor, one["fits"] = c.fits, one["same"] = c.same;
    one["after"] = object_of(c.after, d);
    r.append(one);
  }
  return r;
}
nb::object rescue_list(nb::dict network, nb::dict job, nb::dict device, nb::dict fabric, double devices,
                       nb::dict freedom) {
  const Question q(network, job, fabric);
  const Device d = device_from(device);
  nb::list r;
  for (const Rescue& found : rescues(q.n, q.j, d, q.f, devices, read_freedom(freedom))) {
    Writer asked;
    fields_job(asked, found.job);
    nb::dict one;
    one["job"] = asked.to, one["layout"] = object_of(found.best, d);
    r.append(one);
  }
  return r;
}
nb::object grid(nb::dict network, nb::dict job, nb::list devices, nb::dict fabric, nb::dict axes) {
  const Question q(network, job, fabric);
  const Grid g = grid_of(q.n, q.j, devices_from(devices), q.f, read_axes(axes));
  nb::dict r;
  r["low"] = nb::cast(g.low), r["point"] = nb::cast(g.point), r["high"] = nb::cast(g.high),
  r["memory_of"] = nb::cast(g.memory_of), r["seconds"] = nb::cast(g.seconds);
  return r;
}
nb::object queue(double rate, std::vector<double> seconds, size_t stages) {  // of batches 1, 2, ...
  if (seconds.empty() || !(rate > 0 && std::isfinite(rate)))
    value_error("advise: a queue needs a rate above 0 and the time of a batch, got rate ", rate, " and ",
                seconds.size(), " times.");
  for (double s : seconds)
    if (!(s > 0 && std::isfinite(s)))
      value_error("advise: the seconds of a batch must be finite and above 0, got ", s, ".");
  if (stages < 1 || stages > 1024) value_error("advise: a pipeline has 1 to 1,024 stages, got ", stages, ".");
  const Queue q = queue_of(
      rate, static_cast<double>(seconds.size()),
      [&](double b) { return seconds[static_cast<size_t>(b) - 1]; }, stages);
  nb::dict r;
  r["p50"] = q.p50, r["p99"] = q.p99, r["batch"] = q.batch, r["busy"] = q.busy, r["load"] = q.load;
  return r;
}

// -- the choice of devices: below 0 stands for what is not known -------------------------------------------
nb::object known(double v) { return v < 0 ? nb::object(nb::none()) : nb::object(nb::float_(v)); }
long whole(double v) { return static_cast<long>(v); }

nb::object served(const Question& q, const Layout& l, const Device& d) {
  nb::object r = object_of(l, d);
  r["largest_micro_batch"] = largest_micro_batch(q.n, l.job, d);
  return r;
}
nb::object group(nb::dict network, nb::dict job, nb::dict device, nb::dict fabric, double count,
                 nb::dict freedom) {
  const Question q(network, job, fabric);
  const Device d = device_from(device);
  const Freedom free = read_freedom(freedom);
  check(free);
  const auto l = group_layout(q.n, q.j, d, q.f, count, free);
  return l ? served(q, *l, d) : nb::object(nb::none());
}
nb::dict object_of(const Option& o, const Question& q, const Device& d, const Ranking& ranking) {
  nb::dict one;
  one["device"] = o.device, one["count"] = whole(o.count), one["cost"] = known(o.cost),
  one["watts"] = o.watts, one["time"] = o.time, one["tight"] = o.tight, one["rank"] = ranking.amount(o),
  one["sure"] = o.sure;
  one["layout"] = !o.layout      ? nb::object(nb::none())
                  : q.j.training ? object_of(*o.layout, d)
                                 : served(q, *o.layout, d);
  if (o.hours.point > 0)
    one["hours"] = object_of(o.hours), one["kilowatt_hours"] = o.kilowatt_hours, one["in_time"] = o.able,
    one["pareto"] = o.pareto;
  if (!o.layout)
    one["slow"] = o.slow, one["group"] = o.group, one["copies"] = o.copies, one["batch"] = o.batch,
    one["p50"] = o.p50, one["p99"] = o.p99, one["seconds"] = object_of(o.seconds), one["busy"] = o.busy,
    one["load"] = o.load, one["most_rate"] = o.most_rate, one["possible"] = o.able,
    one["cost_year"] = known(o.cost_year), one["per_money"] = known(o.per_money);
  return one;
}
nb::dict object_of(const Ranking& r) {
  nb::dict to;
  to["by"] = r.priced ? "cost" : "watts", to["order"] = nb::cast(r.order), to["each"] = nb::cast(r.each),
  to["picks"] = nb::cast(r.picks), to["late"] = nb::cast(r.late), to["first"] = nb::cast(r.first),
  to["cheaper"] = nb::cast(r.cheaper), to["next"] = nb::cast(r.next), to["why"] = name(r.why);
  to["given"] = nb::cast(r.kept);
  return to;
}
std::vector<Market> markets_from(nb::list l) {
  std::vector<Market> r;
  for (nb::handle h : l) r.push_back(read_market(nb::cast<nb::dict>(h)));
  return r;
}
nb::object chosen(nb::dict network, nb::dict job, nb::list devices, nb::list markets, nb::dict fabric,
                  nb::dict goals, nb::dict freedom) {
  const Question q(network, job, fabric);
  const std::vector<Device> all = devices_from(devices);
  const Choice c =
      choose(q.n, q.j, all, markets_from(markets), q.f, read_goals(goals), read_freedom(freedom));
  nb::list rows;
  for (const Option& o : c.options) rows.append(object_of(o, q, all[o.device], c.ranking));
  nb::dict r = object_of(c.ranking);
  r["rows"] = rows;
  r["sure"] =
      c.sure ? nb::object(object_of(*c.sure, q, all[c.sure->device], c.ranking)) : nb::object(nb::none());
  return r;
}
// The rule alone: ways are dicts of the fields of Way.
nb::object ranked(nb::list ways, nb::list markets, nb::dict asked) {
  std::vector<Way> all;
  for (nb::handle h : ways) all.push_back(read_way(nb::cast<nb::dict>(h)));
  return object_of(rank(all, markets_from(markets), read_asked(asked)));
}
nb::object rates(nb::dict network, nb::dict job, nb::list devices, nb::dict fabric, double max_batch,
                 nb::dict freedom) {
  const Question q(network, job, fabric);
  nb::list rows;
  for (const Device& d : devices_from(devices)) {
    const RateOption o = rates_of(q.n, q.j, d, q.f, max_batch, read_freedom(freedom));
    nb::dict one;
    one["fp32"] = known(o.fp32), one["fp16"] = known(o.fp16), one["int8"] = known(o.int8),
    one["per_money"] = known(o.per_money), one["per_watt_hour"] = known(o.per_watt_hour);
    rows.append(one);
  }
  return rows;
}
nb::object year(double runs_per_day, double hours_saved, double servers, double price, double days) {
  const Yearly y = yearly(runs_per_day, hours_saved, servers, price, days);
  return nb::make_tuple(y.hours, y.money, whole(y.machines));
}
nb::object energy_prices(nb::list devices, double kilowatt_hour, bool listed) {
  nb::list r;
  for (const Device& d : devices_from(devices)) r.append(known(with_energy(d, kilowatt_hour, listed)));
  return r;
}

nb::dict object_of(const Decoding& found) {
  nb::list rows;
  for (const DecodeRow& o : found.rows) {
    nb::dict one;
    one["batch"] = o.batch, one["token"] = o.token, one["cache"] = o.cache, one["tokens"] = o.tokens,
    one["requests"] = o.requests;
    rows.append(one);
  }
  nb::dict r;
  r["most"] = object_of(found.most), r["room"] = object_of(found.room), r["cache_token"] = found.cache_token,
  r["context"] = found.context, r["prompt"] = found.prompt, r["rows"] = rows;
  return r;
}
nb::object decoding(nb::dict network, nb::dict job, nb::dict device, nb::dict fabric, double share) {
  const Question q(network, job, fabric);
  return object_of(decoding_of(q.n, q.j, device_from(device), q.f, share));
}
nb::object group_decoding(nb::dict network, nb::dict job, nb::dict device, nb::dict fabric, double share,
                          nb::dict freedom) {
  const Question q(network, job, fabric);
  const auto found = decoding_on(q.n, q.j, device_from(device), q.f, share, read_freedom(freedom));
  if (!found) return nb::none();
  nb::dict r = object_of(found->decoding);
  r["group"] = whole(found->group);
  return r;
}

// -- the words of a question, as tuples (python/yuloh/advise/terms.py) -------------------------------------
template <class Rows, class Of>
nb::tuple column(const Rows& rows, const Of& of) {
  nb::list r;
  for (const auto& one : rows) r.append(of(one));
  return nb::tuple(r);
}
template <Word E>
nb::tuple names_of() {
  return column(Table<E>::rows, [](const auto& r) { return r.name; });
}
nb::object terms() {
  nb::dict r;
  r["precision"] = names_of<Precision>(), r["optimizer"] = names_of<Optimizer>();
  r["recompute"] = names_of<Recompute>(), r["offload"] = names_of<Offload>();
  r["target"] = names_of<Target>(), r["model"] = names_of<ModelKind>(), r["device"] = names_of<DeviceKind>();
  r["memory"] = names_of<MemoryKind>(), r["time"] = names_of<TimeKind>(),
  r["change"] = names_of<ChangeKind>();
  r["use"] = names_of<Use>(), r["why"] = names_of<Why>();
  r["degree"] = column(kDegrees, [](const Degree& k) { return k.name; });
  r["dtype"] = column(Table<Precision>::rows, [](const PrecisionRow& p) { return p.dtype; });
  r["class"] = column(Table<Optimizer>::rows, [](const OptimizerRow& o) { return o.class_name; });
  r["parts"] = column(Table<Target>::rows, [](const TargetRow& t) { return t.parts; });
  r["talk"] = column(Table<TimeKind>::rows, [](const TimeRow& t) { return t.talk; });
  r["same"] = column(Table<ChangeKind>::rows, [](const ChangeRow& c) { return c.same; });
  r["kernels_of_layer"] = kKernelsOfLayer;
  Writer job;
  const Job plain;
  fields_job(job, plain), r["job"] = job.to;
  return r;
}

}  // namespace

void bind_advise(nb::module_& m) {
  using namespace nb::literals;
  m.def("advise_terms", &terms);
  m.def("advise_network", &completed, "network"_a);
  m.def("advise_layout", &layout, "network"_a, "job"_a, "device"_a, "fabric"_a);
  m.def("advise_search", &search, "network"_a, "job"_a, "device"_a, "fabric"_a, "devices"_a, "freedom"_a,
        "keep"_a);
  m.def("advise_changes", &change_list, "network"_a, "job"_a, "device"_a, "fabric"_a, "together"_a);
  m.def("advise_rescues", &rescue_list, "network"_a, "job"_a, "device"_a, "fabric"_a, "devices"_a,
        "freedom"_a);
  m.def("advise_decoding", &decoding, "network"_a, "job"_a, "device"_a, "fabric"_a, "share"_a);
  m.def("advise_grid", &grid, "network"_a, "job"_a, "devices"_a, "fabric"_a, "axes"_a);
  m.def("advise_group", &group, "network"_a, "job"_a, "device"_a, "fabric"_a, "count"_a, "freedom"_a);
  m.def("advise_group_decoding", &group_decoding, "network"_a, "job"_a, "device"_a, "fabric"_a, "share"_a,
        "freedom"_a);
  m.def(
      "advise_link", [](nb::dict device, double group) { return device_from(device).between(group); },
      "device"_a, "group"_a);
  m.def("advise_choose", &chosen, "network"_a, "job"_a, "devices"_a, "markets"_a, "fabric"_a, "goals"_a,
        "freedom"_a);
  m.def("advise_rank", &ranked, "ways"_a, "markets"_a, "asked"_a);
  m.def("advise_rates", &rates, "network"_a, "job"_a, "devices"_a, "fabric"_a, "max_batch"_a, "freedom"_a);
  m.def("advise_queue", &queue, "rate"_a, "seconds"_a, "stages"_a = 1);
  m.def("advise_with_energy", &energy_prices, "devices"_a, "kilowatt_hour"_a, "listed"_a);
  m.def("advise_yearly", &year, "runs_per_day"_a, "hours_saved"_a, "servers"_a, "price"_a, "days"_a = 365.0);
}

}  // namespace yuloh::py
