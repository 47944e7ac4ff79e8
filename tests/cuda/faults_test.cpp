// Values that only a kernel sees to be wrong: thrown once by the next wait, with op, line and value.
#include <gmock/gmock.h>

#include <ferry/losses.h>
#include <ferry/ops.h>
#include "tests/cuda/cuda_fixture.h"
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CudaFaults : public OnFakeCuda {
 protected:
  CudaFaults() { fake_cuda::reset(); }

  // The error of the next wait, if there is one.
  std::string error_of_wait(Runtime& runtime) {
    try {
      runtime.synchronize();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(CudaFaults, AnIndexOutOfRangeIsThrownOnceByTheNextWait) {
  CheckedRuntime runtime(cuda_backend());
  const Tensor table = zeros({10, 4});
  const Tensor ids = from_vector<std::int64_t>({3, 12, 1});
  const Tensor y = embedding(table, ids);
  const std::string error = error_of_wait(*runtime);
  EXPECT_THAT(error, AllOf(HasSubstr("embedding: ids[1] = 12 is out of range for table [10, 4], which takes 0 to 9"),
                           HasSubstr("faults_test.cpp")));
  EXPECT_EQ(error_of_wait(*runtime), "");
}

TEST_F(CudaFaults, IntegerDivisionByZeroIsThrown) {
  CheckedRuntime runtime(cuda_backend());
  const Tensor y = from_vector<std::int64_t>({6, 7}) / from_vector<std::int64_t>({2, 0});
  EXPECT_THAT(error_of_wait(*runtime), HasSubstr("the i64 divisor of shape [2] holds 0"));
}

TEST_F(CudaFaults, ALabelThatIsIgnoredIsNoFault) {
  CheckedRuntime runtime(cuda_backend());
  const Tensor loss = cross_entropy(zeros({2, 3}), from_vector<std::int64_t>({-100, 1}), {.ignore_index = -100});
  EXPECT_EQ(error_of_wait(*runtime), "");
  const Tensor wrong = cross_entropy(zeros({2, 3}), from_vector<std::int64_t>({-100, 3}), {.ignore_index = -100});
  EXPECT_THAT(error_of_wait(*runtime), HasSubstr("labels[1] = 3"));
}

}  // namespace
}  // namespace ferry::test
