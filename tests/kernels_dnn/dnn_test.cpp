#include "src/backends/cpu/dnn.h"

#include <thread>

#include <gtest/gtest.h>

namespace ferry::cpu_backend::dnn {
namespace {

Key key_of(std::int64_t value) { return std::move(Key(1).add(value)); }

TEST(PrimitiveCache, MakesAValueOnceForEqualKeys) {
  Cache<int> cache;
  int made = 0;
  const auto make = [&] { return ++made; };
  EXPECT_EQ(cache.get(key_of(7), make), 1);
  EXPECT_EQ(cache.get(key_of(8), make), 2);
  EXPECT_EQ(cache.get(key_of(7), make), 1);
  EXPECT_EQ(made, 2);
}

TEST(PrimitiveCache, StaysBoundedAndDropsTheLeastRecentlyUsed) {
  Cache<std::int64_t> cache;
  const auto capacity = static_cast<std::int64_t>(Cache<std::int64_t>::kCapacity);
  for (std::int64_t i = 0; i < 3 * capacity; ++i) {
    cache.get(key_of(-1), [] { return std::int64_t{-1}; });
    cache.get(key_of(i), [&] { return i; });
  }
  EXPECT_EQ(cache.size(), Cache<std::int64_t>::kCapacity);
  const auto unexpected = [] { return std::int64_t{-2}; };
  EXPECT_EQ(cache.get(key_of(-1), unexpected), -1);
  EXPECT_EQ(cache.get(key_of(3 * capacity - 1), unexpected), 3 * capacity - 1);
  EXPECT_EQ(cache.get(key_of(0), unexpected), -2);
}

TEST(WorkBuffer, IsReusedByItsThreadAndSharedWithNone) {
  std::byte* const mine = work_buffer(Buffer::operand, 4096);
  EXPECT_EQ(work_buffer(Buffer::operand, 100), mine);
  EXPECT_NE(work_buffer(Buffer::conversion, 100), mine);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mine) % 64, 0u);
  std::byte* other = nullptr;
  std::thread([&] { other = work_buffer(Buffer::operand, 100); }).join();
  EXPECT_NE(other, mine);
}

TEST(OneDnnErrors, NameTheOpAndCarryTheStatus) {
  try {
    check("conv2d", dnnl_invalid_arguments);
    FAIL() << "expected DeviceError";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string_view(error.what()).find("conv2d"), std::string_view::npos) << error.what();
    EXPECT_EQ(error.code(), static_cast<int>(dnnl_invalid_arguments));
  }
}

}  // namespace
}  // namespace ferry::cpu_backend::dnn
