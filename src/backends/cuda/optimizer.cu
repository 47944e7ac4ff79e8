// Steps of optimizers, many parameters in one launch; scaling and clamping of many tensors.
#include <cmath>
#include <span>

#include "src/backends/cuda/dispatch.h"
#include "src/backends/cuda/elements.h"
#include "src/backends/cuda/for_each.h"
#include "src/backends/cuda/kernel_list.h"
#include "src/backends/cuda/layout.h"
#include "src/backends/cuda/row_order.h"
#include "src/kernels/optimizer.h"
#include "src/ops/optimizer.h"

namespace ferry::cuda_backend {
namespace {

constexpr std::size_t kStates = ops::kOptimizerStates;
// param and grad, or param, rows and values; then states and master.
constexpr std::size_t kDenseGroup = 3 + kStates, kRowsGroup = 4 + kStates;

template <class C>
struct Rules {
  enum Kind : std::int32_t { sgd, adam, adagrad } kind;
  std::int32_t states;
  kernels::Sgd<C> sgd_rule;
  kernels::Adam<C> adam_rule;
  kernels::Adagrad<C> adagrad_rule;

  FERRY_FUNCTOR C step(C value, C gradient, C (&state)[kStates]) const {
    if (kind == adam) {
      return states == 2 ? adam_rule(value, gradient, state[0], state[1])
                         : adam_rule(value, gradient, state[0], state[1], state[2]);
    }
    if (kind == adagrad) return adagrad_rule(value, gradient, state[0]);
    return states == 0 ? sgd_rule(value, gradient) : sgd_rule(value, gradient, state[0]);
  }
};

template <class C>
Rules<C> rules_of(typename Rules<C>::Kind kind, std::int32_t states, const ops::OptimizerAttributes& a) {
  const auto as = [](double value) { return static_cast<C>(value); };
  return {.kind = kind,
          .states = states,
          .sgd_rule = {as(a.rate), as(a.momentum), as(1 - a.dampening), as(a.weight_decay), a.nesterov, a.first_step},
          .adam_rule = {as(a.rate / a.correction1), as(a.beta1), as(a.beta2), as(1 - a.beta1), as(1 - a.beta2),
                        as(1 / std::sqrt(a.correction2)), as(a.epsilon), as(a.weight_decay), as(a.shrink)},
          .adagrad_rule = {as(a.rate), as(a.weight_decay), as(a.epsilon)}};
}

// One parameter's arrays.
template <class T>
struct Arrays {
  using C = Compute<T>;
  T* parameter;
  const T* gradient;
  C* state[kStates];
  C* master;

  // A step of element `at`, whose gradient is `slope`; the states' and the master's elements are at `beside`.
  FERRY_FUNCTOR void step(const Rules<C>& rules, std::int64_t at, std::int64_t beside, C slope) const {
    C states[kStates] = {};
    for (std::size_t s = 0; s < kStates; ++s) {
      if (state[s] != nullptr) states[s] = state[s][beside];
    }
    const C value = rules.step(master != nullptr ? master[beside] : load(parameter[at]), slope, states);
    for (std::size_t s = 0; s < kStates; ++s) {
      if (state[s] != nullptr) state[s][beside] = states[s];
    }
    if (master != nullptr) master[beside] = value;
    parameter[at] = store<T>(value);
  }
};

// Parameters whose arrays all lie alike, one after another; bounded by what a launch's arguments may hold.
constexpr int kTogether = 32;

template <class T>
struct FlatSteps {
  Rules<Compute<T>> rules;
  int count = 0;
  std::int64_t begin[kTogether + 1] = {};
  Arrays<T> arrays[kTogether];

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    int low = 0, high = count;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (begin[middle] <= i ? low : high) = middle;
    }
    const std::int64_t at = i - begin[low];
    arrays[low].step(rules, at, at, load(arrays[low].gradient[at]));
  }
};

