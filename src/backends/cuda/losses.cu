// Losses: of classes, from logits or logarithms of probabilities, and binary cross entropy.
#include <string>

#include "src/backends/cuda/dispatch.h"
#include "src/backends/cuda/elements.h"
#include "src/backends/cuda/for_each.h"
#include "src/backends/cuda/kernel_list.h"
#include "src/backends/cuda/layout.h"
#include "src/backends/cuda/rows.h"
#include "src/kernels/losses.h"
#include "src/ops/losses.h"

namespace ferry::cuda_backend {
namespace {

// --- losses of classes ---

// What a call's attributes say of labels and their weights.
template <class C>
struct Classes {
  Indices labels;
  Values<C> weights;
  std::int64_t count, ignored;
  bool ignores;
  C at_label, floor;
  FaultSink sink;

  // The label of a row; -1 where it is ignored or wrong.
  FERRY_FUNCTOR std::int64_t label(std::int64_t row, const Team& team) const {
    const std::int64_t value = labels[row];
    if (ignores && value == ignored) return -1;
    if (value >= 0 && value < count) return value;
    if (team.rank == 0) sink.raise(row, value);
    return -1;
  }
  FERRY_FUNCTOR C total(const Team& team) const {
    C sum = 0;
    for (std::int64_t i = team.rank; i < count; i += team.size) sum += weights[i];
    return team.all(sum, SumOf{});
  }
};

constexpr int kClassAxis = 1;

template <class C>
Classes<C> classes_of(const KernelContext& context, std::size_t labels, std::size_t weight, std::string_view name,
                      const Shape& shape) {
  const std::int64_t count = shape[kClassAxis];
  Classes<C> classes{Indices(context.in(labels)), values_of(context, weight, C(1)), count, 0, false, C(1), C(0), {}};
  std::string also;
  if (!context.attributes.empty()) {
    const auto& a = context.attributes.as<ops::CrossEntropyAttributes>();
    classes.ignores = a.ignored.has_value();
    classes.ignored = a.ignored.value_or(0);
    classes.at_label = static_cast<C>(1 - a.smoothing);
    classes.floor = static_cast<C>(a.smoothing / static_cast<double>(std::max<std::int64_t>(1, count)));
    if (a.ignored) also = " or " + std::to_string(*a.ignored);
  }
  classes.sink = index_sink(context, "labels", name, shape, 0, count, also);
  return classes;
}

template <class T, bool kLogits>
struct CrossEntropy {
  using C = Compute<T>;
  Rows rows;
  Classes<C> classes;
  const T* x;
  C* loss;
  C* log_sum_exp;  // null where x are logarithms of probabilities
  C* counted;      // null: not wanted

  FERRY_FUNCTOR void operator()(std::int64_t row, const Team& team) const {
    const T* const from = x + rows.first(row);
    const C anchor = kLogits ? anchor_of<C>(rows, from, team) : C(0);
    const C log_sum = kLogits ? kernels::log(exponential_sum(rows, from, anchor, team)) : C(0);
    const std::int64_t label = classes.label(row, team);
    C spread = 0;
    if (classes.floor != C(0)) {
      for (std::int64_t i = team.rank; i < rows.length; i += team.size) {
        spread += classes.weights[i] * (anchor - load(from[i * rows.inner]) + log_sum);
      }
      spread = team.all(spread, SumOf{});
    }
    if (team.rank != 0) return;
    const C weight = label < 0 ? C(0) : classes.weights[label];
    C value = 0;
    if (label >= 0) {
      value = classes.at_label * weight * (anchor - load(from[label * rows.inner]) + log_sum);
      if (classes.floor != C(0)) value += classes.floor * spread;
    }
    loss[row] = value;
    if (kLogits) log_sum_exp[row] = anchor + log_sum;
    if (counted != nullptr) counted[row] = weight;
  }
};

template <class T, bool kLogits>
struct CrossEntropyGradient {
  using C = Compute<T>;
  Rows rows;
  Classes<C> classes;
  Layout<2> slopes;  // of the labels and of dloss
  const C* dloss;
  const T* x;
  const C* log_sum_exp;
  T* dx;

