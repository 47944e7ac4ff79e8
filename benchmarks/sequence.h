// Benchmarks of layers over sequences; implemented by each side.
#pragma once

#include <cstdint>

#include "benchmarks/worker.h"

namespace bench {

// Attention and the layer around it.
constexpr std::int64_t kSequences = 8, kSequenceLength = 128, kModelWidth = 768, kHeads = 12, kInnerWidth = 3072;
constexpr std::int64_t kHeadWidth = kModelWidth / kHeads;
// The recurrent network.
constexpr std::int64_t kLstmLayers = 2, kLstmUnits = 512, kLstmSteps = 64, kLstmRows = 32;

// Scaled dot-product attention of [8, 128, 12, 64] queries, keys and values, forward and backward.
Batch attention();
// An encoder layer (attention, then gelu between two projections, each added to its input and normalised) on 8 × 128
// tokens, forward and backward. libtorch also as its module.
Batch transformer_layer();
Batch transformer_module();
// Two LSTM layers, forward and backward.
Batch lstm();

}  // namespace bench
