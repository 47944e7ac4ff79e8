// A training step of ResNet-50 (He et al. 2015, as torchvision has it); implemented by each side.
#pragma once

#include <cstdint>

#include "benchmarks/worker.h"

namespace bench {

constexpr std::int64_t kResnetBatch = 8, kResnetImage = 224, kResnetClasses = 1'000;
constexpr double kResnetRate = 1e-3, kResnetMomentum = 0.9;

enum class Precision : std::uint8_t { f32, bf16 };

// Forward, cross-entropy, backward and SGD with momentum on one batch of noise; bf16 by Autocast.
Batch resnet50_step(Precision precision = Precision::f32);

}  // namespace bench
