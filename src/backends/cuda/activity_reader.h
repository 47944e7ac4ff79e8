// From CUPTI's activity records to what kernels and copies of a numbered piece of work did: kernels and copies know the
// call that enqueued them, calls the piece of work that they were made for, in records of their own that may come
// before or after. Plain host code on records in memory.
//
// Thread-safety: none.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "src/backends/cuda/activity.h"

namespace ferry::cuda_backend {

class ActivityReader {
 public:
  // Of kernels, copies and external correlations; others are passed over.
  void read(const CUpti_Activity& record);

  // The activities whose piece of work is known by now, in the order of their records; they are forgotten here.
  std::vector<Activity> take();
  // Those of `device` that no call was found for, with id 0. For when all records of its work have been read.
  std::vector<Activity> take_unclaimed(std::uint32_t device);
  // No more activities of pieces of work whose ids are in [first, last) will be read.
  void forget(std::uint64_t first, std::uint64_t last);

 private:
  void claim(std::uint32_t call, Activity activity);

  std::unordered_map<std::uint32_t, std::uint64_t> ids_;  // by CUPTI's number of a call
  std::unordered_map<std::uint32_t, std::vector<Activity>> unclaimed_;
  std::vector<Activity> ready_;
};

}  // namespace ferry::cuda_backend
