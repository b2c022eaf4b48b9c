// SPDX-License-Identifier: Apache-2.0
// Running a Plan: allocate everything up front, then call the kernels in order.
#include <array>
#include <new>

#include "base/poll.h"
#include "plan/plan.h"
#include "plan/profile.h"

namespace yuloh {
namespace {
struct Bound {
  std::vector<void*> inputs, own, constants;
  std::vector<std::array<char, 16>> scalars;
  char* arena = nullptr;
  void* at(const Slot& s) {
    switch (s.kind) {
      case Slot::Kind::kInput: return static_cast<char*>(inputs[s.index]) + s.offset;
      case Slot::Kind::kOwn: return static_cast<char*>(own[s.index]) + s.offset;
      case Slot::Kind::kArena: return arena + s.offset;
      case Slot::Kind::kScalar: return scalars[s.index].data();
      case Slot::Kind::kConst: return static_cast<char*>(constants[s.index]) + s.offset;
    }
    return nullptr;
  }
};
}  // namespace

void run_plan(const Plan& plan, PlanRun* r, const std::function<void()>& poll) {
  // Everything is allocated before the first kernel runs: a failure here leaves every tensor as it was.
  const int32_t number = profile::on() ? static_cast<int32_t>(profile::plan_number(plan, {})) : -1;
  const auto take = [&](auto allocate, size_t bytes, int32_t result) {
    if (number < 0) return allocate(bytes);
    const profile::HolderScope holder(number, result);
    return allocate(bytes);
  };
  std::vector<Ref<Storage>> own;
  own.reserve(plan.own_bytes.size());
  for (size_t i = 0; i < plan.own_bytes.size(); ++i)
    own.push_back(plan.own_donor[i] >= 0
                      ? r->inputs[plan.own_donor[i]]->storage
                      : take(allocate_storage, plan.own_bytes[i], static_cast<int32_t>(i)));
  Ref<Storage> arena;
  if (plan.arena_bytes) arena = take(allocate_scratch, plan.arena_bytes, -1);
  Bound b;
  b.arena = arena ? static_cast<char*>(arena->data) : nullptr;
  b.scalars.resize(plan.inputs.size());
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const PlanInput& in = plan.inputs[i];
    b.inputs.push_back(in.scalar || !r->inputs[i] ? nullptr : r->inputs[i]->data());  // null: nobody reads it
    if (!in.scalar) continue;
    if (is_integral(in.type.dtype)) store_int(b.scalars[i].data(), in.type.dtype, r->scalars_int[i]);
    else store_double(b.scalars[i].data(), in.type.dtype, r->scalars_double[i]);
  }
  for (auto& s : own) b.own.push_back(s->data);
  for (auto& c : plan.constants) b.constants.push_back(c->data);

  const bool dry = in_dry_memory();
  for (size_t i = 0; !dry && i < plan.inputs.size(); ++i)
    if (!plan.inputs[i].scalar && r->inputs[i] && r->inputs[i]->storage->dry)
      fail(ErrorKind::kRuntime,
           "dry run: a tensor of a dry run is used outside of it; its value was never computed.");

  std::vector<void*> ptrs;
  int since_poll = 0;
  for (const Step& s : plan.steps) {
    if (poll && !r->wrote_donated && ++since_poll >= 4) since_poll = 0, poll();
    ptrs.clear();
    for (const Slot& x : s.slots) ptrs.push_back(b.at(x));
    if (s.donates) r->wrote_donated = true;
    try {
      const PollBetweenChunks interruptible(poll && !r->wrote_donated ? &poll : nullptr);
      const int64_t begin = number >= 0 ? profile::now() : 0;
      dry ? s.kernel->rehearse(ptrs.data()) : s.kernel->run(ptrs.data());
      if (begin) profile::kernel_ran(number, static_cast<uint32_t>(&s - plan.steps.data()), begin);
    } catch (const std::bad_alloc&) {
      r->failed_origin = s.origin;
      fail(ErrorKind::kMemory, s.what,
           ": out of memory for a kernel's own working space. Hint: use a smaller batch.");
    } catch (...) {
      r->failed_origin = s.origin;
      throw;
    }
  }
  r->outputs.reserve(plan.outputs.size());
  for (const PlanOutput& o : plan.outputs) {
    // State that was updated in place is the buffer it was, layout and all: nothing is made, nothing freed.
    const int32_t donor = o.slot.kind == Slot::Kind::kOwn ? plan.own_donor[o.slot.index] : -1;
    if (donor >= 0 && o.slot.offset == 0 && r->inputs[donor]->offset == 0 &&
        r->inputs[donor]->strides == o.strides) {
      r->outputs.push_back(r->inputs[donor]);
      continue;
    }
    auto buf = make_ref<Buffer>();
    buf->strides = o.strides;
    buf->offset = o.slot.offset;
    if (o.slot.kind == Slot::Kind::kOwn) buf->storage = own[o.slot.index];
    else if (o.slot.kind == Slot::Kind::kConst) buf->storage = plan.constants[o.slot.index];
    else if (o.slot.kind == Slot::Kind::kInput) {
      buf->storage = r->inputs[o.slot.index]->storage;
      buf->offset += r->inputs[o.slot.index]->offset;
    } else {  // a scalar input returned as a value
      buf->storage = allocate_storage(16);
      __builtin_memcpy(buf->storage->data, b.at(o.slot), 16);
      buf->offset = 0;
    }
    r->outputs.push_back(std::move(buf));
  }
}

void Plan::keeps(KeptBytes* k) const {
  k->add(sizeof *this + inputs.size() * sizeof(PlanInput) + outputs.size() * sizeof(PlanOutput) +
         own_bytes.size() * 12);
  for (const Step& s : steps) {
    k->add(sizeof s + s.slots.capacity() * sizeof(Slot) + s.what.capacity());
    if (k->first(s.kernel.get())) s.kernel->keeps(k);
  }
  for (const auto& c : constants) k->add(sizeof *c + c->bytes);
  for (const std::string& line : explain) k->add(sizeof line + line.capacity());
}

std::string Plan::dump() const {
  std::string s = cat("plan: ", steps.size(), " steps, arena ", arena_bytes, " B, peak ", peak_bytes, " B, ",
                      cost.flops / 1e9, " GFLOP, ", cost.bytes / 1e9, " GB moved\n");
  for (size_t i = 0; i < steps.size(); ++i) {
    s += cat(i, ": ", steps[i].what, " [", steps[i].kernel->describe(), "]");
    for (const Slot& x : steps[i].slots) {
      s += cat(" ", "IOASC"[static_cast<int>(x.kind)], x.index, "+", x.offset);
      if (x.kind == Slot::Kind::kOwn && own_donor[x.index] >= 0) s += cat("<-I", own_donor[x.index]);
    }
    s += steps[i].donates ? " in-place\n" : "\n";
  }
  return s;
}

}  // namespace yuloh
