// lstm and gru: layers and directions put together.
#include <ferry/activations.h>
#include <ferry/no_grad.h>
#include <ferry/recurrent.h>

#include "src/base/check.h"
#include "src/ops/invoke.h"
#include "src/ops/recurrent.h"
#include "src/tensor/tensor_impl.h"

namespace ferry {
namespace {

// What lstm and gru, sequences and cells differ in.
struct Family {
  std::string_view op;  // for messages
  std::int64_t gates;
  bool cell = false;
};

struct Direction {
  Tensor y, h, c;
};

void require_float(const Family& family, const char* argument, const Tensor& x) {
  FERRY_CHECK(x.defined(), InvalidArgument, "{}: argument '{}' is an undefined tensor", family.op, argument);
  FERRY_CHECK(is_floating(x.dtype()), InvalidArgument, "{}: argument '{}' is {}; it needs f32, f64, f16 or bf16",
              family.op, argument, describe(x));
}

// dtypes are left to the ops, which inside an Autocast scope convert what comes in several.
void require_shape(const Family& family, const std::string& argument, const Tensor& x, const Shape& shape,
                   const Tensor& input) {
  FERRY_CHECK(x.defined(), InvalidArgument, "{}: argument '{}' is an undefined tensor", family.op, argument);
  FERRY_CHECK(x.shape() == shape, ShapeError, "{}: argument '{}' is {}; beside x {} it needs shape {}", family.op,
              argument, describe(x), describe(input), to_string(shape));
}

// Returns H.
std::int64_t require_weights(const Family& family, const RecurrentWeights& weights, const Tensor& x,
                             std::int64_t features, const std::string& which) {
  require_float(family, "w_hh", weights.w_hh);
  FERRY_CHECK(weights.w_hh.rank() == 2, ShapeError, "{}: argument 'w_hh{}' is {}; it needs 2 axes", family.op, which,
              describe(weights.w_hh));
  const std::int64_t hidden = weights.w_hh.shape()[1], rows = family.gates * hidden;
  require_shape(family, "w_hh" + which, weights.w_hh, {rows, hidden}, x);
  require_shape(family, "w_ih" + which, weights.w_ih, {rows, features}, x);
  if (weights.b_ih.defined()) require_shape(family, "b_ih" + which, weights.b_ih, {rows}, x);
  if (weights.b_hh.defined()) require_shape(family, "b_hh" + which, weights.b_hh, {rows}, x);
  return hidden;
}

// Whether backward may come.
bool keeps_steps(const Tensor& x, const Tensor& h, const Tensor& c, const RecurrentWeights& weights) {
  if (!grad_enabled()) return false;
  for (const Tensor* each : {&x, &h, &c, &weights.w_ih, &weights.w_hh, &weights.b_ih, &weights.b_hh}) {
    if (each->defined() && each->requires_grad()) return true;
  }
  return false;
}

// x: [T, N, I].
Direction run_direction(const Family& family, const Tensor& x, const Tensor& h, const Tensor& c,
                        const RecurrentWeights& weights, bool reverse, Where where) {
  const ops::RecurrentAttributes attributes{reverse, keeps_steps(x, h, c, weights)};
  if (family.gates == 3) {
    const Tensor gates = linear(x, weights.w_ih, weights.b_ih, where);
    const Tensor* inputs[] = {&gates, &weights.w_hh, &weights.b_hh, &h};
    Tensor outputs[3];
    ops::invoke(ops::kGruLayer, inputs, attributes, where, outputs);
    return {outputs[0], outputs[1], {}};
  }
  // A cell's product needs no packed weights: it is a linear layer's, and the step begins from zero. In 16 bits the
  // product would be rounded.
  const bool one_product = family.cell && h.defined() && size_of(x.dtype()) > 2;
  const bool both = weights.b_ih.defined() && weights.b_hh.defined();
  const Tensor bias = both                     ? add(weights.b_ih, weights.b_hh, where)
                      : weights.b_ih.defined() ? weights.b_ih
                                               : weights.b_hh;
  Tensor gates = linear(x, weights.w_ih, bias, where), w_hh = weights.w_hh, before = h;
  if (one_product) {
    const Tensor product = linear(h, w_hh, {}, where);
    gates = add(gates, reshape(product, gates.shape(), where), where);
    w_hh = w_hh.detach();
    before = {};
  }
  const Tensor* inputs[] = {&gates, &w_hh, &before, &c};
  Tensor outputs[4];
  ops::invoke(ops::kLstmLayer, inputs, attributes, where, outputs);
  return {outputs[0], outputs[1], outputs[2]};
}

void require_options(const Family& family, const RecurrentOptions& options, std::size_t weights) {
  FERRY_CHECK(options.layers >= 1, InvalidArgument, "{}: {} layers", family.op, options.layers);
  FERRY_CHECK(options.dropout >= 0 && options.dropout <= 1, InvalidArgument, "{}: dropout {} is outside [0, 1]",
              family.op, options.dropout);
  const std::int64_t directions = options.bidirectional ? 2 : 1;
  FERRY_CHECK(static_cast<std::int64_t>(weights) == options.layers * directions, InvalidArgument,
              "{}: {} weights are given for {} layers of {} directions", family.op, weights, options.layers,
              directions);
}

// Checks everything that the ops below would name otherwise than the caller does.
void require_sequence(const Family& family, const Tensor& x, const LstmState& state,
                      const std::vector<RecurrentWeights>& weights, const RecurrentOptions& options) {
  require_float(family, "x", x);
  FERRY_CHECK(x.rank() == 3, ShapeError, "{}: argument 'x' is {}; it needs [T, N, I]", family.op, describe(x));
  require_options(family, options, weights.size());
  const std::size_t directions = options.bidirectional ? 2 : 1;
  std::int64_t features = x.shape()[2], hidden = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::int64_t of_this = require_weights(family, weights[i], x, features, fmt::format(" of weights {}", i));
    FERRY_CHECK(i == 0 || of_this == hidden, ShapeError, "{}: weights {} are of {} hidden units, those before of {}",
                family.op, i, of_this, hidden);
    hidden = of_this;
    if ((i + 1) % directions == 0) features = static_cast<std::int64_t>(directions) * hidden;
  }
  const Shape states{static_cast<std::int64_t>(weights.size()), x.shape()[1], hidden};
  if (state.h.defined()) require_shape(family, "h", state.h, states, x);
  if (state.c.defined()) require_shape(family, "c", state.c, states, x);
  FERRY_CHECK(family.gates == 3 || state.h.defined() == state.c.defined(), InvalidArgument,
              "{}: h and c must be given together", family.op);
}

Tensor stacked(const std::vector<Tensor>& states, Where where) {
  std::vector<Tensor> rows;
  for (const Tensor& state : states) rows.push_back(reshape(state, {1, state.shape()[0], state.shape()[1]}, where));
  return rows.size() == 1 ? rows[0] : concat(rows, 0, where);
}

LstmResult run_sequence(const Family& family, const Tensor& x, const LstmState& state,
                        const std::vector<RecurrentWeights>& weights, const RecurrentOptions& options, Where where) {
  ops::located(family.op, where, [&] { require_sequence(family, x, state, weights, options); });
  const auto initial = [&](const Tensor& states, std::size_t i) {
    return states.defined() ? select(states, 0, static_cast<std::int64_t>(i), where) : Tensor();
  };
  const std::size_t directions = options.bidirectional ? 2 : 1;
  std::vector<Tensor> h, c;
  Tensor y = x;
  for (std::size_t i = 0; i < weights.size(); i += directions) {
    if (i > 0) y = dropout(y, options.dropout, options.training, where);
    std::vector<Tensor> sides;
    for (std::size_t side = 0; side < directions; ++side) {
      const std::size_t at = i + side;
      const Direction result =
          run_direction(family, y, initial(state.h, at), initial(state.c, at), weights[at], side == 1, where);
      sides.push_back(result.y);
      h.push_back(result.h);
      if (result.c.defined()) c.push_back(result.c);
    }
    y = directions == 1 ? sides[0] : concat(sides, 2, where);
  }
  return {y, {stacked(h, where), c.empty() ? Tensor() : stacked(c, where)}};
}

LstmState run_cell(const Family& family, const Tensor& x, const LstmState& state, const RecurrentWeights& weights,
                   Where where) {
  ops::located(family.op, where, [&] {
    require_float(family, "x", x);
    FERRY_CHECK(x.rank() == 2, ShapeError, "{}: argument 'x' is {}; it needs [N, I]", family.op, describe(x));
    const std::int64_t hidden = require_weights(family, weights, x, x.shape()[1], "");
    const Shape shape{x.shape()[0], hidden};
    if (state.h.defined()) require_shape(family, "h", state.h, shape, x);
    if (state.c.defined()) require_shape(family, "c", state.c, shape, x);
    FERRY_CHECK(family.gates == 3 || state.h.defined() == state.c.defined(), InvalidArgument,
                "{}: h and c must be given together", family.op);
  });
  const Tensor step = reshape(x, {1, x.shape()[0], x.shape()[1]}, where);
  const Direction result = run_direction(family, step, state.h, state.c, weights, false, where);
  return {result.h, result.c};
}

}  // namespace

LstmState lstm_cell(const Tensor& x, const LstmState& state, const RecurrentWeights& weights, Where where) {
  return run_cell({"lstm_cell", 4, true}, x, state, weights, where);
}

Tensor gru_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights, Where where) {
  return run_cell({"gru_cell", 3, true}, x, {h, {}}, weights, where).h;
}

LstmResult lstm(const Tensor& x, const LstmState& state, const std::vector<RecurrentWeights>& weights,
                const RecurrentOptions& options, Where where) {
  return run_sequence({"lstm", 4}, x, state, weights, options, where);
}

GruResult gru(const Tensor& x, const Tensor& h, const std::vector<RecurrentWeights>& weights,
              const RecurrentOptions& options, Where where) {
  const LstmResult result = run_sequence({"gru", 3}, x, {h, {}}, weights, options, where);
  return {result.y, result.state.h};
}

}  // namespace ferry
