#include "profiler/format.h"
#include "profiler/rules/fixes.h"
#include "profiler/rules/grouping.h"

namespace ferry::profiler::rules {
namespace {

using analysis::CallClass;
using analysis::Event;
using analysis::EventKind;

bool enqueues(CallClass call) {
  return call == CallClass::launch || call == CallClass::copy || call == CallClass::copy_async ||
         call == CallClass::memset || call == CallClass::memset_async;
}

void find(const TraceIndex& index, std::vector<Finding>& findings) {
  Grouping grouping(index, kSyncMemset.name);
  for (std::size_t track = 0; track < index.activity().tracks.size(); ++track) {
    EventIndex pending = -1;  // an asynchronous memset with nothing enqueued after it
    const auto [first, last] = index.range(static_cast<analysis::TrackIndex>(track));
    for (EventIndex i = first; i < last; ++i) {
      const Event& call = index.event(i);
      if (call.kind != EventKind::call || !index.window().contains(call.begin)) continue;
      if (call.call == CallClass::memset) grouping.add(i, call.duration());
      if (call.call == CallClass::wait_stream && pending >= 0)
        grouping.add(pending, index.event(pending).duration() + call.duration());
      if (call.call == CallClass::memset_async) {
        pending = i;
      } else if (enqueues(call.call) || call.call == CallClass::wait_stream) {
        pending = -1;
      }
    }
  }
  for (Finding& finding : grouping.take()) {
    finding.text = counted(finding.calls, "memset", "memsets") + " for which the host waited";
    finding.fix = fix_text(index.activity().framework, Fix::memset_on_stream);
    findings.push_back(std::move(finding));
  }
}

}  // namespace

const Rule kSyncMemset{"sync_memset", "memory is set through a synchronous call, or waited for at once", false, find};

}  // namespace ferry::profiler::rules
