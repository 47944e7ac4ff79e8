// lstm_layer, gru_layer: one direction of one layer.
#include "src/ops/recurrent.h"

#include <ferry/ops.h>
#include "src/base/check.h"
#include "src/ops/gradient.h"
#include "src/ops/invoke.h"

namespace ferry::ops {
namespace {

constexpr std::int64_t kLstmGates = 4, kGruGates = 3;
constexpr std::int64_t kLstmSaved = 5, kGruSaved = 4;  // in units of H

struct Extents {
  std::int64_t steps, rows, hidden;
};

// Optional argument i, when given, is [rows, hidden].
void require_state(const InferContext& context, std::size_t i, const Extents& extents) {
  if (!context.given(i)) return;
  context.require_same_dtype(0, i);
  if (context.shape(i) != Shape{extents.rows, extents.hidden}) {
    context.fail_shapes(i, 0, fmt::format("the former needs shape [{}, {}]", extents.rows, extents.hidden));
  }
}

Extents require_layer(const InferContext& context, std::int64_t gates) {
  context.require_float(0);
  context.require_same_dtype(0, 1);
  context.require_rank(0, 3);
  context.require_rank(1, 2);
  const Shape &x = context.shape(0), &w = context.shape(1);
  if (w[0] != gates * w[1] || x[2] != w[0]) {
    context.fail_shapes(0, 1, fmt::format("they need [T, N, {0} H] and [{0} H, H]", gates));
  }
  return {x[0], x[1], w[1]};
}

void add_layer_outputs(InferContext& context, const Extents& extents, bool cell, std::int64_t saved) {
  const DType type = context.dtype(0);
  context.add_output({extents.steps, extents.rows, extents.hidden}, type);
  context.add_output({extents.rows, extents.hidden}, type);
  if (cell) context.add_output({extents.rows, extents.hidden}, type);
  if (context.attributes.as<RecurrentAttributes>().keeps_steps) {
    context.add_output({extents.steps, extents.rows, saved * extents.hidden}, type);
  } else {
    context.add_no_output();
  }
}

void infer_lstm(InferContext& context) {
  const Extents extents = require_layer(context, kLstmGates);
  for (const std::size_t i : {2, 3}) require_state(context, i, extents);
  add_layer_outputs(context, extents, true, kLstmSaved);
}

void infer_gru(InferContext& context) {
  const Extents extents = require_layer(context, kGruGates);
  context.require_vector(2, kGruGates * extents.hidden, 0);
  require_state(context, 3, extents);
  add_layer_outputs(context, extents, false, kGruSaved);
}

Extents saved_extents(const InferContext& context, std::size_t saved, std::int64_t units) {
  const Shape& shape = context.shape(saved);
  return {shape[0], shape[1], shape[2] / units};
}

void add_state_gradient(InferContext& context, const Extents& extents, DType type) {
  if (context.attributes.as<RecurrentAttributes>().wants_h0) {
    context.add_output({extents.rows, extents.hidden}, type);
  } else {
    context.add_no_output();
  }
}

void infer_lstm_backward(InferContext& context) {
  const auto [steps, rows, hidden] = saved_extents(context, 3, kLstmSaved);
  const DType type = context.dtype(3);
  context.add_output({steps, rows, kLstmGates * hidden}, type);
  add_state_gradient(context, {steps, rows, hidden}, type);
  context.add_output({rows, hidden}, type);
}

void infer_gru_backward(InferContext& context) {
  const auto [steps, rows, hidden] = saved_extents(context, 2, kGruSaved);
  const DType type = context.dtype(2);
  context.add_output({steps, rows, kGruGates * hidden}, type);
  context.add_output({steps, rows, kGruGates * hidden}, type);
  add_state_gradient(context, {steps, rows, hidden}, type);
}

// The product of each step.
template <std::size_t kWeight>
double layer_flops(const InferContext& context) {
  const auto products = static_cast<double>(context.shape(kWeight).product());
  const Shape& steps = context.output().shape;
  return 2 * products * static_cast<double>(steps[0] * steps[1]);
}

// Σ over steps of dproductsᵀ h, where h is what the step began with.
Tensor weight_gradient(const Tensor& dproducts, const Tensor& y, const Tensor& h0, bool reverse, Where where) {
  const Shape& shape = dproducts.shape();
  const std::int64_t steps = shape[0], rows = shape[1], columns = shape[2], hidden = y.shape()[2];
  const auto product = [&](const Tensor& d, const Tensor& h, std::int64_t count) {
    return matmul(transpose(reshape(d, {count * rows, columns}, where), 0, 1, where),
                  reshape(h, {count * rows, hidden}, where), where);
  };
  Tensor sum;
  if (steps > 1) {
    const std::int64_t from = reverse ? 0 : 1;
    sum = product(narrow(dproducts, 0, from, steps - 1, where), narrow(y, 0, 1 - from, steps - 1, where), steps - 1);
  }
  if (h0.defined() && steps > 0) {
    const Tensor first = product(narrow(dproducts, 0, reverse ? steps - 1 : 0, 1, where), h0, 1);
    sum = sum.defined() ? add(sum, first, where) : first;
  }
  if (sum.defined()) return sum;
  const RuntimeOf runtime(y);
  return zeros({columns, hidden}, y.dtype(), where);
}

void gradient_lstm(GradientContext& context) {
  const Where where = context.where();
  RecurrentAttributes attributes = context.attributes<RecurrentAttributes>();
  attributes.wants_h0 = context.needs(2);
  const Tensor none;
  const Tensor& h0 = context.has_input(2) ? context.input(2) : none;
  const Tensor& c0 = context.has_input(3) ? context.input(3) : none;
  const Tensor* inputs[] = {&context.dy(0), &context.dy(1), &context.dy(2), &context.output(3), &context.input(1), &c0};
  Tensor results[3];
  invoke(kLstmLayerBackward, inputs, attributes, where, results);
  if (context.needs(0)) context.set(0, results[0]);
  if (context.needs(1)) context.set(1, weight_gradient(results[0], context.output(0), h0, attributes.reverse, where));
  if (context.needs(2)) context.set(2, results[1]);
  if (context.needs(3)) context.set(3, results[2]);
}

void gradient_gru(GradientContext& context) {
  const Where where = context.where();
  RecurrentAttributes attributes = context.attributes<RecurrentAttributes>();
  attributes.wants_h0 = context.needs(3);
  const Tensor none;
  const Tensor& h0 = context.has_input(3) ? context.input(3) : none;
  const Tensor* inputs[] = {&context.dy(0),    &context.dy(1),     &context.output(2),
                            &context.input(1), &context.output(0), &h0};
  Tensor results[3];
  invoke(kGruLayerBackward, inputs, attributes, where, results);
  if (context.needs(0)) context.set(0, results[0]);
  if (context.needs(1)) context.set(1, weight_gradient(results[1], context.output(0), h0, attributes.reverse, where));
  if (context.needs(2)) context.set(2, sum(results[1], {0, 1}, false, where).to(context.dtype(2), where));
  if (context.needs(3)) context.set(3, results[2]);
}

}  // namespace

const OpSchema kLstmLayer{.name = "lstm_layer",
                          .op_class = OpClass::matmul,
                          .arguments = {"gates", "w_hh", "h0", "c0"},
                          .infer = infer_lstm,
                          .contiguous = 0b1111,
                          .flops = layer_flops<1>,
                          .gradient = gradient_lstm,
                          .saved_inputs = 0b1110,
                          .saved_outputs = 0b1001,
                          .autocast = AutocastRule::low};
const OpSchema kLstmLayerBackward{.name = "lstm_layer_backward",
                                  .op_class = OpClass::matmul,
                                  .arguments = {"dy", "dh", "dc", "saved", "w_hh", "c0"},
                                  .infer = infer_lstm_backward,
                                  .contiguous = 0b111111,
                                  .flops = layer_flops<4>};
const OpSchema kGruLayer{.name = "gru_layer",
                         .op_class = OpClass::matmul,
                         .arguments = {"gates", "w_hh", "b_hh", "h0"},
                         .infer = infer_gru,
                         .contiguous = 0b1111,
                         .flops = layer_flops<1>,
                         .gradient = gradient_gru,
                         .saved_inputs = 0b1010,
                         .saved_outputs = 0b101,
                         .autocast = AutocastRule::low};
const OpSchema kGruLayerBackward{.name = "gru_layer_backward",
                                 .op_class = OpClass::matmul,
                                 .arguments = {"dy", "dh", "saved", "w_hh", "y", "h0"},
                                 .infer = infer_gru_backward,
                                 .contiguous = 0b111111,
                                 .flops = layer_flops<3>};

}  // namespace ferry::ops
