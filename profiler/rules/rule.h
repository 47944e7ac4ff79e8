// What an analysis looks for. A rule is one file and one line in rules.cpp; docs/analyze.md has its condition and an
// example.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/analysis/trace_index.h"

namespace ferry::profiler::rules {

using analysis::Direction;
using analysis::EventIndex;
using analysis::HostMemory;
using analysis::TraceIndex;
using analysis::Transfer;

// Calls of one kind at one place that a rule found.
struct Finding {
  std::string rule{};
  std::string op{};                  // what the program called; "" where the trace does not tell
  std::vector<std::string> chain{};  // the ops around it, outermost first
  std::string frame{};               // the program's own function, as the trace writes it; "" likewise
  std::string thread{};
  Direction direction = Direction::unknown;
  HostMemory memory = HostMemory::unknown;
  std::int64_t calls = 0;
  Bytes size{};
  Nanoseconds blocked{};   // of the host, or idle time of the GPU where the rule is about that
  Nanoseconds drain{};     // of it, waiting for earlier work
  Nanoseconds copying{};   // of it, the copy itself
  Nanoseconds in_steps{};  // of it, within marked steps
  std::string text{};      // one sentence with the figures, "" where the fields say all
  std::string fix{};
  EventIndex worst = -1;  // the longest call, for a look at it on the timeline
  Nanoseconds worst_at{};
  std::string allowed{};  // the reason, when the user allows it
};

struct Rule {
  std::string_view name;
  std::string_view summary;  // the condition in a few words
  // The finding is of synchronous copies: it is a hotspot, ranked and counted.
  bool of_copies;
  void (*find)(const TraceIndex& index, std::vector<Finding>& findings);
};

std::span<const Rule> all_rules();

extern const Rule kScalarReadback, kPageableAsyncCopy, kSyncCopy, kDeviceWideSync, kSyncMemset, kPingPong,
    kSmallHostTensor, kGpuGap, kLowUtilisation, kDataLoaderWait;

}  // namespace ferry::profiler::rules
