// Legal orders other than issue order: a missing event wait shows as a wrong value under some seed, and the checker
// names it whatever the order; with the wait neither happens under any seed.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/sim/sim_fixture.h"

namespace ferry {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr std::int64_t kElements = 64;
constexpr Bytes kSize{kElements * 4};
constexpr std::uint64_t kSeeds = 40;

enum class Wait : std::uint8_t { given, missing };

// Three batches through one device buffer: upload on one stream, increment on another, download on a third. The wait of
// the kernel for its upload may be left out.
class SimOrder : public SimFixture {
 protected:
  std::vector<float> pipeline(std::uint64_t seed, Wait wait, std::shared_ptr<OrderingChecker> checker) {
    clock_ = std::make_shared<VirtualClock>();
    open({.order = {.adversarial = true, .seed = seed}, .checker = std::move(checker)});
    const StreamId up = driver_->create_stream("h2d"), down = driver_->create_stream("d2h");
    const EventId uploaded = driver_->create_event(), computed = driver_->create_event(),
                  downloaded = driver_->create_event();
    auto* const device = static_cast<float*>(driver_->allocate(kSize));
    auto* const host = static_cast<float*>(driver_->allocate_pinned(kSize * 6));
    std::vector<float> results;
    for (int batch = 0; batch < 3; ++batch) {
      float* const in = host + batch * kElements;
      float* const out = host + (3 + batch) * kElements;
      std::fill_n(in, kElements, static_cast<float>(10 * batch));
      driver_->wait_event(up, downloaded);
      upload(device, in, kSize, up);
      driver_->record_event(uploaded, up);
      if (wait == Wait::given) driver_->wait_event(kCompute, uploaded);
      increment(device, device, kElements, kCompute, "embedding");
      driver_->record_event(computed, kCompute);
      driver_->wait_event(down, computed);
      download(out, device, kSize, down);
      driver_->record_event(downloaded, down);
    }
    driver_->synchronize();
    for (int batch = 3; batch < 6; ++batch) results.push_back(host[batch * kElements]);
    return results;
  }
};

TEST_F(SimOrder, WithTheWaitEverySeedGivesTheSameValues) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_THAT(pipeline(seed, Wait::given, std::make_shared<OrderingChecker>()), testing::ElementsAre(1, 11, 21))
        << "seed " << seed;
  }
}

TEST_F(SimOrder, WithoutTheWaitSomeSeedsGiveWrongValues) {
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    wrong += pipeline(seed, Wait::missing, nullptr) != std::vector<float>{1, 11, 21};
  }
  EXPECT_GT(wrong, static_cast<int>(kSeeds) / 4);
}

TEST_F(SimOrder, WithoutTheWaitTheCheckerNamesBothOpsAndStreams) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    try {
      pipeline(seed, Wait::missing, std::make_shared<OrderingChecker>());
      FAIL() << "expected OrderingError under seed " << seed;
    } catch (const OrderingError& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("'embedding' on sim:round/compute"), HasSubstr("'upload' on sim:round/h2d"),
                        HasSubstr("record an event on sim:round/h2d after 'upload' and let "
                                  "sim:round/compute wait for it before 'embedding'")));
    }
  }
}

TEST_F(SimOrder, ASeedAlwaysChoosesTheSameOrder) {
  for (const std::uint64_t seed : {3u, 4u, 5u}) {
    const auto first = pipeline(seed, Wait::missing, nullptr);
    const auto times = observer_.records;
    EXPECT_EQ(pipeline(seed, Wait::missing, nullptr), first);
    ASSERT_EQ(observer_.records.size(), 2 * times.size());
    for (std::size_t i = 0; i < times.size(); ++i) {
      EXPECT_EQ(observer_.records[times.size() + i].begin, times[i].begin);
      EXPECT_EQ(observer_.records[times.size() + i].end, times[i].end);
    }
    observer_.records.clear();
  }
}

TEST_F(SimOrder, TimesDoNotDependOnTheOrderOrTheValues) {
  pipeline(0, Wait::given, nullptr);
  const Nanoseconds end = now();
  for (std::uint64_t seed = 1; seed < 10; ++seed) {
    pipeline(seed, Wait::given, nullptr);
    EXPECT_EQ(now(), end);
  }
}

TEST_F(SimOrder, AMissingHostWaitShowsAsAStaleReadAndIsNamed) {
  int stale = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    open({.order = {.adversarial = true, .seed = seed}});
    const StreamId down = driver_->create_stream("d2h");
    auto* const device = static_cast<float*>(driver_->allocate(kSize));
    auto* const host = static_cast<float*>(driver_->allocate_pinned(kSize * 2));
    std::fill_n(host, 2 * kElements, 5.0f);
    upload(device, host, kSize, down);
    std::fill_n(host + kElements, kElements, 0.0f);
    download(host + kElements, device, kSize, down);
    driver_->synchronize_stream(kCompute);  // the wrong stream
    stale += host[kElements] != 5;
  }
  EXPECT_GT(stale, static_cast<int>(kSeeds) / 4);

  const auto checker = std::make_shared<OrderingChecker>();
  open({.checker = checker});
  const StreamId down = driver_->create_stream("d2h");
  auto* const device = static_cast<float*>(driver_->allocate(kSize));
  auto* const host = static_cast<float*>(driver_->allocate_pinned(kSize));
  download(host, device, kSize, down);
  driver_->synchronize_stream(kCompute);
  const MemoryAccess read{host, kSize.count, false};
  try {
    checker->host_access("print", {&read, 1});
    FAIL() << "expected OrderingError";
  } catch (const OrderingError& error) {
    EXPECT_THAT(error.what(), HasSubstr("let the host wait for sim:round/d2h after 'download' before 'print'"));
  }
  driver_->synchronize_stream(down);
  checker->host_access("print", {&read, 1});
}

}  // namespace
}  // namespace ferry
