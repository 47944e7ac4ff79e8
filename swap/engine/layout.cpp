#include "swap/engine/layout.h"

#include <algorithm>
#include <utility>

#include "src/memory/caching_allocator.h"

namespace ferry::swap {
namespace {

using Recorded = IterationRecorder::Recorded;

constexpr Bytes kSmallSegment = kMiB * 2;
// Of the small pool, for sizes that do not fit one another's holes.
constexpr double kSmallSpare = 0.1;

std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

bool is_large(Bytes size) { return size.count > 0 && CachingAllocator::extent_of(size).is_large; }

// The most that the small residencies of a program hold at a time.
Bytes most_small(const Residencies& residencies, const Iteration& iteration) {
  std::vector<Bytes> changes(2 * residencies.all.size() + 1);
  for (const Residency& it : residencies.all) {
    const Bytes size = iteration.storages[index(it.storage)].size;
    if (is_large(size)) continue;
    const Bytes taken = CachingAllocator::extent_of(size).size;
    changes[index(it.begin)] += taken;
    if (it.end != Residency::kOpen) changes[index(it.end)] -= taken;
  }
  Bytes now{}, most{};
  for (const Bytes change : changes) most = std::max(most, now += change);
  return most;
}

}  // namespace

double Layout::reserve_for(const Iteration& iteration, Bytes budget, double usual) {
  Bytes small{}, all{};
  for (const Storage& storage : iteration.storages) {
    all += storage.size;
    if (!is_large(storage.size)) small += storage.size;
  }
  if (small == all) return usual;
  const double share = static_cast<double>(small.count) / static_cast<double>(all.count);
  const double spare = static_cast<double>(kSmallSegment.count) / static_cast<double>(budget.count);
  return std::min(usual, usual * share + spare);
}

Bytes Layout::unfilled(const Iteration& iteration) {
  const bool has_small = std::ranges::any_of(
      iteration.storages, [](const Storage& storage) { return storage.size.count > 0 && !is_large(storage.size); });
  return has_small ? kSmallSegment * 2 : Bytes{};
}

// The arena and the plan's blocks while addresses are looked for.
struct Layout::Survey {
  const Recorded& recorded;
  CachingAllocator::Arena arena;
  std::int32_t period;
  std::vector<TimedBlock> blocks{};       // of large residencies, then what stays where it is
  std::vector<std::int32_t> block_of{};   // by residency; kNone: it is small, or nothing is known of it
  std::vector<std::int32_t> home_of{};    // by storage: the block that it has when an iteration begins; kNone
  std::vector<std::int32_t> departing{};  // residencies of what is there at first and does not live on
  std::vector<std::int32_t> made{};       // last residencies of what is made and lives on

