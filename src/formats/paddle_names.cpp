// SPDX-License-Identifier: Apache-2.0
// ProgramDesc's operators in PIR's names: a table, read in both directions. Slots become positions ("X
// Shape"; a trailing * takes a whole list, `-` is a position that only PIR has), attributes are renamed
// ("new=old"). `write` says what writing needs beyond that: "1=shape" (a constant at position 1 is the
// attribute shape), "dim:LONGS" (an attribute's kind where PIR's does not tell),
// "+XShape" (an output that nobody reads). Of several rows with one name the first is written.
#include <sstream>

#include "formats/paddle.h"

namespace yuloh::formats {
namespace {

struct Row {
  const char *old, *name, *inputs, *outputs, *attrs, *write = "";
};
constexpr Row kRows[] = {
    {"elementwise_add", "add", "X Y", "Out", ""},
    {"elementwise_sub", "subtract", "X Y", "Out", ""},
    {"elementwise_mul", "multiply", "X Y", "Out", ""},
    {"elementwise_div", "divide", "X Y", "Out", ""},
    {"elementwise_max", "maximum", "X Y", "Out", ""},
    {"elementwise_min", "minimum", "X Y", "Out", ""},
    {"elementwise_pow", "elementwise_pow", "X Y", "Out", ""},
    {"elementwise_mod", "remainder", "X Y", "Out", ""},
    {"elementwise_floordiv", "floor_divide", "X Y", "Out", ""},
    {"grad_add", "add", "X Y", "Out", ""},
    {"sum", "add_n", "X*", "Out", ""},
    {"matmul_v2", "matmul", "X Y", "Out", "transpose_x=trans_x transpose_y=trans_y"},
    {"matmul", "matmul", "X Y", "Out", "transpose_x=transpose_X transpose_y=transpose_Y"},
    {"mul", "mul", "X Y", "Out", ""},
    {"bmm", "bmm", "X Y", "Out", ""},
    {"conv2d", "conv2d", "Input Filter Bias", "Output", "strides=strides"},
    {"conv3d", "conv3d", "Input Filter Bias", "Output", ""},
    {"depthwise_conv2d", "depthwise_conv2d", "Input Filter Bias", "Output", ""},
    {"conv2d_transpose", "conv2d_transpose", "Input Filter - Bias", "Output", ""},
    {"depthwise_conv2d_transpose", "depthwise_conv2d_transpose", "Input Filter - Bias", "Output", ""},
    {"conv3d_transpose", "conv3d_transpose", "Input Filter - Bias", "Output", ""},
    {"pool2d", "pool2d", "X", "Out", "kernel_size=ksize", "1=ksize"},
    {"pool3d", "pool3d", "X", "Out", "kernel_size=ksize"},
    {"max_pool2d_with_index", "max_pool2d_with_index", "X", "Out Mask", "kernel_size=ksize"},
    {"max_pool3d_with_index", "max_pool3d_with_index", "X", "Out Mask", "kernel_size=ksize"},
    {"batch_norm", "batch_norm", "X Mean Variance Scale Bias",
     "Y MeanOut VarianceOut SavedMean SavedVariance", "data_format=data_layout"},
    {"sync_batch_norm", "batch_norm", "X Mean Variance Scale Bias",
     "Y MeanOut VarianceOut SavedMean SavedVariance", "data_format=data_layout"},
    {"layer_norm", "layer_norm", "X Scale Bias", "Y Mean Variance", ""},
    {"group_norm", "group_norm", "X Scale Bias", "Y Mean Variance", "data_format=data_layout"},
    {"instance_norm", "instance_norm", "X Scale Bias", "Y SavedMean SavedVariance", ""},
    {"lookup_table_v2", "embedding", "Ids W", "Out", "", "padding_idx:LONG"},
    {"lookup_table", "embedding", "Ids W", "Out", ""},
    {"rnn", "rnn", "Input PreState* WeightList* SequenceLength DropoutState",
     "Out DropoutState State* Reserve", "", "4="},
    {"dropout", "dropout", "X Seed", "Out Mask", "mode=dropout_implementation p=dropout_prob"},
    {"softmax", "softmax", "X", "Out", ""},
    {"log_softmax", "log_softmax", "X", "Out", ""},
    {"relu", "relu", "X", "Out", ""},
    {"relu6", "relu6", "X", "Out", ""},
    {"hard_swish", "hardswish", "X", "Out", ""},
    {"hard_sigmoid", "hardsigmoid", "X", "Out", ""},
    {"leaky_relu", "leaky_relu", "X", "Out", "negative_slope=alpha"},
    {"elu", "elu", "X", "Out", ""},
    {"swish", "swish", "X", "Out", ""},
    {"prelu", "prelu", "X Alpha", "Out", ""},
    {"gelu", "gelu", "X", "Out", ""},
    {"logsigmoid", "logsigmoid", "X", "Out", ""},
    {"softshrink", "softshrink", "X", "Out", "threshold=lambda"},
    {"hard_shrink", "hardshrink", "X", "Out", ""},
    {"brelu", "hardtanh", "X", "Out", ""},
    {"tanh_shrink", "tanh_shrink", "X", "Out", ""},
    {"clip", "clip", "X Min Max", "Out", ""},
    {"scale", "scale", "X ScaleTensor", "Out", ""},
    {"pow", "pow", "X FactorTensor", "Out", "y=factor"},
    {"cast", "cast", "X", "Out", "dtype=out_dtype"},
    {"assign", "assign", "X", "Out", ""},
    {"share_data", "assign", "X", "Out", ""},
    {"memcpy", "assign", "X", "Out", ""},
    {"fill_constant", "full", "ShapeTensor ValueTensor ShapeTensorList*", "Out", ""},
    {"fill_constant_batch_size_like", "full_batch_size_like", "Input", "Out", ""},
    {"fill_any_like", "full_like", "X", "Out", "", "1=value value:FLOAT"},
    {"fill_zeros_like", "zeros_like", "X", "Out", ""},
    {"assign_value", "assign_value", "", "Out", ""},
    {"range", "arange", "Start End Step", "Out", ""},
    {"linspace", "linspace", "Start Stop Num", "Out", ""},
    {"shape", "shape", "Input", "Out", ""},
    {"size", "numel", "Input", "Out", ""},
    {"reshape2", "reshape", "X Shape ShapeTensor*", "Out", "", "1=shape +XShape"},
    {"reshape", "reshape", "X Shape ShapeTensor*", "Out", ""},
    {"transpose2", "transpose", "X", "Out", "perm=axis", "+XShape"},
    {"transpose", "transpose", "X", "Out", "perm=axis"},
    {"flatten_contiguous_range", "flatten", "X", "Out", "", "+XShape"},
    {"flatten2", "flatten2", "X", "Out", ""},
    {"squeeze2", "squeeze", "X", "Out", "axis=axes", "1=axes +XShape"},
    {"unsqueeze2", "unsqueeze", "X AxesTensor AxesTensorList*", "Out", "axis=axes", "1=axes +XShape"},
    {"expand_v2", "expand", "X Shape expand_shapes_tensor*", "Out", "", "1=shape"},
    {"expand_as_v2", "expand_as", "X Y", "Out", ""},
    {"tile", "tile", "X RepeatTimes repeat_times_tensor*", "Out", "", "1=repeat_times"},
    {"concat", "concat", "X* AxisTensor", "Out", "", "1=axis"},
    {"stack", "stack", "X*", "Y", ""},
    {"unstack", "unstack", "X", "Y*", ""},
    {"split", "split", "X SectionsTensorList AxisTensor", "Out*", "", "1=sections 2=axis"},
    {"slice", "slice", "Input StartsTensor EndsTensor StartsTensorList* EndsTensorList*", "Out", "",
     "1=starts 2=ends"},
    {"strided_slice", "strided_slice", "Input StartsTensor EndsTensor StridesTensor", "Out", "",
     "1=starts 2=ends 3=strides"},
    {"gather", "gather", "X Index Axis", "Out", "", "2=axis"},
    {"gather_nd", "gather_nd", "X Index", "Out", ""},
    {"index_select", "index_select", "X Index", "Out", "axis=dim"},
    {"scatter", "scatter", "X Ids Updates", "Out", ""},
    {"scatter_nd_add", "scatter_nd_add", "X Index Updates", "Out", ""},
    {"where", "where", "Condition X Y", "Out", ""},
    {"where_index", "nonzero", "Condition", "Out", ""},
    {"masked_select", "masked_select", "X Mask", "Y", ""},
    {"top_k_v2", "topk", "X K", "Out Indices", "", "1=k"},
    {"argsort", "argsort", "X", "Out Indices", ""},
    {"arg_max", "argmax", "X", "Out", "keepdim=keepdims", "1=axis axis:LONG"},
    {"arg_min", "argmin", "X", "Out", "keepdim=keepdims", "1=axis axis:LONG"},
    {"one_hot_v2", "one_hot", "X depth_tensor", "Out", "num_classes=depth", "1=depth"},
    {"reduce_mean", "mean", "X", "Out", "axis=dim keepdim=keep_dim", "1=dim"},
    {"reduce_sum", "sum", "X", "Out", "axis=dim keepdim=keep_dim", "1=dim"},
    {"reduce_max", "max", "X", "Out", "axis=dim keepdim=keep_dim", "1=dim"},
    {"reduce_min", "min", "X", "Out", "axis=dim keepdim=keep_dim", "1=dim"},
    {"reduce_prod", "prod", "X", "Out", "axis=dim keepdim=keep_dim", "1=dim"},
    {"reduce_all", "all", "X", "Out", "axis=dim keepdim=keep_dim", "dim:LONGS"},
    {"reduce_any", "any", "X", "Out", "axis=dim keepdim=keep_dim", "dim:LONGS"},
    {"logsumexp", "logsumexp", "X", "Out", ""},
    {"p_norm", "p_norm", "X", "Out", ""},
    {"norm", "norm", "X", "Out Norm", ""},
    {"cumsum", "cumsum", "X", "Out", "", "1=axis"},
    {"bilinear_interp_v2", "bilinear_interp", "X OutSize - Scale SizeTensor*", "Out",
     "data_format=data_layout", "scale:FLOATS"},
    {"nearest_interp_v2", "nearest_interp", "X OutSize - Scale SizeTensor*", "Out", "data_format=data_layout",
     "scale:FLOATS"},
    {"bicubic_interp_v2", "bicubic_interp", "X OutSize - Scale SizeTensor*", "Out", "data_format=data_layout",
     "scale:FLOATS"},
    {"linear_interp_v2", "linear_interp", "X OutSize - Scale SizeTensor*", "Out", "data_format=data_layout",
     "scale:FLOATS"},
    {"trilinear_interp_v2", "trilinear_interp", "X OutSize - Scale SizeTensor*", "Out",
     "data_format=data_layout", "scale:FLOATS"},
    {"pad3d", "pad3d", "X Paddings", "Out", "pad_value=value", "1=paddings"},
    {"pad2d", "pad2d", "X Paddings", "Out", ""},
    {"pad", "pad", "X", "Out", "", "1=pad_value"},
    {"flip", "flip", "X", "Out", ""},
    {"roll", "roll", "X ShiftsTensor", "Out", "", "1=shifts shifts:LONGS axis:LONGS"},
    {"tril_triu", "tril_triu", "X", "Out", ""},
    {"meshgrid", "meshgrid", "X*", "Out*", ""},
    {"pixel_shuffle", "pixel_shuffle", "X", "Out", ""},
    {"equal", "equal", "X Y", "Out", ""},
    {"not_equal", "not_equal", "X Y", "Out", ""},
    {"less_than", "less_than", "X Y", "Out", ""},
    {"less_equal", "less_equal", "X Y", "Out", ""},
    {"greater_than", "greater_than", "X Y", "Out", ""},
    {"greater_equal", "greater_equal", "X Y", "Out", ""},
    {"logical_and", "logical_and", "X Y", "Out", ""},
    {"logical_or", "logical_or", "X Y", "Out", ""},
    {"logical_not", "logical_not", "X", "Out", ""},
    {"logical_xor", "logical_xor", "X Y", "Out", ""},
    {"increment", "increment", "X", "Out", ""},
    {"set_value", "set_value", "Input StartsTensorList EndsTensorList StepsTensorList ValueTensor", "Out",
     ""},
    {"take_along_axis", "take_along_axis", "Input Index", "Result", "axis=Axis"},
    {"isnan_v2", "isnan", "X", "Out", ""},
    {"isinf_v2", "isinf", "X", "Out", ""},
    {"isfinite_v2", "isfinite", "X", "Out", ""},
    {"elementwise_fmax", "fmax", "X Y", "Out", ""},
    {"elementwise_fmin", "fmin", "X Y", "Out", ""},
    {"atan2", "atan2", "X1 X2", "Out", ""},
    {"bitwise_and", "bitwise_and", "X Y", "Out", ""},
    {"bitwise_or", "bitwise_or", "X Y", "Out", ""},
    {"bitwise_xor", "bitwise_xor", "X Y", "Out", ""},
    {"index_sample", "index_sample", "X Index", "Out", ""},
    {"reduce_amax", "amax", "X", "Out", "axis=dim keepdim=keep_dim", "dim:LONGS"},
    {"reduce_amin", "amin", "X", "Out", "axis=dim keepdim=keep_dim", "dim:LONGS"},
    {"einsum", "einsum", "Operands*", "Out", ""},
    {"dot", "dot", "X Y", "Out", ""},
    {"multiclass_nms3", "multiclass_nms3", "BBoxes Scores RoisNum", "Out Index NmsRoisNum", ""},
    {"yolo_box", "yolo_box", "X ImgSize", "Boxes Scores", ""},
    {"prior_box", "prior_box", "Input Image", "Boxes Variances", ""},
    {"box_coder", "box_coder", "PriorBox PriorBoxVar TargetBox", "OutputBox", ""},
};

std::vector<std::string> words(const char* text) {
  std::istringstream in(text);
  std::vector<std::string> w;
  for (std::string s; in >> s;) w.push_back(s);
  return w;
}

const std::vector<std::string>& slot(const std::map<std::string, std::vector<std::string>>& slots,
                                     const std::string& name) {
  static const std::vector<std::string> none;
  const auto it = slots.find(name);
  return it == slots.end() ? none : it->second;
}

void place(const std::map<std::string, std::vector<std::string>>& slots, const char* order,
           std::vector<std::string>* out, std::vector<size_t>* sizes) {
  for (std::string s : words(order)) {
    const bool all = s.back() == '*';
    if (all) s.pop_back();
    const auto& args = slot(slots, s);
    const size_t n = all ? args.size() : 1;
    for (size_t i = 0; i < n; ++i) out->push_back(i < args.size() ? args[i] : "");
    if (sizes) sizes->push_back(n);
  }
}
}  // namespace

ModelNode renamed(const ProgramOp& op) {
  static const auto* rows = [] {
    auto* m = new std::map<std::string_view, const Row*>;
    for (const Row& r : kRows) m->emplace(r.old, &r);
    return m;
  }();
  ModelNode n;
  n.type = op.type;
  n.attrs = op.attrs;
  const auto it = rows->find(op.type);
  if (it == rows->end()) {
    const bool unary =
        op.inputs.size() == 1 && op.inputs.count("X") && op.outputs.count("Out");  // exp, floor, tanh, ...
    for (const auto& [name, args] : op.inputs) {
      n.inputs.insert(n.inputs.end(), args.begin(), args.end());
      n.list_sizes.push_back(args.size());
    }
    for (const auto& [name, args] : op.outputs)
      if (!unary || name == "Out") n.outputs.insert(n.outputs.end(), args.begin(), args.end());
    return n;
  }
  const Row& r = *it->second;
  n.type = r.name;
  place(op.inputs, r.inputs, &n.inputs, &n.list_sizes);
  place(op.outputs, r.outputs, &n.outputs, nullptr);
  for (const std::string& pair : words(r.attrs)) {
    const size_t eq = pair.find('=');
    const auto a = n.attrs.find(pair.substr(eq + 1));
    if (a == n.attrs.end() || pair.substr(0, eq) == pair.substr(eq + 1)) continue;
    Attribute v = std::move(a->second);
    n.attrs.erase(a);
    n.attrs[pair.substr(0, eq)] = std::move(v);
  }
  return n;
}

const WriteRow* write_row(const std::string& name) {
  static const auto* rows = [] {
    auto* m = new std::map<std::string, WriteRow>;
    for (const Row& r : kRows) {
      const auto [it, fresh] = m->emplace(r.name, WriteRow());
      if (!fresh) continue;
      WriteRow& w = it->second;
      w.old = r.old, w.inputs = words(r.inputs), w.outputs = words(r.outputs);
      for (const std::string& pair : words(r.attrs))
        w.renamed[pair.substr(0, pair.find('='))] = pair.substr(pair.find('=') + 1);
      for (const std::string& s : words(r.write)) {
        if (s[0] == '+') w.unread.push_back(s.substr(1));
        else if (const size_t eq = s.find('='); eq != s.npos)
          w.constants[static_cast<size_t>(s[0] - '0')] = s.substr(eq + 1);
        else w.kinds[s.substr(0, s.find(':'))] = s.substr(s.find(':') + 1);
      }
    }
    return m;
  }();
  const auto it = rows->find(name);
  return it == rows->end() ? nullptr : &it->second;
}

}  // namespace yuloh::formats
