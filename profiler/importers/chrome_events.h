// Trace events as Chrome, Perfetto and most profilers write them: {"traceEvents": […], …} or a bare array. Reads the
// fields that any dialect needs; a dialect says what they mean.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "profiler/importers/fill_activity.h"
#include "profiler/importers/json_reader.h"
#include "profiler/importers/track_table.h"

namespace ferry::profiler::importers {

// The fields of one event. Texts are names of the activity; -1 where the event lacks them.
struct ChromeEvent {
  char phase = 0;
  NameIndex name = -1, category = -1, process = -1, thread = -1;
  Nanoseconds begin{}, duration{};
  bool has_begin = false, has_duration = false;

  // Of "args":
  std::uint64_t correlation = 0;                 // "correlation", "correlation id", "correlation_id"
  std::uint64_t external = 0;                    // "External id", "external id"
  std::int64_t device = -1, stream = -1;         // "device", "stream"
  std::int64_t bytes = -1;                       // "bytes", "size"
  std::int64_t waited_stream = -1;               // "wait_on_stream"
  std::uint64_t waited_record = 0;               // "wait_on_cuda_event_record_corr_id"
  std::int64_t step = -1;                        // "step_num"
  std::int64_t drain_ns = -1, transfer_ns = -1;  // ferry's
  std::uint64_t source = 0, destination = 0;     // "src", "dst"
  NameIndex call_stack = -1;                     // "Call stack", "callstack"
  NameIndex kind = -1;                           // "kind"
  NameIndex memcpy_details = -1;                 // "memcpy_details"
  NameIndex label = -1;                          // "name": the new name of a process or thread
  NameIndex copy_class = -1, memory = -1;        // ferry's "class" and "memory"
  NameIndex line = -1;                           // ferry's "line"
};

// What a dialect makes of events. Slices come complete: a begin and its end are one.
class ChromeDialect {
 public:
  virtual ~ChromeDialect() = default;
  // A slice (phase X, or B with its E) with a time and a duration.
  virtual void slice(const ChromeEvent& event) = 0;
  // "process_name" and "thread_name".
  virtual void metadata(const ChromeEvent& event) = 0;
  // A member beside "traceEvents". Reads its value, or returns false for it to be skipped.
  virtual bool member(std::string_view key, JsonReader& reader) = 0;
};

// Reads all events. Of a file that ends within an event the whole events stay, and `tolerated.truncated_at` tells.
// Throws: ParseError with the byte.
void read_chrome_events(const Input& input, Activity& activity, ChromeDialect& dialect);

// Whether the input can be such a file: it begins with an object that has "traceEvents", or with an array of objects.
bool looks_like_chrome_events(const Input& input);

// Helpers of dialects.
// The "name" and "id" of each object of an array, the value of "deviceProperties".
void read_gpus(JsonReader& reader, Activity& activity);
// "rank" of the object that is the value of "distributedInfo".
void read_rank(JsonReader& reader, Activity& activity);
// Appends a slice of the kind. The fields that all kinds share are taken from `event`.
Event& add_slice(Activity& activity, const ChromeEvent& event, EventKind kind, TrackIndex track);
// A number in a name of a process or thread: 7 of "7" and "stream 7"; -1 where there is none.
std::int64_t number_in(std::string_view name);

}  // namespace ferry::profiler::importers
