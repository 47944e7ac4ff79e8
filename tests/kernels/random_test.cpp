#include <tbb/global_control.h>

#include "src/kernels/random.h"
#include "src/ops/attributes.h"
#include "tests/kernels/test_array.h"

namespace ferry::testing {
namespace {

Array drawn(const char* op, DType dtype, std::int64_t count, const ops::RandomAttributes& attributes) {
  Array y(dtype, {count});
  run(op, {}, {y.view()}, attributes);
  EXPECT_TRUE(y.guards_intact());
  return y;
}

// The first known answer of the Random123 distribution for philox4x32-10: zero counter and key.
TEST(Philox, GivesThePublishedWords) {
  const auto [words] = kernels::philox(0, 0, 0);
  EXPECT_EQ(words[0], 0x6627e8d5u);
  EXPECT_EQ(words[1], 0xe169c58du);
  EXPECT_EQ(words[2], 0xbc57ac4cu);
  EXPECT_EQ(words[3], 0x9b00dbd8u);
}

// The vector form against the scalar one, for every place of a batch and a counter past 32 bits.
TEST(Philox, TheKernelDrawsTheSameWords) {
  for (const std::uint64_t batch : {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{1} << 30}) {
    const std::uint64_t seed = 0x123456789abcdef0u;
    const Array y = drawn("uniform", DType::f32, 256, {.seed = seed, .offset = batch * 256});
    for (std::uint64_t c = 0; c < 64; ++c) {
      const std::uint64_t counter = batch * 64 + c;
      const auto [words] =
          kernels::philox(seed, static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32));
      for (std::uint64_t w = 0; w < 4; ++w) {
        ASSERT_EQ(y.get(static_cast<std::int64_t>(w * 64 + c)), kernels::unit_float(words[w]));
      }
    }
  }
}

TEST(Random, AnElementDependsOnSeedAndPlaceOnly) {
  for (const char* op : {"uniform", "normal"}) {
    for (const DType dtype : kFloats) {
      const Array whole = drawn(op, dtype, 1500, {.low = -1, .high = 2, .seed = 42, .offset = 0});
      for (const std::int64_t offset : {1, 63, 64, 255, 256, 257, 1000}) {
        for (const std::int64_t count : {1, 3, 64, 400}) {
          const Array part =
              drawn(op, dtype, count, {.low = -1, .high = 2, .seed = 42, .offset = static_cast<std::uint64_t>(offset)});
          for (std::int64_t i = 0; i < count; ++i)
            ASSERT_EQ(part.get(i), whole.get(offset + i)) << op << name_of(dtype) << offset;
        }
      }
      EXPECT_NE(drawn(op, dtype, 64, {.seed = 43}).values(), drawn(op, dtype, 64, {.seed = 42}).values());
    }
  }
}

TEST(Random, BitsDoNotDependOnThreads) {
  for (const char* op : {"uniform", "normal"}) {
    const ops::RandomAttributes attributes{.low = 0, .high = 1, .seed = 9, .offset = 77};
    std::vector<std::byte> one;
    {
      const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 1);
      one = drawn(op, DType::f32, 200001, attributes).bytes();
    }
    EXPECT_EQ(drawn(op, DType::f32, 200001, attributes).bytes(), one);
  }
}

TEST(Random, OffsetsPast32BitsOfCounterAreNew) {
  const Array low = drawn("uniform", DType::f32, 256, {.seed = 1, .offset = 0});
  const Array high = drawn("uniform", DType::f32, 256, {.seed = 1, .offset = std::uint64_t{1} << 34});
  EXPECT_NE(low.values(), high.values());
}

TEST(Uniform, CoversItsRangeAndStaysBelowHigh) {
  for (const DType dtype : kFloats) {
    const Array y = drawn("uniform", dtype, 100000, {.low = -3, .high = 5, .seed = 5});
    double sum = 0, squares = 0;
    for (const double value : y.values()) {
      ASSERT_GE(value, -3);
      ASSERT_LT(value, 5);
      sum += value;
      squares += value * value;
    }
    const double mean = sum / 100000;
    EXPECT_NEAR(mean, 1, 0.04);
    EXPECT_NEAR(squares / 100000 - mean * mean, 64.0 / 12, 0.1);
  }
}

// One step of the type wide: rounding would often reach `high`.
TEST(Uniform, NeverRoundsUpToHigh) {
  for (const DType dtype : kFloats) {
    const double high = rounded(dtype, 1 + (dtype == DType::f64   ? 0x1p-52
                                            : dtype == DType::f32 ? 0x1p-23
                                            : dtype == DType::f16 ? 0x1p-10
                                                                  : 0x1p-7));
    for (const double value : drawn("uniform", dtype, 2000, {.low = 1, .high = high, .seed = 6}).values())
      ASSERT_EQ(value, 1);
    for (const double value : drawn("uniform", dtype, 100, {.low = 2, .high = 2, .seed = 6}).values())
      ASSERT_EQ(value, 2);
  }
}

TEST(Normal, HasTheMomentsOfTheDistribution) {
  for (const DType dtype : kFloats) {
    const auto values = drawn("normal", dtype, 200000, {.low = 1, .high = 2, .seed = 7}).values();
    double mean = 0, variance = 0, third = 0, fourth = 0;
    for (const double value : values) mean += value / 200000;
    for (const double value : values) {
      const double z = (value - mean) / 2;
      variance += z * z / 200000;
      third += z * z * z / 200000;
      fourth += z * z * z * z / 200000;
    }
    EXPECT_NEAR(mean, 1, 0.02) << name_of(dtype);
    EXPECT_NEAR(variance, 1, 0.02);
    EXPECT_NEAR(third, 0, 0.04);
    EXPECT_NEAR(fourth, 3, 0.1);
  }
}

// f32 against Box-Muller in double on the same words.
TEST(Normal, FollowsBoxMuller) {
  const auto values = drawn("normal", DType::f32, 256, {.low = 0, .high = 1, .seed = 11}).values();
  for (std::uint32_t c = 0; c < 64; ++c) {
    const auto [words] = kernels::philox(11, c, 0);
    for (int pair = 0; pair < 4; pair += 2) {
      const double u = (words[pair] >> 8) * 0x1p-24 + 0x1p-24, v = (words[pair + 1] >> 8) * 0x1p-24;
      const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::acos(-1.0) * v;
      EXPECT_NEAR(values[static_cast<std::size_t>(pair * 64) + c], radius * std::cos(angle), 2e-6);
      EXPECT_NEAR(values[static_cast<std::size_t>((pair + 1) * 64) + c], radius * std::sin(angle), 2e-6);
    }
  }
}

}  // namespace
}  // namespace ferry::testing
