#include "placement/advisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "placement/advisor_replay.h"

namespace ferry::placement {
namespace {

// A chain that takes more moves than this is no advice a reader would follow.
constexpr std::size_t kLongestChain = 8;
constexpr std::size_t kMostAdvice = 3;

struct Candidate {
  Change change{};
  Outcome outcome{};

  bool better_than(const Candidate& other) const {
    if (outcome.net() != other.outcome.net()) return outcome.net() > other.outcome.net();
    return change.groups.size() < other.change.groups.size();
  }
  bool helps() const { return outcome.fits && outcome.hotspot_removed > 0 && outcome.net() > Nanoseconds(0); }
};

Change with(Change change, GroupIndex group) {
  change.groups.insert(std::ranges::lower_bound(change.groups, group), group);
  return change;
}

class Search {
 public:
  Search(const Replay& replay, const trace::Hotspot& hotspot) : replay_(replay), hotspot_(hotspot) {}

  // The changes that help, best first, none of which is another one with more moves for no gain.
  std::vector<Candidate> run() {
    const Device gpu = hotspot_.from.is_gpu() ? hotspot_.from : hotspot_.to;
    for (const GroupIndex seed : replay_.groups_around(hotspot_)) {
      const Device other = replay_.groups()[static_cast<std::size_t>(seed)].device.is_cpu() ? gpu : cpu::device;
      if (replay_.can_move(seed, other)) grow(seed, other);
    }
    std::ranges::stable_sort(found_, [](const Candidate& a, const Candidate& b) { return a.better_than(b); });
    std::vector<Candidate> best;
    for (Candidate& candidate : found_) {
      const bool dominated = std::ranges::any_of(best, [&](const Candidate& known) {
        return known.change.device == candidate.change.device &&
               std::ranges::includes(candidate.change.groups, known.change.groups);
      });
      if (!dominated && best.size() < kMostAdvice) best.push_back(std::move(candidate));
    }
    return best;
  }

 private:
  Candidate evaluated(Change change) const {
    Outcome outcome = replay_.evaluate(change, hotspot_);
    return {std::move(change), std::move(outcome)};
  }

  // Adds the neighbour that helps most, again and again: the first op of a chain often moves the copy to its other end
  // without saving anything, so that a step may be worse than the one before.
  void grow(GroupIndex seed, Device device) {
    Candidate current = evaluated({device, {seed}}), best = current;
    std::set<GroupIndex> border;
    GroupIndex last = seed;
    while (current.change.groups.size() < kLongestChain) {
      for (const GroupIndex next : replay_.neighbours(last)) {
        if (replay_.can_move(next, device) && !std::ranges::binary_search(current.change.groups, next))
          border.insert(next);
      }
      if (border.empty()) break;
      Candidate step = evaluated(with(current.change, *border.begin()));
      last = *border.begin();
      for (auto next = std::next(border.begin()); next != border.end(); ++next) {
        Candidate option = evaluated(with(current.change, *next));
        if (!option.better_than(step)) continue;
        step = std::move(option);
        last = *next;
      }
      border.erase(last);
      current = std::move(step);
      if (current.outcome.fits && current.better_than(best)) best = current;
    }
    keep(trimmed(std::move(best)));
  }

  Candidate trimmed(Candidate candidate) const {
    for (bool shorter = true; shorter && candidate.change.groups.size() > 1;) {
      shorter = false;
      for (std::size_t i = 0; i < candidate.change.groups.size(); ++i) {
        Change without = candidate.change;
        without.groups.erase(without.groups.begin() + static_cast<std::ptrdiff_t>(i));
        Candidate smaller = evaluated(std::move(without));
        if (!smaller.helps() || smaller.outcome.net() < candidate.outcome.net()) continue;
        candidate = std::move(smaller);
        shorter = true;
        break;
      }
    }
    return candidate;
  }

  void keep(Candidate candidate) {
    if (!candidate.helps()) return;
    const bool known =
        std::ranges::any_of(found_, [&](const Candidate& other) { return other.change == candidate.change; });
    if (!known) found_.push_back(std::move(candidate));
  }

