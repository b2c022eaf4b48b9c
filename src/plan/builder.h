// SPDX-License-Identifier: Apache-2.0
// PlanBuilder: the working state of one compilation (compile.cpp decides layouts and kernels, schedule.cpp
// the order, memory.cpp bytes). Private to plan/. Values are numbered; a view's value points at its root with
// an offset, so views cost nothing at run time.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "plan/plan.h"
#include "tile/fuse.h"

namespace yuloh {

struct PlanValue {
  TensorType type;
  Ints strides;
  int root;            // the value that owns the storage (itself, unless a view)
  int64_t offset = 0;  // elements from the root's first byte
  bool is_output = false, donatable = false, written = false;
};

struct BuildStep {
  std::shared_ptr<Kernel> kernel;
  std::shared_ptr<TileProgram> program;  // tile steps: to decide in-place safety
  std::vector<int> in, out;              // value numbers
  int origin = -1;
  std::string what, refused;
  std::string_view kind = "elementwise";
  bool checks = false, may_donate = false;
};

class PlanBuilder {
 public:
  PlanBuilder(const Graph& graph, std::vector<PlanInput> inputs, const PlanOptions& options);
  std::shared_ptr<const Plan> build();

 private:
  struct Unit {
    TileGroup group;
    Node* node;
    uint32_t position, due = UINT32_MAX;  // due: where what reads its results would like to run
    bool late = false, checks = false, may_donate = true;
    std::vector<int> donatable_in;  // donatable inputs (value numbers) that it reads
    std::vector<int> wanted;        // those of them that one of its results may take over
  };
  int id(const Value& v) const;
  int new_value(const TensorType& t, Ints strides);
  void number_values();
  void assign_layouts();
  void layout_view(Node& n);
  void layout_tile(Node& n);
  void layout_library(Node& n);
  LayoutWish wish(const Node& n) const;
  // schedule.cpp
  void make_units();
  void find_due(const std::vector<std::vector<int>>& users);
  bool writes_donatable(const Unit& u) const;
  void find_donatable(Unit* u) const;
  void schedule(const std::vector<std::vector<int>>& users, std::vector<int>& waits);
  // compile.cpp
  FuseContext fuse_context() const;
  int copied(int v, const Ints& strides);
  void emit_copy(int from, int to, int origin);
  int use(int v, const Ints* strides, int origin);
  void ensure_written(int v, int origin);
  void emit_group(Unit& u);
  void emit_node(Unit& u);
  void emit_constant(Node& n);
  // memory.cpp
  void plan_memory();
  struct Homes {
    std::vector<int> home;   // value -> the result in whose storage it lies, or -1
    std::vector<int> donor;  // result -> the donated input that it takes over, or -1
  };
  Homes find_homes(const std::vector<int>& last_use, const std::vector<char>& leaves,
                   const std::vector<char>& donatable);
  bool covers(int view, int root) const;
  int take_over(const BuildStep& s, int step, int out, const std::vector<int>& last_use,
                const std::vector<char>& taken, const std::function<bool(int)>& offered);

  PlanOptions options_;
  std::shared_ptr<Plan> plan_;
  Graph graph_;
  std::vector<Node*> order_;
  std::vector<int> base_;
  std::vector<PlanValue> values_;
  std::vector<std::pair<int, int>> copies_;
  std::unordered_map<int, int> constant_of_;
  std::vector<Unit> units_;
  std::vector<int> schedule_;
  std::vector<BuildStep> steps_;
  std::vector<int> output_ids_;
};

std::unique_ptr<Kernel> make_region_kernel(const KernelRequest& r, const Graph& body,
                                           const PlanOptions& options);

}  // namespace yuloh
