#include "swap/packing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "swap/planner.h"
#include "swap/residency.h"
#include "tests/swap/cases.h"

namespace ferry::swap {
namespace {

constexpr Link kLink{.out_bytes_per_second = 2e9, .in_bytes_per_second = 3e9, .latency = Nanoseconds(20)};

constexpr std::int32_t kPeriod = 1000;

bool lives(const TimedBlock& block, std::int32_t time) {
  if (block.end <= block.begin) return time >= block.begin || time < block.end;
  return block.begin <= time && time < block.end;
}

// At any time.
bool meet(const TimedBlock& a, const TimedBlock& b) {
  for (std::int32_t time = 0; time < kPeriod; ++time)
    if (lives(a, time) && lives(b, time)) return true;
  return false;
}

// What is wrong; empty when nothing is. Looks at all pairs.
std::string fault(std::span<const TimedBlock> blocks, const Packing& packing, Bytes capacity) {
  Bytes left_out{};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const TimedBlock& a = blocks[i];
    const Offset at = packing.offsets[i];
    if (a.offset != kNowhere && at != a.offset) return fmt::format("block {} was given and moved", i);
    if (at == kNowhere) left_out += a.size;
    if (at == kNowhere || a.offset != kNowhere) continue;
    if (at < 0 || at + a.size.count > capacity.count) return fmt::format("block {} lies outside", i);
    for (std::size_t j = 0; j < blocks.size(); ++j) {
      const TimedBlock& b = blocks[j];
      if (j == i || packing.offsets[j] == kNowhere || !meet(a, b)) continue;
      if (at < packing.offsets[j] + b.size.count && packing.offsets[j] < at + a.size.count)
        return fmt::format("blocks {} and {} overlap", i, j);
    }
  }
  return left_out == packing.left_out ? "" : "left_out differs from a recount";
}

TEST(Packing, BlocksNeverOverlap) {
  std::mt19937_64 random(5);
  int incomplete = 0, complete = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<TimedBlock> blocks;
    const int count = 1 + static_cast<int>(random() % 60);
    Offset given = 0;
    for (int i = 0; i < count; ++i) {
      const auto begin = static_cast<std::int32_t>(random() % 100);
      TimedBlock block{.size = Bytes{512 * (1 + static_cast<std::int64_t>(random() % 64))},
                       .begin = begin,
                       .end = begin + 1 + static_cast<std::int32_t>(random() % 60)};
      if (random() % 5 == 0) block.end = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(begin + 1));
      if (random() % 8 == 0) {
        block.offset = given;
        given += block.size.count + 512 * static_cast<std::int64_t>(random() % 3);
      }
      blocks.push_back(block);
    }
    const PackingOptions options{.capacity = Bytes{given + 512 * static_cast<std::int64_t>(random() % 700)},
                                 .period = kPeriod,
                                 .trials = 1 + static_cast<int>(random() % 10),
                                 .seed = random()};
    const Packing packing = pack(blocks, options);
    ASSERT_EQ(fault(blocks, packing, options.capacity), "") << "round " << round;
    EXPECT_EQ(pack(blocks, options).offsets, packing.offsets);
    ++(packing.left_out.count > 0 ? incomplete : complete);
  }
  EXPECT_GT(incomplete, 20);
  EXPECT_GT(complete, 20);
}

// Cuts a rectangle of addresses and time into blocks, which can be packed without a gap.
void cut(std::vector<TimedBlock>& blocks, std::mt19937_64& random, std::int64_t size, std::int32_t begin,
         std::int32_t end, int depth) {
  const bool in_time = random() % 2 == 0;
  if (depth == 0 || (in_time ? end - begin < 2 : size < 2)) {
    blocks.push_back({.size = Bytes{size * 512}, .begin = begin, .end = end});
  } else if (in_time) {
    const auto middle = begin + 1 + static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(end - begin - 1));
    cut(blocks, random, size, begin, middle, depth - 1);
    cut(blocks, random, size, middle, end, depth - 1);
  } else {
    const auto low = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(size - 1));
    cut(blocks, random, low, begin, end, depth - 1);
    cut(blocks, random, size - low, begin, end, depth - 1);
  }
}

