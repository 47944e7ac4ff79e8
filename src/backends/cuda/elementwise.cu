// Elementwise ops by the shared functors.
#include "src/backends/cuda/dispatch.h"
#include "src/backends/cuda/elements.h"
#include "src/backends/cuda/for_each.h"
#include "src/backends/cuda/kernel_list.h"
#include "src/backends/cuda/layout.h"
#include "src/kernels/activations.h"
#include "src/kernels/unary.h"
#include "src/ops/activations.h"

namespace ferry::cuda_backend {
namespace {

using NumericUnary = OneOf<kernels::Neg, kernels::Abs, kernels::Square, kernels::Relu, kernels::Add, kernels::Mul,
                           kernels::Reversed<kernels::Sub>, kernels::Reversed<kernels::Div>, kernels::SquareError>;
using FloatUnary = OneOf<kernels::Exp, kernels::Log, kernels::Sqrt, kernels::Tanh, kernels::Sigmoid, kernels::Gelu,
                         kernels::GeluTanh, kernels::Silu, kernels::LeakyRelu>;
using Powers = OneOf<kernels::Pow>;
using NumericBinary = OneOf<kernels::Add, kernels::Sub, kernels::Mul, kernels::Div, kernels::Maximum, kernels::Minimum,
                            kernels::SquareError>;
using Comparisons = OneOf<kernels::Equal, kernels::Greater, kernels::Less>;
using FloatBinary =
    OneOf<kernels::ReluBackward, kernels::TanhBackward, kernels::SigmoidBackward, kernels::AbsBackward,
          kernels::GeluBackward, kernels::GeluTanhBackward, kernels::SiluBackward, kernels::LeakyReluBackward>;

// `divides`: x, an integer, is a divisor.
template <class Ops, class A>
struct Unary {
  using C = typename A::C;
  Layout<2> layout;
  int op;
  A y, x;
  C scalar;
  bool divides;
  FaultSink sink;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    std::int64_t at[2];
    layout.find(i, at);
    const C value = x.get(at[1]);
    if constexpr (std::is_integral_v<C>) {
      if (divides && value == 0) return sink.raise(i, 0);
    }
    y.set(at[0], Ops::template call<C>(op, value, scalar));
  }
};

template <class Ops, class A>
struct Binary {
  using C = typename A::C;
  Layout<3> layout;
  int op;
  A y, a, b;
  C scalar;
  bool divides;
  FaultSink sink;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    std::int64_t at[3];
    layout.find(i, at);
    const C left = a.get(at[1]), right = b.get(at[2]);
    if constexpr (std::is_integral_v<C>) {
      if (divides && right == 0) return sink.raise(i, 0);
    }
    y.set(at[0], Ops::template call<C>(op, left, right, scalar));
  }
};

template <class A>
struct Compare {
  Layout<3> layout;
  int op;
  bool* y;
  A a, b;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    std::int64_t at[3];
    layout.find(i, at);
    y[at[0]] = Comparisons::call<bool>(op, a.get(at[1]), b.get(at[2]), 0);
  }
};

double scalar_of(const KernelContext& context) { return context.attributes.as<ops::ScalarAttributes>().value; }

template <class Ops, class A>
void launch_unary(const KernelContext& context, int op, double scalar, bool divides) {
  const TensorView &x = context.in(0), &y = context.out();
  for_each(y.numel(), Unary<Ops, A>{make_layout<2>({&y, &x}), op, A::of(y), A::of(x), A::scalar(x.dtype, scalar),
                                    divides, divides ? divisor_sink(context, x) : FaultSink{}});
}

template <class Ops, class A>
void launch_binary(const KernelContext& context, int op, double scalar, bool divides) {
  const TensorView &a = context.in(0), &b = context.in(1), &y = context.out();
  for_each(y.numel(),
           Binary<Ops, A>{make_layout<3>({&y, &a, &b}), op, A::of(y), A::of(a), A::of(b), A::scalar(a.dtype, scalar),
                          divides, divides ? divisor_sink(context, b) : FaultSink{}});
}

// Whether the op's last operand is an integer divisor, which must not be 0.
template <class Op>
bool divides(const KernelContext& context) {
  constexpr bool kIsDivision = std::is_same_v<Op, kernels::Div> || std::is_same_v<Op, kernels::Reversed<kernels::Div>>;
  return kIsDivision && !is_floating(context.in(0).dtype);
}

template <class Ops, class Op>
void unary_with(const KernelContext& context, double scalar) {
  visit_elements(context, context.in(0).dtype, [&](auto tag) {
    launch_unary<Ops, typename decltype(tag)::type>(context, Ops::template index<Op>(), scalar, divides<Op>(context));
  });
}
template <class Op>
void unary(const KernelContext& context) {
  unary_with<NumericUnary, Op>(context, 0);
}
template <class Op>
void unary_scalar(const KernelContext& context) {
  unary_with<NumericUnary, Op>(context, scalar_of(context));
}
void power(const KernelContext& context) { unary_with<Powers, kernels::Pow>(context, scalar_of(context)); }

template <class Op>
void unary_float_with(const KernelContext& context, double scalar) {
  visit_float_elements(context, context.in(0).dtype, [&](auto tag) {
    launch_unary<FloatUnary, typename decltype(tag)::type>(context, FloatUnary::index<Op>(), scalar, false);
  });
}
template <class Op>
void unary_float(const KernelContext& context) {
  unary_float_with<Op>(context, 0);
}

