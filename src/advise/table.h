// SPDX-License-Identifier: Apache-2.0
// Words of a question and of its answer. Each list of them is an enum with one Table, whose rows say the name
// and what hangs on it. Words are read once, at the door (src/py/advise.cpp); Python's lists are these
// tables.
#pragma once
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include "base/error.h"

namespace yuloh::advise {

// Specialised beside every enum: `what` and `hint` for errors, and `rows`, each {enumerator, name, ...}.
template <class E>
struct Table;
template <class E>
concept Word = requires {
  Table<E>::rows;
};

template <Word E>
constexpr size_t size_of_table = std::size(Table<E>::rows);
template <Word E>
constexpr const auto& row(E e) {
  return Table<E>::rows[static_cast<size_t>(e)];
}
template <Word E>
constexpr const char* name(E e) {
  return row(e).name;
}
template <Word E>
constexpr bool in_order() {  // the row of an enumerator is where row() looks
  for (size_t i = 0; i < size_of_table<E>; ++i)
    if (static_cast<size_t>(Table<E>::rows[i].id) != i) return false;
  return true;
}
template <Word E>
E read_word(std::string_view got) {
  std::string list;
  for (const auto& r : Table<E>::rows) {
    if (got == r.name) return r.id;
    list += list.empty() ? r.name : std::string(", ") + r.name;
  }
  value_error("advise: unknown ", Table<E>::what, ", got '", got, "'; expected one of ", list,
              ". Hint: check ", Table<E>::hint, ".");
}

template <class E>
struct NameRow {
  E id;
  const char* name;
};

}  // namespace yuloh::advise
