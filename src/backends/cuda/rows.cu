// Ops on rows, each by a team of threads: softmax, layer normalisation, l2_normalize.
#include "src/backends/cuda/dispatch.h"
#include "src/backends/cuda/elements.h"
#include "src/backends/cuda/for_each.h"
#include "src/backends/cuda/grouped_reduce.h"
#include "src/backends/cuda/kernel_list.h"
#include "src/backends/cuda/layout.h"
#include "src/backends/cuda/rows.h"
#include "src/backends/cuda/views.h"
#include "src/kernels/math.h"
#include "src/ops/activations.h"
#include "src/ops/normalization.h"

namespace ferry::cuda_backend {
namespace {

template <class T, bool kLog>
struct Softmax {
  using C = Compute<T>;
  Rows rows;
  const T* x;
  T* y;

  FERRY_FUNCTOR void operator()(std::int64_t row, const Team& team) const {
    const T* const from = x + rows.first(row);
    T* const to = y + rows.first(row);
    const C anchor = anchor_of<C>(rows, from, team);
    const C sum = exponential_sum(rows, from, anchor, team);
    const C log_sum = kLog ? kernels::log(sum) : C(0);
    for (std::int64_t i = team.rank; i < rows.length; i += team.size) {
      const C value = load(from[i * rows.inner]) - anchor;
      to[i * rows.inner] = store<T>(kLog ? value - log_sum : kernels::exp(value) / sum);
    }
  }
};

template <class T, bool kLog>
struct SoftmaxGradient {
  using C = Compute<T>;
  Rows rows;
  const T* dy;
  const T* y;
  T* dx;

  FERRY_FUNCTOR void operator()(std::int64_t row, const Team& team) const {
    const std::int64_t at = rows.first(row);
    C sum = 0;
    for (std::int64_t i = team.rank; i < rows.length; i += team.size) {
      const C slope = load(dy[at + i * rows.inner]);
      sum += kLog ? slope : slope * load(y[at + i * rows.inner]);
    }
    sum = team.all(sum, SumOf{});
    for (std::int64_t i = team.rank; i < rows.length; i += team.size) {
      const C slope = load(dy[at + i * rows.inner]), value = load(y[at + i * rows.inner]);
      dx[at + i * rows.inner] = store<T>(kLog ? slope - kernels::exp(value) * sum : value * (slope - sum));
    }
  }
};

template <bool kLog>
void softmax(const KernelContext& context) {
  const TensorView &x = context.in(0), &y = context.out();
  const Rows rows(x.shape, context.attributes.as<ops::AxisAttributes>().axis);
  visit_floats(context, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(rows.count, rows.length, Softmax<T, kLog>{rows, x.as<const T>(), y.as<T>()});
  });
}

template <bool kLog>
void softmax_backward(const KernelContext& context) {
  const TensorView &dy = context.in(0), &y = context.in(1), &dx = context.out();
  const Rows rows(y.shape, context.attributes.as<ops::AxisAttributes>().axis);
  visit_floats(context, y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(rows.count, rows.length,
                 SoftmaxGradient<T, kLog>{rows, dy.as<const T>(), y.as<const T>(), dx.as<T>()});
  });
}

// --- layer normalisation ---

template <class T>
struct LayerNorm {
  using C = Compute<T>;
  std::int64_t length;
  const T* x;
  Values<C> gamma, beta;
  C epsilon;
  T* y;
  C* mean_out;
  C* inverse_out;

  FERRY_FUNCTOR void operator()(std::int64_t row, const Team& team) const {
    const T* const from = x + row * length;
    C sum = 0;
    for (std::int64_t i = team.rank; i < length; i += team.size) sum += load(from[i]);
    const C mean = team.all(sum, SumOf{}) / static_cast<C>(length);
    C squares = 0;
    for (std::int64_t i = team.rank; i < length; i += team.size) {
      const C distance = load(from[i]) - mean;
      squares += distance * distance;
    }
    const C variance = team.all(squares, SumOf{}) / static_cast<C>(length);
    const C inverse = C(1) / kernels::sqrt(variance + epsilon);
    for (std::int64_t i = team.rank; i < length; i += team.size) {
      y[row * length + i] = store<T>((load(from[i]) - mean) * inverse * gamma[i] + beta[i]);
    }
    if (team.rank != 0) return;
    mean_out[row] = mean;
    inverse_out[row] = inverse;
  }
};

