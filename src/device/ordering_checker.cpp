#include "src/device/ordering_checker.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>

#include "src/base/check.h"

namespace ferry {
namespace {

using Address = std::uintptr_t;

constexpr int kHost = 0;  // its actor number

// How much of each stream's work an actor knows to have passed, by actor number.
class VectorClock {
 public:
  std::uint64_t operator[](int actor) const {
    const auto index = static_cast<std::size_t>(actor);
    return index < epochs_.size() ? epochs_[index] : 0;
  }
  std::uint64_t tick(int actor) {
    const auto index = static_cast<std::size_t>(actor);
    if (index >= epochs_.size()) epochs_.resize(index + 1);
    return ++epochs_[index];
  }
  void merge(const VectorClock& other) {
    if (other.epochs_.size() > epochs_.size()) epochs_.resize(other.epochs_.size());
    for (std::size_t i = 0; i < other.epochs_.size(); ++i) epochs_[i] = std::max(epochs_[i], other.epochs_[i]);
  }

 private:
  std::vector<std::uint64_t> epochs_;
};

struct Access {
  int actor = -1;  // -1: none
  std::uint64_t epoch = 0;
  const std::string* label = nullptr;

  bool before(const VectorClock& clock) const { return actor < 0 || clock[actor] >= epoch; }
};

struct Range {
  Address end = 0;
  bool freed = false;
  Access write;
  std::vector<Access> reads;  // since the write, the last of each actor
};

struct Actor {
  std::string name;
  VectorClock clock;
};

struct DriverState {
  std::string name;
  std::vector<int> actors;  // by stream
  std::unordered_map<std::int32_t, VectorClock> events;
};

struct LabelHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view label) const { return std::hash<std::string_view>{}(label); }
};

// Disjoint ranges by address. Those never accessed by a stream and never freed are left out.
class RangeMap {
 public:
  using Map = std::map<Address, Range>;

  Map::iterator begin_of(Address begin) {
    auto range = ranges_.upper_bound(begin);
    if (range != ranges_.begin() && std::prev(range)->second.end > begin) --range;
    return range;
  }
  Map::iterator end() { return ranges_.end(); }

  // Calls visit(range) for exactly the ranges of [begin, end), cut out of their neighbours and made where missing.
  template <class Visit>
  void update(Address begin, Address end, Visit visit) {
    auto range = cut(begin, end);
    for (Address at = begin; at < end;) {
      if (range == ranges_.end() || range->first > at) {
        const Address gap_end = range == ranges_.end() ? end : std::min(end, range->first);
        range = ranges_.emplace_hint(range, at, Range{.end = gap_end, .freed = false, .write = {}, .reads = {}});
      }
      visit(range->second);
      at = range->second.end;
      ++range;
    }
  }

  // Makes [begin, end) one range.
  void replace(Address begin, Address end, bool freed, Access write) {
    auto range = cut(begin, end);
    if (range == ranges_.end() || range->first != begin) range = ranges_.emplace_hint(range, begin, Range{});
    Range& whole = range->second;
    whole.end = end;
    whole.freed = freed;
    whole.write = write;
    whole.reads.clear();
    for (auto next = std::next(range); next != ranges_.end() && next->first < end;) next = ranges_.erase(next);
  }

  void erase(Address begin, Address end) {
    for (auto range = cut(begin, end); range != ranges_.end() && range->first < end;) range = ranges_.erase(range);
  }

 private:
  // Splits the ranges that cross begin or end; returns the first at or after begin.
  Map::iterator cut(Address begin, Address end) {
    auto range = begin_of(begin);
    if (range != ranges_.end() && range->first < begin) range = split(range, begin);
    for (auto last = range; last != ranges_.end() && last->first < end; ++last) {
      if (last->second.end > end) split(last, end);
    }
    return range;
  }
  Map::iterator split(Map::iterator range, Address at) {
    Range upper = range->second;
    range->second.end = at;
    return ranges_.emplace_hint(std::next(range), at, std::move(upper));
  }

  Map ranges_;
};

Address begin_of(const void* pointer) { return reinterpret_cast<Address>(pointer); }

}  // namespace

struct OrderingChecker::State {
  std::mutex mutex;
  std::vector<Actor> actors{{"the host", {}}};
  std::vector<DriverState> drivers;
  RangeMap ranges;
  std::unordered_set<std::string, LabelHash, std::equal_to<>> labels;  // nodes never move

