// Scaled dot-product attention: products by cuBLAS, the weights of some heads at a time in scratch memory.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/backends/cuda/dispatch.h"
#include "src/backends/cuda/elements.h"
#include "src/backends/cuda/for_each.h"
#include "src/backends/cuda/gemm.h"
#include "src/backends/cuda/kernel_list.h"
#include "src/backends/cuda/layout.h"
#include "src/backends/cuda/philox.h"
#include "src/backends/cuda/views.h"
#include "src/kernels/math.h"
#include "src/ops/attention.h"

namespace ferry::cuda_backend {
namespace {

// Bytes of scores that are in memory at once; fixed, so that results do not depend on how much is free.
constexpr std::int64_t kScoreBytes = std::int64_t{256} << 20;

// Whether weight g of the stream is kept, and what a kept one is multiplied by.
template <class C>
struct Dropout {
  std::uint32_t threshold;  // 0: all are kept
  C scale;
  std::uint64_t seed, offset;

  FERRY_FUNCTOR C factor(std::int64_t weight) const {
    if (threshold == 0) return C(1);
    return is_kept(seed, offset + static_cast<std::uint64_t>(weight), threshold) ? scale : C(0);
  }
};

enum class MaskKind : std::uint8_t { none, boolean, number };

// The scores [heads, L, S] of some heads and what they are masked by.
template <class C>
struct Scores {
  std::int64_t first_head, queries, keys;
  C* data;
  C scale;
  MaskKind mask_kind;
  Layout<2> mask_layout;  // [B…, L, S] dense, and the mask
  const bool* allowed;
  Values<C> added;
  bool causal;
  Dropout<C> dropout;

  FERRY_FUNCTOR std::int64_t weight(std::int64_t row, std::int64_t key) const {
    return (first_head * queries + row) * keys + key;
  }
  // The masked score of a query's key, from the product of the two.
  FERRY_FUNCTOR C masked(std::int64_t row, std::int64_t key, C product) const {
    constexpr C kNone = -std::numeric_limits<C>::infinity();
    if (causal && key > row % queries) return kNone;
    const C score = product * scale;
    if (mask_kind == MaskKind::none) return score;
    std::int64_t at[2];
    mask_layout.find(weight(row, key), at);
    if (mask_kind == MaskKind::boolean) return allowed[at[1]] ? score : kNone;
    return score + added[at[1]];
  }
};

// Products → weights, of the type that the values are multiplied in; of that of scores they may be in place.
template <class T>
struct Weigh {
  using C = Compute<T>;
  Scores<C> scores;
  C* log_sum_exp;
  T* weights;

  FERRY_FUNCTOR void operator()(std::int64_t row, const Team& team) const {
    constexpr C kInfinity = std::numeric_limits<C>::infinity();
    C* const line = scores.data + row * scores.keys;
    C largest = -kInfinity;
    for (std::int64_t key = team.rank; key < scores.keys; key += team.size) {
      line[key] = scores.masked(row, key, line[key]);
      largest = MaxOf{}(largest, line[key]);
    }
    largest = team.all(largest, MaxOf{});
    const bool nothing = largest == -kInfinity;
    C sum = 0;
    for (std::int64_t key = team.rank; key < scores.keys && !nothing; key += team.size) {
      line[key] = kernels::exp(line[key] - largest);
      sum += line[key];
    }
    sum = team.all(sum, SumOf{});
    for (std::int64_t key = team.rank; key < scores.keys; key += team.size) {
      const C weight = nothing ? C(0) : line[key] / sum * scores.dropout.factor(scores.weight(row, key));
      weights[row * scores.keys + key] = store<T>(weight);
    }
    if (team.rank == 0) log_sum_exp[row] = nothing ? kInfinity : largest + kernels::log(sum);
  }
};

// From products and the gradients of weights: the weights that y was made of, and the gradients of scores. `mean` is
// Σ dy y of the query.
template <class T>
struct ScoreGradient {
  using C = Compute<T>;
  Scores<C> scores;
  const C* log_sum_exp;
  const C* mean;
  const C* weight_slopes;
  T* weights;
  T* slopes;

  FERRY_FUNCTOR void operator()(std::int64_t row, const Team& team) const {
    for (std::int64_t key = team.rank; key < scores.keys; key += team.size) {
      const std::int64_t at = row * scores.keys + key;
      const C weight = kernels::exp(scores.masked(row, key, scores.data[at]) - log_sum_exp[row]);
      const C factor = scores.dropout.factor(scores.weight(row, key));
      const C slope = weight_slopes[at];
      weights[at] = store<T>(weight * factor);
      slopes[at] = store<T>(weight == C(0) ? C(0) : weight * (slope * factor - mean[row]));
    }
  }
};

// Σ dy y along the last axis.
template <class C>
struct RowProduct {
  Layout<2> rows;  // of dy and y, their first elements
  std::int64_t length, dy_step, y_step;
  Values<C> dy, y;
  C* to;