template <class Op>
void binary(const KernelContext& context) {
  visit_elements(context, context.in(0).dtype, [&](auto tag) {
    launch_binary<NumericBinary, typename decltype(tag)::type>(context, NumericBinary::index<Op>(), 0,
                                                               divides<Op>(context));
  });
}
template <class Op>
void comparison(const KernelContext& context) {
  const TensorView &a = context.in(0), &b = context.in(1), &y = context.out();
  visit_elements(context, a.dtype, [&](auto tag) {
    using A = typename decltype(tag)::type;
    for_each(y.numel(),
             Compare<A>{make_layout<3>({&y, &a, &b}), Comparisons::index<Op>(), y.as<bool>(), A::of(a), A::of(b)});
  });
}
template <class Op>
void binary_float_with(const KernelContext& context, double scalar) {
  visit_float_elements(context, context.in(0).dtype, [&](auto tag) {
    launch_binary<FloatBinary, typename decltype(tag)::type>(context, FloatBinary::index<Op>(), scalar, false);
  });
}
template <class Op>
void binary_float(const KernelContext& context) {
  binary_float_with<Op>(context, 0);
}

bool by_tanh(const KernelContext& context) {
  return context.attributes.as<ops::GeluAttributes>().approximation == GeluApproximation::tanh;
}
void gelu(const KernelContext& context) {
  (by_tanh(context) ? unary_float<kernels::GeluTanh> : unary_float<kernels::Gelu>)(context);
}
void gelu_backward(const KernelContext& context) {
  (by_tanh(context) ? binary_float<kernels::GeluTanhBackward> : binary_float<kernels::GeluBackward>)(context);
}
void leaky_relu(const KernelContext& context) { unary_float_with<kernels::LeakyRelu>(context, scalar_of(context)); }
void leaky_relu_backward(const KernelContext& context) {
  binary_float_with<kernels::LeakyReluBackward>(context, scalar_of(context));
}

// --- square errors' gradients ---

template <class T>
struct SquareErrorGradient {
  Layout<4> layout;
  T* dx;
  const T* dy;
  const T* a;
  const T* b;  // null: `target`
  Compute<T> target;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    std::int64_t at[4];
    layout.find(i, at);
    const Compute<T> other = b == nullptr ? target : load(b[at[3]]);
    dx[at[0]] = store<T>(kernels::SquareErrorBackward{}(load(dy[at[1]]), load(a[at[2]]), other));
  }
};

void launch_square_error_gradient(const KernelContext& context, const TensorView* b, double target) {
  const TensorView &dx = context.out(), &dy = context.in(0), &a = context.in(1);
  visit_floats(context, dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each(dx.numel(),
             SquareErrorGradient<T>{make_layout<4>({&dx, &dy, &a, b == nullptr ? &a : b}), dx.as<T>(), dy.as<const T>(),
                                    a.as<const T>(), b == nullptr ? nullptr : b->as<const T>(),
                                    static_cast<Compute<T>>(target)});
  });
}
void square_error_backward(const KernelContext& context) { launch_square_error_gradient(context, &context.in(2), 0); }
void square_error_scalar_backward(const KernelContext& context) {
  launch_square_error_gradient(context, nullptr, scalar_of(context));
}

constexpr KernelEntry kEntries[] = {
    {"add", binary<kernels::Add>},
    {"sub", binary<kernels::Sub>},
    {"mul", binary<kernels::Mul>},
    {"div", binary<kernels::Div>},
    {"maximum", binary<kernels::Maximum>},
    {"minimum", binary<kernels::Minimum>},
    {"square_error", binary<kernels::SquareError>},
    {"square_error_backward", square_error_backward},
    {"square_error_scalar", unary_scalar<kernels::SquareError>},
    {"square_error_scalar_backward", square_error_scalar_backward},
    {"equal", comparison<kernels::Equal>},
    {"greater", comparison<kernels::Greater>},
    {"less", comparison<kernels::Less>},
    {"relu_backward", binary_float<kernels::ReluBackward>},
    {"tanh_backward", binary_float<kernels::TanhBackward>},
    {"sigmoid_backward", binary_float<kernels::SigmoidBackward>},
    {"abs_backward", binary_float<kernels::AbsBackward>},
    {"neg", unary<kernels::Neg>},
    {"abs", unary<kernels::Abs>},
    {"square", unary<kernels::Square>},
    {"relu", unary<kernels::Relu>},
    {"exp", unary_float<kernels::Exp>},
    {"log", unary_float<kernels::Log>},
    {"sqrt", unary_float<kernels::Sqrt>},
    {"tanh", unary_float<kernels::Tanh>},
    {"sigmoid", unary_float<kernels::Sigmoid>},
    {"add_scalar", unary_scalar<kernels::Add>},
    {"mul_scalar", unary_scalar<kernels::Mul>},
    {"rsub_scalar", unary_scalar<kernels::Reversed<kernels::Sub>>},
    {"rdiv_scalar", unary_scalar<kernels::Reversed<kernels::Div>>},
    {"pow_scalar", power},
    {"gelu", gelu},
    {"gelu_backward", gelu_backward},
    {"silu", unary_float<kernels::Silu>},
    {"silu_backward", binary_float<kernels::SiluBackward>},
    {"leaky_relu", leaky_relu},
    {"leaky_relu_backward", leaky_relu_backward},
};

}  // namespace

std::span<const KernelEntry> elementwise_kernels() { return kEntries; }

}  // namespace ferry::cuda_backend