template <class T>
struct StridedStep {
  Rules<Compute<T>> rules;
  Layout<3> layout;  // parameter, gradient, states
  Arrays<T> arrays;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    std::int64_t at[3];
    layout.find(i, at);
    arrays.step(rules, at[0], at[2], load(arrays.gradient[at[1]]));
  }
};

template <class T>
struct RowSteps {
  Rules<Compute<T>> rules;
  RowOrder order;
  std::int64_t width;
  Arrays<T> arrays;  // gradient: the values

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    const std::int64_t first = i / width, column = i % width;
    if (!order.begins(first)) return;
    const std::int64_t row = order.row[first];
    Compute<T> sum = 0;
    for (std::int64_t k = first; k < order.count && order.row[k] == row; ++k) {
      sum += load(arrays.gradient[order.position[k] * width + column]);
    }
    // A sum of several is rounded as a gradient of that type is.
    const bool several = first + 1 < order.count && order.row[first + 1] == row;
    if (several) sum = load(store<T>(sum));
    arrays.step(rules, row * width + column, row * width + column, sum);
  }
};

// Rows that are not named have a gradient of 0.
template <class T>
struct UnnamedRows {
  Rules<Compute<T>> rules;
  std::int64_t width;
  const bool* named;
  Arrays<T> arrays;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    if (!named[i / width]) arrays.step(rules, i, i, Compute<T>(0));
  }
};

struct Unname {
  bool* named;
  FERRY_FUNCTOR void operator()(std::int64_t row) const { named[row] = false; }
};
struct Name {
  RowOrder order;
  bool* named;
  FERRY_FUNCTOR void operator()(std::int64_t k) const {
    if (order.begins(k)) named[order.row[k]] = true;
  }
};

template <class T>
Arrays<T> arrays_of(std::span<const TensorView> group, std::size_t first_state) {
  using C = Compute<T>;
  const auto data = [&](std::size_t i) { return group[i].given ? group[i].as<C>() : nullptr; };
  Arrays<T> arrays{group[0].as<T>(), group[first_state - 1].as<const T>(), {}, data(first_state + kStates)};
  for (std::size_t s = 0; s < kStates; ++s) arrays.state[s] = data(first_state + s);
  return arrays;
}

std::int32_t states_of(std::span<const TensorView> group, std::size_t first_state) {
  std::int32_t states = 0;
  for (std::size_t s = 0; s < kStates; ++s) states += group[first_state + s].given ? 1 : 0;
  return states;
}

template <class T>
void step_dense(const KernelContext& context, typename Rules<Compute<T>>::Kind kind) {
  const auto& attributes = context.attributes.as<ops::OptimizerAttributes>();
  FlatSteps<T> steps;
  steps.rules = rules_of<Compute<T>>(kind, states_of(context.inputs, 2), attributes);
  const auto flush = [&] {
    for_each(steps.begin[steps.count], steps);
    steps.count = 0;
  };
  for (std::size_t at = 0; at < context.inputs.size(); at += kDenseGroup) {
    const auto group = context.inputs.subspan(at, kDenseGroup);
    TensorView states = group[0];  // all that is kept beside a parameter is dense in the order of its axes
    states.strides = contiguous_strides(states.shape);
    for (std::size_t s = 2; s < kDenseGroup; ++s) {
      if (group[s].given) states.strides = group[s].strides;
    }
    const Layout<3> layout = make_layout<3>({&group[0], &group[1], &states});
    if (layout.count == 0) continue;
    if (!layout.flat) {
      for_each(layout.count, StridedStep<T>{steps.rules, layout, arrays_of<T>(group, 2)});
      continue;
    }
    steps.arrays[steps.count] = arrays_of<T>(group, 2);
    steps.begin[steps.count + 1] = steps.begin[steps.count] + layout.count;
    if (++steps.count == kTogether) flush();
  }
  if (steps.count > 0) flush();
}

