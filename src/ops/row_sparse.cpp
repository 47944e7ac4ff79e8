// Row-sparse gradients: coalescing, and adding rows to a dense tensor.
#include "src/ops/row_sparse.h"

#include <ferry/no_grad.h>
#include <ferry/ops.h>
#include "src/base/check.h"
#include "src/ops/invoke.h"
#include "src/ops/schemas.h"

namespace ferry::ops {
namespace {

void require_rows(const InferContext& context, std::size_t rows, std::size_t values) {
  context.require_integer(rows);
  context.require_rank(rows, 1);
  context.require_rank(values, 2);
  if (context.shape(rows)[0] != context.shape(values)[0])
    context.fail_shapes(rows, values, "one row of values for each row");
}

void infer_coalesce(InferContext& context) {
  require_rows(context, 0, 1);
  context.add_output(context.shape(0), context.dtype(0));
  context.add_output(context.shape(1), context.dtype(1));
}

void infer_scatter(InferContext& context) {
  context.require_rank(0, 2);
  require_rows(context, 1, 2);
  context.require_same_dtype(0, 2);
  if (context.shape(0)[1] != context.shape(2)[1]) context.fail_shapes(0, 2, "the rows differ in length");
  context.add_output(context.shape(0), context.dtype(0), context.in(0).strides());
}

double scatter_bytes(const InferContext& context) {
  return 3.0 * static_cast<double>(context.shape(2).product() * size_of(context.dtype(2)));
}

}  // namespace

const OpSchema kCoalesce{.name = "coalesce",
                         .op_class = OpClass::gather,
                         .arguments = {"rows", "values"},
                         .infer = infer_coalesce,
                         .contiguous = 0b11};
const OpSchema kScatterAddRows{.name = "scatter_add_rows_",
                               .op_class = OpClass::gather,
                               .arguments = {"dense", "rows", "values"},
                               .infer = infer_scatter,
                               .mutates = 1,
                               .follows_first_input = true,
                               .contiguous = 0b111,
                               .bytes = scatter_bytes};

void scatter_add_rows(const Tensor& dense, const RowSparse& rows, Where where) {
  invoke(kScatterAddRows, {&dense, &rows.rows, &rows.values}, {}, where);
}

RowSparse concatenated(const RowSparse& a, const RowSparse& b, Where where) {
  const Tensor rows = a.rows.dtype() == b.rows.dtype() ? b.rows : b.rows.to(a.rows.dtype(), where);
  return {concat({a.rows, rows}, 0, where), concat({a.values, b.values}, 0, where), a.shape};
}

}  // namespace ferry::ops

namespace ferry {

RowSparse RowSparse::coalesced(std::source_location where) const {
  const NoGrad no_grad;
  Tensor outputs[2];
  const Tensor* inputs[] = {&rows, &values};
  ops::invoke(ops::kCoalesce, inputs, {}, where, outputs);
  return {outputs[0], outputs[1], shape};
}

Tensor RowSparse::dense(std::source_location where) const {
  ops::located("dense", where,
               [&] { FERRY_CHECK(values.defined(), InvalidArgument, "RowSparse: values is an undefined tensor"); });
  const NoGrad no_grad;
  const ops::RuntimeOf runtime(values);
  const Tensor result = zeros(shape, values.dtype(), where);
  ops::scatter_add_rows(result, *this, where);
  return result;
}

}  // namespace ferry
