// Stochastic gradient descent, dense and by rows.
#include "src/ops/sgd.h"

#include "src/ops/invoke.h"

namespace ferry::ops {
namespace {

// States the mutated parameter and, where given, velocity as outputs.
void add_mutated(InferContext& context, std::size_t velocity) {
  context.add_output(context.shape(0), context.dtype(0), context.in(0).strides());
  if (!context.given(velocity)) {
    context.add_no_output();
    return;
  }
  if (context.shape(velocity) != context.shape(0)) context.fail_shapes(0, velocity, "shapes must be equal");
  context.add_output(context.shape(velocity), context.dtype(velocity), context.in(velocity).strides());
}

void infer_sgd(InferContext& context) {
  context.require_same_dtype(0, 1);
  if (context.shape(0) != context.shape(1)) context.fail_shapes(0, 1, "shapes must be equal");
  add_mutated(context, 2);
}

void infer_sgd_rows(InferContext& context) {
  context.require_rank(0, 2);
  context.require_integer(1);
  context.require_same_dtype(0, 2);
  add_mutated(context, 3);
}

double dense_flops(const InferContext& context) { return 4.0 * static_cast<double>(context.shape(0).product()); }
double rows_flops(const InferContext& context) { return 4.0 * static_cast<double>(context.shape(2).product()); }
double rows_bytes(const InferContext& context) {
  const double tensors = context.given(3) ? 5 : 3;
  return tensors * static_cast<double>(context.shape(2).product() * size_of(context.dtype(2)));
}

}  // namespace

const OpSchema kSgd{.name = "sgd_",
                    .arguments = {"param", "grad", "velocity"},
                    .infer = infer_sgd,
                    .mutates = 0b101,
                    .follows_first_input = true,
                    .flops = dense_flops};
const OpSchema kSgdRows{.name = "sgd_rows_",
                        .op_class = OpClass::gather,
                        .arguments = {"param", "rows", "values", "velocity"},
                        .infer = infer_sgd_rows,
                        .mutates = 0b1001,
                        .follows_first_input = true,
                        .contiguous = 0b1111,
                        .flops = rows_flops,
                        .bytes = rows_bytes};

void sgd(const Tensor& param, const Tensor& grad, const Tensor& velocity, const SgdAttributes& attributes,
         Where where) {
  Tensor updated[2];
  const Tensor* inputs[] = {&param, &grad, &velocity};
  invoke(kSgd, inputs, attributes, where, updated);
}

void sgd_rows(const Tensor& param, const RowSparse& grad, const Tensor& velocity, const SgdAttributes& attributes,
              Where where) {
  Tensor updated[2];
  const Tensor* inputs[] = {&param, &grad.rows, &grad.values, &velocity};
  invoke(kSgdRows, inputs, attributes, where, updated);
}

}  // namespace ferry::ops