  FERRY_FUNCTOR void operator()(std::int64_t row, const Team& team) const {
    std::int64_t at[2];
    rows.find(row, at);
    C sum = 0;
    for (std::int64_t i = team.rank; i < length; i += team.size) {
      sum += dy[at[0] + i * dy_step] * y[at[1] + i * y_step];
    }
    sum = team.all(sum, SumOf{});
    if (team.rank == 0) to[row] = sum;
  }
};

// [B…, R, C] as [heads, R, C], dense and of `dtype`: the view itself where it is that.
TensorView heads_of(const KernelContext& context, const TensorView& view, DType dtype) {
  const int rank = view.shape.rank();
  std::int64_t heads = 1;
  for (int axis = 0; axis < rank - 2; ++axis) heads *= view.shape[axis];
  TensorView dense = view;
  if (view.dtype != dtype || !view.is_contiguous()) {
    dense = scratch_view(dtype, view.shape);
    copy_view(context, dense, view);
  }
  dense.shape = {heads, view.shape[rank - 2], view.shape[rank - 1]};
  dense.strides = contiguous_strides(dense.shape);
  return dense;
}

TensorView some_heads(TensorView view, std::int64_t first, std::int64_t count) {
  view.data = view.as<std::byte>() + first * view.strides[0] * size_of(view.dtype);
  view.shape[0] = count;
  return view;
}

// A result for heads_of an output; copied there at the end unless it is the output's own memory.
struct HeadResult {
  const TensorView* target = nullptr;  // null: not wanted
  TensorView heads{};

