#include "src/ops/optimizer.h"

#include <algorithm>
#include <vector>

#include "src/base/check.h"
#include "src/ops/invoke.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::ops {
namespace {

constexpr std::size_t kDenseGroup = 3 + kOptimizerStates, kRowsGroup = 4 + kOptimizerStates;

DType state_dtype(DType dtype) { return size_of(dtype) == 2 ? DType::f32 : dtype; }

void check_states(const InferContext& context, std::size_t param, std::size_t first) {
  for (std::size_t i = first; i <= first + kOptimizerStates; ++i) {
    if (!context.given(i)) continue;
    if (context.shape(i) != context.shape(param)) context.fail_shapes(param, i, "shapes must be equal");
    FERRY_CHECK(context.dtype(i) == state_dtype(context.dtype(param)), InvalidArgument,
                "{}: argument '{}' is {} beside a parameter of {}", context.schema.name, context.schema.argument(i),
                describe(context.in(i)), name_of(context.dtype(param)));
  }
}

// Kernels choose their loop once a call.
void check_alike(const InferContext& context, std::size_t group) {
  const std::size_t size = context.schema.group;
  context.require_same_dtype(0, group);
  for (std::size_t i = size - kOptimizerStates - 1; i < size; ++i) {
    FERRY_CHECK(context.given(i) == context.given(group + i), InvalidArgument,
                "{}: argument '{}' is given for some parameters only", context.schema.name, context.schema.argument(i));
  }
}

void infer_dense(InferContext& context) {
  for (std::size_t at = 0; at < context.inputs.size(); at += kDenseGroup) {
    context.require_float(at);
    context.require_same_dtype(at, at + 1);
    if (context.shape(at) != context.shape(at + 1)) context.fail_shapes(at, at + 1, "shapes must be equal");
    check_states(context, at, at + 2);
    check_alike(context, at);
  }
}

void infer_rows(InferContext& context) {
  for (std::size_t at = 0; at < context.inputs.size(); at += kRowsGroup) {
    context.require_float(at);
    context.require_rank(at, 2);
    context.require_integer(at + 1);
    context.require_rank(at + 1, 1);
    context.require_rank(at + 2, 2);
    context.require_same_dtype(at, at + 2);
    if (context.shape(at)[1] != context.shape(at + 2)[1]) context.fail_shapes(at, at + 2, "the rows differ in length");
    if (context.shape(at + 1)[0] != context.shape(at + 2)[0]) {
      context.fail_shapes(at + 1, at + 2, "one row of values for each row");
    }
    check_states(context, at, at + 3);
    check_alike(context, at);
  }
}

void infer_grouped_floats(InferContext& context) {
  const std::size_t size = context.schema.group;
  for (std::size_t at = 0; at < context.inputs.size(); at += size) {
    context.require_float(at);
    if (size == 1) continue;
    FERRY_CHECK(context.shape(at + 1).product() == 1 && context.dtype(at + 1) == DType::f32, InvalidArgument,
                "{}: argument '{}' is {}; it needs one f32", context.schema.name, context.schema.argument(1),
                describe(context.in(at + 1)));
  }
}

void infer_square_sum(InferContext& context) {
  bool all_f64 = true;
  for (std::size_t i = 0; i < context.inputs.size(); ++i) {
    context.require_float(i);
    all_f64 = all_f64 && context.dtype(i) == DType::f64;
  }
  context.add_output({1}, all_f64 ? DType::f64 : DType::f32);
}

// Elements that a step visits: those of the values for rows, if only these are touched.
double elements(const InferContext& context) {
  const bool rows = context.schema.group == kRowsGroup;
  const bool named_only = rows && !context.attributes.as<OptimizerAttributes>().every_row;
  double count = 0;
  for (std::size_t at = 0; at < context.inputs.size(); at += context.schema.group) {
    count += static_cast<double>(context.shape(named_only ? at + 2 : at).product());
  }
  return count;
}

double step_flops(const InferContext& context) { return 12 * elements(context); }

// The gradient is read, all else read and written.
double step_bytes(const InferContext& context) {
  const std::size_t size = context.schema.group;
  double an_element = static_cast<double>(size_of(context.dtype(0)));
  for (std::size_t i = 0; i < size; ++i) {
    if (context.given(i) && has(context.schema.mutates, i)) {
      an_element += 2 * static_cast<double>(size_of(context.dtype(i)));
    }
  }
  return an_element * elements(context);
}

double all_elements(const InferContext& context) {
  double count = 0;
  for (const Tensor* input : context.inputs) count += static_cast<double>(input->numel());
  return count;
}

double scale_bytes(const InferContext& context) {
  double bytes = 0;
  for (const Tensor* input : context.inputs) bytes += 2 * static_cast<double>(input->nbytes().count);
  return bytes;
}

constexpr OpSchema dense(std::string_view name, std::string_view kernel, std::string_view state0,
                         std::string_view state1, std::string_view state2) {
  return {.name = name,
          .arguments = {"param", "grad", state0, state1, state2, "master"},
          .kernel = kernel,
          .infer = infer_dense,
          .mutates = 0b111101,
          .group = kDenseGroup,
          .flops = step_flops,
          .bytes = step_bytes};
}

constexpr OpSchema rows(std::string_view name, std::string_view kernel, std::string_view state0,
                        std::string_view state1, std::string_view state2) {
  return {.name = name,
          .op_class = OpClass::gather,
          .arguments = {"param", "rows", "values", state0, state1, state2, "master"},
          .kernel = kernel,
          .infer = infer_rows,
          .mutates = 0b1111001,
          .group = kRowsGroup,
          .contiguous = 0b1111111,
          .flops = step_flops,
          .bytes = step_bytes};
}

// Calls a grouped op, whose results are its mutated inputs.
void invoke_grouped(const OpSchema& schema, TensorPointers inputs, const Attributes& attributes, Where where) {
  std::size_t mutated = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) mutated += has(schema.mutates, schema.place(i)) ? 1 : 0;
  std::vector<Tensor> outputs(mutated);
  invoke(schema, inputs, attributes, where, outputs);
}

