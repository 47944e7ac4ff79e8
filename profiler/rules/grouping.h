// Gathers what happens again and again at one place of a program into findings.
#pragma once

#include <map>
#include <tuple>

#include "profiler/rules/rule.h"

namespace ferry::profiler::rules {

class Grouping {
 public:
  Grouping(const TraceIndex& index, std::string_view rule) : index_(index), rule_(rule) {}

  // Adds a copy to the finding of its place; returns it.
  Finding& add(const Transfer& transfer);
  // Adds a call (or, where the trace has none, any slice) that took `blocked`.
  Finding& add(EventIndex event, Nanoseconds blocked);

  // By blocked time, the most first. Leaves the grouping empty.
  std::vector<Finding> take();

 private:
  using Key = std::tuple<std::string_view, std::string_view, std::string, int, int>;

  Finding& place(EventIndex event, Direction direction, HostMemory memory);
  void add_time(Finding& finding, EventIndex event, Nanoseconds begin, Nanoseconds blocked, Nanoseconds drain);

  const TraceIndex& index_;
  std::string rule_;
  std::map<Key, std::size_t> places_;
  std::vector<Finding> findings_;
};

// The three kinds of synchronous copies between host and device; a copy is of one kind at most.
enum class CopyKind : std::uint8_t { none, sync_copy, pageable_async_copy, scalar_readback };
CopyKind kind_of(const TraceIndex& index, const Transfer& transfer);

}  // namespace ferry::profiler::rules
