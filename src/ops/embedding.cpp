// embedding and embedding_bag, with dense or row-sparse gradients.
#include <ferry/ops.h>
#include "src/ops/attributes.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"

namespace ferry::ops {
namespace {

void infer_embedding(InferContext& context) {
  context.require_float(0);
  context.require_rank(0, 2);
  context.require_integer(1);
  Shape y = context.shape(1);
  y.push_back(context.shape(0)[1]);
  context.add_output(y, context.dtype(0));
}

void infer_dense_backward(InferContext& context) {
  context.add_output({context.attributes.as<EmbeddingAttributes>().rows, context.shape(0).back()}, context.dtype(0));
}

void infer_bag(InferContext& context) {
  context.require_float(0);
  context.require_rank(0, 2);
  for (const std::size_t i : {1, 2}) {
    context.require_integer(i);
    context.require_rank(i, 1);
  }
  context.require_same_dtype(1, 2);
  if (context.shape(2)[0] == 0 && context.shape(1)[0] > 0) context.fail_shapes(1, 2, "ids outside every bag");
  context.add_output({context.shape(2)[0], context.shape(0)[1]}, context.dtype(0));
}

void infer_bag_backward(InferContext& context) {
  context.add_output({context.attributes.as<EmbeddingAttributes>().rows, context.shape(0)[1]}, context.dtype(0));
}

double result_bytes(const InferContext& context) {
  const OutputSpec& y = context.output();
  return 2.0 * static_cast<double>(y.shape.product() * size_of(y.dtype));
}
double gathered_bytes(const InferContext& context) {
  const double row = static_cast<double>(context.shape(0)[1] * size_of(context.dtype(0)));
  return row * static_cast<double>(context.shape(1).product() + context.output().shape[0]);
}

// Rows that `ids` name, with the values that belong to them, as the gradient of the table in the asked-for form.
Gradient table_gradient(const GradientContext& context, const Tensor& values, const Tensor& ids) {
  const auto& attributes = context.attributes<EmbeddingAttributes>();
  const Where where = context.where();
  if (attributes.row_sparse) {
    const Tensor rows = reshape(ids, {ids.numel()}, where);
    return RowSparse{rows, reshape(values, {ids.numel(), context.shape(0)[1]}, where), context.shape(0)};
  }
  EmbeddingAttributes dense{.rows = context.shape(0)[0]};
  return invoke(kEmbeddingDenseBackward, {&values, &ids}, dense, where);
}

void gradient_embedding(GradientContext& context) {
  if (context.needs(0)) context.set(0, table_gradient(context, context.dy(), context.input(1)));
}

void gradient_bag(GradientContext& context) {
  if (!context.needs(0)) return;
  EmbeddingAttributes attributes = context.attributes<EmbeddingAttributes>();
  attributes.rows = context.input(1).numel();
  const Tensor values = invoke(kEmbeddingBagBackward, {&context.dy(), &context.input(2)}, attributes, context.where());
  context.set(0, table_gradient(context, values, context.input(1)));
}

}  // namespace

const OpSchema kEmbedding{.name = "embedding",
                          .op_class = OpClass::gather,
                          .arguments = {"table", "ids"},
                          .infer = infer_embedding,
                          .contiguous = 0b11,
                          .bytes = result_bytes,
                          .gradient = gradient_embedding,
                          .saved_inputs = 0b10,
                          .autocast = AutocastRule::as_is};
const OpSchema kEmbeddingDenseBackward{.name = "embedding_dense_backward",
                                       .op_class = OpClass::gather,
                                       .arguments = {"dy", "ids"},
                                       .infer = infer_dense_backward,
                                       .contiguous = 0b11};
const OpSchema kEmbeddingBag{.name = "embedding_bag",
                             .op_class = OpClass::gather,
                             .arguments = {"table", "ids", "offsets"},
                             .infer = infer_bag,
                             .contiguous = 0b111,
                             .bytes = gathered_bytes,
                             .gradient = gradient_bag,
                             .saved_inputs = 0b110,
                             .autocast = AutocastRule::as_is};
const OpSchema kEmbeddingBagBackward{.name = "embedding_bag_backward",
                                     .op_class = OpClass::gather,
                                     .arguments = {"dy", "offsets"},
                                     .infer = infer_bag_backward,
                                     .contiguous = 0b11};

}  // namespace ferry::ops

namespace ferry {

Tensor embedding(const Tensor& table, const Tensor& ids, GradientKind gradient, Where where) {
  const ops::EmbeddingAttributes attributes{.row_sparse = gradient == GradientKind::row_sparse};
  return ops::invoke(ops::kEmbedding, {&table, &ids}, attributes, where);
}

Tensor embedding_bag(const Tensor& table, const Tensor& ids, const Tensor& offsets, BagMode mode, GradientKind gradient,
                     Where where) {
  const ops::EmbeddingAttributes attributes{.mean = mode == BagMode::mean,
                                            .row_sparse = gradient == GradientKind::row_sparse};
  return ops::invoke(ops::kEmbeddingBag, {&table, &ids, &offsets}, attributes, where);
}

}  // namespace ferry
