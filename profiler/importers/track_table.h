// The tracks of an activity while it is imported: found by the names that the trace gives them.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "profiler/importers/fill_activity.h"

namespace ferry::profiler::importers {

class TrackTable {
 public:
  // Refers to the activity: it must outlive this.
  explicit TrackTable(Activity& activity) : activity_(activity) {}

  // The host thread of a process, both as the trace names them.
  TrackIndex thread(NameIndex process, NameIndex thread);
  TrackIndex stream(std::int32_t device, std::int64_t stream);

 private:
  struct Key {
    std::int64_t first, second;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return std::hash<std::int64_t>{}(key.first * 0x9e3779b97f4a7c15 + key.second);
    }
  };

  Activity& activity_;
  std::unordered_map<Key, TrackIndex, Hash> threads_, streams_;
  // Consecutive events are mostly of one track.
  Key last_thread_{-2, -2}, last_stream_{-2, -2};
  TrackIndex last_thread_track_ = -1, last_stream_track_ = -1;
};

}  // namespace ferry::profiler::importers
