#include "profiler/format.h"
#include "profiler/rules/fixes.h"
#include "profiler/rules/grouping.h"

namespace ferry::profiler::rules {
namespace {

// Less than this of the time is not worth a change.
constexpr double kShare = 0.001;

void find_calls(const TraceIndex& index, analysis::CallClass wanted, Fix fix, std::string_view once,
                std::string_view often, std::vector<Finding>& findings) {
  Grouping grouping(index, kDeviceWideSync.name);
  const std::vector<analysis::Event>& events = index.activity().events;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const EventIndex call = static_cast<EventIndex>(i);
    if (events[i].kind != analysis::EventKind::call || events[i].call != wanted) continue;
    if (!index.window().contains(events[i].begin) || index.is_claimed(call)) continue;
    grouping.add(call, events[i].duration());
  }
  for (Finding& finding : grouping.take()) {
    if (static_cast<double>(finding.blocked.count()) < kShare * static_cast<double>(index.span().count())) continue;
    finding.text = counted(finding.calls, once, often);
    finding.fix = fix_text(index.activity().framework, fix);
    findings.push_back(std::move(finding));
  }
}

void find(const TraceIndex& index, std::vector<Finding>& findings) {
  find_calls(index, analysis::CallClass::wait_device, Fix::narrow_wait, "wait for all work of the device",
             "waits for all work of the device", findings);
  find_calls(index, analysis::CallClass::free_memory, Fix::keep_memory,
             "return of device memory, which waits for all of its work",
             "returns of device memory, which wait for all of its work", findings);
}

}  // namespace

const Rule kDeviceWideSync{"device_wide_sync", "a wait for all streams of the device", false, find};

}  // namespace ferry::profiler::rules
