#include <algorithm>

#include "profiler/format.h"
#include "profiler/rules/fixes.h"
#include "profiler/rules/grouping.h"

namespace ferry::profiler::rules {
namespace {

using analysis::Event;
using analysis::EventKind;

constexpr double kShare = 0.01;

// The names that frameworks give to the program's waiting for its next batch.
bool is_loader(std::string_view name) {
  return name.starts_with("enumerate(DataLoader)") || name.starts_with("DataLoader") ||
         name.starts_with("Dataloader") || name.starts_with("dataloader") || name == "IteratorGetNext" ||
         name.ends_with("wait_for_batch ##");
}

bool is_within_loader(const TraceIndex& index, EventIndex slice) {
  for (EventIndex at = index.parent(slice); at >= 0; at = index.parent(at)) {
    if (index.event(at).kind != EventKind::frame && is_loader(index.name(at))) return true;
  }
  return false;
}

void find(const TraceIndex& index, std::vector<Finding>& findings) {
  Grouping grouping(index, kDataLoaderWait.name);
  const std::vector<Event>& events = index.activity().events;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    const EventIndex slice = static_cast<EventIndex>(i);
    if (event.kind != EventKind::annotation && event.kind != EventKind::op) continue;
    if (!index.window().contains(event.begin) || !is_loader(index.name(slice)) || is_within_loader(index, slice))
      continue;
    Finding& finding = grouping.add(slice, event.duration());
    if (finding.op.empty()) finding.op = index.name(slice);
  }
  for (Finding& finding : grouping.take()) {
    if (static_cast<double>(finding.blocked.count()) < kShare * static_cast<double>(index.span().count())) continue;
    finding.text = counted(finding.calls, "wait", "waits") + " for the next batch";
    finding.fix = fix_text(index.activity().framework, Fix::load_ahead);
    findings.push_back(std::move(finding));
  }
}

}  // namespace

const Rule kDataLoaderWait{"data_loader_wait", "the program waits for its next batch, 1 % of the time and more", false,
                           find};

}  // namespace ferry::profiler::rules
