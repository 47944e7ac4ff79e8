// lstm_layer and gru_layer: at each step a product with the units before it, and one kernel for the rest. Contracts in
// src/ops/recurrent.h.
#include "src/backends/cuda/dispatch.h"
#include "src/backends/cuda/elements.h"
#include "src/backends/cuda/for_each.h"
#include "src/backends/cuda/gemm.h"
#include "src/backends/cuda/kernel_list.h"
#include "src/backends/cuda/views.h"
#include "src/kernels/math.h"
#include "src/ops/recurrent.h"

namespace ferry::cuda_backend {
namespace {

// What all kernels of a layer know; elements are numbered [N, H].
struct Layer {
  std::int64_t steps, rows, hidden;
  bool reverse;

  Layer(const KernelContext& context, const TensorView& per_step, std::int64_t units)
      : steps(per_step.shape[0]),
        rows(per_step.shape[1]),
        hidden(per_step.shape[2] / units),
        reverse(context.attributes.as<ops::RecurrentAttributes>().reverse) {}

  std::int64_t state() const { return rows * hidden; }
  Shape state_shape() const { return {rows, hidden}; }
  // The place in time of the i-th step that the layer makes.
  std::int64_t time(std::int64_t i) const { return reverse ? steps - 1 - i : i; }
  // [N, units H] of step `at`.
  TensorView step(const TensorView& all, std::int64_t at, std::int64_t units) const {
    auto* const data = all.as<std::byte>() + at * state() * units * size_of(all.dtype);
    return matrix_view(all, data, {rows, units * hidden}, {units * hidden, 1});
  }
};

TensorView optional_input(const KernelContext& context, std::size_t i) {
  return context.has_input(i) ? context.in(i) : TensorView{};
}
TensorView optional_output(const KernelContext& context, std::size_t i) {
  return context.has_output(i) ? context.out(i) : TensorView{};
}
template <class T>
T* data_of(const TensorView& view) {
  return view.given ? view.as<T>() : nullptr;
}
template <class T>
FERRY_FUNCTOR Compute<T> or_zero(const T* data, std::int64_t i) {
  return data == nullptr ? Compute<T>(0) : load(data[i]);
}

void copy_or_clear(const KernelContext& context, const TensorView& to, const TensorView& from) {
  from.given ? copy_view(context, to, from) : fill_view(context, to, 0);
}

// --- forward ---

template <class T>
struct LstmStep {
  using C = Compute<T>;
  std::int64_t hidden;
  const C* products;  // [N, 4H] h U; null: 0
  const T* gates;     // [N, 4H]
  T* c;               // [N, H], updated
  T* y;
  T* saved;  // [N, 5H], or null

  FERRY_FUNCTOR C sum(std::int64_t i) const { return or_zero(products, i) + load(gates[i]); }
  FERRY_FUNCTOR void operator()(std::int64_t e) const {
    const std::int64_t row = e / hidden, unit = e % hidden, at = row * 4 * hidden + unit;
    const C i = kernels::sigmoid(sum(at)), f = kernels::sigmoid(sum(at + hidden));
    const C g = kernels::tanh(sum(at + 2 * hidden)), o = kernels::sigmoid(sum(at + 3 * hidden));
    const T cell = store<T>(f * load(c[e]) + i * g);
    c[e] = cell;
    y[e] = store<T>(o * kernels::tanh(load(cell)));
    if (saved == nullptr) return;
    T* const to = saved + row * 5 * hidden + unit;
    to[0] = store<T>(i);
    to[hidden] = store<T>(f);
    to[2 * hidden] = store<T>(g);
    to[3 * hidden] = store<T>(o);
    to[4 * hidden] = cell;
  }
};

template <class T>
struct GruStep {
  using C = Compute<T>;
  std::int64_t hidden;
  const C* products;  // [N, 3H] h U; null: 0
  const T* gates;     // [N, 3H]
  Values<C> bias;     // [3H]
  const T* before;    // [N, H], or null
  T* y;
  T* saved;  // [N, 4H], or null

