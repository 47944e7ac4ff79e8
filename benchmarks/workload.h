// Sizes and inputs that ferry's and libtorch's side of a benchmark share.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace bench {

constexpr std::int64_t kSmall = 8;          // elements of add8 and chain100
constexpr int kChain = 100;                 // adds of chain100
constexpr std::int64_t kRows = 10'000'000;  // of the embedding table
constexpr std::int64_t kColumns = 150;
constexpr std::int64_t kIds = 4'096;  // a step
constexpr double kTarget = 0.5;
constexpr double kLearningRate = 0.01;
constexpr std::int64_t kSide = 1'024;                             // of the matrices
constexpr std::int64_t kNormRows = 8 * 128, kFeatures = 768;      // of layer_norm
constexpr std::int64_t kScoreRows = 8 * 12 * 128, kScores = 128;  // of softmax
constexpr std::int64_t kImages = 32, kChannels = 64, kExtent = 56, kKernel = 3;

// Ids of several steps, so that no step finds its rows in the cache.
inline std::vector<std::vector<std::int64_t>> id_batches() {
  std::mt19937_64 engine(1);
  std::uniform_int_distribution<std::int64_t> id(0, kRows - 1);
  std::vector<std::vector<std::int64_t>> batches(64, std::vector<std::int64_t>(kIds));
  for (auto& batch : batches) {
    for (std::int64_t& value : batch) value = id(engine);
  }
  return batches;
}

}  // namespace bench