  HeadResult(const TensorView* output, DType dtype) : target(output) {
    if (target == nullptr) return;
    const int rank = target->shape.rank();
    TensorView dense = *target;
    if (target->dtype != dtype || !target->is_contiguous()) dense = scratch_view(dtype, target->shape);
    std::int64_t count = 1;
    for (int axis = 0; axis < rank - 2; ++axis) count *= target->shape[axis];
    heads = dense;
    heads.shape = {count, target->shape[rank - 2], target->shape[rank - 1]};
    heads.strides = contiguous_strides(heads.shape);
  }
  void finish(const KernelContext& context) const {
    if (target == nullptr || heads.data == target->data) return;
    TensorView dense = heads;
    dense.shape = target->shape;
    dense.strides = contiguous_strides(dense.shape);
    copy_view(context, *target, dense);
  }
};

template <class C>
Scores<C> scores_of(const KernelContext& context, const TensorView& q, const TensorView& k, const TensorView& mask) {
  const auto& a = context.attributes.as<ops::AttentionAttributes>();
  const int rank = q.shape.rank();
  Scores<C> scores{};
  scores.queries = q.shape[rank - 2];
  scores.keys = k.shape[rank - 2];
  scores.scale = static_cast<C>(a.scale);
  scores.causal = a.causal;
  if (mask.given) {
    TensorView dense = mask;
    dense.strides = contiguous_strides(mask.shape);
    scores.mask_kind = mask.dtype == DType::boolean ? MaskKind::boolean : MaskKind::number;
    scores.mask_layout = make_layout<2>({&dense, &mask});
    scores.allowed = mask.as<const bool>();
    scores.added = {mask.data, mask.dtype, C(0)};
  }
  scores.dropout = {0, C(1), a.seed, a.offset};
  if (a.dropout > 0) {
    scores.dropout.threshold = static_cast<std::uint32_t>(std::ceil(std::ldexp(a.dropout, 24)));
    scores.dropout.scale = static_cast<C>(1 / (1 - a.dropout));
  }
  return scores;
}

// Heads whose scores are in memory at once.
std::int64_t heads_together(std::int64_t heads, std::int64_t queries, std::int64_t keys) {
  const std::int64_t bytes = std::max<std::int64_t>(1, queries * keys * std::int64_t{sizeof(float)});
  return std::clamp<std::int64_t>(kScoreBytes / bytes, 1, std::max<std::int64_t>(1, heads));
}

TensorView optional_input(const KernelContext& context, std::size_t i) {
  return context.has_input(i) ? context.in(i) : TensorView{};
}
const TensorView* optional_output(const KernelContext& context, std::size_t i) {
  return context.has_output(i) ? &context.out(i) : nullptr;
}

// Scratch for a value per head, query and key, of T; the memory of `wide` where that is of the same type.
template <class T>
TensorView weights_beside(const TensorView& wide) {
  return wide.dtype == dtype_of<T> ? wide : scratch_view(dtype_of<T>, wide.shape);
}

template <class T>
void forward(const KernelContext& context) {
  using C = Compute<T>;
  constexpr DType kType = dtype_of<T>, kWide = dtype_of<C>;
  const TensorView q = heads_of(context, context.in(0), kType), k = heads_of(context, context.in(1), kType),
                   v = heads_of(context, context.in(2), kType);
  const HeadResult y(&context.out(0), kType);
  Scores<C> scores = scores_of<C>(context, context.in(0), context.in(1), optional_input(context, 3));
  const std::int64_t heads = q.shape[0], together = heads_together(heads, scores.queries, scores.keys);
  const TensorView products = scratch_view(kWide, {together, scores.queries, scores.keys});
  const TensorView weights = weights_beside<T>(products);
  scores.data = products.as<C>();
  for (std::int64_t first = 0; first < heads; first += together) {
    const std::int64_t count = std::min(together, heads - first);
    scores.first_head = first;
    gemm(context, some_heads(q, first, count), transposed(some_heads(k, first, count)), some_heads(products, 0, count));
    for_each_row(count * scores.queries, scores.keys,
                 Weigh<T>{scores, context.out(1).as<C>() + first * scores.queries, weights.as<T>()});
    gemm(context, some_heads(weights, 0, count), some_heads(v, first, count), some_heads(y.heads, first, count));
  }
  y.finish(context);
}

template <class C>
C* output_means(const TensorView& dy, const TensorView& y) {
  TensorView dy_rows = dy, y_rows = y;
  dy_rows.shape[2] = y_rows.shape[2] = 1;
  C* const mean = LaunchScope::current().scratch<C>(dy_rows.numel());
  for_each_row(dy_rows.numel(), y.shape[2],
               RowProduct<C>{make_layout<2>({&dy_rows, &y_rows}),
                             y.shape[2],
                             1,
                             1,
                             {dy.data, dy.dtype, C(0)},
                             {y.data, y.dtype, C(0)},
                             mean});
  return mean;
}

template <class T>
void backward(const KernelContext& context) {
  using C = Compute<T>;
  constexpr DType kType = dtype_of<T>, kWide = dtype_of<C>;
  const TensorView dy = heads_of(context, context.in(0), kType), q = heads_of(context, context.in(1), kType),
                   k = heads_of(context, context.in(2), kType), v = heads_of(context, context.in(3), kType),
                   y = heads_of(context, context.in(4), kType);
  const HeadResult dq(optional_output(context, 0), kType), dk(optional_output(context, 1), kType),
      dv(optional_output(context, 2), kType), dmask(optional_output(context, 3), kType);
  Scores<C> scores = scores_of<C>(context, context.in(1), context.in(2), optional_input(context, 6));
  const std::int64_t heads = q.shape[0], together = heads_together(heads, scores.queries, scores.keys);
  const double scale = context.attributes.as<ops::AttentionAttributes>().scale;
  const Shape some = {together, scores.queries, scores.keys};
  const TensorView products = scratch_view(kWide, some), weight_slopes = scratch_view(kWide, some);
  const TensorView weights = weights_beside<T>(products), slopes = weights_beside<T>(weight_slopes);
  const C* const mean = output_means<C>(dy, y);
  scores.data = products.as<C>();
  for (std::int64_t first = 0; first < heads; first += together) {
    const std::int64_t count = std::min(together, heads - first);
    const auto part = [&](const TensorView& view) { return some_heads(view, first, count); };
    const TensorView weight = some_heads(weights, 0, count), slope = some_heads(slopes, 0, count);
    scores.first_head = first;
    gemm(context, part(q), transposed(part(k)), some_heads(products, 0, count));
    gemm(context, part(dy), transposed(part(v)), some_heads(weight_slopes, 0, count));
    for_each_row(
        count * scores.queries, scores.keys,
        ScoreGradient<T>{scores, context.in(5).as<const C>() + first * scores.queries, mean + first * scores.queries,
                         weight_slopes.as<const C>(), weights.as<T>(), slopes.as<T>()});
    if (dv.target) gemm(context, transposed(weight), part(dy), part(dv.heads));
    if (dq.target) gemm(context, slope, part(k), part(dq.heads), scale);
    if (dk.target) gemm(context, transposed(slope), part(q), part(dk.heads), scale);
    if (dmask.target) copy_view(context, part(dmask.heads), slope);
  }
  for (const HeadResult* result : {&dq, &dk, &dv, &dmask}) result->finish(context);
}

void attention(const KernelContext& context) {
  visit_floats(context, context.in(0).dtype, [&](auto tag) { forward<typename decltype(tag)::type>(context); });
}
void attention_backward(const KernelContext& context) {
  visit_floats(context, context.in(1).dtype, [&](auto tag) { backward<typename decltype(tag)::type>(context); });
}

constexpr KernelEntry kEntries[] = {
    {"scaled_dot_product_attention", attention},
    {"scaled_dot_product_attention_backward", attention_backward},
};

}  // namespace

std::span<const KernelEntry> attention_kernels() { return kEntries; }

}  // namespace ferry::cuda_backend
