#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/layer_norm.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <vector>

#include "src/backends/cpu/dispatch.h"
#include "src/backends/cpu/dnn.h"
#include "src/backends/cpu/float_views.h"
#include "src/backends/cpu/half.h"
#include "src/backends/cpu/lanes-inl.h"
#include "src/backends/cpu/normalization.h"
#include "src/backends/cpu/row_loops.h"
#include "src/backends/cpu/strided.h"
#include "src/ops/normalization.h"

#ifndef FERRY_LAYER_NORM_LOOPS
#define FERRY_LAYER_NORM_LOOPS
namespace ferry::cpu_backend {

// One row of n elements. gamma and beta: null for 1 and 0.
template <class C>
struct LayerNormLoops {
  void (*forward)(std::int64_t n, const C* x, const C* gamma, const C* beta, double epsilon, C* y, C* mean,
                  C* inverse_std);
  // Adds the row's part to dgamma and dbeta.
  void (*backward)(std::int64_t n, const C* dy, const C* x, const C* gamma, C mean, C inverse_std, C* dx, C* dgamma,
                   C* dbeta);
};

}  // namespace ferry::cpu_backend
#endif

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

template <class C, bool kGamma, bool kBeta>
void scale_row_by(std::int64_t n, const C* x, C mean, C inverse_std, const C* gamma, const C* beta, C* y) {
  FERRY_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) {
    C value = (x[i] - mean) * inverse_std;
    if constexpr (kGamma) value = value * gamma[i];
    if constexpr (kBeta) value = value + beta[i];
    y[i] = value;
  }
}

template <class C>
void scale_row(std::int64_t n, const C* x, C mean, C inverse_std, const C* gamma, const C* beta, C* y) {
  const auto loop = gamma != nullptr ? (beta != nullptr ? scale_row_by<C, true, true> : scale_row_by<C, true, false>)
                                     : (beta != nullptr ? scale_row_by<C, false, true> : scale_row_by<C, false, false>);
  loop(n, x, mean, inverse_std, gamma, beta, y);
}

template <class C>
void layer_norm_row(std::int64_t n, const C* x, const C* gamma, const C* beta, double epsilon, C* y, C* mean_out,
                    C* inverse_std_out) {
  const C count = static_cast<C>(n);
  const C mean = sum_lanes<C>(n, [=](std::int64_t i) { return x[i]; }) / count;
  const C squares = sum_lanes<C>(n, [=](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); });
  const C inverse_std = C(1) / std::sqrt(squares / count + static_cast<C>(epsilon));
  scale_row<C>(n, x, mean, inverse_std, gamma, beta, y);
  *mean_out = mean;
  *inverse_std_out = inverse_std;
}

// With u = (x - mean) inverse_std and g = dy gamma: dx = inverse_std (g - Σ g / n - u Σ g u / n).
template <class C, bool kGamma>
void gradient_row(std::int64_t n, const C* dy, const C* x, const C* gamma, C mean, C inverse_std, C* dx, C* dgamma,
                  C* dbeta) {
  const C* const factor = kGamma ? gamma : nullptr;
  const auto scaled = [=](std::int64_t i) {
    if constexpr (kGamma) return dy[i] * factor[i];
    return dy[i];
  };
  // Two sums at once, in sum_lanes' order.
  C plain[kernels::kLanes] = {}, weighted[kernels::kLanes] = {};
  std::int64_t i = 0;
  for (; i + kernels::kLanes <= n; i += kernels::kLanes) {
    for (int j = 0; j < kernels::kLanes; ++j) plain[j] += scaled(i + j);
    for (int j = 0; j < kernels::kLanes; ++j) weighted[j] += scaled(i + j) * (x[i + j] - mean);
  }
  for (int j = 0; i + j < n; ++j) plain[j] += scaled(i + j);
  for (int j = 0; i + j < n; ++j) weighted[j] += scaled(i + j) * (x[i + j] - mean);
  const C count = static_cast<C>(n);
  const C shift = fold_lanes(plain, kernels::Add{}) / count * inverse_std;
  const C slope = fold_lanes(weighted, kernels::Add{}) * inverse_std / count * inverse_std * inverse_std;
  FERRY_INDEPENDENT
  for (std::int64_t k = 0; k < n; ++k) {
    const C distance = x[k] - mean;
    dx[k] = (scaled(k) * inverse_std - shift) - distance * slope;
    dgamma[k] += dy[k] * (distance * inverse_std);
    dbeta[k] += dy[k];
  }
}

