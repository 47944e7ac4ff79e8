#include <ferry/attention.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "src/base/check.h"
#include "src/ops/attention.h"
#include "src/ops/creation.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::ops {
namespace {

enum Argument : std::size_t { q, k, v, mask };

Shape leading_axes(const Shape& shape) {
  return Dims(std::span<const std::int64_t>(shape.begin(), static_cast<std::size_t>(shape.rank() - 2)));
}

Shape with_matrix(Shape leading, std::int64_t rows, std::int64_t columns) {
  leading.push_back(rows);
  leading.push_back(columns);
  return leading;
}

Shape scores_shape(const Shape& query, const Shape& key) {
  return with_matrix(leading_axes(query), query[query.rank() - 2], key[key.rank() - 2]);
}

// Dense strides of `shape` whose axes lie in memory in the order of x's, the last axis innermost.
Strides strides_in_order_of(const Tensor& x, const Shape& shape) {
  const Strides& given = x.impl()->strides;
  std::array<int, kMaxRank> order{};
  const auto last = order.begin() + (shape.rank() - 1);
  std::iota(order.begin(), last + 1, 0);
  // A repeated axis says nothing of memory; it goes first.
  const auto step = [&](int axis) { return given[axis] == 0 ? std::numeric_limits<std::int64_t>::max() : given[axis]; };
  std::stable_sort(order.begin(), last, [&](int a, int b) { return step(a) > step(b); });
  Strides strides = Dims::filled(shape.rank(), 0);
  std::int64_t size = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    const int axis = order[static_cast<std::size_t>(i)];
    strides[axis] = size;
    size *= std::max<std::int64_t>(shape[axis], 1);
  }
  return strides;
}

void require_mask(const InferContext& context) {
  if (!context.given(mask)) return;
  const DType type = context.dtype(mask);
  const bool wide = size_of(context.dtype(q)) == 2 && type == DType::f32;
  if (type != DType::boolean && !wide) context.require_same_dtype(mask, q);
  const Shape wanted = scores_shape(context.shape(q), context.shape(k));
  if (context.shape(mask) != wanted) {
    context.fail_shape(mask, fmt::format("the scores are {}", to_string(wanted)));
  }
}

void infer_attention(InferContext& context) {
  context.require_float(q);
  for (const std::size_t i : {k, v}) context.require_same_dtype(q, i);
  for (const std::size_t i : {q, k, v}) {
    if (context.in(i).rank() < 2) context.fail_shape(i, "it needs at least 2 axes");
  }
  const Shape &query = context.shape(q), &key = context.shape(k), &value = context.shape(v);
  if (query.back() != key.back()) context.fail_shapes(q, k, "their last extents differ");
  if (key[key.rank() - 2] != value[value.rank() - 2]) {
    context.fail_shapes(k, v, "they have not as many keys as values (the last axis but one)");
  }
  for (const std::size_t i : {k, v}) {
    if (leading_axes(context.shape(i)) != leading_axes(query)) context.fail_shapes(q, i, "their leading axes differ");
  }
  require_mask(context);
  Shape rows = leading_axes(query);
  rows.push_back(query[query.rank() - 2]);
  const Shape result = with_matrix(leading_axes(query), query[query.rank() - 2], value.back());
  context.add_output(result, context.dtype(q), strides_in_order_of(context.in(q), result));
  context.add_output(rows, context.dtype(q) == DType::f64 ? DType::f64 : DType::f32);
}

void infer_backward(InferContext& context) {
  const auto& wants = context.attributes.as<AttentionAttributes>().wants;
  constexpr std::size_t kForward[] = {1, 2, 3, 6};  // where the forward arguments are
  for (std::size_t i = 0; i < 4; ++i) {
    if (!wants[i]) {
      context.add_no_output();
      continue;
    }
    const Tensor& x = context.in(kForward[i]);
    if (i == mask) {
      context.add_output(x.shape(), x.dtype());
    } else {
      context.add_output(x.shape(), x.dtype(), strides_in_order_of(x, x.shape()));
    }
  }
}

// Pairs of a query and a key that it looks at.
double pairs(const AttentionAttributes& attributes, const Shape& query, const Shape& key) {
  const auto rows = static_cast<double>(query[query.rank() - 2]), keys = static_cast<double>(key[key.rank() - 2]);
  const auto heads = static_cast<double>(leading_axes(query).product());
  if (!attributes.causal) return heads * rows * keys;
  const double square = std::min(rows, keys);
  return heads * (square * (square + 1) / 2 + (rows - square) * keys);
}

// Two products forward; the scores again and four more backward.
double attention_flops(const InferContext& context) {
  const auto depth = static_cast<double>(context.shape(q).back() + context.shape(v).back());
  return 2 * depth * pairs(context.attributes.as<AttentionAttributes>(), context.shape(q), context.shape(k));
}
double backward_flops(const InferContext& context) {
  const auto depth = static_cast<double>(3 * context.shape(1).back() + 2 * context.shape(3).back());
  return 2 * depth * pairs(context.attributes.as<AttentionAttributes>(), context.shape(1), context.shape(2));
}

