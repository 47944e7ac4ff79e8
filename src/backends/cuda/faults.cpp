#include "src/backends/cuda/faults.h"

#include <algorithm>

#include <fmt/args.h>
#include <fmt/format.h>

#include <ferry/error.h>
#include "src/backends/cuda/cuda_error.h"

namespace ferry::cuda_backend {
namespace {

// More launches than a stream holds at once are never waited for.
constexpr std::size_t kMostExpected = 8192;

}  // namespace

Faults::Faults() {
  void* memory = nullptr;
  FERRY_CUDA(cudaHostAlloc(&memory, sizeof(FaultRecord), cudaHostAllocMapped | cudaHostAllocPortable));
  record_ = new (memory) FaultRecord;
}

Faults::~Faults() { cudaFreeHost(record_); }

FaultSink Faults::expect(std::string op, const std::source_location& where, std::string text) {
  const std::lock_guard lock(mutex_);
  expected_.push_back({++launches_, std::move(op), std::move(text), where});
  if (expected_.size() > kMostExpected) expected_.pop_front();
  return {record_, launches_};
}

void Faults::rethrow() {
  const std::lock_guard lock(mutex_);
  const auto* const ready = reinterpret_cast<const volatile unsigned long long*>(&record_->ready);
  const unsigned long long launch = *ready;
  if (launch == 0) [[likely]]
    return;
  const FaultRecord fault = *record_;
  *record_ = {};
  const auto found =
      std::find_if(expected_.begin(), expected_.end(), [&](const Expected& e) { return e.launch == launch; });
  if (found == expected_.end()) {
    throw InvalidArgument(fmt::format("an earlier op was given the value {} at position {}, which is out of range",
                                      fault.value, fault.position));
  }
  InvalidArgument error(
      fmt::format(fmt::runtime(found->text), fmt::arg("position", fault.position), fmt::arg("value", fault.value)));
  error.locate(found->op, found->where);
  throw error;
}

}  // namespace ferry::cuda_backend