std::vector<const Tensor*> pairs(std::span<const Tensor> xs, const Tensor& second) {
  std::vector<const Tensor*> inputs;
  for (const Tensor& x : xs) inputs.insert(inputs.end(), {&x, &second});
  return inputs;
}

}  // namespace

const OpSchema kSgd = dense("sgd_", "sgd_", "velocity", "unused", "unused");
const OpSchema kSgdRows = rows("sgd_rows_", "sgd_rows_", "velocity", "unused", "unused");
const OpSchema kAdam = dense("adam_", "adam_", "exp_avg", "exp_avg_sq", "max_exp_avg_sq");
const OpSchema kAdamRows = rows("adam_rows_", "adam_rows_", "exp_avg", "exp_avg_sq", "max_exp_avg_sq");
const OpSchema kAdamW = dense("adamw_", "adam_", "exp_avg", "exp_avg_sq", "max_exp_avg_sq");
const OpSchema kAdamWRows = rows("adamw_rows_", "adam_rows_", "exp_avg", "exp_avg_sq", "max_exp_avg_sq");
const OpSchema kAdagrad = dense("adagrad_", "adagrad_", "sum", "unused", "unused");
const OpSchema kAdagradRows = rows("adagrad_rows_", "adagrad_rows_", "sum", "unused", "unused");
const OpSchema kScaleAll{.name = "scale_",
                         .arguments = {"x", "factor"},
                         .infer = infer_grouped_floats,
                         .mutates = 0b01,
                         .follows_first_input = true,
                         .group = 2,
                         .flops = all_elements,
                         .bytes = scale_bytes};
const OpSchema kUnscaleAll{.name = "unscale_",
                           .arguments = {"x", "found"},
                           .infer = infer_grouped_floats,
                           .mutates = 0b11,
                           .follows_first_input = true,
                           .group = 2,
                           .flops = all_elements,
                           .bytes = scale_bytes};
const OpSchema kClampAll{.name = "clamp_",
                         .arguments = {"x"},
                         .infer = infer_grouped_floats,
                         .mutates = 0b1,
                         .follows_first_input = true,
                         .group = 1,
                         .flops = all_elements,
                         .bytes = scale_bytes};
const OpSchema kSquareSum{.name = "square_sum",
                          .op_class = OpClass::reduction,
                          .arguments = {"x"},
                          .infer = infer_square_sum,
                          .flops = all_elements};

void optimizer_step(const OpSchema& schema, std::span<const OptimizerGroup> groups,
                    const OptimizerAttributes& attributes, Where where) {
  std::vector<const Tensor*> inputs;
  inputs.reserve(groups.size() * schema.group);
  for (const OptimizerGroup& group : groups) {
    inputs.push_back(&group.param);
    if (schema.group == kRowsGroup) {
      inputs.insert(inputs.end(), {&group.rows, &group.values});
    } else {
      inputs.push_back(&group.grad);
    }
    for (const Tensor& state : group.states) inputs.push_back(&state);
    inputs.push_back(&group.master);
  }
  invoke_grouped(schema, inputs, attributes, where);
}

void scale_all(std::span<const Tensor> xs, const Tensor& factor, Where where) {
  invoke_grouped(kScaleAll, pairs(xs, factor), {}, where);
}

void unscale_all(std::span<const Tensor> xs, const Tensor& found, double scale, Where where) {
  invoke_grouped(kUnscaleAll, pairs(xs, found), UnscaleAttributes{scale}, where);
}

void clamp_all(std::span<const Tensor> xs, double limit, Where where) {
  std::vector<const Tensor*> inputs;
  for (const Tensor& x : xs) inputs.push_back(&x);
  invoke_grouped(kClampAll, inputs, ClampAttributes{limit}, where);
}

Tensor square_sum(std::span<const Tensor> xs, Where where) {
  std::vector<const Tensor*> inputs;
  for (const Tensor& x : xs) inputs.push_back(&x);
  Tensor sum;
  invoke(kSquareSum, inputs, {}, where, {&sum, 1});
  return sum;
}

}  // namespace ferry::ops
