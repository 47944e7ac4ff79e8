// The list of models, and the published number of parameters of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include <ferry/models.h>
#include "tests/models/each_model.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using ::testing::HasSubstr;

class Catalogued : public EachModel {};

// On a GPU without values: the largest models take no memory here.
Backend roomy_backend() {
  Backend backend = timing_only_backend();
  backend.options.device_memory = kGiB * 64;
  return backend;
}

TEST_P(Catalogued, HasThePublishedNumberOfParameters) {
  CheckedRuntime runtime(roomy_backend());
  std::int64_t count = 0;
  for (const nn::NamedTensor& parameter : GetParam().make({})->parameters()) count += parameter.tensor.numel();
  EXPECT_EQ(count, GetParam().parameters);
}

TEST_P(Catalogued, TheSmallInstanceIsSmall) {
  CheckedRuntime runtime(roomy_backend());
  std::int64_t count = 0;
  for (const nn::NamedTensor& parameter : GetParam().make({.small = true})->parameters()) {
    count += parameter.tensor.numel();
  }
  EXPECT_LT(count, 200'000);
}

INSTANTIATE_TEST_SUITE_P(Models, Catalogued, every_model(), model_name);

TEST(Catalogue, NamesAreUniqueAndAnUnknownOneIsAnErrorThatListsThem) {
  CheckedRuntime runtime(timing_only_backend());
  std::set<std::string_view> names;
  for (const models::Entry& entry : models::all()) EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
  EXPECT_THAT(message_of<InvalidArgument>([] { models::make("resnet51"); }), HasSubstr("resnet18, resnet34, resnet50"));
}

TEST(Catalogue, RefusesOptionsThatNoModelHas) {
  CheckedRuntime runtime(timing_only_backend());
  EXPECT_THROW(models::make("resnet18", {.dtype = DType::i64}), InvalidArgument);
  EXPECT_THROW(models::make("resnet18", {.classes = -1}), InvalidArgument);
  EXPECT_THROW(models::make("resnet18", {.small = true})->random_batch(0, 0), InvalidArgument);
}

TEST(Catalogue, RandomBatchesDependOnTheSeedOnly) {
  CheckedRuntime runtime(cpu_backend());
  const auto model = models::make("resnet18", {.small = true});
  const auto first = model->random_batch(2, 5), second = model->random_batch(2, 5), other = model->random_batch(2, 6);
  EXPECT_EQ(first.inputs[0].to_vector<float>(), second.inputs[0].to_vector<float>());
  EXPECT_EQ(first.targets.to_vector<std::int64_t>(), second.targets.to_vector<std::int64_t>());
  EXPECT_NE(first.inputs[0].to_vector<float>(), other.inputs[0].to_vector<float>());
}

}  // namespace
}  // namespace ferry::test