  int actor_of(int driver, StreamId stream) const {
    return drivers[static_cast<std::size_t>(driver)].actors[static_cast<std::size_t>(stream.value)];
  }
  VectorClock& clock_of(int actor) { return actors[static_cast<std::size_t>(actor)].clock; }
  VectorClock& host() { return clock_of(kHost); }
  const std::string& name_of(int actor) const { return actors[static_cast<std::size_t>(actor)].name; }
  VectorClock& event(int driver, EventId event) {
    return drivers[static_cast<std::size_t>(driver)].events[event.value];
  }
  const std::string* intern(std::string_view label) {
    const auto found = labels.find(label);
    return found != labels.end() ? &*found : &*labels.emplace(label).first;
  }

  void check(int actor, std::string_view label, const MemoryAccess& access);
  void record(const Access& by, const MemoryAccess& access);
  std::string missing_edge(const Access& first, int second, std::string_view second_label) const;
  [[noreturn]] void fail_conflict(const Access& first, bool first_wrote, int actor, std::string_view label,
                                  const MemoryAccess& access) const;
};

OrderingChecker::OrderingChecker() : state_(std::make_unique<State>()) {}
OrderingChecker::~OrderingChecker() = default;

int OrderingChecker::add_driver(std::string name) {
  const std::lock_guard lock(state_->mutex);
  state_->drivers.push_back({std::move(name), {}, {}});
  return static_cast<int>(state_->drivers.size()) - 1;
}

void OrderingChecker::add_stream(int driver, StreamId stream, std::string name) {
  const std::lock_guard lock(state_->mutex);
  DriverState& state = state_->drivers[static_cast<std::size_t>(driver)];
  const auto index = static_cast<std::size_t>(stream.value);
  if (index >= state.actors.size()) state.actors.resize(index + 1);
  state.actors[index] = static_cast<int>(state_->actors.size());
  state_->actors.push_back({state.name + "/" + name, {}});
}

void OrderingChecker::enqueued(int driver, StreamId stream, std::string_view label,
                               std::span<const MemoryAccess> accesses) {
  const std::lock_guard lock(state_->mutex);
  const int actor = state_->actor_of(driver, stream);
  VectorClock& clock = state_->clock_of(actor);
  clock.merge(state_->host());
  const Access by{actor, clock.tick(actor), state_->intern(label)};
  for (const MemoryAccess& access : accesses) state_->check(actor, label, access);
  for (const MemoryAccess& access : accesses) state_->record(by, access);
}

void OrderingChecker::host_access(std::string_view label, std::span<const MemoryAccess> accesses) {
  const std::lock_guard lock(state_->mutex);
  // Nothing to record: whatever is enqueued later comes after it, and host threads are ordered among themselves.
  for (const MemoryAccess& access : accesses) state_->check(kHost, label, access);
}

void OrderingChecker::event_recorded(int driver, EventId event, StreamId stream) {
  const std::lock_guard lock(state_->mutex);
  VectorClock& clock = state_->clock_of(state_->actor_of(driver, stream));
  clock.merge(state_->host());
  state_->event(driver, event) = clock;
}

void OrderingChecker::event_waited(int driver, StreamId stream, EventId event) {
  const std::lock_guard lock(state_->mutex);
  state_->clock_of(state_->actor_of(driver, stream)).merge(state_->event(driver, event));
}

void OrderingChecker::host_waited_event(int driver, EventId event) {
  const std::lock_guard lock(state_->mutex);
  state_->host().merge(state_->event(driver, event));
}

void OrderingChecker::host_waited_stream(int driver, StreamId stream) {
  const std::lock_guard lock(state_->mutex);
  state_->host().merge(state_->clock_of(state_->actor_of(driver, stream)));
}

void OrderingChecker::host_waited_driver(int driver) {
  const std::lock_guard lock(state_->mutex);
  for (const int actor : state_->drivers[static_cast<std::size_t>(driver)].actors) {
    state_->host().merge(state_->clock_of(actor));
  }
}

void OrderingChecker::allocated(int driver, const void* pointer, std::int64_t size, StreamId stream) {
  if (size <= 0) return;
  const std::lock_guard lock(state_->mutex);
  const Address begin = begin_of(pointer), end = begin + static_cast<Address>(size);
  const int owner = stream.value < 0 ? kHost : state_->actor_of(driver, stream);
  const VectorClock& host = state_->host();
  const VectorClock& known = state_->clock_of(owner);  // and all that the host knows

  // Work of the owner's stream that the host has not seen the end of still orders other streams' use of the range.
  std::optional<Access> last;
  const auto consider = [&](const Access& access, bool wrote) {
    if (access.before(host)) return;
    if (!access.before(known)) {
      state_->fail_conflict(access, wrote, owner, "its next owner", {pointer, size, true});
    }
    last = access;
  };
  for (auto range = state_->ranges.begin_of(begin); range != state_->ranges.end() && range->first < end; ++range) {
    consider(range->second.write, true);
    for (const Access& read : range->second.reads) consider(read, false);
  }
  const Access write = last ? Access{owner, known[owner], last->label} : Access{};
  state_->ranges.replace(begin, end, false, write);
}

