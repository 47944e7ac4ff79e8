// What ops and copies take on devices whose figures are known, for placements that no trace has seen.
#pragma once

#include <optional>
#include <vector>

#include <ferry/units.h>
#include "src/trace/trace.h"

namespace ferry::placement {

// Time of a copy: latency + bytes / rate.
struct LinkModel {
  Nanoseconds latency{};
  double bytes_per_nanosecond = 1;

  Nanoseconds time(Bytes size) const {
    return latency + Nanoseconds(static_cast<std::int64_t>(static_cast<double>(size.count) / bytes_per_nanosecond));
  }
};

struct CostModel {
  std::vector<Nanoseconds> on_cpu{}, on_gpu{};  // of each op's kernel, by op of the trace
  Nanoseconds launch{};                         // host time of a kernel's launch on the GPU
  Nanoseconds allocation{};                     // host time of the driver's allocations, of pinned memory too
  LinkModel to_gpu{}, to_cpu{};
  LinkModel staging{};  // host time of an asynchronous copy to the GPU
};

// From the specs of the host and of a simulated GPU, as the virtual clock counts them. Nothing for a trace of real
// devices, of several GPUs, or of a GPU whose spec cannot be read any more.
std::optional<CostModel> model_of_specs(const trace::Trace& trace);

}  // namespace ferry::placement
