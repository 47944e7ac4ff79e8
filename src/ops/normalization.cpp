// layer_norm, group_norm.
#include "src/ops/normalization.h"

#include "src/base/check.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/ops/wide.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::ops {
namespace {

Shape trailing(const Shape& shape, int axes) {
  return Shape(std::span(shape.begin() + (shape.rank() - axes), static_cast<std::size_t>(axes)));
}
Shape leading(const Shape& shape, int axes) {
  return Shape(std::span(shape.begin(), static_cast<std::size_t>(shape.rank() - axes)));
}

// Optional argument i has `shape`, and x's dtype or f32 beside 16 bits.
void require_affine(const InferContext& context, std::size_t i, const Shape& shape) {
  if (!context.given(i)) return;
  if (context.shape(i) != shape) context.fail_shapes(i, 0, "the former needs shape " + to_string(shape));
  if (context.dtype(i) != wide(context.dtype(0))) context.require_same_dtype(i, 0);
}

void require_one_affine_dtype(const InferContext& context) {
  if (context.given(1) && context.given(2)) context.require_same_dtype(1, 2);
}

void infer_layer_norm(InferContext& context) {
  context.require_float(0);
  const Shape& x = context.shape(0);
  const int axes = context.attributes.as<NormAttributes>().axes;
  const Shape normalized = trailing(x, axes), rows = leading(x, axes);
  for (const std::size_t i : {1, 2}) require_affine(context, i, normalized);
  require_one_affine_dtype(context);
  context.add_output(x, context.dtype(0));
  context.add_output(rows, wide(context.dtype(0)));
  context.add_output(rows, wide(context.dtype(0)));
}

Strides strides_like(const Tensor& x) {
  return x.rank() == 4 ? image_strides(x, x.shape()) : contiguous_strides(x.shape());
}

void infer_group_norm(InferContext& context) {
  context.require_float(0);
  const Shape& x = context.shape(0);
  if (x.rank() < 2) context.fail_shape(0, "it needs [N, C, …]");
  const std::int64_t groups = context.attributes.as<NormAttributes>().groups;
  FERRY_CHECK(groups > 0 && x[1] % groups == 0, InvalidArgument,
              "group_norm: {} groups do not divide the {} channels of {}", groups, x[1], to_string(x));
  if (x.product() == 0 && x[0] != 0) context.fail_shape(0, "statistics of no elements do not exist");
  for (const std::size_t i : {1, 2}) require_affine(context, i, {x[1]});
  require_one_affine_dtype(context);
  context.add_output(x, context.dtype(0), strides_like(context.in(0)));
  context.add_output({x[0], groups}, wide(context.dtype(0)));
  context.add_output({x[0], groups}, wide(context.dtype(0)));
}

void add_affine_gradients(InferContext& context, const Shape& shape) {
  const auto& attributes = context.attributes.as<NormAttributes>();
  for (const bool wanted : {attributes.wants_gamma, attributes.wants_beta}) {
    if (wanted) {
      context.add_output(shape, attributes.affine_dtype);
    } else {
      context.add_no_output();
    }
  }
}

void infer_layer_norm_backward(InferContext& context) {
  context.add_output(context.shape(1), context.dtype(1));
  add_affine_gradients(context, trailing(context.shape(1), context.attributes.as<NormAttributes>().axes));
}

void infer_group_norm_backward(InferContext& context) {
  context.add_output(context.shape(1), context.dtype(1), strides_like(context.in(1)));
  add_affine_gradients(context, {context.shape(1)[1]});
}

// Passes over the elements: mean, variance, scale, shift.
double norm_flops(const InferContext& context) { return 8.0 * static_cast<double>(context.shape(0).product()); }
// Two sums, the gradient of x, and those of gamma and beta.
double backward_flops(const InferContext& context) { return 14.0 * static_cast<double>(context.shape(0).product()); }

template <const OpSchema& backward>
void gradient_norm(GradientContext& context) {
  NormAttributes attributes = context.attributes<NormAttributes>();
  attributes.wants_gamma = context.needs(1);
  attributes.wants_beta = context.needs(2);
  if (context.needs(1) || context.needs(2)) attributes.affine_dtype = context.dtype(context.needs(1) ? 1 : 2);
  const Tensor none;
  const Tensor& gamma = context.has_input(1) ? context.input(1) : none;
  const Tensor* inputs[] = {&context.dy(), &context.input(0), &gamma, &context.output(1), &context.output(2)};
  Tensor results[3];
  invoke(backward, inputs, attributes, context.where(), results);
  for (std::size_t i = 0; i < 3; ++i) {
    if (context.needs(i)) context.set(i, results[i]);
  }
}

Tensor normalized(const OpSchema& schema, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const NormAttributes& attributes, Where where) {
  Tensor outputs[3];
  const Tensor* inputs[] = {&x, &gamma, &beta};
  invoke(schema, inputs, attributes, where, outputs);
  return outputs[0];
}

}  // namespace

const OpSchema kLayerNormBackward{.name = "layer_norm_backward",
                                  .op_class = OpClass::normalization,
                                  .arguments = {"dy", "x", "gamma", "mean", "inverse_std"},
                                  .infer = infer_layer_norm_backward,
                                  .contiguous = 0b11111,
                                  .flops = backward_flops};
const OpSchema kGroupNormBackward{.name = "group_norm_backward",
                                  .op_class = OpClass::normalization,
                                  .arguments = {"dy", "x", "gamma", "mean", "inverse_std"},
                                  .infer = infer_group_norm_backward,
                                  .contiguous = 0b11100,
                                  .image = 0b11,
                                  .flops = backward_flops};
const OpSchema kLayerNorm{.name = "layer_norm",
                          .op_class = OpClass::normalization,
                          .arguments = {"x", "gamma", "beta"},
                          .infer = infer_layer_norm,
                          .contiguous = 0b111,
                          .flops = norm_flops,
                          .gradient = gradient_norm<kLayerNormBackward>,
                          .saved_inputs = 0b011,
                          .saved_outputs = 0b110,
                          .autocast = AutocastRule::as_is};
const OpSchema kGroupNorm{.name = "group_norm",
                          .op_class = OpClass::normalization,
                          .arguments = {"x", "gamma", "beta"},
                          .infer = infer_group_norm,
                          .contiguous = 0b110,
                          .image = 1,
                          .flops = norm_flops,
                          .gradient = gradient_norm<kGroupNormBackward>,
                          .saved_inputs = 0b011,
                          .saved_outputs = 0b110,
                          .autocast = AutocastRule::as_is};

}  // namespace ferry::ops

namespace ferry {

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& gamma, const Tensor& beta,
                  double epsilon, Where where) {
  const int axes = normalized_shape.rank();
  ops::located("layer_norm", x, where, [&] {
    FERRY_CHECK(axes > 0 && axes <= x.rank() && ops::trailing(x.shape(), axes) == normalized_shape &&
                    normalized_shape.product() > 0,
                ShapeError, "layer_norm: argument 'x' is {}; it cannot be normalised over trailing axes {}",
                describe(x), to_string(normalized_shape));
  });
  return ops::normalized(ops::kLayerNorm, x, gamma, beta, {.epsilon = epsilon, .axes = axes}, where);
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma, const Tensor& beta, double epsilon,
                  Where where) {
  return ops::normalized(ops::kGroupNorm, x, gamma, beta, {.epsilon = epsilon, .groups = groups}, where);
}

}  // namespace ferry
