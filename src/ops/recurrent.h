// Schemas and kernel contracts of recurrent layers; general rules in attributes.h. All arguments are dense.
#pragma once

#include "src/ops/attributes.h"
#include "src/ops/op_schema.h"

namespace ferry::ops {

// One layer in one direction, its inputs' projection W x + b done before. T steps, N sequences, H units.
//
// lstm_layer: (gates [T, N, 4H]: W x + b + b', w_hh [4H, H], h0? [N, H], c0? [N, H]) →
//     (y [T, N, H], h [N, H], c [N, H], saved? [T, N, 5H]). Gates in the order i, f, g, o; saved: the activated gates
//     and the cell state.
// lstm_layer_backward: (dy? [T, N, H], dh? [N, H], dc? [N, H], saved, w_hh, c0?) →
//     (dgates [T, N, 4H], dh0? [N, H], dc0 [N, H]).
// gru_layer: (gates [T, N, 3H]: W x + b, w_hh [3H, H], b_hh? [3H], h0? [N, H]) → (y, h, saved? [T, N, 4H]). Gates in
// the
//     order r, z, n; saved: the activated gates and U h + b' of n.
// gru_layer_backward: (dy?, dh?, saved, w_hh, y, h0?) → (dgates [T, N, 3H], dproducts [T, N, 3H], dh0?): the gradients
// of
//     `gates` and of U h + b'.
// b_hh may be f32 beside 16-bit gates.
struct RecurrentAttributes {
  bool reverse = false;     // from the last step to the first
  bool keeps_steps = true;  // saved is wanted
  bool wants_h0 = true;     // backward: dh0 is
};
extern const OpSchema kLstmLayer, kLstmLayerBackward, kGruLayer, kGruLayerBackward;

}  // namespace ferry::ops