  FERRY_FUNCTOR void operator()(std::int64_t e) const {
    const std::int64_t row = e / hidden, unit = e % hidden, at = row * 3 * hidden + unit;
    const C r = kernels::sigmoid(or_zero(products, at) + bias[unit] + load(gates[at]));
    const C z = kernels::sigmoid(or_zero(products, at + hidden) + bias[unit + hidden] + load(gates[at + hidden]));
    const C product = or_zero(products, at + 2 * hidden) + bias[unit + 2 * hidden];
    const C n = kernels::tanh(load(gates[at + 2 * hidden]) + r * product);
    y[e] = store<T>(n + z * (or_zero(before, e) - n));
    if (saved == nullptr) return;
    T* const to = saved + row * 4 * hidden + unit;
    to[0] = store<T>(r);
    to[hidden] = store<T>(z);
    to[2 * hidden] = store<T>(n);
    to[3 * hidden] = store<T>(product);
  }
};

// Calls step(at, before, products) for each step: the units before it and their product with w_hh, null for zeros.
template <class T, class Step>
void for_steps(const KernelContext& context, const Layer& layer, std::int64_t gates, const TensorView& w_hh,
               const TensorView& h0, const Step& step) {
  using C = Compute<T>;
  const TensorView &y = context.out(0), &h = context.out(1);
  const TensorView products = scratch_view(dtype_of<C>, {layer.rows, gates * layer.hidden});
  TensorView before = h0;
  for (std::int64_t i = 0; i < layer.steps; ++i) {
    const std::int64_t at = layer.time(i);
    if (before.given) gemm(context, before, transposed(w_hh), products);
    step(at, data_of<const T>(before), before.given ? products.as<const C>() : nullptr);
    before = layer.step(y, at, 1);
  }
  copy_or_clear(context, h, before);
}

void lstm_layer(const KernelContext& context) {
  const Layer layer(context, context.in(0), 4);
  const TensorView &gates = context.in(0), &y = context.out(0), &c = context.out(2),
                   saved = optional_output(context, 3);
  copy_or_clear(context, c, optional_input(context, 3));
  visit_floats(context, gates.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_steps<T>(context, layer, 4, context.in(1), optional_input(context, 2),
                 [&](std::int64_t at, const T*, const Compute<T>* products) {
                   for_each<1>(layer.state(),
                               LstmStep<T>{layer.hidden, products, layer.step(gates, at, 4).template as<const T>(),
                                           c.as<T>(), layer.step(y, at, 1).template as<T>(),
                                           saved.given ? layer.step(saved, at, 5).template as<T>() : nullptr});
                 });
  });
}

void gru_layer(const KernelContext& context) {
  const Layer layer(context, context.in(0), 3);
  const TensorView &gates = context.in(0), &y = context.out(0), saved = optional_output(context, 2);
  visit_floats(context, gates.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    for_steps<T>(context, layer, 3, context.in(1), optional_input(context, 3),
                 [&](std::int64_t at, const T* before, const C* products) {
                   for_each<1>(layer.state(),
                               GruStep<T>{layer.hidden, products, layer.step(gates, at, 3).template as<const T>(),
                                          values_of(context, 2, C(0)), before, layer.step(y, at, 1).template as<T>(),
                                          saved.given ? layer.step(saved, at, 4).template as<T>() : nullptr});
                 });
  });
}

// --- backward ---

// What reaches the units of a step: through the products of the step after it, directly, and from outside.
template <class T>
struct Reaching {
  using C = Compute<T>;
  const C* products;  // null: 0
  const C* direct;
  const T* dy;

  FERRY_FUNCTOR C operator[](std::int64_t e) const {
    return or_zero(products, e) + or_zero(direct, e) + or_zero(dy, e);
  }
};

// The state that a step began with: rows of it, `step` elements apart; null: zeros.
template <class T>
struct Before {
  const T* data;
  std::int64_t step;
};

template <class T>
struct LstmGradient {
  using C = Compute<T>;
  std::int64_t hidden;
  Reaching<T> dh;
  C* dc;  // [N, H], updated
  Before<T> c_before;
  const T* saved;  // [N, 5H]
  T* dgates;       // [N, 4H]

  FERRY_FUNCTOR void operator()(std::int64_t e) const {
    const std::int64_t row = e / hidden, unit = e % hidden;
    const T* const from = saved + row * 5 * hidden + unit;
    T* const to = dgates + row * 4 * hidden + unit;
    const C i = load(from[0]), f = load(from[hidden]), g = load(from[2 * hidden]), o = load(from[3 * hidden]);
    const C t = kernels::tanh(load(from[4 * hidden])), slope = dh[e];
    const C d = dc[e] + slope * o * (C(1) - t * t);
    to[0] = store<T>(d * g * i * (C(1) - i));
    to[hidden] = store<T>(d * or_zero(c_before.data, row * c_before.step + unit) * f * (C(1) - f));
    to[2 * hidden] = store<T>(d * i * (C(1) - g * g));
    to[3 * hidden] = store<T>(slope * t * o * (C(1) - o));
    dc[e] = d * f;
  }
};

template <class T>
struct GruGradient {
  using C = Compute<T>;
  std::int64_t hidden;
  Reaching<T> dh;
  C* direct;  // [N, H]: what reaches the step before not through products
  Before<T> h_before;
  const T* saved;  // [N, 4H]
  T* dgates;       // [N, 3H]
  T* dproducts;    // [N, 3H]

