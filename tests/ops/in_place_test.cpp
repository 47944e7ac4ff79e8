// In-place ops on views that overlap.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ferry/ops.h>
#include "tests/support/bad_call.h"

namespace ferry::test {
namespace {

using ::testing::ElementsAre;

class InPlace : public OnBackend {
 protected:
  static Tensor count_to(double last) { return arange(1, last + 1, 1, DType::f32); }
};

TEST_P(InPlace, ReadsWhatItWritesBeforeWriting) {
  Tensor x = count_to(6);
  narrow(x, 0, 1, 5).add_(narrow(x, 0, 0, 5));
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(1, 3, 5, 7, 9, 11));

  Tensor rows = reshape(count_to(6), {3, 2});
  rows.sub_(select(rows, 0, 1));
  EXPECT_THAT(rows.to_vector<float>(), ElementsAre(-2, -2, 0, 0, 2, 2));

  Tensor square = reshape(count_to(4), {2, 2});
  square.copy_(transpose(square));
  EXPECT_THAT(square.to_vector<float>(), ElementsAre(1, 3, 2, 4));
  square.add_(transpose(square));
  EXPECT_THAT(square.to_vector<float>(), ElementsAre(2, 5, 5, 8));
}

TEST_P(InPlace, WritesBesideWhatItReads) {
  Tensor x = count_to(4);
  narrow(x, 0, 0, 2).mul_(narrow(x, 0, 2, 2));
  x.add_(x);
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(6, 16, 6, 8));
}

TEST_P(InPlace, RefusesViewsThatShowAnElementTwice) {
  const auto wide = [] { return expand(of({2, 1}), {2, 3}); };
  const Words words = {"[2, 3]", "more than once"};
  expect_errors<InvalidArgument>({{"mul_", [=] { wide().mul_(2); }, words},
                                  {"add_",
                                   [=] {
                                     wide().add_(of({2, 3}));
                                   },
                                   words},
                                  {"copy_",
                                   [=] {
                                     wide().copy_(of({2, 3}));
                                   },
                                   words},
                                  {"fill_", [=] { wide().fill_(1); }, words}},
                                 "in_place_test.cpp");
  Tensor once = expand(of({2, 1}), {2, 1});
  EXPECT_THAT(once.fill_(3).to_vector<float>(), ElementsAre(3, 3));
}

INSTANTIATE_TEST_SUITE_P(Backends, InPlace, each_backend(), backend_name);

}  // namespace
}  // namespace ferry::test
