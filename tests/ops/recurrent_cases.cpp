// Cases of recurrent layers.
#include <ferry/recurrent.h>

#include <cmath>

#include "tests/ops/op_case.h"

namespace ferry::test {
namespace {

struct Network {
  bool lstm = true;
  std::int64_t steps = 3, rows = 2, features = 4, hidden = 5;
  std::int64_t layers = 1;
  bool bidirectional = false, bias = true, state = true;
  bool cell = false;

  std::int64_t gates() const { return lstm ? 4 : 3; }
  std::int64_t directions() const { return bidirectional ? 2 : 1; }
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// One unit's row of a product: w[row] · x[at…].
double row_product(const Array& w, std::int64_t row, const double* x) {
  double sum = 0;
  for (std::int64_t i = 0; i < w.shape[1]; ++i) sum += w.at({row, i}) * x[i];
  return sum;
}

// Inputs in the order x, h, c (LSTM), then w_ih, w_hh, b_ih, b_hh of each layer and direction.
struct Given {
  const Network& network;
  const Arrays& arrays;
  std::size_t states() const { return network.state ? network.lstm ? 2 : 1 : 0; }
  const Array& weight(std::size_t layer, std::size_t i) const {
    return arrays[1 + states() + layer * (network.bias ? 4 : 2) + i];
  }
  double bias(std::size_t layer, std::size_t i, std::int64_t row) const {
    return network.bias ? weight(layer, i).at({row}) : 0;
  }
};

// One sequence's step of one layer in one direction: h and c in place.
void step(const Given& given, std::size_t layer, const double* x, std::vector<double>& h, std::vector<double>& c) {
  const Array &w = given.weight(layer, 0), &u = given.weight(layer, 1);
  const std::int64_t hidden = given.network.hidden;
  const std::vector<double> before = h;
  for (std::int64_t j = 0; j < hidden; ++j) {
    const auto at = static_cast<std::size_t>(j);
    const auto input = [&](std::int64_t g) {
      return row_product(w, g * hidden + j, x) + given.bias(layer, 2, g * hidden + j);
    };
    const auto product = [&](std::int64_t g) {
      return row_product(u, g * hidden + j, before.data()) + given.bias(layer, 3, g * hidden + j);
    };
    if (given.network.lstm) {
      c[at] =
          sigmoid(input(1) + product(1)) * c[at] + sigmoid(input(0) + product(0)) * std::tanh(input(2) + product(2));
      h[at] = sigmoid(input(3) + product(3)) * std::tanh(c[at]);
    } else {
      const double r = sigmoid(input(0) + product(0)), z = sigmoid(input(1) + product(1));
      h[at] = (1 - z) * std::tanh(input(2) + r * product(2)) + z * before[at];
    }
  }
}

struct Results {
  Array y, h, c;
};

Results run(const Network& network, const Arrays& arrays) {
  const Given given{network, arrays};
  const std::int64_t directions = network.directions(), total = network.layers * directions;
  const Shape states{total, network.rows, network.hidden};
  Results results{arrays[0], Array::filled(states, 0), Array::filled(states, 0)};
  for (std::int64_t layer = 0; layer < network.layers; ++layer) {
    const Array x = results.y;
    results.y = Array::filled({network.steps, network.rows, directions * network.hidden}, 0);
    for (std::int64_t side = 0; side < directions; ++side) {
      const std::int64_t at = layer * directions + side;
      for (std::int64_t n = 0; n < network.rows; ++n) {
        std::vector<double> h(static_cast<std::size_t>(network.hidden), 0), c = h;
        for (std::int64_t j = 0; network.state && j < network.hidden; ++j) {
          h[static_cast<std::size_t>(j)] = arrays[1].at({at, n, j});
          if (network.lstm) c[static_cast<std::size_t>(j)] = arrays[2].at({at, n, j});
        }
        for (std::int64_t i = 0; i < network.steps; ++i) {
          const std::int64_t t = side == 1 ? network.steps - 1 - i : i;
          step(given, static_cast<std::size_t>(at), &x.values[x.position({t, n, 0})], h, c);
          for (std::int64_t j = 0; j < network.hidden; ++j) {
            results.y.at({t, n, side * network.hidden + j}) = h[static_cast<std::size_t>(j)];
          }
        }
        for (std::int64_t j = 0; j < network.hidden; ++j) {
          results.h.at({at, n, j}) = h[static_cast<std::size_t>(j)];
          results.c.at({at, n, j}) = c[static_cast<std::size_t>(j)];
        }
      }
    }
  }
  return results;
}

std::vector<RecurrentWeights> weights_of(const Network& network, const Tensors& t) {
  std::vector<RecurrentWeights> weights;
  std::size_t at = 1 + (network.state ? network.lstm ? 2u : 1u : 0u);
  for (std::int64_t i = 0; i < network.layers * network.directions(); ++i) {
    weights.push_back({t[at], t[at + 1]});
    if (network.bias) weights.back() = {t[at], t[at + 1], t[at + 2], t[at + 3]};
    at += network.bias ? 4 : 2;
  }
  return weights;
}

enum class Part { y, state, all };

Tensor call(const Network& network, Part part, const Tensors& t) {
  const std::vector<RecurrentWeights> weights = weights_of(network, t);
  const Tensor h = network.state ? t[1] : Tensor(), c = network.state && network.lstm ? t[2] : Tensor();
  const RecurrentOptions options{.layers = network.layers, .bidirectional = network.bidirectional};
  LstmResult result;
  if (network.cell) {
    const Tensor x = select(t[0], 0, 0);
    const auto row = [](const Tensor& state) { return state.defined() ? select(state, 0, 0) : state; };
    LstmState state;
    if (network.lstm) {
      state = lstm_cell(x, {row(h), row(c)}, weights[0]);
    } else {
      state.h = gru_cell(x, row(h), weights[0]);
    }
    result = {state.h, state};
  } else if (network.lstm) {
    result = lstm(t[0], {h, c}, weights, options);
  } else {
    const GruResult gates = gru(t[0], h, weights, options);
    result = {gates.y, {gates.h, {}}};
  }
  std::vector<Tensor> parts;
  if (part != Part::state) parts.push_back(flatten(result.y));
  if (part != Part::y) parts.push_back(flatten(result.state.h));
  if (part != Part::y && network.lstm) parts.push_back(flatten(result.state.c));
  return concat(parts, 0);
}

Array flat(const Array& x) { return reshaped(x, {x.shape.product()}); }

OpCase recurrent_case(const Network& network, Part part, const std::string& name) {
  const Shape states{network.layers * network.directions(), network.rows, network.hidden};
  std::vector<Input> inputs;
  const auto add = [&](const Shape& shape) {
    Input input{shape};
    input.low = -1;
    input.high = 1;
    inputs.push_back(input);
  };
  add({network.steps, network.rows, network.features});
  for (int i = 0; network.state && i < (network.lstm ? 2 : 1); ++i) add(states);
  const std::int64_t rows = network.gates() * network.hidden;
  for (std::int64_t i = 0; i < network.layers * network.directions(); ++i) {
    const std::int64_t features = i < network.directions() ? network.features : network.directions() * network.hidden;
    add({rows, features});
    add({rows, network.hidden});
    for (int bias = 0; network.bias && bias < 2; ++bias) add({rows});
  }
  const std::size_t count = inputs.size();
  return {network.lstm ? "lstm_layer" : "gru_layer",
          name,
          inputs,
          [=](const Tensors& t) { return call(network, part, t); },
          [=](const Arrays& x) {
            const Results results = run(network, x);
            std::vector<Array> parts;
            if (part != Part::state) parts.push_back(flat(results.y));
            if (part != Part::y) parts.push_back(flat(results.h));
            if (part != Part::y && network.lstm) parts.push_back(flat(results.c));
            return concatenated(parts, 0);
          },
          floats(),
          count,
          16};
}

}  // namespace

std::vector<OpCase> recurrent_cases() {
  std::vector<OpCase> cases;
  for (const bool lstm : {true, false}) {
    const auto add = [&](Network network, Part part, const std::string& name) {
      network.lstm = lstm;
      cases.push_back(recurrent_case(network, part, name));
    };
    add({}, Part::all, "small");
    add({}, Part::y, "steps");
    add({}, Part::state, "state");
    add({.bias = false, .state = false}, Part::all, "plain");
    add({.steps = 1, .cell = true}, Part::state, "cell");
    add({.steps = 1, .state = false, .cell = true}, Part::state, "cell_from_zero");
    add({.steps = 1, .rows = 1, .features = 1, .hidden = 1}, Part::all, "one");
    add({.layers = 2}, Part::all, "layers");
    add({.bidirectional = true}, Part::all, "bidirectional");
    add({.layers = 2, .bidirectional = true, .state = false}, Part::all, "all_options");
    add({.steps = 2, .rows = 67, .features = 3, .hidden = 37}, Part::all, "blocks");
    add({.steps = 2, .rows = 0}, Part::all, "no_rows");
  }
  return cases;
}

}  // namespace ferry::test
