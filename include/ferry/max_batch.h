// find_max_batch: the largest batch that a training step still has memory for, and what larger batches gain.
//
//   const MaxBatch found = find_max_batch(runtime, [&](std::int64_t batch) {
//     model->loss(model->random_batch(batch, 0)).backward();
//     optimizer.step();
//     optimizer.zero_grad();
//   });
//
// In timing-only mode on a simulated GPU a search takes seconds; anywhere else every try runs for real.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ferry/runtime.h>
#include <ferry/units.h>

namespace ferry {

// One batch size that was tried.
struct BatchTry {
  std::int64_t batch = 0;
  bool fits = false;
  Bytes peak_allocated{}, peak_reserved{};  // of the device's memory
  Nanoseconds step{};                       // of the last step; virtual on a simulated GPU. Of tries that fit
  std::string error{};                      // of tries that do not: what OutOfMemory said

  double milliseconds_per_sample() const {
    return std::chrono::duration<double, std::milli>(step).count() / static_cast<double>(batch);
  }
};

struct MaxBatchOptions {
  std::int64_t first = 1;          // where doubling starts
  std::int64_t limit = 1'000'000;  // no larger batch is tried
  int steps = 2;                   // of a try: the first makes gradients and optimizer state, the last is timed
  // Called after every try, failed or not, before the next: to drop gradients, and to put back what the steps changed.
  std::function<void()> restore{};
  std::function<void(const BatchTry&)> on_try{};
};

struct MaxBatch {
  std::int64_t batch = 0;         // 0: not even options.first fits
  BatchTry best{};                // the try of that batch
  std::vector<BatchTry> tries{};  // in the order they were made
};

// Doubles the batch until a step ends in OutOfMemory, then bisects. Measures the memory of the runtime's default
// device. Cached memory is given back between tries, so that none profits or suffers from those before it. step: runs
// one training step of that many samples. Throws: InvalidArgument for options that make no sense; what step throws,
// except OutOfMemory.
MaxBatch find_max_batch(Runtime& runtime, const std::function<void(std::int64_t batch)>& step,
                        const MaxBatchOptions& options = {});

}  // namespace ferry
