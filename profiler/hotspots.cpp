#include <algorithm>
#include <map>
#include <tuple>

#include "profiler/report.h"

namespace ferry::profiler {

std::vector<trace::Hotspot> find_hotspots(const trace::Trace& trace) {
  std::vector<trace::Hotspot> hotspots;
  std::map<std::tuple<trace::StringIndex, trace::SiteIndex, Device, Device>, std::size_t> known;
  for (const trace::CopyRecord& copy : trace.copies) {
    if (!copy.synchronous || copy.cause != trace::CopyCause::implicit) continue;
    const auto key = std::tuple(copy.op_name, copy.site, copy.from, copy.to);
    const auto [entry, is_new] = known.try_emplace(key, hotspots.size());
    if (is_new) {
      hotspots.push_back({.op_name = copy.op_name,
                          .site = copy.site,
                          .scope = copy.scope,
                          .tensor = copy.tensor,
                          .from = copy.from,
                          .to = copy.to});
    }
    trace::Hotspot& hotspot = hotspots[entry->second];
    ++hotspot.calls;
    hotspot.size += copy.size;
    hotspot.drain += copy.drain;
    hotspot.transfer += copy.transfer;
    hotspot.blocked += copy.drain + copy.transfer;
  }
  std::ranges::stable_sort(hotspots, std::ranges::greater{}, &trace::Hotspot::blocked);
  return hotspots;
}

}  // namespace ferry::profiler
