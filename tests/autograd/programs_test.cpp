// Gradients of random graphs against finite differences.
#include <gtest/gtest.h>

#include "tests/autograd/gradient_check.h"
#include "tests/support/generators_program.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

class Programs : public ::testing::TestWithParam<int> {};

TEST_P(Programs, GradientsMatchFiniteDifferences) {
  for (std::uint64_t i = 0; i < 10; ++i) {
    const std::uint64_t seed = static_cast<std::uint64_t>(GetParam()) * 1000 + i;
    SCOPED_TRACE("seed " + std::to_string(seed));
    CheckedRuntime runtime(i % 2 == 0 ? cpu_backend() : adversarial_backend(seed));
    const RandomProgram program(seed, 6 + seed % 20);
    std::vector<Leaf> leaves;
    for (const Array& values : program.leaves(DType::f64)) leaves.push_back({values});
    Random random(seed);
    check_gradients(
        leaves, [&](const std::vector<Tensor>& x) { return program.run(x); }, random, 1e-5);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Programs, ::testing::Range(1, 5));

}  // namespace
}  // namespace ferry::test
