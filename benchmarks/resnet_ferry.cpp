#include "benchmarks/resnet.h"

#include <memory>

#include <ferry/ferry.h>

bench::Batch bench::resnet50_step(Precision precision) {
  const std::shared_ptr<ferry::models::Model> model = ferry::models::make("resnet50");
  const ferry::models::Batch batch = model->random_batch(kResnetBatch, 0);
  auto optimizer = std::make_shared<ferry::optim::Sgd>(
      *model, ferry::optim::SgdOptions{.rate = kResnetRate, .momentum = kResnetMomentum});
  return repeat([=] {
    const auto loss = [&] {
      const ferry::Autocast autocast({.enabled = precision == Precision::bf16});
      return model->loss(batch);
    };
    loss().backward();
    optimizer->step();
    optimizer->zero_grad();
  });
}
