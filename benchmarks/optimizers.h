// Benchmarks of optimizers: one step over the parameters of a model like BERT-base (Devlin et al. 2019).
#pragma once

#include <cstdint>
#include <vector>

#include "benchmarks/worker.h"

namespace bench {

// 199 tensors, 99.9 million elements: a vocabulary of 18,000, 12 layers of width 768.
inline std::vector<std::vector<std::int64_t>> bert_shapes() {
  constexpr std::int64_t kWidth = 768, kInner = 3072, kLayers = 12;
  std::vector<std::vector<std::int64_t>> shapes = {{18'000, kWidth}, {512, kWidth}, {2, kWidth}, {kWidth}, {kWidth}};
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    for (int projection = 0; projection < 4; ++projection) shapes.insert(shapes.end(), {{kWidth, kWidth}, {kWidth}});
    shapes.insert(shapes.end(), {{kWidth}, {kWidth}, {kInner, kWidth}, {kInner}, {kWidth, kInner}, {kWidth}});
    shapes.insert(shapes.end(), {{kWidth}, {kWidth}});
  }
  shapes.insert(shapes.end(), {{kWidth, kWidth}, {kWidth}});
  return shapes;
}

// One step of AdamW on all of them; implemented by each side.
Batch adamw();

}  // namespace bench
