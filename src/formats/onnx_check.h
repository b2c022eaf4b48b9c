// SPDX-License-Identifier: Apache-2.0
// Names of an ONNX model: every value is made once and before it is read. Nodes that a writer left out of
// order are sorted; cycles, duplicates, unknown names and functions that call themselves raise Error.
#pragma once
#include "formats/model.h"

namespace yuloh::formats {
void check_onnx(Model* m);
// Names that a node's subgraphs take from outside.
void captured_names(const ModelNode& n, std::vector<std::string>* out);
std::string operator_key(const ModelNode& n);   // "Conv", "com.microsoft.Gelu": how tables name it
std::string function_key(const ModelNode& n);   // how Model::functions names it
std::string describe_node(const ModelNode& n);  // "Conv 'conv1'"
}  // namespace yuloh::formats
