#include "profiler/importers/track_table.h"

#include <fmt/format.h>

namespace ferry::profiler::importers {

using analysis::Track;

TrackIndex TrackTable::thread(NameIndex process, NameIndex thread) {
  const Key key{process, thread};
  if (key == last_thread_) return last_thread_track_;
  const auto [entry, is_new] = threads_.try_emplace(key, static_cast<TrackIndex>(activity_.tracks.size()));
  if (is_new) {
    activity_.tracks.push_back(
        {.name = fmt::format("thread {}", activity_.names[thread]), .process = process, .thread = thread});
  }
  last_thread_ = key;
  return last_thread_track_ = entry->second;
}

TrackIndex TrackTable::stream(std::int32_t device, std::int64_t stream) {
  const Key key{device, stream};
  if (key == last_stream_) return last_stream_track_;
  const auto [entry, is_new] = streams_.try_emplace(key, static_cast<TrackIndex>(activity_.tracks.size()));
  if (is_new) {
    const std::string name = stream < 0 ? "GPU work" : fmt::format("stream {}", stream);
    activity_.tracks.push_back({.name = name, .device = device, .stream = stream});
  }
  last_stream_ = key;
  return last_stream_track_ = entry->second;
}

}  // namespace ferry::profiler::importers
