#include "placement/advisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
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
  Prediction prediction{};  // of those found

  bool better_than(const Candidate& other) const {
    if (outcome.net() != other.outcome.net()) return outcome.net() > other.outcome.net();
    return change.groups.size() < other.change.groups.size();
  }
  bool helps() const { return outcome.fits && outcome.hotspot_removed > 0 && outcome.net() > Nanoseconds(0); }
};

Change with(Change change, const std::vector<GroupIndex>& groups) {
  for (const GroupIndex group : groups) {
    const auto place = std::ranges::lower_bound(change.groups, group);
    if (place == change.groups.end() || *place != group) change.groups.insert(place, group);
  }
  return change;
}

// A reader sees ops and lines.
using Lines = std::set<std::pair<trace::StringIndex, trace::SiteIndex>>;

class Search {
 public:
  Search(const Replay& replay, const trace::Hotspot& hotspot) : replay_(replay), hotspot_(hotspot) {}

  // The changes that help, best first, none of which is another one with more moves for no gain.
  std::vector<Candidate> run() {
    const Device gpu = hotspot_.from.is_gpu() ? hotspot_.from : hotspot_.to;
    for (const GroupIndex seed : replay_.groups_around(hotspot_)) {
      const Device other = replay_.groups()[static_cast<std::size_t>(seed)].device.is_cpu() ? gpu : cpu::device;
      if (!replay_.can_move(seed, other)) continue;
      for (const std::vector<GroupIndex>& start : choices(seed, other)) grow(start, other);
    }
    for (Candidate& candidate : found_) candidate.prediction = replay_.predict(candidate.outcome);
    std::erase_if(found_, [](const Candidate& candidate) { return candidate.prediction.saved <= Nanoseconds(0); });
    std::ranges::stable_sort(found_, [](const Candidate& a, const Candidate& b) {
      if (a.prediction.saved != b.prediction.saved) return a.prediction.saved > b.prediction.saved;
      return a.change.groups.size() < b.change.groups.size();
    });
    std::vector<Candidate> best;
    for (Candidate& candidate : found_) {
      const bool dominated = std::ranges::any_of(best, [&](const Candidate& known) {
        return known.change.device == candidate.change.device &&
               (std::ranges::includes(candidate.change.groups, known.change.groups) ||
                lines_of(candidate) == lines_of(known));
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

  Lines lines_of(const Candidate& candidate) const {
    Lines lines;
    for (const GroupIndex index : candidate.change.groups) {
      const Group& group = replay_.groups()[static_cast<std::size_t>(index)];
      lines.emplace(group.op, group.site);
    }
    return lines;
  }

  // What may be moved for a group: itself, or the op at its line in all scopes.
  std::vector<std::vector<GroupIndex>> choices(GroupIndex group, Device device) const {
    std::vector<GroupIndex> line = replay_.siblings(group);
    std::erase_if(line, [&](GroupIndex other) { return other != group && !replay_.can_move(other, device); });
    if (line.size() > 1) return {{group}, std::move(line)};
    return {{group}};
  }

  // Adds the neighbour that helps most, again and again: the first op of a chain often moves the copy to its other end
  // without saving anything, so that a step may be worse than the one before.
  void grow(const std::vector<GroupIndex>& start, Device device) {
    Candidate current = evaluated(with({device, {}}, start)), best = current;
    std::set<GroupIndex> border;
    std::vector<GroupIndex> last = start;
    while (lines_of(current).size() < kLongestChain) {
      for (const GroupIndex group : last) {
        for (const GroupIndex next : replay_.neighbours(group)) {
          if (replay_.can_move(next, device)) border.insert(next);
        }
      }
      for (const GroupIndex group : current.change.groups) border.erase(group);
      if (border.empty()) break;
      std::optional<Candidate> step;
      for (const GroupIndex next : border) {
        const bool single = !replay_.is_alone_at_its_line(next);
        for (const std::vector<GroupIndex>& groups :
             single ? std::vector<std::vector<GroupIndex>>{{next}} : choices(next, device)) {
          Candidate option = evaluated(with(current.change, groups));
          if (step && !option.better_than(*step)) continue;
          step = std::move(option);
          last = groups;
        }
      }
      current = std::move(*step);
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

// The groups of one op at one line, as a reader names them: "slice (main.cpp:31)"; with the module paths where only
// some of those that run there move: "conv2d in layer1.conv and layer2.conv (main.cpp:40)".
std::string line_text(const trace::Trace& trace, const Replay& replay, const std::vector<const Group*>& groups) {
  const Group& first = *groups.front();
  std::string text = trace.string(first.op);
  const auto all = std::ranges::count_if(replay.groups(), [&](const Group& other) {
    return other.movable && other.op == first.op && other.site == first.site;
  });
  if (all > static_cast<std::ptrdiff_t>(groups.size())) {
    std::string_view separator = " in ";
    for (std::size_t i = 0; i < groups.size(); ++i) {
      text += fmt::format("{}{}", separator, groups[i]->scope < 0 ? "no scope" : trace.string(groups[i]->scope));
      separator = i + 2 == groups.size() ? " and " : ", ";
    }
  }
  if (first.site < 0) return text;
  const trace::Site& site = trace.sites[static_cast<std::size_t>(first.site)];
  return fmt::format("{} ({}:{})", text, site.file.substr(site.file.find_last_of("/\\") + 1), site.line);
}

// Lines in program order, each with its groups.
std::vector<std::vector<const Group*>> by_line(const Replay& replay, const Change& change) {
  std::vector<const Group*> groups;
  for (const GroupIndex index : change.groups) groups.push_back(&replay.groups()[static_cast<std::size_t>(index)]);
  std::ranges::sort(groups, {}, [](const Group* group) { return group->ops.front(); });
  std::vector<std::vector<const Group*>> lines;
  for (const Group* group : groups) {
    const auto same = std::ranges::find_if(lines, [&](const std::vector<const Group*>& line) {
      return line.front()->op == group->op && line.front()->site == group->site;
    });
    if (same == lines.end()) {
      lines.push_back({group});
    } else {
      same->push_back(group);
    }
  }
  return lines;
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
  const std::vector<std::vector<const Group*>> lines = by_line(replay, candidate.change);
  const Outcome& outcome = candidate.outcome;
  const Prediction& prediction = candidate.prediction;
  trace::Advice advice{.device = candidate.change.device,
                       .copies_removed = calls_of(outcome.removed),
                       .copies_added = calls_of(outcome.added),
                       .blocked_saved = prediction.saved + prediction.host_added,
                       .compute_added = prediction.host_added};
  std::string what;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    advice.sites.push_back(lines[i].front()->site);
    advice.ops.push_back(lines[i].front()->op);
    what += (i == 0 ? "" : i + 1 == lines.size() ? " and " : ", ") + line_text(trace, replay, lines[i]);
  }
  advice.text = fmt::format("put {} into {}: removes {}, adds {}, saves {} of the total time", what,
                            scope_text(advice.device), copies_text(trace, outcome.removed),
                            copies_text(trace, outcome.added), milliseconds(prediction.saved));
  if (prediction.host_added > Nanoseconds(0)) {
    advice.text +=
        fmt::format(": {} less copying and waiting, {} more computation on the {}", milliseconds(advice.blocked_saved),
                    milliseconds(advice.compute_added), advice.device.is_cpu() ? "CPU" : "host");
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
