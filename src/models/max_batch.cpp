#include <ferry/max_batch.h>

#include <algorithm>

#include <ferry/error.h>
#include "src/base/check.h"

namespace ferry {
namespace {

class Search {
 public:
  Search(Runtime& runtime, const std::function<void(std::int64_t)>& step, const MaxBatchOptions& options)
      : runtime_(runtime), step_(step), options_(options), device_(runtime.default_device()) {}

  MaxBatch run() {
    std::int64_t good = 0, bad = 0;  // the largest that fits, the smallest that does not; 0: unknown
    for (std::int64_t batch = options_.first; bad == 0 && batch <= options_.limit;) {
      (fits(batch) ? good : bad) = batch;
      if (batch == options_.limit) break;
      batch = std::min(batch * 2, options_.limit);
    }
    while (bad > good + 1 && good > 0) {
      const std::int64_t middle = good + (bad - good) / 2;
      (fits(middle) ? good : bad) = middle;
    }
    result_.batch = good;
    for (const BatchTry& each : result_.tries) {
      if (each.batch == good) result_.best = each;
    }
    return std::move(result_);
  }

 private:
  bool fits(std::int64_t batch) {
    BatchTry attempt{.batch = batch};
    runtime_.empty_cache(device_);
    runtime_.reset_peak_memory(device_);
    try {
      for (int i = 0; i < options_.steps; ++i) {
        const Nanoseconds begin = runtime_.now();
        step_(batch);
        runtime_.synchronize();
        attempt.step = runtime_.now() - begin;
      }
      attempt.fits = true;
    } catch (const OutOfMemory& error) {
      attempt.error = error.what();
      attempt.step = {};
      settle();
    }
    const MemoryStats stats = runtime_.memory_stats(device_);
    attempt.peak_allocated = stats.peak_allocated;
    attempt.peak_reserved = stats.peak_reserved;
    if (options_.restore) options_.restore();
    result_.tries.push_back(attempt);
    if (options_.on_try) options_.on_try(attempt);
    return attempt.fits;
  }

  // Work that was queued before the failure may fail for the same reason.
  void settle() {
    try {
      runtime_.synchronize();
    } catch (const OutOfMemory&) {
    }
  }

  Runtime& runtime_;
  const std::function<void(std::int64_t)>& step_;
  const MaxBatchOptions& options_;
  Device device_;
  MaxBatch result_;
};

}  // namespace

MaxBatch find_max_batch(Runtime& runtime, const std::function<void(std::int64_t batch)>& step,
                        const MaxBatchOptions& options) {
  FERRY_CHECK(options.first > 0 && options.limit >= options.first && options.steps > 0, InvalidArgument,
              "find_max_batch: first {}, limit {} and steps {} must be positive, and first not above limit",
              options.first, options.limit, options.steps);
  return Search(runtime, step, options).run();
}

}  // namespace ferry
