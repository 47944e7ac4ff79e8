// Cross entropy from logits or from logarithms of probabilities, and its gradients.
#include <array>
#include <vector>

#include "src/backends/cpu/dispatch.h"
#include "src/backends/cpu/float_views.h"
#include "src/backends/cpu/index_check.h"
#include "src/backends/cpu/losses.h"
#include "src/backends/cpu/softmax_loops.h"
#include "src/kernels/math.h"
#include "src/ops/losses.h"

namespace ferry::cpu_backend {
namespace {

constexpr int kClassAxis = 1;

template <class C>
using PerRow = std::array<C, kBlockRows>;

template <class C>
const std::byte* bytes(const PerRow<C>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

std::int64_t position_of(const RowBlock& block, std::int64_t row, std::int64_t place) {
  return block.step == 1 ? row * block.length + place : place * block.step + row;
}

// What a call's attributes, weights and labels mean for each position.
template <class C>
class Targets {
 public:
  Targets(const KernelContext& context, const TensorView& labels, const TensorView* weight, std::int64_t classes)
      : labels_(labels), weights_(static_cast<std::size_t>(classes), C(1)) {
    if (!context.attributes.empty()) {
      const auto& attributes = context.attributes.as<ops::CrossEntropyAttributes>();
      ignored_ = attributes.ignored;
      at_label_ = static_cast<C>(1 - attributes.smoothing);
      floor_ = static_cast<C>(attributes.smoothing / static_cast<double>(std::max<std::int64_t>(1, classes)));
    }
    if (weight != nullptr && weight->given) {
      TensorView all = *weight;
      all.dtype = dtype_of<C>;
      all.data = weights_.data();
      convert(context.op, *weight, all);
    }
    for (const C value : weights_) total_ += value;
  }

  const C* weights() const { return weights_.data(); }
  std::int64_t label(std::int64_t row) const { return index_at(labels_, row); }
  bool ignores(std::int64_t row) const { return ignored_ && label(row) == *ignored_; }
  C weight(std::int64_t row) const { return weights_[static_cast<std::size_t>(label(row))]; }
  // The loss' factors of -log p[label], and of -weights[c] log p[c] for every class c.
  C at_label(std::int64_t row) const { return at_label_ * weight(row); }
  C floor() const { return floor_; }
  C total() const { return total_; }

 private:
  TensorView labels_;
  std::vector<C> weights_;
  std::optional<std::int64_t> ignored_;
  C at_label_ = C(1), floor_ = C(0), total_ = C(0);
};

void check_labels(const KernelContext& context, const TensorView& labels, std::string_view into, const Shape& shape) {
  std::optional<std::int64_t> ignored;
  if (!context.attributes.empty()) ignored = context.attributes.as<ops::CrossEntropyAttributes>().ignored;
  check_indices(
      context,
      {.name = "labels", .view = labels, .bound = shape[kClassAxis], .into = into, .shape = shape, .except = ignored});
}

const TensorView* optional(std::span<const TensorView> views, std::size_t i) {
  return i < views.size() ? &views[i] : nullptr;
}

// One number a row of a view of any strides.
template <class C>
class RowValues {
 public:
  RowValues(const KernelContext& context, const TensorView& view) : data_(view.as<const C>()) {
    bool same = true;
    for (int i = 0; i < view.shape.rank(); ++i) same &= view.shape[i] == 1 || view.strides[i] == 0;
    if (view.is_contiguous()) return;
    if (same) {
      step_ = 0;
      return;
    }
    copy_.resize(static_cast<std::size_t>(view.numel()));
    copy_contiguous(context.op, view, copy_.data());
    data_ = copy_.data();
  }
  C operator[](std::int64_t row) const { return data_[row * step_]; }

 private:
  std::vector<C> copy_;
  const C* data_;
  std::int64_t step_ = 1;
};

// The forward kernels: log_sum_exp is null where x are logarithms of probabilities.
template <class T>
void forward(const KernelContext& context, const TensorView* log_sum_exp, const TensorView* counted) {
  using C = kernels::Compute<T>;
  const TensorView &x = context.in(0), &loss = context.out();
  const Targets<C> targets(context, context.in(1), optional(context.inputs, 2), x.shape[kClassAxis]);
  const SoftmaxLoops& loops = softmax_loops(context, x.dtype);
  for_each_block(x.shape, kClassAxis, [&](const RowBlock& block, std::int64_t at, std::int64_t first) {
    const T* const from = x.as<const T>() + at;
    auto* const from_bytes = reinterpret_cast<const std::byte*>(from);
    PerRow<C> largest{}, log_sum{}, spread{};
    if (log_sum_exp != nullptr) {
      loops.log_sum_exp(block, from_bytes, reinterpret_cast<std::byte*>(largest.data()),
                        reinterpret_cast<std::byte*>(log_sum.data()));
    }
    if (targets.floor() != C(0)) {
      loops.weighted_distance(block, from_bytes, bytes(largest), reinterpret_cast<const std::byte*>(targets.weights()),
                              reinterpret_cast<std::byte*>(spread.data()));
    }
    for (std::int64_t r = 0; r < block.count; ++r) {
      const auto k = static_cast<std::size_t>(r);
      const std::int64_t row = first + r;
      const bool ignored = targets.ignores(row);
      C value = C(0);
      if (!ignored) {
        const C distance = largest[k] - kernels::load(from[position_of(block, r, targets.label(row))]);
        value = targets.at_label(row) * (distance + log_sum[k]);
        if (targets.floor() != C(0)) value += targets.floor() * (spread[k] + targets.total() * log_sum[k]);
      }
      loss.as<C>()[row] = value;
      if (log_sum_exp != nullptr) log_sum_exp->as<C>()[row] = largest[k] + log_sum[k];
      if (counted != nullptr && counted->given) counted->as<C>()[row] = ignored ? C(0) : targets.weight(row);
    }
  });
}

// Takes from each position's gradient what its label and, with smoothing, all classes ask for.
template <class T>
struct Backward {
  using C = kernels::Compute<T>;

  const Targets<C>& targets;
  const RowValues<C>& dloss;

  bool smooth() const { return targets.floor() != C(0); }

  void logits(const SoftmaxLoops& loops, const RowBlock& block, std::int64_t first, const T* x, const C* log_sum,
              T* dx) const {
    PerRow<C> slope{}, shift{};
    for (std::int64_t r = 0; r < block.count; ++r) {
      const auto k = static_cast<std::size_t>(r);
      if (targets.ignores(first + r)) continue;
      shift[k] = dloss[first + r] * targets.floor();
      slope[k] = dloss[first + r] * (targets.at_label(first + r) + targets.floor() * targets.total());
    }
    auto *const from = reinterpret_cast<const std::byte*>(x), *const log = reinterpret_cast<const std::byte*>(log_sum);
    auto* const to = reinterpret_cast<std::byte*>(dx);
    if (smooth()) {
      loops.shifted(block, from, log, bytes(slope), bytes(shift), reinterpret_cast<const std::byte*>(targets.weights()),
                    to);
    } else {
      loops.exponential(block, from, log, bytes(slope), to);
    }
    for (std::int64_t r = 0; r < block.count; ++r) {
      const auto k = static_cast<std::size_t>(r);
      if (targets.ignores(first + r)) continue;
      const std::int64_t at = position_of(block, r, targets.label(first + r));
      const C probability = kernels::exp(kernels::load(x[at]) - log_sum[r]);
      dx[at] = kernels::store<T>(slope[k] * probability - label_share(first + r, shift[k]));
    }
  }

  void log_probabilities(const RowBlock& block, std::int64_t first, T* dx) const {
    for (std::int64_t r = 0; r < block.count; ++r) {
      const bool ignored = targets.ignores(first + r);
      const C shift = ignored ? C(0) : dloss[first + r] * targets.floor();
      for (std::int64_t c = 0; c < block.length; ++c) {
        dx[position_of(block, r, c)] = kernels::store<T>(-shift * targets.weights()[c]);
      }
      if (ignored) continue;
      dx[position_of(block, r, targets.label(first + r))] = kernels::store<T>(-label_share(first + r, shift));
    }
  }

 private:
  C label_share(std::int64_t row, C shift) const {
    const C share = dloss[row] * targets.at_label(row);
    return smooth() ? share + shift * targets.weight(row) : share;
  }
};

}  // namespace

void cross_entropy(const KernelContext& context) {
  const TensorView& logits = context.in(0);
  check_labels(context, context.in(1), "logits", logits.shape);
  visit_floats(context, logits.dtype, [&](auto tag) {
    forward<typename decltype(tag)::type>(context, &context.out(1), optional(context.outputs, 2));
  });
}

void nll_loss(const KernelContext& context) {
  const TensorView& x = context.in(0);
  check_labels(context, context.in(1), "log_probabilities", x.shape);
  visit_floats(context, x.dtype, [&](auto tag) {
    forward<typename decltype(tag)::type>(context, nullptr, optional(context.outputs, 1));
  });
}

void cross_entropy_backward(const KernelContext& context) {
  const TensorView &logits = context.in(1), &log_sum = context.in(3), &dlogits = context.out();
  check_labels(context, context.in(2), "logits", logits.shape);
  const SoftmaxLoops& loops = softmax_loops(context, logits.dtype);
  visit_floats(context, logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = kernels::Compute<T>;
    const Targets<C> targets(context, context.in(2), optional(context.inputs, 4), logits.shape[kClassAxis]);
    const RowValues<C> dloss(context, context.in(0));
    const Backward<T> backward{targets, dloss};
    for_each_block(logits.shape, kClassAxis, [&](const RowBlock& block, std::int64_t at, std::int64_t first) {
      backward.logits(loops, block, first, logits.as<const T>() + at, log_sum.as<const C>() + first,
                      dlogits.as<T>() + at);
    });
  });
}

void nll_loss_backward(const KernelContext& context) {
  const TensorView& dx = context.out();
  check_labels(context, context.in(1), "log_probabilities", dx.shape);
  visit_floats(context, dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = kernels::Compute<T>;
    const Targets<C> targets(context, context.in(1), optional(context.inputs, 2), dx.shape[kClassAxis]);
    const RowValues<C> dloss(context, context.in(0));
    const Backward<T> backward{targets, dloss};
    for_each_block(dx.shape, kClassAxis, [&](const RowBlock& block, std::int64_t at, std::int64_t first) {
      backward.log_probabilities(block, first, dx.as<T>() + at);
    });
  });
}

}  // namespace ferry::cpu_backend
