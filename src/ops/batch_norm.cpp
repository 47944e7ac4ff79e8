#include <ferry/no_grad.h>
#include <ferry/ops.h>
#include "src/base/check.h"
#include "src/ops/attributes.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::ops {
namespace {

DType statistics_dtype(DType type) { return size_of(type) == 2 ? DType::f32 : type; }

// The order of axes in which a kernel meets features, and writes the result.
Strides feature_strides(const Tensor& x) {
  return x.rank() == 4 ? image_strides(x, x.shape()) : contiguous_strides(x.shape());
}

void require_features(const InferContext& context) {
  context.require_float(0);
  if (context.in(0).rank() != 4 && context.in(0).rank() != 2) context.fail_shape(0, "it needs [N, C, H, W] or [N, C]");
}

void infer_batch_norm(InferContext& context) {
  require_features(context);
  const Shape& x = context.shape(0);
  for (const std::size_t i : {1, 2}) context.require_vector(i, x[1], 0);
  if (x.product() == 0) context.fail_shape(0, "statistics of no elements do not exist");
  context.add_output(x, context.dtype(0), feature_strides(context.in(0)));
  context.add_output({x[1]}, statistics_dtype(context.dtype(0)));
  context.add_output({x[1]}, statistics_dtype(context.dtype(0)));
}

void require_statistics(const InferContext& context) {
  require_features(context);
  for (std::size_t i = 1; i < 5; ++i) context.require_vector(i, context.shape(0)[1], 0);
  context.require_given(3);
  context.require_given(4);
}

void infer_inference(InferContext& context) {
  require_statistics(context);
  context.add_output(context.shape(0), context.dtype(0), feature_strides(context.in(0)));
}

void infer_apply(InferContext& context) {
  require_statistics(context);
  context.add_output(context.shape(0), context.dtype(0), context.attributes.as<BatchNormApplyAttributes>().strides);
}

void infer_backward(InferContext& context) {
  const Shape& x = context.shape(1);
  context.add_output(x, context.dtype(1), feature_strides(context.in(1)));
  const auto& attributes = context.attributes.as<BatchNormAttributes>();
  for (const bool wanted : {attributes.wants_gamma, attributes.wants_beta}) {
    if (wanted) {
      context.add_output({x[1]}, attributes.affine_dtype);
    } else {
      context.add_no_output();
    }
  }
}

void infer_running_average(InferContext& context) {
  for (const std::size_t i : {0, 1}) {
    context.require_vector(i, context.shape(2)[0], 2);
    context.add_output(context.shape(i), context.dtype(i), context.in(i).strides());
  }
}

// Four passes' worth of arithmetic an element: mean, variance, scale, shift.
double norm_flops(const InferContext& context) { return 8.0 * static_cast<double>(context.output().shape.product()); }

void gradient_batch_norm(GradientContext& context) {
  BatchNormAttributes attributes = context.attributes<BatchNormAttributes>();
  attributes.wants_gamma = context.needs(1);
  attributes.wants_beta = context.needs(2);
  if (context.input_count() > 1) attributes.affine_dtype = context.dtype(context.needs(1) ? 1 : 2);
  const Tensor none;
  const Tensor& gamma = context.has_input(1) ? context.input(1) : none;
  const Tensor* inputs[] = {&context.dy(), &context.input(0), &gamma, &context.output(1), &context.output(2)};
  Tensor results[3];
  invoke(kBatchNormBackward, inputs, attributes, context.where(), results);
  for (std::size_t i = 0; i < 3; ++i) {
    if (context.needs(i)) context.set(i, results[i]);
  }
}

// y = (x - mean) * scale + beta with constant statistics, so dx = dy * scale.
void gradient_inference(GradientContext& context) {
  const Where where = context.where();
  const double epsilon = context.attributes<BatchNormAttributes>().epsilon;
  const DType type = context.dtype(0);
  const bool image = context.shape(0).rank() == 4;
  const std::vector<int> axes = image ? std::vector<int>{0, 2, 3} : std::vector<int>{0};
  const auto along_channels = [&](const Tensor& vector) {
    const Tensor typed = vector.to(type, where);
    return image ? reshape(typed, {1, vector.numel(), 1, 1}, where) : typed;
  };
  const Tensor inverse_std = pow(add(context.input(4), epsilon, where), -0.5, where);
  if (context.needs(0)) {
    const Tensor scale = context.has_input(1) ? mul(context.input(1), inverse_std, where) : inverse_std;
    context.set(0, mul(context.dy(), along_channels(scale), where));
  }
  if (context.needs(1)) {
    const Tensor centred = sub(context.input(0), along_channels(context.input(3)), where);
    const Tensor normalised = mul(centred, along_channels(inverse_std), where);
    context.set(1, sum(mul(context.dy(), normalised, where), axes, false, where).to(context.dtype(1), where));
  }
  if (context.needs(2)) context.set(2, sum(context.dy(), axes, false, where).to(context.dtype(2), where));
}

}  // namespace