  Bytes size_of(const Residency& it) const { return recorded.iteration.storages[index(it.storage)].size; }
  Offset offset_of(const void* address) const {
    return static_cast<const std::byte*>(address) - static_cast<const std::byte*>(arena.data);
  }
  std::int32_t add(TimedBlock block) {
    blocks.push_back(block);
    return static_cast<std::int32_t>(blocks.size()) - 1;
  }
};

void Layout::clear() {
  residencies_ = {};
  addresses_.clear();
  homes_.clear();
}

Layout::Range Layout::begun_by(std::size_t step) const {
  if (step + 1 >= residencies_.first.size()) return {};
  return {index(residencies_.first[step]), index(residencies_.first[step + 1])};
}

void* Layout::home(StorageIndex storage) const {
  return index(storage) < homes_.size() ? homes_[index(storage)] : nullptr;
}

// A block for each large residency. What is there and lives on has the same one at the beginning and at the end.
void Layout::survey_residencies(Survey& survey, std::span<Value* const> values) const {
  const Recorded& recorded = survey.recorded;
  survey.block_of.assign(residencies_.all.size(), kNone);
  survey.home_of.assign(recorded.iteration.storages.size(), kNone);
  std::vector<bool> began(recorded.iteration.storages.size());
  for (std::size_t r = 0; r < residencies_.all.size(); ++r) {
    const Residency& it = residencies_.all[r];
    const auto s = index(it.storage);
    if (it.storage == recorded.others || !is_large(survey.size_of(it))) continue;
    const bool is_first = it.storage < recorded.present && !began[s], is_last = it.end == Residency::kOpen;
    began[s] = true;
    const TimedBlock block{.size = CachingAllocator::extent_of(survey.size_of(it)).size,
                           .begin = is_first ? 0 : it.begin,
                           .end = is_last ? survey.period : it.end};
    const bool returns = is_last && !is_first && survey.home_of[s] != kNone;
    if (returns) {
      survey.block_of[r] = survey.home_of[s];
      survey.blocks[index(survey.home_of[s])].begin = it.begin;
      continue;
    }
    survey.block_of[r] = survey.add(block);
    if (is_first && values[s] != nullptr) survey.home_of[s] = survey.block_of[r];
    if (is_first && values[s] == nullptr) survey.departing.push_back(static_cast<std::int32_t>(r));
    if (is_last && !is_first && values[s] != nullptr) survey.made.push_back(static_cast<std::int32_t>(r));
  }
}

// What was made is what the next iteration finds and gives up, and so has its block; which of equal ones does not
// matter. Where it is made before that one is given up, it has to move when the iteration is over.
void Layout::pair_made_with_departing(Survey& survey) const {
  for (const bool shares : {true, false}) {
    for (std::int32_t& made : survey.made) {
      if (made == kNone) continue;
      const std::int32_t of_made = survey.block_of[index(made)];
      TimedBlock& block = survey.blocks[index(of_made)];
      const auto found = std::ranges::find_if(survey.departing, [&](std::int32_t r) {
        const TimedBlock& before = survey.blocks[index(survey.block_of[index(r)])];
        return before.size == block.size && (!shares || before.end <= block.begin);
      });
      if (found == survey.departing.end()) continue;
      std::int32_t& of_departing = survey.block_of[index(*found)];
      if (shares) {
        block.end = survey.blocks[index(of_departing)].end;
        survey.blocks[index(of_departing)].size = {};
        of_departing = of_made;
      }
      survey.home_of[index(storage_of(index(made)))] = of_departing;
      survey.departing.erase(found);
      made = kNone;
    }
  }
}

// What of the arena will not move. Blocks that were joined with another are left out.
void Layout::survey_obstacles(Survey& survey, std::span<Value* const> values) const {
  std::vector<const void*> known;
  for (std::size_t s = 0; s < survey.home_of.size(); ++s)
    if (survey.home_of[s] != kNone && values[s] != nullptr) known.push_back(room_.address(*values[s]));
  std::ranges::sort(known);
  for (const auto& taken : survey.arena.taken) {
    if (std::ranges::binary_search(known, static_cast<const void*>(taken.address))) continue;
    survey.add({.size = taken.size, .begin = 0, .end = survey.period, .offset = survey.offset_of(taken.address)});
  }
}

// The small pool cuts segments from the highest free address.
Bytes Layout::capacity_for_large(const Survey& survey) const {
  const Bytes most = most_small(residencies_, survey.recorded.iteration);
  Bytes present{}, top = survey.arena.size;
  for (auto taken = survey.arena.taken.rbegin(); taken != survey.arena.taken.rend() && taken->is_small_pool; ++taken) {
    if (survey.offset_of(taken->address) + taken->size.count != top.count) break;
    top -= taken->size;
  }
  for (const auto& taken : survey.arena.taken)
    if (taken.is_small_pool) present += taken.size;
  const auto spare = static_cast<std::int64_t>(static_cast<double>(most.count) * kSmallSpare);
  const Bytes wanted = most == Bytes{} ? Bytes{} : most + Bytes{spare} + kSmallSegment;
  return std::max(Bytes{}, top - std::max(Bytes{}, wanted - present));
}

Bytes Layout::arrange(const Recorded& recorded, const Plan& plan, std::span<Value* const> values) {
  clear();
  // Less than the budget, for what leaves keeps its memory as long as that fits.
  auto found = residencies(recorded.iteration, plan.program, plan.cost.peak, plan.link);
  if (!found) found = residencies(recorded.iteration, plan.program, plan.budget, plan.link);
  if (!found) return {};
  residencies_ = std::move(*found);
  addresses_.assign(residencies_.all.size(), nullptr);
  homes_.assign(recorded.iteration.storages.size(), nullptr);
  if (std::ranges::none_of(recorded.iteration.storages, is_large, &Storage::size)) return {};
  room_.let_leave();
  room_.raise_small();
  Survey survey{.recorded = recorded,
                .arena = mechanism_.arena(),
                .period = static_cast<std::int32_t>(2 * residencies_.all.size() + 1)};
  if (survey.arena.data == nullptr) return {};
  survey_residencies(survey, values);
  pair_made_with_departing(survey);
  survey_obstacles(survey, values);
  const Packing packing = pack(survey.blocks, {.capacity = capacity_for_large(survey), .period = survey.period});
  const auto address_of = [&](std::int32_t block) -> void* {
    const Offset offset = block == kNone ? kNowhere : packing.offsets[index(block)];
    return offset == kNowhere ? nullptr : static_cast<std::byte*>(survey.arena.data) + offset;
  };
  for (std::size_t r = 0; r < addresses_.size(); ++r) addresses_[r] = address_of(survey.block_of[r]);
  for (std::size_t s = 0; s < homes_.size(); ++s) homes_[s] = address_of(survey.home_of[s]);
  return packing.left_out;
}

// To a place that is free and nobody's home.
bool Layout::move_aside(Value& value, std::span<Value* const> values) {
  const CachingAllocator::Arena arena = mechanism_.arena();
  std::vector<std::pair<std::byte*, Bytes>> unfit;
  for (const auto& taken : arena.taken) unfit.emplace_back(static_cast<std::byte*>(taken.address), taken.size);
  for (std::size_t s = 0; s < homes_.size(); ++s)
    if (homes_[s] != nullptr && values[s] != nullptr)
      unfit.emplace_back(static_cast<std::byte*>(homes_[s]), CachingAllocator::extent_of(values[s]->size).size);
  auto* const end = static_cast<std::byte*>(arena.data) + arena.size.count;
  unfit.emplace_back(end, Bytes{});
  std::ranges::sort(unfit);
  auto* free_from = static_cast<std::byte*>(arena.data);
  for (const auto& [address, size] : unfit) {
    if (address - free_from >= CachingAllocator::extent_of(value.size).size.count) return room_.move(value, free_from);
    free_from = std::max(free_from, address + size.count);
  }
  return false;
}

bool Layout::settle(std::span<Value* const> values) {
  std::vector<StorageIndex> away, in_place_of_others;
  for (std::size_t s = 0; s < homes_.size(); ++s) {
    void* const address = values[s] == nullptr ? nullptr : room_.address(*values[s]);
    if (address == nullptr || address == homes_[s] || !is_large(values[s]->size)) continue;
    in_place_of_others.push_back(static_cast<StorageIndex>(s));
    if (homes_[s] != nullptr) away.push_back(static_cast<StorageIndex>(s));
  }
  // What lies in the way of others moves aside first, each once.
  while (!away.empty()) {
    const auto moved =
        std::erase_if(away, [&](StorageIndex s) { return room_.move(*values[index(s)], homes_[index(s)]); });
    bool is_aside = false;
    while (moved == 0 && !is_aside) {
      if (in_place_of_others.empty()) return false;
      const StorageIndex s = in_place_of_others.back();
      in_place_of_others.pop_back();
      const bool is_at_home = room_.address(*values[index(s)]) == homes_[index(s)];
      is_aside = !is_at_home && move_aside(*values[index(s)], values);
    }
  }
  return true;
}

}  // namespace ferry::swap
