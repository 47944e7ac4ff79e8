// Replay of placements of the whole program.
#include <algorithm>

#include "placement/advisor_replay.h"

namespace ferry::placement {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

Places Replay::recorded_places() const {
  Places places;
  for (const Group& group : groups_) places.push_back(group.device);
  return places;
}

Nanoseconds Replay::duration(const Places& places) const {
  TimelineChanges changes;
  std::vector<char> touched(trace_.tensors.size(), 0);
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (places[i] == groups_[i].device) continue;
    for (const trace::OpIndex index : groups_[i].ops) {
      changes.moved.push_back({index, places[i]});
      for (const auto* arguments : {&trace_.ops[at(index)].inputs, &trace_.ops[at(index)].outputs}) {
        for (const trace::Argument& argument : *arguments) {
          if (argument.tensor >= 0) touched[at(argument.tensor)] = 1;
        }
      }
    }
  }
  for (std::size_t tensor = 0; tensor < touched.size(); ++tensor) {
    if (touched[tensor] == 0) continue;
    const auto index = static_cast<trace::TensorIndex>(tensor);
    const std::vector<Direction> before = copies_of<const Change*>(index, nullptr), after = copies_of(index, places);
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (before[i] == after[i]) continue;
      const Use& use = uses_[tensor][i];
      // A copy that the program asks for is made wherever the value is.
      if (before[i] && use.copy >= 0 && trace_.copies[at(use.copy)].cause != trace::CopyCause::transfer)
        changes.removed.push_back(use.copy);
      if (after[i])
        changes.added.push_back({use.order, after[i]->first, after[i]->second, trace_.tensors[tensor].size});
    }
  }
  return trace_.end - trace_.begin - timeline_.saving(changes) + allocation_time(places, changes);
}

Bytes Replay::peak_on(Device gpu, const Places& places) const {
  std::vector<std::int64_t> change(trace_.ops.size() + 1, 0);  // of the bytes there, before each op
  for (std::size_t tensor = 0; tensor < uses_.size(); ++tensor) {
    const std::vector<Use>& uses = uses_[tensor];
    if (uses.empty()) continue;
    const bool made_here = !uses.front().read;
    const bool at_home = !made_here && first_home(static_cast<trace::TensorIndex>(tensor)) == gpu;
    const auto first = std::ranges::find_if(uses, [&](const Use& use) { return place_of(use, places) == gpu; });
    if (first == uses.end() && !at_home) continue;
    const std::int64_t size = trace_.tensors[tensor].size.count;
    change[at_home ? 0 : at(first->order)] += size;
    if (made_here && uses.back().order < static_cast<trace::OpIndex>(trace_.ops.size()))
      change[at(uses.back().order) + 1] -= size;
  }
  std::int64_t now = 0, peak = 0;
  for (const std::int64_t each : change) peak = std::max(peak, now += each);
  return Bytes{peak};
}

}  // namespace ferry::placement