// With u = (x - mean) inverse_std and g = dy gamma: dx = inverse_std (g - Σ g / n - u Σ g u / n).
template <class T>
struct LayerNormGradient {
  using C = Compute<T>;
  std::int64_t length;
  const T* dy;
  const T* x;
  Values<C> gamma;
  const C* mean;
  const C* inverse_std;
  T* dx;

  FERRY_FUNCTOR void operator()(std::int64_t row, const Team& team) const {
    const std::int64_t at = row * length;
    const C center = mean[row], inverse = inverse_std[row];
    C plain = 0, weighted = 0;
    for (std::int64_t i = team.rank; i < length; i += team.size) {
      const C g = load(dy[at + i]) * gamma[i];
      plain += g;
      weighted += g * (load(x[at + i]) - center);
    }
    const C count = static_cast<C>(length);
    const C shift = team.all(plain, SumOf{}) / count * inverse;
    const C slope = team.all(weighted, SumOf{}) * inverse / count * inverse * inverse;
    for (std::int64_t i = team.rank; i < length; i += team.size) {
      const C distance = load(x[at + i]) - center;
      dx[at + i] = store<T>((load(dy[at + i]) * gamma[i] * inverse - shift) - distance * slope);
    }
  }
};

template <class T>
struct LayerNormAffineGradient {
  using Acc = Sums;
  using C = Compute<T>;
  std::int64_t length;
  const T* dy;
  const T* x;
  const C* mean;
  const C* inverse_std;
  Target dgamma, dbeta;

  FERRY_FUNCTOR Acc identity() const { return {}; }
  FERRY_FUNCTOR std::int64_t start(std::int64_t column) const { return column; }
  FERRY_FUNCTOR void add(Acc& acc, std::int64_t column, std::int64_t row) const {
    const C slope = load(dy[row * length + column]);
    acc.first += slope * ((load(x[row * length + column]) - mean[row]) * inverse_std[row]);
    acc.second += slope;
  }
  FERRY_FUNCTOR Acc merge(const Acc& a, const Acc& b) const { return Sums::add(a, b); }
  FERRY_FUNCTOR void finish(std::int64_t column, const Acc& acc) const {
    dgamma.set(column, acc.first);
    dbeta.set(column, acc.second);
  }
};

void layer_norm(const KernelContext& context) {
  const TensorView &x = context.in(0), &y = context.out(0), &mean = context.out(1), &inverse = context.out(2);
  const std::int64_t rows = mean.numel(), length = rows == 0 ? 0 : x.numel() / rows;
  visit_floats(context, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const C epsilon = static_cast<C>(context.attributes.as<ops::NormAttributes>().epsilon);
    for_each_row(rows, length,
                 LayerNorm<T>{length, x.as<const T>(), values_of(context, 1, C(1)), values_of(context, 2, C(0)),
                              epsilon, y.as<T>(), mean.as<C>(), inverse.as<C>()});
  });
}

void layer_norm_backward(const KernelContext& context) {
  const TensorView &dy = context.in(0), &x = context.in(1), &mean = context.in(3), &inverse = context.in(4);
  const std::int64_t rows = mean.numel(), length = rows == 0 ? 0 : x.numel() / rows;
  visit_floats(context, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    if (context.has_output(0)) {
      for_each_row(rows, length,
                   LayerNormGradient<T>{length, dy.as<const T>(), x.as<const T>(), values_of(context, 2, C(1)),
                                        mean.as<const C>(), inverse.as<const C>(), context.out(0).as<T>()});
    }
    if (!context.has_output(1) && !context.has_output(2)) return;
    const std::int64_t columns = context.out(context.has_output(1) ? 1 : 2).numel();
    grouped_reduce(columns, rows, Neighbours::groups,
                   LayerNormAffineGradient<T>{length, dy.as<const T>(), x.as<const T>(), mean.as<const C>(),
                                              inverse.as<const C>(), target_of(context, 1), target_of(context, 2)});
  });
}

// --- l2_normalize, of any strides ---

template <class T>
struct L2Normalize {
  using C = Compute<T>;
  Layout<3> rows;  // first elements of y, x and norm
  std::int64_t length, x_step, y_step;
  C epsilon;
  const T* x;
  T* y;
  T* norm_out;