template <class C>
void layer_norm_gradient_row(std::int64_t n, const C* dy, const C* x, const C* gamma, C mean, C inverse_std, C* dx,
                             C* dgamma, C* dbeta) {
  (gamma != nullptr ? gradient_row<C, true> : gradient_row<C, false>)(n, dy, x, gamma, mean, inverse_std, dx, dgamma,
                                                                      dbeta);
}

LayerNormLoops<float> layer_norm_f32() { return {layer_norm_row<float>, layer_norm_gradient_row<float>}; }
LayerNormLoops<double> layer_norm_f64() { return {layer_norm_row<double>, layer_norm_gradient_row<double>}; }

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(layer_norm_f32);
HWY_EXPORT(layer_norm_f64);

namespace {

constexpr std::int64_t kLeastRows = 16;  // of a task, so that its sums for gamma and beta stay small beside its work

template <class C>
const LayerNormLoops<C>& loops() {
  if constexpr (std::is_same_v<C, double>) {
    static const auto chosen = HWY_DYNAMIC_DISPATCH(layer_norm_f64)();
    return chosen;
  } else {
    static const auto chosen = HWY_DYNAMIC_DISPATCH(layer_norm_f32)();
    return chosen;
  }
}

// A dense argument as C; empty where it was left out. Points at the argument itself where that will do.
template <class C>
class Vector {
 public:
  Vector(const KernelContext& context, std::size_t i) {
    if (!context.has_input(i)) return;
    const TensorView& view = context.in(i);
    data_ = view.as<const C>();
    if (view.dtype == dtype_of<C>) return;
    copy_.resize(static_cast<std::size_t>(view.numel()));
    TensorView all = view;
    all.dtype = dtype_of<C>;
    all.data = copy_.data();
    convert(context.op, view, all);
    data_ = copy_.data();
  }
  const C* data() const { return data_; }

 private:
  std::vector<C> copy_;
  const C* data_ = nullptr;
};

// Rows of T as rows of C: themselves, or converted in buffers of a task's own.
template <class T>
class Rows {
 public:
  using C = kernels::Compute<T>;

  Rows(std::int64_t n, std::int64_t count) : n_(n), buffers_(static_cast<std::size_t>(kConverts ? n * count : 0)) {}

  const C* read(const TensorView& view, std::int64_t row, std::int64_t buffer) {
    if constexpr (kConverts) {
      C* const to = buffers_.data() + buffer * n_;
      widen_half(view.dtype, n_, to, view.as<const std::byte>() + row * n_ * std::int64_t{sizeof(T)}, sizeof(T));
      return to;
    } else {
      return view.as<const C>() + row * n_;
    }
  }
  // Where a row of results is computed; `finish` brings it from there into the view.
  C* target(const TensorView& view, std::int64_t row, std::int64_t buffer) {
    if constexpr (kConverts) return buffers_.data() + buffer * n_;
    return view.as<C>() + row * n_;
  }
  void finish(const TensorView& view, std::int64_t row, std::int64_t buffer) {
    if constexpr (kConverts) {
      narrow_half(view.dtype, n_, view.as<std::byte>() + row * n_ * std::int64_t{sizeof(T)},
                  buffers_.data() + buffer * n_, sizeof(T));
    }
  }

