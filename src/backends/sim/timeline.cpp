#include "src/backends/sim/timeline.h"

#include <algorithm>

namespace ferry::sim {

Interval Timeline::enqueue(StreamId stream, trace::Engine engine, Nanoseconds duration) {
  Nanoseconds& stream_end = streams_[static_cast<std::size_t>(stream.value)];
  Nanoseconds& engine_end = engines_[static_cast<std::size_t>(engine)];
  const Nanoseconds begin = std::max({host_.now(), stream_end, engine_end});
  stream_end = engine_end = begin + duration;
  return {begin, stream_end};
}

void Timeline::delay(StreamId stream, Nanoseconds time) {
  Nanoseconds& end = streams_[static_cast<std::size_t>(stream.value)];
  end = std::max(end, time);
}

Nanoseconds Timeline::end_of(StreamId stream) const {
  return std::max(host_.now(), streams_[static_cast<std::size_t>(stream.value)]);
}

Nanoseconds Timeline::end_of_all() const { return *std::max_element(streams_.begin(), streams_.end()); }

}  // namespace ferry::sim
