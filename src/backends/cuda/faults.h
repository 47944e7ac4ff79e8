// Values that only a kernel on the device can see to be wrong, such as an index out of range: the kernel notes the
// first one in memory that both sides see, and the next call that waits throws it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <source_location>
#include <string>

#include "src/kernels/functor.h"

namespace ferry::cuda_backend {

struct FaultRecord {
  unsigned long long claimed = 0;  // by the launch whose fault is kept
  unsigned long long ready = 0;    // the same, once position and value are written
  std::int64_t position = 0, value = 0;
};

// A launch's access to the record, passed to kernels by value. Without a record it ignores what it is told.
struct FaultSink {
  FaultRecord* record = nullptr;
  unsigned long long launch = 0;

  FERRY_FUNCTOR void raise(std::int64_t position, std::int64_t value) const {
    if (record == nullptr) return;
#if defined(__CUDA_ARCH__)
    if (atomicCAS_system(&record->claimed, 0ull, launch) != 0ull) return;
    record->position = position;
    record->value = value;
    __threadfence_system();
    *reinterpret_cast<volatile unsigned long long*>(&record->ready) = launch;
#else
    if (record->claimed != 0) return;
    *record = {launch, launch, position, value};
#endif
  }
};

// The record of one device, and what its launches would say about a fault.
//
// Thread-safety: all methods may be called from any thread.
class Faults {
 public:
  // Throws: DeviceError.
  Faults();
  ~Faults();
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  // `text` is a format with the named fields {position} and {value}.
  FaultSink expect(std::string op, const std::source_location& where, std::string text);

  // Throws: InvalidArgument for a fault that a kernel has noted, once. Requires: work that is asked about has ended.
  void rethrow();

 private:
  struct Expected {
    unsigned long long launch;
    std::string op, text;
    std::source_location where;
  };

  std::mutex mutex_;
  FaultRecord* record_ = nullptr;  // pinned
  unsigned long long launches_ = 0;
  std::deque<Expected> expected_;  // the latest launches, by number
};

}  // namespace ferry::cuda_backend
