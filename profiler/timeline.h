// The spans of a trace on tracks, as the Chrome trace and the HTML page draw them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "src/trace/trace.h"

namespace ferry::profiler {

enum class SpanKind : std::uint8_t { scope, op, copy, kernel, device_copy };

// A process per device (the host is 0, a GPU 1 + its index); a track per host thread, stream and copy engine.
struct Track {
  int process = 0;
  int id = 0;  // unique in the process, in drawing order
  std::string name{};
};

struct Span {
  SpanKind kind = SpanKind::op;
  std::size_t track = 0;
  std::string name{};
  Nanoseconds begin{}, end{};
  std::uint64_t correlation = 0;
  trace::SiteIndex site = -1;
  trace::StringIndex scope = -1;
  Bytes size{};  // of a copy
  bool synchronous = false;
  std::int64_t copy = -1;  // into trace.copies: of a copy, and of its work
};

struct Timeline {
  std::vector<Track> tracks{};
  std::vector<Span> spans{};  // by begin; at the same begin the enclosing span first
};

// Kernels and copies without correlation are named after their kind.
Timeline make_timeline(const trace::Trace& trace);

}  // namespace ferry::profiler
