// How host kernels use the cores: TBB over fixed chunks, so that results never depend on the number of threads.
//
// oneDNN brings OpenMP threads of its own: call it from the launching thread only, never inside parallel_for.
#pragma once

#include <algorithm>
#include <cstdint>

#include <tbb/parallel_for.h>

namespace ferry::cpu_backend {

// Calls body(begin, end) for consecutive ranges that cover [0, count), each of at most `grain` items and starting at a
// multiple of it. One range, or little work, runs in the calling thread.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  if (count <= grain) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  const std::int64_t chunks = (count + grain - 1) / grain;
  tbb::parallel_for(std::int64_t{0}, chunks, [&](std::int64_t chunk) {
    body(chunk * grain, std::min(count, (chunk + 1) * grain));
  });
}

}  // namespace ferry::cpu_backend