void OrderingChecker::freed(int /*driver*/, const void* pointer, std::int64_t size) {
  if (size <= 0) return;
  const std::lock_guard lock(state_->mutex);
  const Address begin = begin_of(pointer);
  state_->ranges.update(begin, begin + static_cast<Address>(size), [](Range& range) { range.freed = true; });
}

void OrderingChecker::forgotten(const void* pointer, std::int64_t size) {
  if (size <= 0) return;
  const std::lock_guard lock(state_->mutex);
  const Address begin = begin_of(pointer);
  state_->ranges.erase(begin, begin + static_cast<Address>(size));
}

void OrderingChecker::State::check(int actor, std::string_view label, const MemoryAccess& access) {
  if (access.size <= 0) return;
  const VectorClock& clock = clock_of(actor);
  const Address begin = begin_of(access.pointer), end = begin + static_cast<Address>(access.size);
  for (auto entry = ranges.begin_of(begin); entry != ranges.end() && entry->first < end; ++entry) {
    const Range& range = entry->second;
    if (range.freed) {
      throw OrderingError(
          fmt::format("use after free: '{}' on {} {} [{}, {} bytes), which was freed at {} bytes into "
                      "it; keep the memory until the work has been enqueued",
                      label, name_of(actor), access.write ? "writes" : "reads", access.pointer, access.size,
                      std::max(entry->first, begin) - begin));
    }
    if (!range.write.before(clock)) fail_conflict(range.write, true, actor, label, access);
    if (!access.write) continue;
    for (const Access& read : range.reads) {
      if (!read.before(clock)) fail_conflict(read, false, actor, label, access);
    }
  }
}

void OrderingChecker::State::record(const Access& by, const MemoryAccess& access) {
  if (access.size <= 0) return;
  const Address begin = begin_of(access.pointer), end = begin + static_cast<Address>(access.size);
  if (access.write) {
    ranges.replace(begin, end, false, by);
    return;
  }
  ranges.update(begin, end, [&](Range& range) {
    const auto mine = std::find_if(range.reads.begin(), range.reads.end(),
                                   [&](const Access& read) { return read.actor == by.actor; });
    if (mine == range.reads.end()) {
      range.reads.push_back(by);
    } else {
      *mine = by;
    }
  });
}

std::string OrderingChecker::State::missing_edge(const Access& first, int second, std::string_view second_label) const {
  if (second == kHost) {
    return fmt::format("let the host wait for {} after '{}' before '{}'", name_of(first.actor), *first.label,
                       second_label);
  }
  return fmt::format("record an event on {} after '{}' and let {} wait for it before '{}'", name_of(first.actor),
                     *first.label, name_of(second), second_label);
}

void OrderingChecker::State::fail_conflict(const Access& first, bool first_wrote, int actor, std::string_view label,
                                           const MemoryAccess& access) const {
  throw OrderingError(
      fmt::format("unordered access: '{}' on {} {} [{}, {} bytes), which '{}' on {} {}, and nothing says which comes "
                  "first; missing "
                  "edge: {}",
                  label, name_of(actor), access.write ? "writes" : "reads", access.pointer, access.size, *first.label,
                  name_of(first.actor), first_wrote ? "writes" : "reads", missing_edge(first, actor, label)));
}

MemoryAccess access_of(const TensorView& view, bool write) {
  if (!view.given || view.data == nullptr) return {nullptr, 0, write};
  std::int64_t first = 0, last = 0;  // elements from view.data
  for (int axis = 0; axis < view.shape.rank(); ++axis) {
    const std::int64_t extent = view.shape[axis];
    if (extent == 0) return {nullptr, 0, write};
    const std::int64_t reach = (extent - 1) * view.strides[axis];
    (reach < 0 ? first : last) += reach;
  }
  const std::int64_t element = size_of(view.dtype);
  return {view.as<std::byte>() + first * element, (last - first + 1) * element, write};
}

}  // namespace ferry
