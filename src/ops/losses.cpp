// softmax_cross_entropy, cross_entropy, nll_loss, binary_cross_entropy_with_logits.
#include "src/ops/losses.h"

#include <array>

#include "src/base/check.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"
#include "src/ops/wide.h"

namespace ferry::ops {
namespace {

Shape without_classes(const Shape& shape) {
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != 1) result.push_back(shape[i]);
  }
  return result;
}

void require_labels(InferContext& context) {
  context.require_float(0);
  context.require_integer(1);
  if (context.in(0).rank() < 2) context.fail_shape(0, "it needs [N, C] or [N, C, …]");
  if (context.shape(1) != without_classes(context.shape(0))) {
    context.fail_shapes(0, 1, "labels needs the former's shape without the classes' axis, 1");
  }
  context.require_vector(2, context.shape(0)[1], 0);
}

void infer_softmax_cross_entropy(InferContext& context) {
  context.require_float(0);
  context.require_rank(0, 2);
  context.require_integer(1);
  if (context.in(1).rank() != 1 || context.shape(1)[0] != context.shape(0)[0]) {
    context.fail_shapes(0, 1, "labels needs one class for each row of logits");
  }
  for (int i = 0; i < 2; ++i) context.add_output(context.shape(1), wide(context.dtype(0)));
}

void add_counted(InferContext& context) {
  if (context.attributes.as<CrossEntropyAttributes>().wants_counted) {
    context.add_output(context.shape(1), wide(context.dtype(0)));
  } else {
    context.add_no_output();
  }
}

void infer_cross_entropy(InferContext& context) {
  require_labels(context);
  for (int i = 0; i < 2; ++i) context.add_output(context.shape(1), wide(context.dtype(0)));
  add_counted(context);
}

void infer_nll_loss(InferContext& context) {
  require_labels(context);
  context.add_output(context.shape(1), wide(context.dtype(0)));
  add_counted(context);
}

void infer_like_logits(InferContext& context) { context.add_output(context.shape(1), context.dtype(1)); }

void infer_nll_loss_backward(InferContext& context) {
  const auto& attributes = context.attributes.as<CrossEntropyAttributes>();
  context.add_output(attributes.result, attributes.dtype);
}

void infer_binary(InferContext& context) {
  context.require_float(0);
  context.require_same_dtype(0, 1);
  if (context.shape(0) != context.shape(1)) context.fail_shapes(0, 1, "shapes must be equal");
  if (context.given(2)) {
    if (context.dtype(2) != wide(context.dtype(0))) context.require_same_dtype(2, 0);
    Shape shape;
    if (!broadcast_shapes(context.shape(0), context.shape(2), shape) || shape != context.shape(0)) {
      context.fail_shapes(0, 2, "the latter does not broadcast to the former");
    }
  }
  context.add_output(context.shape(0), wide(context.dtype(0)));
}

// An exponential a logit, and what is done with it.
double loss_flops(const InferContext& context) { return 24.0 * static_cast<double>(context.shape(0).product()); }
double backward_flops(const InferContext& context) { return 24.0 * static_cast<double>(context.shape(1).product()); }
double label_flops(const InferContext& context) { return 4.0 * static_cast<double>(context.shape(1).product()); }

// One number of log_probabilities a label is read, all of them with smoothing.
double nll_bytes(const InferContext& context) {
  const bool smooth = context.attributes.as<CrossEntropyAttributes>().smoothing > 0;
  const auto labels = static_cast<double>(context.shape(1).product());
  const auto read = smooth ? static_cast<double>(context.shape(0).product()) : labels;
  return read * static_cast<double>(size_of(context.dtype(0))) +
         labels * static_cast<double>(size_of(context.dtype(1)) + size_of(context.output().dtype));
}

void gradient_softmax_cross_entropy(GradientContext& context) {
  if (!context.needs(0)) return;
  const Tensor *dy = &context.dy(), *logits = &context.input(0), *labels = &context.input(1), *lse = &context.output(1);
  context.set(0, invoke(kSoftmaxCrossEntropyBackward, {dy, logits, labels, lse}, {}, context.where()));
}

void gradient_cross_entropy(GradientContext& context) {
  if (!context.needs(0)) return;
  const Tensor none;
  const Tensor* weight = context.has_input(2) ? &context.input(2) : &none;
  const Tensor *dy = &context.dy(), *logits = &context.input(0), *labels = &context.input(1), *lse = &context.output(1);
  context.set(0, invoke(kCrossEntropyBackward, {dy, logits, labels, lse, weight},
                        context.attributes<CrossEntropyAttributes>(), context.where()));
}

void gradient_nll_loss(GradientContext& context) {
  if (!context.needs(0)) return;
  const Tensor none;
  const Tensor* weight = context.has_input(2) ? &context.input(2) : &none;
  CrossEntropyAttributes attributes = context.attributes<CrossEntropyAttributes>();
  attributes.result = context.shape(0);
  attributes.dtype = context.dtype(0);
  context.set(0, invoke(kNllLossBackward, {&context.dy(), &context.input(1), weight}, attributes, context.where()));
}

void gradient_binary(GradientContext& context) {
  const Where where = context.where();
  const Tensor none;
  const Tensor &logits = context.input(0), &targets = context.input(1);
  const Tensor& weight = context.has_input(2) ? context.input(2) : none;
  if (context.needs(0)) {
    context.set(0, invoke(kBinaryCrossEntropyBackward, {&context.dy(), &logits, &targets, &weight}, {}, where));
  }
  if (context.needs(1)) {
    // The loss is linear in the target: its slope is the difference between targets 1 and 0.
    const Tensor one = ones_like(logits, where), zero = zeros_like(logits, where);
    const Tensor high = invoke(kBinaryCrossEntropy, {&logits, &one, &weight}, {}, where);
    const Tensor low = invoke(kBinaryCrossEntropy, {&logits, &zero, &weight}, {}, where);
    context.set(1, mul(context.dy(), sub(high, low, where), where).to(context.dtype(1), where));
  }
}

