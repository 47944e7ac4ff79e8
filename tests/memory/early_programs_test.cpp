// Random programs whose copies get early memory, on a driver that judges the order of streams and whose calls fail.
#include <gtest/gtest.h>

#include "tests/memory/allocator_program.h"
#include "tests/memory/budget_fixture.h"

namespace ferry {
namespace {

using testing::AllocatorProgram;
using testing::FakeDriver;

class EarlyPrograms : public testing::BudgetFixture {
 protected:
  // Every second one a whole number of MiB from its begin, so that places are wished again.
  static void* any_address(AllocatorProgram& program, const CachingAllocator::Arena& arena) {
    const auto units = static_cast<std::uint32_t>(arena.size.count / memory::kBlockUnit.count);
    const std::uint32_t unit = program.draw(units);
    return static_cast<std::byte*>(arena.data) + 512 * (program.draw(2) == 0 ? unit : unit / 2048 * 2048);
  }
  static Bytes any_large(AllocatorProgram& program) { return kKiB * (1025 + program.draw(5000)); }
  StreamId any_copy_stream(AllocatorProgram& program) const { return streams_[1 + program.draw(2)]; }

  // Memory for a copy. Counts where it lies and whether the copy need not wait for all work of the compute stream.
  void copy_in(AllocatorProgram& program, const CachingAllocator::Arena& arena) {
    const StreamId stream = any_copy_stream(program);
    const Bytes size = program.draw(4) == 0 ? Bytes{1 + program.draw(1 << 20)} : any_large(program);
    void* const wish = program.draw(4) > 0 ? any_address(program, arena) : nullptr;
    const FakeDriver::Work latest = fake_->enqueue(compute_);
    const std::size_t before = program.live().size();
    const bool is_there = program.allocate_early(wish, size, stream);
    if (program.live().size() == before) return;
    (is_there ? wished_ : elsewhere_) += wish != nullptr;
    early_ += !fake_->ordered(latest, stream);
  }
  void step(AllocatorProgram& program, const CachingAllocator::Arena& arena) {
    const std::uint32_t choice = program.draw(12);
    for (auto live = program.live().size(); live > 9; live = program.live().size())
      program.free_at(program.live()[program.draw(static_cast<std::uint32_t>(live))].data);
    if (choice < 4) {
      copy_in(program, arena);
    } else if (choice == 4) {
      moved_ += program.raise_small_segments();
    } else if (choice == 5) {
      const Bytes size = kKiB * (1 + program.draw(9000));
      moved_ += program.compact(size, program.draw(2) == 0);
    } else if (choice == 6 && !program.live().empty()) {
      const Allocation& chosen = program.live()[program.draw(static_cast<std::uint32_t>(program.live().size()))];
      program.end_use(chosen, any_copy_stream(program));
    } else {
      program.step(kMiB * 6);
    }
  }
  void allocate_at(AllocatorProgram& program, const CachingAllocator::Arena& arena) {
    void* const wish = any_address(program, arena);
    const Bytes size = any_large(program);
    program.allocate_at(wish, size, streams_[program.draw(3)]);
  }
  // Whether it failed, after some copies.
  bool fail_to_compact(CachingAllocator& allocator, AllocatorProgram& program) {
    const int before = program.device_errors;
    faults_->fail(DriverCall::copy, 1 + program.draw(4));
    program.compact(allocator.stats().largest_free + kKiB * (1 + program.draw(4000)), true);
    faults_->clear();
    return program.device_errors > before;
  }

  const std::vector<StreamId> streams_{compute_, copies_, third_};
  int wished_ = 0, elsewhere_ = 0, early_ = 0;
  Bytes moved_;
};

TEST_F(EarlyPrograms, WaitForAllThatUsedTheirAddresses) {
  int failed_moves = 0;
  for (unsigned seed = 0; seed < 16; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    CachingAllocator allocator(driver_);
    AllocatorProgram program(allocator, *fake_, streams_, seed);
    // Some have segments from before, with blocks that live.
    for (unsigned i = 0; i < seed % 4 * 10; ++i) program.step(kMiB * 6);
    allocator.empty_cache();
    allocator.begin_budget(allocator.stats().reserved + kMiB * 40);
    const CachingAllocator::Arena arena = allocator.arena();
    const std::int64_t calls = forbidden_calls();
    for (int i = 0; i < 700; ++i) {
      if (i % 5 == 0) allocate_at(program, arena);
      if (i % 10 == 0) failed_moves += fail_to_compact(allocator, program);
      step(program, arena);
      ASSERT_EQ(program.fault(), "") << "step " << i;
    }
    EXPECT_EQ(forbidden_calls(), calls) << "an allocation, or a wait of the host";
    program.free_all();
    allocator.empty_cache();
    program.allocate(arena.size, compute_);
    EXPECT_EQ(program.fault(), "");
    program.free_all();
  }
  EXPECT_EQ(fake_->noted, 0);
  EXPECT_GT(wished_, 50);
  EXPECT_GT(elsewhere_, 500);
  EXPECT_GT(early_, 500);
  EXPECT_GT(moved_, kMiB * 100);
  EXPECT_GT(failed_moves, 50);
}

// Each driver call of a program fails once, or all from it on, until the program has ended.
TEST_F(EarlyPrograms, AFailureAtAnyDriverCallLosesNothing) {
  const Bytes limit = kMiB * 24;
  int device_errors = 0;
  const auto run = [&](CachingAllocator& allocator) {
    allocator.begin_budget(limit);
    const CachingAllocator::Arena arena = allocator.arena();
    AllocatorProgram program(allocator, *fake_, streams_, 15);
    for (int i = 0; i < 150; ++i) step(program, arena);
    EXPECT_EQ(program.fault(), "");
    device_errors += program.device_errors;
    faults_->clear();
    program.free_all();
    driver_.synchronize();
    allocator.empty_cache();
    EXPECT_EQ(allocator.stats().largest_free, limit) << "all merged back into one block";
    EXPECT_EQ(allocator.stats().active, Bytes{});
    for (int i = 0; i < 8; ++i) copy_in(program, arena);
    EXPECT_EQ(program.fault(), "");
    program.free_all();
  };
  const std::int64_t first = faults_->calls();
  {
    CachingAllocator allocator(driver_);
    run(allocator);
  }
  const std::int64_t calls = faults_->calls() - first;
  ASSERT_GT(calls, 150);
  EXPECT_EQ(device_errors, 0);
  EXPECT_GT(early_, 10);
  EXPECT_GT(moved_, kMiB);
  for (const Lasting lasting : {Lasting::once, Lasting::until_cleared}) {
    for (std::int64_t n = 2; n <= calls; ++n) {  // the first one is for the arena
      SCOPED_TRACE("call " + std::to_string(n) + (lasting == Lasting::once ? " once" : " and all later"));
      CachingAllocator allocator(driver_);
      faults_->fail_any(n, lasting);
      run(allocator);
      faults_->clear();
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(device_errors, 200);
}

}  // namespace
}  // namespace ferry