// Repeated elements are read once.
double distinct_bytes(const InferContext& context) {
  double bytes = 0;
  for (const Tensor* input : context.inputs) {
    if (!input->defined()) continue;
    std::int64_t elements = 1;
    for (int i = 0; i < input->rank(); ++i) {
      if (input->impl()->strides[i] != 0) elements *= input->shape()[i];
    }
    bytes += static_cast<double>(elements * size_of(input->dtype()));
  }
  for (const OutputSpec& output : context.outputs()) {
    if (output.given) bytes += static_cast<double>(output.shape.product() * size_of(output.dtype));
  }
  return bytes;
}

void gradient_attention(GradientContext& context) {
  AttentionAttributes attributes = context.attributes<AttentionAttributes>();
  for (std::size_t i = 0; i < 4; ++i) attributes.wants[i] = context.needs(i);
  const Tensor none;
  const Tensor* inputs[] = {&context.dy(),
                            &context.input(q),
                            &context.input(k),
                            &context.input(v),
                            &context.output(),
                            &context.output(1),
                            context.has_input(mask) ? &context.input(mask) : &none};
  Tensor results[4];
  invoke(kAttentionBackward, inputs, attributes, context.where(), results);
  for (std::size_t i = 0; i < 4; ++i) {
    if (context.needs(i)) context.set(i, results[i]);
  }
}

}  // namespace

const OpSchema kAttention{.name = "scaled_dot_product_attention",
                          .op_class = OpClass::matmul,
                          .arguments = {"q", "k", "v", "mask"},
                          .infer = infer_attention,
                          .flops = attention_flops,
                          .bytes = distinct_bytes,
                          .gradient = gradient_attention,
                          .saved_inputs = 0b1111,
                          .saved_outputs = 0b11,
                          .autocast = AutocastRule::low};
const OpSchema kAttentionBackward{.name = "scaled_dot_product_attention_backward",
                                  .op_class = OpClass::matmul,
                                  .arguments = {"dy", "q", "k", "v", "y", "log_sum_exp", "mask"},
                                  .infer = infer_backward,
                                  .flops = backward_flops,
                                  .bytes = distinct_bytes};

}  // namespace ferry::ops

namespace ferry {
namespace {

// `x` with its leading axes those of the result; itself when they are, so that its errors are the op's.
Tensor expand_leading(const Tensor& x, const Shape& leading, Where where) {
  Shape shape = leading;
  for (int i = x.rank() - 2; i < x.rank(); ++i) shape.push_back(x.shape()[i]);
  return shape == x.shape() ? x : expand(x, shape, where);
}

Shape broadcast_leading(const Tensor& q, const Tensor& k, const Tensor& v) {
  Shape leading = ops::leading_axes(q.shape());
  for (const Tensor* other : {&k, &v}) {
    const bool fits = ops::broadcast_shapes(leading, ops::leading_axes(other->shape()), leading);
    FERRY_CHECK(fits, ShapeError,
                "scaled_dot_product_attention: argument 'q' is {}, 'k' is {} and 'v' is {}: their leading axes do not "
                "broadcast",
                describe(q), describe(k), describe(v));
  }
  return leading;
}

Tensor expand_mask(const Tensor& mask, const Shape& scores, Where where) {
  Shape shape;
  const bool fits = ops::broadcast_shapes(mask.shape(), scores, shape) && shape == scores;
  FERRY_CHECK(fits, ShapeError,
              "scaled_dot_product_attention: argument 'mask' is {}, which does not broadcast to the scores' {}",
              describe(mask), to_string(scores));
  return mask.shape() == scores ? mask : expand(mask, scores, where);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                                    Where where) {
  const bool regular = q.defined() && k.defined() && v.defined() && std::min({q.rank(), k.rank(), v.rank()}) >= 2;
  Tensor query = q, key = k, value = v, mask = options.mask;
  ops::AttentionAttributes attributes{.dropout = options.dropout, .causal = options.causal};
  ops::located("scaled_dot_product_attention", where, [&] {
    FERRY_CHECK(options.dropout >= 0 && options.dropout < 1, InvalidArgument,
                "scaled_dot_product_attention: dropout {} is outside [0, 1)", options.dropout);
    if (!regular) return;  // infer says what is wrong
    const Shape leading = broadcast_leading(q, k, v);
    query = expand_leading(q, leading, where);
    key = expand_leading(k, leading, where);
    value = expand_leading(v, leading, where);
    const Shape scores = ops::scores_shape(query.shape(), key.shape());
    if (mask.defined()) mask = expand_mask(mask, scores, where);
    const auto depth = static_cast<double>(std::max<std::int64_t>(1, q.shape().back()));
    attributes.scale = options.scale.value_or(1 / std::sqrt(depth));
    if (options.dropout > 0) {
      const ops::RuntimeOf runtime(q);
      const ops::RandomStream stream = ops::draw_random(scores.product());
      attributes.seed = stream.seed;
      attributes.offset = stream.offset;
    }
  });
  Tensor outputs[2];
  const Tensor* inputs[] = {&query, &key, &value, &mask};
  ops::invoke(ops::kAttention, inputs, attributes, where, outputs);
  return outputs[0];
}

}  // namespace ferry