CrossEntropyAttributes attributes_of(std::string_view op, const CrossEntropyOptions& options, Where where) {
  located(op, where, [&] {
    FERRY_CHECK(options.label_smoothing >= 0 && options.label_smoothing <= 1, InvalidArgument,
                "{}: label_smoothing is {}; it is a share, in [0, 1]", op, options.label_smoothing);
  });
  return {.ignored = options.ignore_index,
          .smoothing = options.label_smoothing,
          .wants_counted = options.reduction == Reduction::mean};
}

Tensor reduced(const Tensor& loss, const Tensor& counted, Reduction reduction, Where where) {
  if (reduction == Reduction::none) return loss;
  const Tensor total = sum(loss, {}, false, where);
  return reduction == Reduction::sum ? total : div(total, sum(counted.detach(), {}, false, where), where);
}

}  // namespace

const OpSchema kSoftmaxCrossEntropy{.name = "softmax_cross_entropy",
                                    .op_class = OpClass::normalization,
                                    .arguments = {"logits", "labels"},
                                    .kernel = "cross_entropy",
                                    .infer = infer_softmax_cross_entropy,
                                    .contiguous = 0b11,
                                    .flops = loss_flops,
                                    .gradient = gradient_softmax_cross_entropy,
                                    .saved_inputs = 0b11,
                                    .saved_outputs = 0b10,
                                    .autocast = AutocastRule::as_is};
const OpSchema kSoftmaxCrossEntropyBackward{.name = "softmax_cross_entropy_backward",
                                            .op_class = OpClass::normalization,
                                            .arguments = {"dloss", "logits", "labels", "log_sum_exp"},
                                            .kernel = "cross_entropy_backward",
                                            .infer = infer_like_logits,
                                            .contiguous = 0b1110,
                                            .flops = backward_flops};
const OpSchema kCrossEntropy{.name = "cross_entropy",
                             .op_class = OpClass::normalization,
                             .arguments = {"logits", "labels", "weight"},
                             .infer = infer_cross_entropy,
                             .contiguous = 0b111,
                             .flops = loss_flops,
                             .gradient = gradient_cross_entropy,
                             .saved_inputs = 0b111,
                             .saved_outputs = 0b10,
                             .autocast = AutocastRule::as_is};
const OpSchema kCrossEntropyBackward{.name = "cross_entropy_backward",
                                     .op_class = OpClass::normalization,
                                     .arguments = {"dloss", "logits", "labels", "log_sum_exp", "weight"},
                                     .infer = infer_like_logits,
                                     .contiguous = 0b11110,
                                     .flops = backward_flops};
const OpSchema kNllLoss{.name = "nll_loss",
                        .op_class = OpClass::gather,
                        .arguments = {"log_probabilities", "labels", "weight"},
                        .infer = infer_nll_loss,
                        .contiguous = 0b111,
                        .flops = label_flops,
                        .bytes = nll_bytes,
                        .gradient = gradient_nll_loss,
                        .saved_inputs = 0b110,
                        .autocast = AutocastRule::as_is};
const OpSchema kNllLossBackward{.name = "nll_loss_backward",
                                .op_class = OpClass::gather,
                                .arguments = {"dloss", "labels", "weight"},
                                .infer = infer_nll_loss_backward,
                                .contiguous = 0b110,
                                .flops = label_flops};
const OpSchema kBinaryCrossEntropy{.name = "binary_cross_entropy_with_logits",
                                   .arguments = {"logits", "targets", "pos_weight"},
                                   .infer = infer_binary,
                                   .broadcasts = true,
                                   .flops = loss_flops,
                                   .gradient = gradient_binary,
                                   .saved_inputs = 0b111,
                                   .autocast = AutocastRule::widest};
const OpSchema kBinaryCrossEntropyBackward{.name = "binary_cross_entropy_with_logits_backward",
                                           .arguments = {"dloss", "logits", "targets", "pos_weight"},
                                           .infer = infer_like_logits,
                                           .broadcasts = true,
                                           .flops = backward_flops};

}  // namespace ferry::ops

namespace ferry {

using namespace ops;

Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, Reduction reduction, Where where) {
  Tensor outputs[2];
  const Tensor* inputs[] = {&logits, &labels};
  invoke(kSoftmaxCrossEntropy, inputs, {}, where, outputs);
  if (reduction == Reduction::none) return outputs[0];
  return reduction == Reduction::mean ? mean(outputs[0], {}, false, where) : sum(outputs[0], {}, false, where);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options, Where where) {
  Tensor outputs[3];
  const Tensor* inputs[] = {&logits, &labels, &options.weight};
  invoke(kCrossEntropy, inputs, attributes_of("cross_entropy", options, where), where, outputs);
  return reduced(outputs[0], outputs[2], options.reduction, where);
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels, const CrossEntropyOptions& options,
                Where where) {
  Tensor outputs[2];
  const Tensor* inputs[] = {&log_probabilities, &labels, &options.weight};
  invoke(kNllLoss, inputs, attributes_of("nll_loss", options, where), where, outputs);
  return reduced(outputs[0], outputs[1], options.reduction, where);
}

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets, const Tensor& pos_weight,
                                        Reduction reduction, Where where) {
  const Tensor loss = invoke(kBinaryCrossEntropy, {&logits, &targets, &pos_weight}, {}, where);
  if (reduction == Reduction::none) return loss;
  return reduction == Reduction::mean ? mean(loss, {}, false, where) : sum(loss, {}, false, where);
}

}  // namespace ferry