TEST(Packing, WastesLittleOfWhatCanBePackedWithoutAGap) {
  std::mt19937_64 random(9);
  int without_a_gap = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<TimedBlock> blocks;
    cut(blocks, random, 1000, 0, kPeriod, 6);
    std::ranges::shuffle(blocks, random);
    const Packing packing = pack(blocks, {.capacity = Bytes{512 * 1100}, .period = kPeriod});
    EXPECT_EQ(fault(blocks, packing, Bytes{512 * 1100}), "");
    EXPECT_EQ(packing.left_out, Bytes{}) << blocks.size() << " blocks, 10 % more than they need";
    without_a_gap += pack(blocks, {.capacity = Bytes{512 * 1000}, .period = kPeriod}).left_out == Bytes{};
  }
  EXPECT_GE(without_a_gap, 6);
}

// Residencies of planned programs: what is there at a time is what the program counts.
TEST(Residencies, AreWhatAProgramCounts) {
  int checked = 0, exact = 0;
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const Iteration iteration = seed % 4 == 0
                                    ? testing::chain(static_cast<int>(seed), kMiB, std::chrono::milliseconds(1))
                                    : testing::random_program(seed, 60);
    const Bytes budget{unconstrained(iteration).peak.count * 7 / 10};
    const PlanResult result = make_plan(
        iteration, {.budget = budget, .methods = Methods::both, .link = kLink, .trials = 40, .find_smallest = false});
    if (!result.plan) continue;
    ++checked;
    const Program& program = result.plan->program;
    const auto found = residencies(iteration, program, result.plan->cost.peak, kLink);
    ASSERT_TRUE(found) << "the peak is budget enough";
    ASSERT_EQ(found->first.size(), program.size() + 1);
    std::vector<std::int64_t> changes(2 * found->all.size() + 2);
    for (const Residency& it : found->all) {
      const std::int64_t size = iteration.storages[static_cast<std::size_t>(it.storage)].size.count;
      ASSERT_LT(it.begin, it.end);
      changes[static_cast<std::size_t>(it.begin)] += size;
      if (it.end != Residency::kOpen) changes[static_cast<std::size_t>(it.end)] -= size;
    }
    std::int64_t now = 0, most = 0;
    for (const std::int64_t change : changes) most = std::max(most, now += change);
    // Pinned storages that are released count for the program to its end.
    const bool releases_pinned = std::ranges::any_of(iteration.events, [&](const Event& event) {
      return event.kind == Event::Kind::release && iteration.storages[static_cast<std::size_t>(event.index)].pinned;
    });
    EXPECT_LE(most, result.plan->cost.peak.count);
    if (!releases_pinned) {
      EXPECT_EQ(most, result.plan->cost.peak.count);
    }
    exact += !releases_pinned;
    // What is kept is there at the end, once.
    for (const TensorIndex kept : iteration.kept) {
      const StorageIndex storage = iteration.tensors[static_cast<std::size_t>(kept)].storage;
      EXPECT_EQ(
          std::ranges::count_if(
              found->all, [&](const Residency& it) { return it.storage == storage && it.end == Residency::kOpen; }),
          1);
    }
    for (std::size_t step = 0; step < program.size(); ++step) {
      const std::int32_t begun = found->first[step + 1] - found->first[step];
      const Step::Kind kind = program[step].kind;
      if (kind == Step::Kind::create) {
        EXPECT_EQ(begun, 1);
      } else if (kind == Step::Kind::bring_in) {
        EXPECT_LE(begun, 1);
      } else if (kind == Step::Kind::drop || kind == Step::Kind::leave) {
        EXPECT_EQ(begun, 0);
      }
    }
  }
  EXPECT_GT(checked, 20);
  EXPECT_GT(exact, 3);
  const Iteration chain = testing::chain(4, kMiB, std::chrono::milliseconds(1));
  EXPECT_FALSE(residencies(chain, {}, kGiB, {})) << "a program that lacks ops";
}

}  // namespace
}  // namespace ferry::swap
