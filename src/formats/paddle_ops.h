// SPDX-License-Identifier: Apache-2.0
// What the mappings of Paddle's operators share.
#pragma once
#include "formats/compose.h"
#include "formats/import.h"

namespace yuloh::formats::paddle {

// The row of the op table with the operator's own name (or `row`): tensors by position; a static argument is
// the attribute of its name, or, where PIR passes it as a tensor, the next input's value.
void by_schema(Import& i, const char* row);
inline void same_row(Import& i) { by_schema(i, i.node.type.c_str()); }
template <const char* kRow>
void as_row(Import& i) {
  by_schema(i, kRow);
}

// Arguments come in groups: a tensor is a group of one, a list one of many. Names of group g start at
// first(g).
size_t groups(const Import& i);
size_t first(const Import& i, size_t g);
size_t count(const Import& i, size_t g);
Value group_in(const Import& i, size_t g);  // null when left out
Values group_list(const Import& i, size_t g);
// Integers of a size-like argument: the tensor of group g, else the scalars of list group `list` (0: none),
// else the attribute.
Ints sizes(const Import& i, size_t g, const char* attr, size_t list = 0);
DType dtype_attr(const Import& i, const char* name, DType otherwise);
bool flag(const Import& i, const char* name, bool otherwise = false);

}  // namespace yuloh::formats::paddle