const OpSchema kBatchNorm{.name = "batch_norm",
                          .op_class = OpClass::normalization,
                          .arguments = {"x", "gamma", "beta"},
                          .infer = infer_batch_norm,
                          .contiguous = 0b110,
                          .image = 1,
                          .flops = norm_flops,
                          .gradient = gradient_batch_norm,
                          .saved_inputs = 0b011,
                          .saved_outputs = 0b110,
                          .autocast = AutocastRule::as_is};
const OpSchema kBatchNormApply{.name = "batch_norm_apply",
                               .op_class = OpClass::elementwise,  // nothing is summed
                               .arguments = {"x", "gamma", "beta", "mean", "inverse_std"},
                               .infer = infer_apply,
                               .contiguous = 0b11110,
                               .image = 1,
                               .flops = norm_flops};
const OpSchema kBatchNormBackward{.name = "batch_norm_backward",
                                  .op_class = OpClass::normalization,
                                  .arguments = {"dy", "x", "gamma", "mean", "inverse_std"},
                                  .infer = infer_backward,
                                  .contiguous = 0b11100,
                                  .image = 0b11,
                                  .flops = norm_flops};
const OpSchema kBatchNormInference{.name = "batch_norm_inference",
                                   .op_class = OpClass::normalization,
                                   .arguments = {"x", "gamma", "beta", "running_mean", "running_var"},
                                   .infer = infer_inference,
                                   .contiguous = 0b11110,
                                   .image = 1,
                                   .flops = norm_flops,
                                   .gradient = gradient_inference,
                                   .saved_inputs = 0b11011,
                                   .autocast = AutocastRule::as_is};
const OpSchema kRunningAverage{.name = "running_average_",
                               .op_class = OpClass::elementwise,
                               .arguments = {"running_mean", "running_var", "mean", "inverse_std"},
                               .infer = infer_running_average,
                               .mutates = 0b11,
                               .follows_first_input = true,
                               .updates_state = true,
                               .contiguous = 0b1100};

}  // namespace ferry::ops

namespace ferry {

Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& running_mean,
                  const Tensor& running_var, const BatchNormOptions& options, Where where) {
  ops::BatchNormAttributes attributes{options.epsilon};
  if (!options.training) {
    return ops::invoke(ops::kBatchNormInference, {&x, &gamma, &beta, &running_mean, &running_var}, attributes, where);
  }
  ops::located("batch_norm", where, [&] {
    FERRY_CHECK(running_mean.defined() == running_var.defined(), InvalidArgument,
                "batch_norm: running_mean and running_var must be given together");
  });
  Tensor outputs[3];
  const Tensor* inputs[] = {&x, &gamma, &beta};
  ops::invoke(ops::kBatchNorm, inputs, attributes, where, outputs);
  if (running_mean.defined()) {
    const NoGrad no_grad;
    const ops::RunningAverageAttributes average{options.momentum, options.epsilon, x.numel() / x.shape()[1]};
    const Tensor* updated[] = {&running_mean, &running_var, &outputs[1], &outputs[2]};
    Tensor aliases[2];
    ops::invoke(ops::kRunningAverage, updated, average, where, aliases);
  }
  return outputs[0];
}

}  // namespace ferry
