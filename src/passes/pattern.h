// SPDX-License-Identifier: Apache-2.0
// Rewrite rules as data: a rule is a name, two patterns written like op calls, and (rarely) a condition that
// may compute attributes of the right side. rules.cpp lists them; tests/cpp/passes_test.cpp checks each one
// on its samples: both sides have one type, agree on random values including 0, inf and NaN, and the right
// side costs less (or is a normal form).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ops/op.h"

namespace yuloh {

struct Pattern;
using Pat = std::shared_ptr<const Pattern>;

struct PatAttr {
  const char* name;
  const char* var = nullptr;  // bound on the left, used on the right; null: must equal `value`
  AttrValue value;
};
struct Pattern {
  enum class Kind : uint8_t { kVar, kConst, kOp } kind;
  std::string name;  // variable or op
  double value = 0;  // kConst: every element is this number
  std::vector<Pat> in;
  std::vector<PatAttr> attrs;  // attributes not named here must have their default
};
Pat any(const char* name);
Pat number(double v);
Pat op(const char* name, std::vector<Pat> in, std::vector<PatAttr> attrs = {});

struct Bindings {
  std::vector<std::pair<std::string, Value>> values;
  std::vector<std::pair<std::string, AttrValue>> attrs;
  SmallVec<const Node*, 4> nodes;  // what the pattern's ops met, the root last
  const Value* value(const std::string& name) const;
  const AttrValue* attr(const std::string& name) const;
  template <class T>
  const T& get(const std::string& name) const {
    return std::get<T>(*attr(name));
  }
  void set(const std::string& name, AttrValue v) { attrs.emplace_back(name, std::move(v)); }
};

struct RuleSample {  // one instance of the left side, for the tester
  std::vector<std::pair<std::string, TensorType>> values;
  std::vector<std::pair<std::string, AttrValue>> attrs;
  std::vector<std::pair<std::string, Value (*)(const TensorType&, const Bindings&)>>
      made;           // values that are computed
  int64_t below = 0;  // integer values lie in [0, below); 0: anywhere
};
struct Rule {
  const char* name;
  Pat from, to;
  std::vector<RuleSample> samples;
  bool (*when)(Bindings* b) = nullptr;  // may bind attributes that `to` uses
  bool fast_math = false;               // not sound for NaN, inf, signed zeros or in the last bits
  const char* normal_form = nullptr;    // why it is wanted although it does not lower the cost
  bool reorders = false;                // adds in another order: equal within the bound of contractions
  bool joins =
      false;  // one kernel for both: where one takes it whole and nobody else reads what comes between
};
const std::vector<Rule>& rules();
void add_gather_rules(std::vector<Rule>* r);  // gather_rules.cpp

bool match(const Pat& p, const Value& v, Bindings* b);
// The value of a pattern; variables and attributes come from `b`. Numbers become `full` of shape [] in
// `dtype`.
Value build(const Pat& p, const Bindings& b, DType dtype);

}  // namespace yuloh
