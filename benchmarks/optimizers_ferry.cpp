#include <memory>

#include <ferry/ferry.h>

#include "benchmarks/optimizers.h"

bench::Batch bench::adamw() {
  std::vector<ferry::Tensor> parameters;
  for (const auto& extents : bert_shapes()) {
    ferry::Shape shape;
    for (const std::int64_t extent : extents) shape.push_back(extent);
    parameters.push_back(ferry::normal(shape).set_requires_grad());
    parameters.back().backward(ferry::normal(shape));
  }
  auto optimizer = std::make_shared<ferry::optim::AdamW>(parameters);
  return repeat([optimizer] { optimizer->step(); });
}
