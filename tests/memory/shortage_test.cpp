#include "src/memory/shortage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ferry::memory {
namespace {

using ::testing::HasSubstr;

constexpr Shortage kFull{.where = "sim:rtx2080ti",
                         .requested = kGiB * 2,
                         .needed = kGiB * 2,
                         .allocated = kGiB * 9,
                         .active = kGiB * 10,
                         .reserved = kGiB * 11,
                         .largest_free = kGiB,
                         .limit = kGiB * 11,
                         .limit_is = "capacity"};

TEST(OutOfMemoryMessage, NamesTheFigures) {
  const OutOfMemory error = out_of_memory(kFull);
  EXPECT_STREQ(error.what(),
               "out of memory on sim:rtx2080ti: 2,147,483,648 bytes (2.00 GiB) asked for, 9.00 GiB in use, 11.00 GiB "
               "reserved, capacity 11.00 GiB. 1.00 GiB are missing, 10.0 % of what is in use: a smaller batch or fewer "
               "live tensors make room.");
  EXPECT_EQ(error.figures().requested, kGiB * 2);
  EXPECT_EQ(error.figures().allocated, kGiB * 9);
  EXPECT_EQ(error.figures().reserved, kGiB * 11);
  EXPECT_EQ(error.figures().limit, kGiB * 11);
}

TEST(OutOfMemoryMessage, TellsARequestLargerThanTheDevice) {
  Shortage s = kFull;
  s.requested = s.needed = kGiB * 12;
  EXPECT_THAT(out_of_memory(s).what(), HasSubstr("larger than the whole capacity"));
}

TEST(OutOfMemoryMessage, TellsFragmentation) {
  Shortage s = kFull;
  s.active = kGiB * 8;
  EXPECT_THAT(out_of_memory(s).what(), HasSubstr("largest free block is 1.00 GiB of 3.00 GiB free: fragmentation"));
}

TEST(OutOfMemoryMessage, TellsThatOthersHoldTheDevice) {
  Shortage s = kFull;
  s.active = s.reserved = kGiB * 4;
  EXPECT_THAT(out_of_memory(s).what(), HasSubstr("7.00 GiB of the capacity are not reserved here"));
}

TEST(OutOfMemoryMessage, WithoutALimitBlamesTheSystem) {
  Shortage s = kFull;
  s.requested = Bytes{512};
  s.limit.reset();
  EXPECT_THAT(out_of_memory(s).what(), HasSubstr("512 bytes asked for"));
  EXPECT_THAT(out_of_memory(s).what(), HasSubstr("The system gave no more"));
}

}  // namespace
}  // namespace ferry::memory