  const Replay& replay_;
  const trace::Hotspot& hotspot_;
  std::vector<Candidate> found_;
};

std::string label(Device device, bool indexed) {
  return device.is_cpu() ? "CPU" : indexed ? fmt::format("GPU:{}", static_cast<int>(device.index)) : "GPU";
}

// "slice (main.cpp:31)"; with the module path where the line runs this op in several modules.
std::string group_text(const trace::Trace& trace, const Replay& replay, const Group& group) {
  std::string text = trace.string(group.op);
  const auto same = std::ranges::count_if(replay.groups(), [&](const Group& other) {
    return other.movable && other.op == group.op && other.site == group.site;
  });
  if (same > 1 && group.scope >= 0) text += " in " + trace.string(group.scope);
  if (group.site < 0) return text;
  const trace::Site& site = trace.sites[static_cast<std::size_t>(group.site)];
  return fmt::format("{} ({}:{})", text, site.file.substr(site.file.find_last_of("/\\") + 1), site.line);
}

std::string scope_text(Device device) {
  if (device.is_cpu()) return "a DeviceGuard<cpu> scope";
  if (device.index == 0) return "a DeviceGuard<gpu> scope";
  return fmt::format("a DeviceGuard<> scope for \"{}\"", to_string(device));
}

using Counts = std::map<std::pair<Device, Device>, CopyCount>;

// "20 synchronous copies (10 CPU->GPU, 10 GPU->CPU) and 3 asynchronous copies (3 CPU->GPU)"; "none".
std::string copies_text(const trace::Trace& trace, const Counts& counts) {
  const bool indexed = std::ranges::count_if(trace.devices, [](const auto& d) { return d.device.is_gpu(); }) > 1;
  std::string text;
  for (const bool blocking : {true, false}) {
    std::int64_t all = 0;
    std::string parts;
    for (const auto& [direction, count] : counts) {
      const std::int64_t calls = blocking ? count.blocking : count.calls - count.blocking;
      if (calls == 0) continue;
      all += calls;
      parts += fmt::format("{}{} {}->{}", parts.empty() ? "" : ", ", calls, label(direction.first, indexed),
                           label(direction.second, indexed));
    }
    if (all == 0) continue;
    text += fmt::format("{}{} {} {} ({})", text.empty() ? "" : " and ", all, blocking ? "synchronous" : "asynchronous",
                        all == 1 ? "copy" : "copies", parts);
  }
  return text.empty() ? "none" : text;
}

std::string milliseconds(Nanoseconds time) { return fmt::format("{:.4g} ms", static_cast<double>(time.count()) / 1e6); }

std::int64_t calls_of(const Counts& counts) {
  std::int64_t calls = 0;
  for (const auto& [_, count] : counts) calls += count.calls;
  return calls;
}

trace::Advice advice_of(const trace::Trace& trace, const Replay& replay, const Candidate& candidate) {
  std::vector<const Group*> groups;
  for (const GroupIndex index : candidate.change.groups)
    groups.push_back(&replay.groups()[static_cast<std::size_t>(index)]);
  std::ranges::sort(groups, {}, [](const Group* group) { return group->ops.front(); });

  const Outcome& outcome = candidate.outcome;
  trace::Advice advice{.device = candidate.change.device,
                       .copies_removed = calls_of(outcome.removed),
                       .copies_added = calls_of(outcome.added),
                       .blocked_saved = outcome.blocked_saved,
                       .compute_added = outcome.compute_added};
  std::string what;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    advice.sites.push_back(groups[i]->site);
    advice.ops.push_back(groups[i]->op);
    what += (i == 0 ? "" : i + 1 == groups.size() ? " and " : ", ") + group_text(trace, replay, *groups[i]);
  }
  advice.text = fmt::format("put {} into {}: removes {}, adds {}, saves {} of blocked host time", what,
                            scope_text(advice.device), copies_text(trace, outcome.removed),
                            copies_text(trace, outcome.added), milliseconds(outcome.blocked_saved));
  if (outcome.compute_added > Nanoseconds(0)) {
    advice.text += fmt::format(" for {} more computation", milliseconds(outcome.compute_added));
  }
  return advice;
}

}  // namespace

void advise(const trace::Trace& trace, std::vector<trace::Hotspot>& hotspots) {
  if (hotspots.empty()) return;
  const Replay replay(trace);
  for (trace::Hotspot& hotspot : hotspots) {
    hotspot.advice.clear();
    for (const Candidate& candidate : Search(replay, hotspot).run()) {
      hotspot.advice.push_back(advice_of(trace, replay, candidate));
    }
  }
}

}  // namespace ferry::placement