  FERRY_FUNCTOR void operator()(std::int64_t row, const Team& team) const {
    const std::int64_t first = rows.first(row), label = classes.label(row, team);
    std::int64_t at[2];
    slopes.find(row, at);
    const C given = label < 0 ? C(0) : dloss[at[1]], shift = given * classes.floor;
    const C share = label < 0 ? C(0) : given * classes.at_label * classes.weights[label];
    const C slope = classes.floor == C(0) ? share : share + shift * classes.total(team);
    for (std::int64_t i = team.rank; i < rows.length; i += team.size) {
      C value = kLogits && label >= 0 ? slope * kernels::exp(load(x[first + i * rows.inner]) - log_sum_exp[row]) : C(0);
      if (classes.floor != C(0)) value -= shift * classes.weights[i];
      if (i == label) value -= share;
      dx[first + i * rows.inner] = store<T>(value);
    }
  }
};

template <bool kLogits>
void cross_entropy(const KernelContext& context) {
  const TensorView& x = context.in(0);
  const Rows rows(x.shape, kClassAxis);
  const std::size_t counted = kLogits ? 2 : 1;
  visit_floats(context, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const auto classes = classes_of<C>(context, 1, 2, kLogits ? "logits" : "log_probabilities", x.shape);
    for_each_row(rows.count, rows.length,
                 CrossEntropy<T, kLogits>{rows, classes, x.as<const T>(), context.out().as<C>(),
                                          kLogits ? context.out(1).as<C>() : nullptr,
                                          context.has_output(counted) ? context.out(counted).as<C>() : nullptr});
  });
}

template <bool kLogits>
void cross_entropy_backward(const KernelContext& context) {
  const TensorView &dloss = context.in(0), &dx = context.out();
  const TensorView& labels = context.in(kLogits ? 2 : 1);
  const Rows rows(dx.shape, kClassAxis);
  visit_floats(context, dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const auto classes = kLogits ? classes_of<C>(context, 2, 4, "logits", dx.shape)
                                 : classes_of<C>(context, 1, 2, "log_probabilities", dx.shape);
    for_each_row(rows.count, rows.length,
                 CrossEntropyGradient<T, kLogits>{rows, classes, make_layout<2>({&labels, &dloss}), dloss.as<const C>(),
                                                  kLogits ? context.in(1).as<const T>() : nullptr,
                                                  kLogits ? context.in(3).as<const C>() : nullptr, dx.as<T>()});
  });
}

// --- binary cross entropy; arguments of different float types ---

template <class C>
struct BinaryLoss {
  Layout<4> layout;
  Target loss;
  Values<C> x, target, weight;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    std::int64_t at[4];
    layout.find(i, at);
    loss.set(at[0], kernels::BinaryCrossEntropy{}(x[at[1]], target[at[2]], weight[at[3]]));
  }
};

template <class C>
struct BinaryLossGradient {
  Layout<5> layout;
  Target dx;
  Values<C> dloss, x, target, weight;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    std::int64_t at[5];
    layout.find(i, at);
    dx.set(at[0], kernels::BinaryCrossEntropyBackward{}(dloss[at[1]], x[at[2]], target[at[3]], weight[at[4]]));
  }
};

void binary_cross_entropy(const KernelContext& context) {
  const TensorView &x = context.in(0), &target = context.in(1), &loss = context.out();
  const TensorView& weight = context.has_input(2) ? context.in(2) : x;
  visit_types<float, double>(context, loss.dtype, [&](auto tag) {
    using C = typename decltype(tag)::type;
    for_each(loss.numel(),
             BinaryLoss<C>{make_layout<4>({&loss, &x, &target, &weight}), target_of(context, 0),
                           values_of(context, 0, C(0)), values_of(context, 1, C(0)), values_of(context, 2, C(1))});
  });
}

void binary_cross_entropy_backward(const KernelContext& context) {
  const TensorView &dloss = context.in(0), &x = context.in(1), &target = context.in(2), &dx = context.out();
  const TensorView& weight = context.has_input(3) ? context.in(3) : x;
  visit_types<float, double>(context, dloss.dtype, [&](auto tag) {
    using C = typename decltype(tag)::type;
    for_each(dx.numel(),
             BinaryLossGradient<C>{make_layout<5>({&dx, &dloss, &x, &target, &weight}), target_of(context, 0),
                                   values_of(context, 0, C(0)), values_of(context, 1, C(0)),
                                   values_of(context, 2, C(0)), values_of(context, 3, C(1))});
  });
}

constexpr KernelEntry kEntries[] = {
    {"cross_entropy", cross_entropy<true>},
    {"cross_entropy_backward", cross_entropy_backward<true>},
    {"nll_loss", cross_entropy<false>},
    {"nll_loss_backward", cross_entropy_backward<false>},
    {"binary_cross_entropy_with_logits", binary_cross_entropy},
    {"binary_cross_entropy_with_logits_backward", binary_cross_entropy_backward},
};

}  // namespace

std::span<const KernelEntry> loss_kernels() { return kEntries; }

}  // namespace ferry::cuda_backend