 private:
  static constexpr bool kConverts = kernels::is_half<T>;
  std::int64_t n_;
  std::vector<C> buffers_;
};

// Elements of the trailing axes.
std::int64_t row_length(const KernelContext& context, const Shape& x) {
  std::int64_t n = 1;
  for (int i = x.rank() - context.attributes.as<ops::NormAttributes>().axes; i < x.rank(); ++i) n *= x[i];
  return n;
}

std::int64_t rows_per_task(std::int64_t n, std::int64_t least) { return std::max(least, kElementGrain / n); }

template <class T>
void forward(const KernelContext& context) {
  using C = kernels::Compute<T>;
  const TensorView &x = context.in(0), &y = context.out(0), &mean = context.out(1), &inverse_std = context.out(2);
  const std::int64_t rows = mean.numel(), n = row_length(context, x.shape);
  const Vector<C> gamma(context, 1), beta(context, 2);
  const double epsilon = context.attributes.as<ops::NormAttributes>().epsilon;
  parallel_for(rows, rows_per_task(n, 1), [&](std::int64_t begin, std::int64_t end) {
    Rows<T> converted(n, 2);
    for (std::int64_t row = begin; row < end; ++row) {
      loops<C>().forward(n, converted.read(x, row, 0), gamma.data(), beta.data(), epsilon, converted.target(y, row, 1),
                         mean.as<C>() + row, inverse_std.as<C>() + row);
      converted.finish(y, row, 1);
    }
  });
}

// Sums the tasks' parts, one after another, into an optional output.
template <class C>
void write_sum(const KernelContext& context, std::size_t output, const C* parts, std::int64_t tasks, std::int64_t pitch,
               std::int64_t n) {
  if (!context.has_output(output)) return;
  const TensorView& view = context.out(output);
  std::vector<C> converted(static_cast<std::size_t>(view.dtype == dtype_of<C> ? 0 : n));
  TensorView total = view;
  total.dtype = dtype_of<C>;
  if (!converted.empty()) total.data = converted.data();
  std::vector<const std::byte*> rows;
  for (std::int64_t task = 0; task < tasks; ++task) {
    rows.push_back(reinterpret_cast<const std::byte*>(parts + task * pitch));
  }
  row_loops(dtype_of<C>).sum(n, total.template as<std::byte>(), nullptr, rows.data(), tasks, 1);
  if (!converted.empty()) convert(context.op, total, view);
}

template <class T>
void backward(const KernelContext& context) {
  using C = kernels::Compute<T>;
  const TensorView &dy = context.in(0), &x = context.in(1), &mean = context.in(3), &inverse_std = context.in(4);
  const TensorView& dx = context.out(0);
  const std::int64_t rows = mean.numel(), n = row_length(context, x.shape);
  const Vector<C> gamma(context, 2);
  const std::int64_t grain = rows_per_task(n, kLeastRows);
  const std::int64_t tasks = (rows + grain - 1) / grain, pitch = 2 * n;
  auto* const parts =
      reinterpret_cast<C*>(dnn::work_buffer(dnn::Buffer::operand, static_cast<std::size_t>(tasks * pitch) * sizeof(C)));
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    C *const dgamma = parts + begin / grain * pitch, *const dbeta = dgamma + n;
    std::fill_n(dgamma, pitch, C(0));
    Rows<T> converted(n, 3);
    for (std::int64_t row = begin; row < end; ++row) {
      loops<C>().backward(n, converted.read(dy, row, 0), converted.read(x, row, 1), gamma.data(),
                          mean.as<const C>()[row], inverse_std.as<const C>()[row], converted.target(dx, row, 2), dgamma,
                          dbeta);
      converted.finish(dx, row, 2);
    }
  });
  write_sum<C>(context, 1, parts, tasks, pitch, n);
  write_sum<C>(context, 2, parts + n, tasks, pitch, n);
}

}  // namespace

void layer_norm(const KernelContext& context) {
  visit_floats(context, context.in(0).dtype, [&](auto tag) { forward<typename decltype(tag)::type>(context); });
}

void layer_norm_backward(const KernelContext& context) {
  visit_floats(context, context.in(1).dtype, [&](auto tag) { backward<typename decltype(tag)::type>(context); });
}

}  // namespace ferry::cpu_backend
#endif
