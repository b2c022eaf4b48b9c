// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nanobind/nanobind.h>

namespace yuloh::py {
void bind_formats(nanobind::module_& m);
}
