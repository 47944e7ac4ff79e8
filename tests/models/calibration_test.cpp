// The simulated GPUs against the world: throughput of training on published cards, the memory that training takes.
#include <gtest/gtest.h>

#include <ferry/autocast.h>
#include <ferry/optim.h>
#include "tests/models/each_model.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

// A model that trains with SGD on a simulated GPU without values; the batch lies on the GPU.
class Training {
 public:
  Training(Runtime& runtime, std::string_view name, std::int64_t samples)
      : runtime_(runtime),
        model_(models::make(name)),
        batch_(model_->random_batch(samples, 0)),
        optimizer_(*model_, {.rate = 0.1}) {
    for (Tensor& input : batch_.inputs) input = input.to(gpu::device);
    batch_.targets = batch_.targets.to(gpu::device);
  }

  void step() {
    model_->loss(batch_).backward();
    optimizer_.step();
    optimizer_.zero_grad();
  }

  double samples_per_second() {
    step();
    runtime_.synchronize();
    const Nanoseconds start = runtime_.now();
    step();
    runtime_.synchronize();
    return static_cast<double>(batch_.size) / std::chrono::duration<double>(runtime_.now() - start).count();
  }

  // Bytes that forward leaves for backward, a sample.
  double kept_bytes() {
    const Bytes before = runtime_.memory_stats(gpu::device).allocated;
    const Tensor loss = model_->loss(batch_);
    return static_cast<double>((runtime_.memory_stats(gpu::device).allocated - before).count) /
           static_cast<double>(batch_.size);
  }

 private:
  Runtime& runtime_;
  std::shared_ptr<models::Model> model_;
  models::Batch batch_;
  optim::Sgd optimizer_;
};

Backend without_values(const std::string& preset, Bytes memory = {}) {
  return {preset, {.device = "sim:" + preset, .device_memory = memory, .values = false}};
}

struct Published {
  const char* preset;
  double resnet50, resnet152, inception_v3;  // images a second
};

class Calibration : public ::testing::TestWithParam<Published> {
 protected:
  static double modelled(std::string_view name, std::int64_t samples) {
    CheckedRuntime runtime(without_values(GetParam().preset, kGiB * 40));
    return Training(*runtime, name, samples).samples_per_second();
  }
};

TEST_P(Calibration, TrainingIsAsFastAsPublished) {
  EXPECT_NEAR(modelled("resnet50", 64) / GetParam().resnet50, 1, 0.1);
  EXPECT_NEAR(modelled("resnet152", 32) / GetParam().resnet152, 1, 0.1);
  EXPECT_NEAR(modelled("inception_v3", 64) / GetParam().inception_v3, 1, 0.15);
}

// Lambda, "RTX 2080 Ti Deep Learning Benchmarks with TensorFlow", 2019; f32.
INSTANTIATE_TEST_SUITE_P(Lambda, Calibration,
                         ::testing::Values(Published{"gtx1080ti", 209, 81, 136}, Published{"rtx2080ti", 294, 110, 194},
                                           Published{"titanv", 300, 107, 208}, Published{"v100-16gb", 405, 155, 259},
                                           Published{"v100-32gb", 405, 155, 259}));

TEST(Memory, ResNet50KeepsTheInputsOfConvolutionsAndBatchNorms) {
  CheckedRuntime runtime(without_values("rtx2080ti"));
  // 21 million elements of f32 a picture: 11.1 as inputs of batch norms, 9.6 as results of relu, the rest of pooling.
  const double kept = Training(*runtime, "resnet50", 16).kept_bytes();
  EXPECT_GT(kept, 80e6);
  EXPECT_LT(kept, 86e6);
}

TEST(Memory, MixedPrecisionKeepsLittleMoreThanHalf) {
  CheckedRuntime runtime(without_values("rtx2080ti"));
  const double whole = Training(*runtime, "resnet50", 16).kept_bytes();
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Autocast autocast{{.dtype = dtype}};
    EXPECT_LE(Training(*runtime, "resnet50", 16).kept_bytes(), 0.6 * whole) << name_of(dtype);
  }
}

TEST(Memory, ResNet50TrainsWithOver100PicturesOnElevenGigabytes) {
  CheckedRuntime runtime(without_values("rtx2080ti"));
  Training training(*runtime, "resnet50", 112);
  for (int i = 0; i < 2; ++i) training.step();
}

}  // namespace
}  // namespace ferry::test
