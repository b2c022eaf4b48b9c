// SPDX-License-Identifier: Apache-2.0
// From a recorded program to what compile_plan takes: a closed graph whose leaves are plan inputs. Weights
// are inputs that are bound once; arithmetic between weights (a folded batch norm, a cast to bf16) is
// computed once and shared by structural hash, however often and for whatever shapes it is recorded. Used by
// program.cpp only.
#pragma once
#include <functional>
#include <unordered_map>
#include <vector>

#include "run/plan_cache.h"

namespace yuloh {

struct ClosedGraph {
  Graph graph;
  std::vector<PlanInput> inputs;  // strides of leaves are the caller's to fill in
  std::vector<Value> leaves;      // per input the value it stands for; null: fed, or drawn
  std::vector<int64_t>
      drawn;  // per input > 0: the seed for that many random numbers; < 0: the offset that goes with it
};
// Copies what `roots` need of the nodes that `inside` accepts. Placeholders (kInput) keep their numbers,
// which are the positions of `fed`.
ClosedGraph close_graph(const std::vector<Value>& roots, const std::vector<TensorType>& fed,
                        bool (*inside)(const Node&));
bool belongs_to_plan(const Node& n);  // depends on a placeholder, or costs nothing (a view, a plain number)

// Arithmetic on constants is done once and ahead of time, so it must not be able to take for ever: a shape of
// a damaged or hostile file may ask for any size. Throws Error (kValue) where it reads and makes more
// elements than 2^30, or than 64 for each byte of the constants in memory.
inline constexpr double kConstantWork = 1 << 30;
void check_constant_work(const Value& v, const std::string& who);

class Constants {
 public:
  // Data of values that no placeholder reaches (a null value: null). Small data is shared by content, all
  // else by the storage it lies in. Where `later[i]` the value is computed when somebody asks for it. The
  // caller is Running. `room(bytes)` is asked before anything is computed; `done` is called after every part
  // of the computation, for pages that may go.
  std::vector<std::shared_ptr<FixedData>> resolve(const std::vector<Value>& values,
                                                  const std::vector<char>& later, const PlanOptions& options,
                                                  const std::function<void(size_t)>& room,
                                                  const std::function<void()>& done);
  Ref<Buffer> keep(FixedData& data);  // its buffer, from now on shared by everybody who asks for it
  void drop_unused();                 // what nothing else holds any more

 private:
  struct Entry {
    Ref<Buffer> buffer;
    std::vector<Ref<Storage>> from;  // storages whose addresses are part of the key
  };
  std::unordered_map<PlanKey, Entry, PlanKeyHash> map_;
};

}  // namespace yuloh
