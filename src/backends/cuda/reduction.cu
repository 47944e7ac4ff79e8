// sum, mean, max, argmax and square_sum.
#include "src/backends/cuda/dispatch.h"
#include "src/backends/cuda/elements.h"
#include "src/backends/cuda/grouped_reduce.h"
#include "src/backends/cuda/kernel_list.h"
#include "src/backends/cuda/layout.h"
#include "src/backends/cuda/views.h"
#include "src/kernels/reduce.h"
#include "src/ops/attributes.h"

namespace ferry::cuda_backend {
namespace {

// The sum or the largest; floats in double, so that the error of a long sum stays small, integers in 64 bits.
template <class A>
struct Reduce {
  using Acc = std::conditional_t<std::is_integral_v<typename A::C>, std::int64_t, double>;
  Layout<2> kept;  // y, and x's first element of what it combines
  Layout<1> reduced;
  A y, x;
  bool largest;
  double divisor;

  FERRY_FUNCTOR Acc identity() const {
    if (!largest) return Acc(0);
    return kernels::MaxReduction::identity<Acc>();
  }
  FERRY_FUNCTOR std::int64_t start(std::int64_t group) const {
    std::int64_t at[2];
    kept.find(group, at);
    return at[1];
  }
  FERRY_FUNCTOR void add(Acc& acc, std::int64_t first, std::int64_t k) const {
    std::int64_t at[1];
    reduced.find(k, at);
    acc = merge(acc, static_cast<Acc>(x.get(first + at[0])));
  }
  FERRY_FUNCTOR Acc merge(Acc a, Acc b) const { return largest ? kernels::Maximum{}(a, b) : kernels::Add{}(a, b); }
  FERRY_FUNCTOR void finish(std::int64_t group, Acc acc) const {
    std::int64_t at[2];
    kept.find(group, at);
    if constexpr (std::is_integral_v<Acc>) {
      y.set(at[0], acc);
    } else {
      y.set(at[0], static_cast<typename A::C>(acc / divisor));
    }
  }
};

Neighbours neighbours_of(const Layout<1>& reduced) {
  return reduced.rank > 0 && reduced.stride[0][reduced.rank - 1] == 1 ? Neighbours::elements : Neighbours::groups;
}

enum class Result { sum, mean, max };

void reduce(const KernelContext& context, Result result) {
  const TensorView &x = context.in(0), &y = context.out();
  const Dims& is_reduced = context.attributes.as<ops::ReduceAttributes>().reduced;
  TensorView kept = x, reduced = x, target = y;
  double divisor = 1;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    if (is_reduced[axis] != 0 && result == Result::mean) divisor *= static_cast<double>(x.shape[axis]);
    (is_reduced[axis] != 0 ? kept : reduced).shape[axis] = 1;
  }
  target.shape = kept.shape;
  const Layout<1> along = make_layout<1>({&reduced});
  visit_elements(context, x.dtype, [&](auto tag) {
    using A = typename decltype(tag)::type;
    grouped_reduce(
        kept.numel(), along.count, neighbours_of(along),
        Reduce<A>{make_layout<2>({&target, &kept}), along, A::of(y), A::of(x), result == Result::max, divisor});
  });
}

void sum(const KernelContext& context) { reduce(context, Result::sum); }
void mean(const KernelContext& context) { reduce(context, Result::mean); }
void max(const KernelContext& context) { reduce(context, Result::max); }

// The first of the largest; NaN is larger than any number. In double all floats, in 64 bits all integers compare as
// they do in their own type.
template <class Value>
struct Argmax {
  struct Acc {
    Value value;
    std::int64_t index;  // -1: none
  };
  Layout<2> rows;
  std::int64_t step;
  std::int64_t* y;
  Values<double> floats;
  AnyInteger integers;

  FERRY_FUNCTOR Acc identity() const { return {Value(0), -1}; }
  FERRY_FUNCTOR std::int64_t start(std::int64_t group) const {
    std::int64_t at[2];
    rows.find(group, at);
    return at[1];
  }
  FERRY_FUNCTOR void add(Acc& acc, std::int64_t first, std::int64_t k) const {
    if constexpr (std::is_integral_v<Value>) {
      acc = merge(acc, {integers.get(first + k * step), k});
    } else {
      acc = merge(acc, {floats[first + k * step], k});
    }
  }
  FERRY_FUNCTOR Acc merge(const Acc& a, const Acc& b) const {
    if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    const bool equal = (a_nan && b_nan) || a.value == b.value;
    if (equal) return a.index < b.index ? a : b;
    return a_nan || (!b_nan && a.value > b.value) ? a : b;
  }
  FERRY_FUNCTOR void finish(std::int64_t group, const Acc& acc) const {
    std::int64_t at[2];
    rows.find(group, at);
    y[at[0]] = acc.index;
  }
};

template <class Value>
void launch_argmax(const KernelContext& context) {
  const TensorView &x = context.in(0), &y = context.out();
  const int axis = context.attributes.as<ops::AxisAttributes>().axis;
  TensorView rows = x;
  rows.shape[axis] = 1;
  grouped_reduce(rows.numel(), x.shape[axis], x.strides[axis] == 1 ? Neighbours::elements : Neighbours::groups,
                 Argmax<Value>{make_layout<2>({&y, &rows}), x.strides[axis], y.as<std::int64_t>(),
                               values_of(context, 0, 0.0), AnyInteger::of(x)});
}

void argmax(const KernelContext& context) {
  (is_floating(context.in(0).dtype) ? launch_argmax<double> : launch_argmax<std::int64_t>)(context);
}

struct SquareSum {
  using Acc = double;
  Layout<1> layout;
  Values<double> x;
  double* total;
  bool first;

  FERRY_FUNCTOR Acc identity() const { return 0; }
  FERRY_FUNCTOR int start(std::int64_t) const { return 0; }
  FERRY_FUNCTOR void add(Acc& acc, int, std::int64_t k) const {
    std::int64_t at[1];
    layout.find(k, at);
    const double value = x[at[0]];
    acc += value * value;
  }
  FERRY_FUNCTOR Acc merge(Acc a, Acc b) const { return a + b; }
  FERRY_FUNCTOR void finish(std::int64_t, Acc acc) const { *total = first ? acc : *total + acc; }
};

void square_sum(const KernelContext& context) {
  double* const total = LaunchScope::current().scratch<double>(1);
  for (std::size_t i = 0; i < context.inputs.size(); ++i) {
    const TensorView& x = context.in(i);
    grouped_reduce(1, x.numel(), Neighbours::elements,
                   SquareSum{make_layout<1>({&x}), values_of(context, i, 0.0), total, i == 0});
  }
  const TensorView sum{.data = total, .dtype = DType::f64, .given = true, .shape = {1}, .strides = {1}};
  copy_view(context, context.out(), sum);
}

constexpr KernelEntry kEntries[] = {
    {"sum", sum}, {"mean", mean}, {"max", max}, {"argmax", argmax}, {"square_sum", square_sum},
};

}  // namespace

std::span<const KernelEntry> reduction_kernels() { return kEntries; }

}  // namespace ferry::cuda_backend