  FERRY_FUNCTOR void operator()(std::int64_t row, const Team& team) const {
    std::int64_t at[3];
    rows.find(row, at);
    C sum = 0;
    for (std::int64_t i = team.rank; i < length; i += team.size) {
      const C value = load(x[at[1] + i * x_step]);
      sum += value * value;
    }
    const C norm = kernels::sqrt(team.all(sum, SumOf{}));
    const C divisor = norm < epsilon ? epsilon : norm;
    for (std::int64_t i = team.rank; i < length; i += team.size) {
      y[at[0] + i * y_step] = store<T>(load(x[at[1] + i * x_step]) / divisor);
    }
    if (team.rank == 0) norm_out[at[2]] = store<T>(norm);
  }
};

// dx = (dy - y <dy, y>) / norm, and dy / epsilon where the norm was below epsilon: y is x / epsilon there.
template <class T>
struct L2NormalizeGradient {
  using C = Compute<T>;
  Layout<4> rows;  // of dx, dy, y and norm
  std::int64_t length, dx_step, dy_step, y_step;
  C epsilon;
  const T* dy;
  const T* y;
  const T* norm;
  T* dx;

  FERRY_FUNCTOR void operator()(std::int64_t row, const Team& team) const {
    std::int64_t at[4];
    rows.find(row, at);
    const C size = load(norm[at[3]]);
    const bool clamped = size < epsilon;
    C sum = 0;
    for (std::int64_t i = team.rank; i < length; i += team.size) {
      sum += load(dy[at[1] + i * dy_step]) * load(y[at[2] + i * y_step]);
    }
    const C projection = clamped ? C(0) : team.all(sum, SumOf{}), divisor = clamped ? epsilon : size;
    for (std::int64_t i = team.rank; i < length; i += team.size) {
      dx[at[0] + i * dx_step] =
          store<T>((load(dy[at[1] + i * dy_step]) - load(y[at[2] + i * y_step]) * projection) / divisor);
    }
  }
};

TensorView first_elements(TensorView view, int axis) {
  view.shape[axis] = 1;
  return view;
}

void l2_normalize(const KernelContext& context) {
  const auto& [axis, epsilon] = context.attributes.as<ops::L2NormalizeAttributes>();
  const TensorView &x = context.in(0), &y = context.out(0), &norm = context.out(1);
  const std::int64_t length = x.shape[axis];
  if (length == 0) return fill_view(context, norm, 0);
  const TensorView x_rows = first_elements(x, axis), y_rows = first_elements(y, axis);
  visit_floats(context, x.dtype, [&, axis_of = axis, least = epsilon](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(
        norm.numel(), length,
        L2Normalize<T>{make_layout<3>({&y_rows, &x_rows, &norm}), length, x.strides[axis_of], y.strides[axis_of],
                       static_cast<Compute<T>>(least), x.as<const T>(), y.as<T>(), norm.as<T>()});
  });
}

void l2_normalize_backward(const KernelContext& context) {
  const auto& [axis, epsilon] = context.attributes.as<ops::L2NormalizeAttributes>();
  const TensorView &dy = context.in(0), &y = context.in(1), &norm = context.in(2), &dx = context.out();
  const std::int64_t length = dx.shape[axis];
  const TensorView dx_rows = first_elements(dx, axis), dy_rows = first_elements(dy, axis),
                   y_rows = first_elements(y, axis);
  visit_floats(context, dx.dtype, [&, axis_of = axis, least = epsilon](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(
        dx_rows.numel(), length,
        L2NormalizeGradient<T>{make_layout<4>({&dx_rows, &dy_rows, &y_rows, &norm}), length, dx.strides[axis_of],
                               dy.strides[axis_of], y.strides[axis_of], static_cast<Compute<T>>(least),
                               dy.as<const T>(), y.as<const T>(), norm.as<const T>(), dx.as<T>()});
  });
}

constexpr KernelEntry kEntries[] = {
    {"softmax", softmax<false>},
    {"log_softmax", softmax<true>},
    {"softmax_backward", softmax_backward<false>},
    {"log_softmax_backward", softmax_backward<true>},
    {"layer_norm", layer_norm},
    {"layer_norm_backward", layer_norm_backward},
    {"l2_normalize", l2_normalize},
    {"l2_normalize_backward", l2_normalize_backward},
};

}  // namespace

std::span<const KernelEntry> row_kernels() { return kEntries; }

}  // namespace ferry::cuda_backend
