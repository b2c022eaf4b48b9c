// SPDX-License-Identifier: Apache-2.0
// What both kinds of Subject share: subject_model.cpp (files of others), subject_traced.cpp (our own
// programs).
#pragma once
#include "diff/subject.h"
#include "formats/import.h"
#include "run/traced.h"

namespace yuloh::diff {

std::shared_ptr<Subject> subject_of(std::shared_ptr<const formats::Model> m);
std::shared_ptr<Subject> subject_of(std::shared_ptr<const TracedProgram> p);
bool has_product(const Value& v,
                 uint64_t first);  // among what was recorded since node id `first`, bodies included

}  // namespace yuloh::diff
