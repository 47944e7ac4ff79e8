// Recurrent layers. Conventions as in ops.h.
//
// Weights are laid out as PyTorch lays them out, so that they interchange: w_ih: [G H, I], w_hh: [G H, H], b_ih, b_hh:
// [G H] or undefined, with the rows of a gate together and the gates in the order i, f, g, o (LSTM, G = 4) or r, z, n
// (GRU, G = 3). 16-bit floats are computed in f32; states are rounded to their dtype at each step.
#pragma once

#include <cstdint>
#include <vector>

#include <ferry/ops.h>

namespace ferry {

struct RecurrentWeights {
  Tensor w_ih, w_hh, b_ih{}, b_hh{};
};

// hidden state and cell state.
struct LstmState {
  Tensor h, c;
};

// Long short-term memory (Hochreiter and Schmidhuber, 1997; with forget gates, Gers et al., 2000):
//   i, f, o = sigmoid(W x + b + U h + b'), g = tanh(…), c' = f c + i g, h' = o tanh(c').
// x: [N, I]; state: [N, H] each, undefined is zero → the next state.
LstmState lstm_cell(const Tensor& x, const LstmState& state, const RecurrentWeights& weights,
                    Where where = Where::current());
// Gated recurrent unit (Cho et al., 2014, in the form that applies r after the product, as cuDNN and PyTorch have it):
//   r, z = sigmoid(W x + b + U h + b'), n = tanh(W x + b + r (U h + b')), h' = (1 - z) n + z h.
// x: [N, I]; h: [N, H], undefined is zero → h'.
Tensor gru_cell(const Tensor& x, const Tensor& h, const RecurrentWeights& weights, Where where = Where::current());

struct RecurrentOptions {
  std::int64_t layers = 1;
  bool bidirectional = false;  // a second pass from the last step to the first, its results beside the first's
  double dropout = 0;          // of each layer's results but the last one's, while `training`
  bool training = true;
};

struct LstmResult {
  Tensor y;         // [T, N, directions H]: h of the last layer at each step
  LstmState state;  // [layers directions, N, H] each: after the last step
};
struct GruResult {
  Tensor y, h;
};

// x: [T, N, I]: T steps of N sequences; state: [layers directions, N, H] each, or both undefined: zero. weights: one a
// layer and direction, the directions of a layer together; layers but the first take I = directions H.
//
// A layer projects the inputs of all steps in one product; a step is one product with w_hh and the gates' arithmetic in
// the same pass, and backward makes the gradient of w_hh in one product over all steps. Kept for backward: x, y, and
// the gates and cell state (LSTM) or the gates and the recurrent part of n (GRU) of each step; nothing without
// gradients.
LstmResult lstm(const Tensor& x, const LstmState& state, const std::vector<RecurrentWeights>& weights,
                const RecurrentOptions& options = {}, Where where = Where::current());
GruResult gru(const Tensor& x, const Tensor& h, const std::vector<RecurrentWeights>& weights,
              const RecurrentOptions& options = {}, Where where = Where::current());

}  // namespace ferry
