// The roofline of the presets against published throughput: one training step of ResNet-50 (f32, batch 64), kernel by
// kernel, as an eager framework runs it. The convolution efficiency of the specs was fitted to these four figures.
#include <gtest/gtest.h>

#include "src/device/device_spec.h"

namespace ferry {
namespace {

constexpr double kBatch = 64;
constexpr double kFloat = 4;  // bytes

class ResNet50Step {
 public:
  explicit ResNet50Step(const DeviceSpec& spec) : spec_(spec) {
    double outputs = convolution(3, 64, 7, 2, 224, true);
    relu(outputs);
    for (int pass = 0; pass < 2; ++pass) kernel(OpClass::pooling, 0, outputs * 1.25);
    stage(64, 64, 3, 1, 56);
    stage(256, 128, 4, 2, 56);
    stage(512, 256, 6, 2, 28);
    stage(1024, 512, 3, 2, 14);
    for (int pass = 0; pass < 3; ++pass) kernel(OpClass::matmul, 2 * kBatch * 2048 * 1000, 0);
    kernel(OpClass::elementwise, 0, 5.0 * 2048 * 1000);
  }

  double images_per_second() const { return kBatch / std::chrono::duration<double>(time_).count(); }

 private:
  // Bottleneck blocks on square images of `side`; the first one strides and has a projection.
  void stage(double channels, double width, int blocks, double stride, double side) {
    for (int block = 0; block < blocks; ++block) {
      const double reduced = side / (block == 0 ? stride : 1);
      relu(convolution(channels, width, 1, side / reduced, side));
      relu(convolution(width, width, 3, 1, reduced));
      const double outputs = convolution(width, 4 * width, 1, 1, reduced);
      if (block == 0) convolution(channels, 4 * width, 1, side / reduced, side);
      kernel(OpClass::elementwise, 0, 3 * outputs);  // the shortcut is added
      relu(outputs);
      kernel(OpClass::elementwise, 0, 3 * kBatch * channels * side * side);  // two gradients of the input are added
      channels = 4 * width;
      side = reduced;
    }
  }

  // Forward, both gradients, batch norm on the result, and the update of the weights; returns the elements of the
  // result.
  double convolution(double in, double out, double window, double stride, double side, bool first = false) {
    const double inputs = kBatch * in * side * side, outputs = kBatch * out * (side / stride) * (side / stride);
    const double weights = in * out * window * window;
    const double flops = 2 * outputs * in * window * window;
    for (int pass = 0; pass < (first ? 2 : 3); ++pass) kernel(OpClass::convolution, flops, inputs + outputs + weights);
    kernel(OpClass::normalization, 0, 3 * outputs);
    kernel(OpClass::normalization, 0, 4 * outputs);
    kernel(OpClass::elementwise, 0, 5 * weights);
    return outputs;
  }

  void relu(double elements) {
    kernel(OpClass::elementwise, 0, 2 * elements);
    kernel(OpClass::elementwise, 0, 3 * elements);
  }

  void kernel(OpClass op_class, double flops, double elements) {
    time_ += spec_.duration({.op_class = op_class, .flops = flops, .bytes = kFloat * elements});
  }

  const DeviceSpec& spec_;
  Nanoseconds time_{};
};

struct Published {
  const char* preset;
  double images_per_second;
};

class Calibration : public testing::TestWithParam<Published> {};

TEST_P(Calibration, ResNet50IsWithinFifteenPercentOfThePublishedThroughput) {
  const DeviceSpec spec = load_device_spec(GetParam().preset);
  const double modelled = ResNet50Step(spec).images_per_second();
  EXPECT_NEAR(modelled / GetParam().images_per_second, 1, 0.15) << modelled << " images/s";
}

// Lambda, "RTX 2080 Ti Deep Learning Benchmarks with TensorFlow", 2019.
INSTANTIATE_TEST_SUITE_P(Lambda, Calibration,
                         testing::Values(Published{"gtx1080ti", 209}, Published{"rtx2080ti", 294},
                                         Published{"titanv", 300}, Published{"v100-32gb", 405}));

}  // namespace
}  // namespace ferry