template <class T>
void step_rows(const KernelContext& context, typename Rules<Compute<T>>::Kind kind) {
  const auto& attributes = context.attributes.as<ops::OptimizerAttributes>();
  for (std::size_t at = 0; at < context.inputs.size(); at += kRowsGroup) {
    const auto group = context.inputs.subspan(at, kRowsGroup);
    const TensorView &parameter = group[0], &rows = group[1];
    const auto rules = rules_of<Compute<T>>(kind, states_of(group, 3), attributes);
    const FaultSink sink = index_sink(context, "rows", "param", parameter.shape, -1, parameter.shape[0]);
    const RowOrder order = order_rows(Indices(rows), rows.numel(), parameter.shape[0], -1, sink);
    const std::int64_t width = parameter.shape[0] == 0 ? 0 : parameter.numel() / parameter.shape[0];
    const Arrays<T> arrays = arrays_of<T>(group, 3);
    if (attributes.every_row) {
      bool* const named = LaunchScope::current().scratch<bool>(parameter.shape[0]);
      for_each(parameter.shape[0], Unname{named});
      for_each(order.count, Name{order, named});
      for_each(parameter.numel(), UnnamedRows<T>{rules, width, named, arrays});
    }
    for_each<1>(order.count * width, RowSteps<T>{rules, order, width, arrays});
  }
}

template <int kKind, bool kRows>
void step(const KernelContext& context) {
  visit_floats(context, context.in(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr auto kRule = static_cast<typename Rules<Compute<T>>::Kind>(kKind);
    kRows ? step_rows<T>(context, kRule) : step_dense<T>(context, kRule);
  });
}

// --- scale_, unscale_, clamp_ ---

template <class T>
struct Scale {
  Layout<1> layout;
  T* x;
  const float* factor;  // null: `constant`
  double constant;
  float* found;  // becomes 1 where an element is not finite; null: not asked for

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    std::int64_t at[1];
    layout.find(i, at);
    using C = Compute<T>;
    const C value = load(x[at[0]]);
    if (found != nullptr && !(value * C(0) == C(0))) *found = 1;
    x[at[0]] = store<T>(value * static_cast<C>(factor != nullptr ? static_cast<double>(*factor) : constant));
  }
};

template <class T>
struct Clamp {
  Layout<1> layout;
  T* x;
  Compute<T> limit;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    std::int64_t at[1];
    layout.find(i, at);
    const Compute<T> value = load(x[at[0]]), above = value < -limit ? -limit : value;
    x[at[0]] = store<T>(above > limit ? limit : above);
  }
};

void scale(const KernelContext& context, const float* factor, double constant, float* found) {
  for (std::size_t at = 0; at < context.inputs.size(); at += 2) {
    const TensorView& x = context.in(at);
    visit_floats(context, x.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for_each(x.numel(), Scale<T>{make_layout<1>({&x}), x.as<T>(), factor, constant, found});
    });
  }
}

void scale_(const KernelContext& context) { scale(context, context.in(1).as<const float>(), 1, nullptr); }
void unscale_(const KernelContext& context) {
  scale(context, nullptr, context.attributes.as<ops::UnscaleAttributes>().scale, context.in(1).as<float>());
}

void clamp_(const KernelContext& context) {
  const double limit = context.attributes.as<ops::ClampAttributes>().limit;
  for (const TensorView& x : context.inputs) {
    visit_floats(context, x.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for_each(x.numel(), Clamp<T>{make_layout<1>({&x}), x.as<T>(), static_cast<Compute<T>>(limit)});
    });
  }
}

constexpr int kSgd = 0, kAdam = 1, kAdagrad = 2;
constexpr KernelEntry kEntries[] = {
    {"sgd_", step<kSgd, false>},
    {"sgd_rows_", step<kSgd, true>},
    {"adam_", step<kAdam, false>},
    {"adam_rows_", step<kAdam, true>},
    {"adagrad_", step<kAdagrad, false>},
    {"adagrad_rows_", step<kAdagrad, true>},
    {"scale_", scale_},
    {"unscale_", unscale_},
    {"clamp_", clamp_},
};

}  // namespace

std::span<const KernelEntry> optimizer_kernels() { return kEntries; }

}  // namespace ferry::cuda_backend
