// The trace's copies beside those that a tracing library saw.
#include "profiler/copy_check.h"

#include <gtest/gtest.h>

namespace ferry::profiler {
namespace {

constexpr Device kGpu{DeviceType::gpu, 0};

trace::CopyRecord copy(Device from, Device to, std::uint64_t correlation, Bytes size = Bytes{1024}) {
  trace::CopyRecord record;
  record.from = from;
  record.to = to;
  record.correlation = correlation;
  record.size = size;
  return record;
}

trace::WorkRecord work(std::uint64_t correlation, trace::WorkKind kind = trace::WorkKind::copy) {
  trace::WorkRecord record;
  record.correlation = correlation;
  record.kind = kind;
  return record;
}

CopyActivity activity(std::int64_t others = 0) {
  return {.library = "CUPTI",
          .kinds = {{trace::Memory::pinned, trace::Memory::device, 2, Bytes{2048}, Nanoseconds{10}},
                    {trace::Memory::device, trace::Memory::pageable, 1, Bytes{1024}, Nanoseconds{5}}},
          .others = others};
}

trace::Trace three_copies() {
  trace::Trace trace;
  trace.copies = {copy(cpu::device, kGpu, 1), copy(cpu::device, kGpu, 2), copy(kGpu, cpu::device, 3),
                  copy(cpu::device, cpu::device, 4), copy(cpu::device, kGpu, 5, Bytes{})};
  trace.work = {work(1), work(1), work(2), work(3), work(9, trace::WorkKind::kernel)};
  return trace;
}

TEST(CopyCheck, HoldsWhereEveryRecordedCopyWasSeenAndNoOther) {
  const CopyCheck check = check_copies(three_copies(), std::vector{activity()});
  EXPECT_EQ(check.recorded, 3) << "copies within the host and of nothing are none of a device's";
  EXPECT_EQ(check.seen, 3);
  EXPECT_TRUE(check.holds());
  EXPECT_EQ(copy_check_text(check),
            "CUPTI saw all 3 recorded copies: 2 pinned->device of 2.00 KiB, 1 device->pageable of 1.00 KiB");
}

TEST(CopyCheck, SaysWhatIsMissing) {
  trace::Trace trace = three_copies();
  trace.work.erase(trace.work.begin() + 2);
  const CopyCheck check = check_copies(trace, std::vector{activity()});
  EXPECT_FALSE(check.holds());
  EXPECT_EQ(copy_check_text(check).substr(0, 45), "CUPTI saw 2 of 3 recorded copies, and 0 besid");
}

TEST(CopyCheck, SaysWhatNobodyRecorded) {
  EXPECT_FALSE(check_copies(three_copies(), std::vector{activity(2)}).holds());
}

TEST(CopyCheck, AddsDevicesUp) {
  const CopyCheck check = check_copies(three_copies(), std::vector{activity(), activity()});
  ASSERT_EQ(check.kinds.size(), 2u);
  EXPECT_EQ(check.kinds[0].calls, 4);
  EXPECT_EQ(check.kinds[0].size, Bytes{4096});
  EXPECT_EQ(check.kinds[1].time, Nanoseconds{10});
}

TEST(CopyCheck, IsEmptyWhereNothingWatched) { EXPECT_EQ(check_copies(three_copies(), {}).library, ""); }

}  // namespace
}  // namespace ferry::profiler