  FERRY_FUNCTOR void operator()(std::int64_t e) const {
    const std::int64_t row = e / hidden, unit = e % hidden, at = row * 3 * hidden + unit;
    const T* const from = saved + row * 4 * hidden + unit;
    const C r = load(from[0]), z = load(from[hidden]), n = load(from[2 * hidden]), product = load(from[3 * hidden]);
    const C slope = dh[e], before = or_zero(h_before.data, row * h_before.step + unit);
    const C dn = slope * (C(1) - z) * (C(1) - n * n);
    const C dr = dn * product * r * (C(1) - r), dz = slope * (before - n) * z * (C(1) - z);
    dgates[at] = dproducts[at] = store<T>(dr);
    dgates[at + hidden] = dproducts[at + hidden] = store<T>(dz);
    dgates[at + 2 * hidden] = store<T>(dn);
    dproducts[at + 2 * hidden] = store<T>(dn * r);
    direct[e] = slope * z;
  }
};

template <class T>
struct StateGradient {
  Reaching<T> dh;
  T* to;

  FERRY_FUNCTOR void operator()(std::int64_t e) const { to[e] = store<T>(dh[e]); }
};

// Calls step(i, at, dh) for each step from the last to the first; it writes dproducts. Then dh0, where it is given.
// `direct` holds dh at first and what the step left there afterwards; `lasts`: it counts for the last step alone.
template <class T, class Step>
void for_steps_back(const KernelContext& context, const Layer& layer, std::int64_t gates, const TensorView& w_hh,
                    const TensorView& dproducts, const TensorView& direct, bool lasts, const TensorView& dh0,
                    const Step& step) {
  using C = Compute<T>;
  const TensorView dy = optional_input(context, 0), sums = scratch_view(dtype_of<C>, layer.state_shape());
  Reaching<T> dh{nullptr, direct.as<const C>(), nullptr};
  const auto take_products = [&](std::int64_t at) {
    gemm(context, layer.step(dproducts, at, gates), w_hh, sums);
    dh.products = sums.as<const C>();
    if (lasts) dh.direct = nullptr;
  };
  for (std::int64_t i = layer.steps - 1; i >= 0; --i) {
    const std::int64_t at = layer.time(i);
    dh.dy = dy.given ? layer.step(dy, at, 1).template as<const T>() : nullptr;
    step(i, at, dh);
    if (i > 0 || dh0.given) take_products(at);
  }
  dh.dy = nullptr;
  if (dh0.given) for_each<1>(layer.state(), StateGradient<T>{dh, dh0.as<T>()});
}

void lstm_layer_backward(const KernelContext& context) {
  const TensorView &saved = context.in(3), &dgates = context.out(0), c0 = optional_input(context, 5);
  const Layer layer(context, saved, 5);
  visit_floats(context, saved.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const TensorView dh = scratch_view(dtype_of<C>, layer.state_shape());
    const TensorView dc = scratch_view(dtype_of<C>, layer.state_shape());
    copy_or_clear(context, dh, optional_input(context, 1));
    copy_or_clear(context, dc, optional_input(context, 2));
    const auto step = [&](std::int64_t i, std::int64_t at, const Reaching<T>& reaching) {
      Before<T> before{data_of<const T>(c0), layer.hidden};
      if (i > 0) {
        before = {layer.step(saved, layer.time(i - 1), 5).template as<const T>() + 4 * layer.hidden, 5 * layer.hidden};
      }
      for_each<1>(layer.state(), LstmGradient<T>{layer.hidden, reaching, dc.as<C>(), before,
                                                 layer.step(saved, at, 5).template as<const T>(),
                                                 layer.step(dgates, at, 4).template as<T>()});
    };
    for_steps_back<T>(context, layer, 4, context.in(4), dgates, dh, true, optional_output(context, 1), step);
    copy_view(context, context.out(2), dc);
  });
}

void gru_layer_backward(const KernelContext& context) {
  const TensorView &saved = context.in(2), &y = context.in(4), h0 = optional_input(context, 5);
  const TensorView &dgates = context.out(0), &dproducts = context.out(1);
  const Layer layer(context, saved, 4);
  visit_floats(context, saved.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const TensorView direct = scratch_view(dtype_of<C>, layer.state_shape());
    copy_or_clear(context, direct, optional_input(context, 1));
    const auto step = [&](std::int64_t i, std::int64_t at, const Reaching<T>& reaching) {
      const TensorView before = i > 0 ? layer.step(y, layer.time(i - 1), 1) : h0;
      for_each<1>(layer.state(), GruGradient<T>{layer.hidden,
                                                reaching,
                                                direct.as<C>(),
                                                {data_of<const T>(before), layer.hidden},
                                                layer.step(saved, at, 4).template as<const T>(),
                                                layer.step(dgates, at, 3).template as<T>(),
                                                layer.step(dproducts, at, 3).template as<T>()});
    };
    for_steps_back<T>(context, layer, 3, context.in(3), dproducts, direct, false, optional_output(context, 2), step);
  });
}

constexpr KernelEntry kEntries[] = {
    {"lstm_layer", lstm_layer},
    {"lstm_layer_backward", lstm_layer_backward},
    {"gru_layer", gru_layer},
    {"gru_layer_backward", gru_layer_backward},
};

}  // namespace

std::span<const KernelEntry> recurrent_kernels() { return kEntries; }

}  // namespace ferry::cuda_backend
