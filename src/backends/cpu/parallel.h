// How host kernels use the cores: TBB over fixed chunks, so that results never depend on the number of threads.
//
// oneDNN brings OpenMP threads of its own: call it from the launching thread only, never inside parallel_for.
#pragma once

#include <algorithm>
#include <cstdint>

#if defined(__SANITIZE_THREAD__)
#include <atomic>
#include <future>
#else
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#endif

namespace ferry::cpu_backend {

// Calls body(chunk) for every chunk in [0, chunks).
template <class Body>
void for_each_chunk(std::int64_t chunks, const Body& body) {
#if defined(__SANITIZE_THREAD__)
  // A TBB built without ThreadSanitizer looks full of races, and suppressing those hides the races of chunks. Two plain
  // threads show exactly the latter; relaxed, since the counter must not order the chunks.
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    for (std::int64_t chunk; (chunk = next.fetch_add(1, std::memory_order_relaxed)) < chunks;) body(chunk);
  };
  auto other = std::async(std::launch::async, work);
  work();
  other.get();
#else
  tbb::parallel_for(std::int64_t{0}, chunks, body);
#endif
}

// Calls body(begin, end) for consecutive ranges that cover [0, count), each of at most `grain` items and starting at a
// multiple of it. One range, or little work, runs in the calling thread.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  if (count <= grain) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  const std::int64_t chunks = (count + grain - 1) / grain;
  for_each_chunk(chunks, [&](std::int64_t chunk) { body(chunk * grain, std::min(count, (chunk + 1) * grain)); });
}

// Calls body(begin, end) for ranges that cover [0, count). They are halved as there are threads for them, while they
// have more than `grain` items: fewer and better balanced ranges than parallel_for's. For bodies that do the same to an
// item whatever its range.
template <class Body>
void parallel_ranges(std::int64_t count, std::int64_t grain, const Body& body) {
#if defined(__SANITIZE_THREAD__)
  parallel_for(count, grain, body);
#else
  if (count <= grain) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  tbb::parallel_for(tbb::blocked_range<std::int64_t>(0, count, static_cast<std::size_t>(grain)),
                    [&](const tbb::blocked_range<std::int64_t>& range) { body(range.begin(), range.end()); });
#endif
}

}  // namespace ferry::cpu_backend
