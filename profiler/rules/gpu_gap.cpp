#include <fmt/format.h>

#include <algorithm>

#include "profiler/format.h"
#include "profiler/rules/fixes.h"
#include "profiler/rules/grouping.h"

namespace ferry::profiler::rules {
namespace {

using analysis::Event;
using analysis::GpuUse;

// Shorter ones are launch overhead; places with less than this of the time in sum are not worth a change.
constexpr Nanoseconds kShortest{100'000};
constexpr double kShare = 0.01;

struct Work {
  Nanoseconds begin{};
  EventIndex event = -1;
};

std::vector<Work> work_of(const TraceIndex& index, std::int32_t device) {
  std::vector<Work> work;
  for (std::size_t track = 0; track < index.activity().tracks.size(); ++track) {
    if (index.activity().tracks[track].device != device) continue;
    const auto [first, last] = index.range(static_cast<analysis::TrackIndex>(track));
    for (EventIndex i = first; i < last; ++i) work.push_back({index.event(i).begin, i});
  }
  std::sort(work.begin(), work.end(), [](const Work& a, const Work& b) { return a.begin < b.begin; });
  return work;
}

// What the thread that launched the work after the gap did in the middle of it.
EventIndex host_slice_in(const TraceIndex& index, const std::vector<Work>& work, const analysis::Interval& gap) {
  const auto next = std::lower_bound(work.begin(), work.end(), gap.end,
                                     [](const Work& each, Nanoseconds time) { return each.begin < time; });
  if (next == work.end()) return -1;
  const EventIndex launch = index.launch_of(next->event);
  if (launch < 0) return -1;
  const EventIndex slice = index.slice_at(index.event(launch).track, gap.begin + (gap.end - gap.begin) / 2);
  return slice >= 0 ? slice : launch;
}

void find(const TraceIndex& index, std::vector<Finding>& findings) {
  Grouping grouping(index, kGpuGap.name);
  for (const GpuUse& gpu : index.gpus()) {
    const std::vector<Work> work = work_of(index, gpu.device);
    for (std::size_t i = 0; i + 1 < gpu.busy.size(); ++i) {
      const analysis::Interval gap{gpu.busy[i].end, gpu.busy[i + 1].begin};
      if (gap.end - gap.begin < kShortest) continue;
      const EventIndex slice = host_slice_in(index, work, gap);
      if (slice >= 0) grouping.add(slice, gap.end - gap.begin);
    }
  }
  for (Finding& finding : grouping.take()) {
    if (static_cast<double>(finding.blocked.count()) < kShare * static_cast<double>(index.span().count())) continue;
    if (finding.op.empty()) finding.op = index.name(finding.worst);
    finding.text = fmt::format("the GPU was idle for {} in {} while the host was here", to_string(finding.blocked),
                               counted(finding.calls, "gap", "gaps"));
    finding.fix = fix_text(index.activity().framework, Fix::launch_ahead);
    findings.push_back(std::move(finding));
  }
}

}  // namespace

const Rule kGpuGap{"gpu_gap", "the GPU is idle for 0.1 ms and more between its work", false, find};

}  // namespace ferry::profiler::rules
