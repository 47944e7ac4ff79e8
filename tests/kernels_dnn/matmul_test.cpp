#include "tests/kernels_dnn/kernel_case.h"

namespace ferry::test {
namespace {

// What `view` holds, row-major, whatever its strides.
std::vector<double> values_of(const TensorView& view) {
  Array copy(view.shape, DType::f64);
  run("copy", {view}, {copy.view()}, ops::CopyAttributes{.dtype = DType::f64});
  return copy.values();
}

std::vector<double> reference_matmul(const TensorView& a, const TensorView& b) {
  const std::vector<double> left = values_of(a), right = values_of(b);
  const int rank = a.shape.rank();
  const std::int64_t m = a.shape[rank - 2], k = a.shape[rank - 1], n = b.shape[rank - 1];
  const std::int64_t batch = m * k == 0 ? 1 : a.numel() / (m * k);
  std::vector<double> y(static_cast<std::size_t>(batch * m * n));
  for (std::int64_t i = 0; i < batch; ++i) {
    for (std::int64_t r = 0; r < m; ++r) {
      for (std::int64_t c = 0; c < n; ++c) {
        double sum = 0;
        for (std::int64_t p = 0; p < k; ++p) sum += left[(i * m + r) * k + p] * right[(i * k + p) * n + c];
        y[(i * m + r) * n + c] = sum;
      }
    }
  }
  return y;
}

void check_matmul(const TensorView& a, const TensorView& b) {
  Shape shape = a.shape;
  shape.back() = b.shape.back();
  Array y(shape, a.dtype);
  run("matmul", {a, b}, {y.view()});
  expect_close(y.values(), reference_matmul(a, b), tolerance(a.dtype),
               to_string(a.shape) + to_string(a.strides) + " x " + to_string(b.shape) + to_string(b.strides) + " " +
                   std::string(name_of(a.dtype)));
}

TensorView expanded(TensorView view, int axis, std::int64_t extent) {
  view.shape[axis] = extent;
  view.strides[axis] = 0;
  return view;
}

class Matmul : public ::testing::TestWithParam<DType> {};

TEST_P(Matmul, MultipliesMatricesOfManySizes) {
  for (const std::int64_t m : {1, 3, 17, 64}) {
    for (const std::int64_t n : {1, 5, 33}) {
      for (const std::int64_t k : {1, 2, 31, 128}) {
        check_matmul(Array({m, k}, GetParam()).randomize(1).view(), Array({k, n}, GetParam()).randomize(2).view());
      }
    }
  }
}

TEST_P(Matmul, TakesTransposedViews) {
  for (const std::int64_t m : {1, 7, 40}) {
    for (const std::int64_t n : {1, 9, 24}) {
      const Array a({13, m}, GetParam()), b({n, 13}, GetParam());
      const Array at = Array(a).randomize(3), bt = Array(b).randomize(4);
      check_matmul(at.transposed(0, 1), bt.transposed(0, 1));
      check_matmul(at.transposed(0, 1), Array({13, n}, GetParam()).randomize(5).view());
      check_matmul(Array({m, 13}, GetParam()).randomize(6).view(), bt.transposed(0, 1));
    }
  }
}

TEST_P(Matmul, TakesViewsWithoutAContiguousAxisAndRowsWithGaps) {
  const Array gaps = Array({6, 5}, GetParam(), Strides{20, 3}).randomize(7);
  const Array rows = Array({5, 8}, GetParam(), Strides{11, 1}).randomize(8);
  check_matmul(gaps.view(), rows.view());
  check_matmul(rows.transposed(0, 1), gaps.transposed(0, 1));
  const Array row = Array({1, 5}, GetParam()).randomize(9);
  check_matmul(expanded(row.view(), 0, 4), rows.view());
}

TEST_P(Matmul, BatchesOfEqualAndOfSharedMatrices) {
  const Array a = Array({3, 4, 6, 5}, GetParam()).randomize(10);
  const Array b = Array({3, 4, 5, 7}, GetParam()).randomize(11);
  check_matmul(a.view(), b.view());
  const Array shared = Array({1, 1, 5, 7}, GetParam()).randomize(12);
  check_matmul(a.view(), expanded(expanded(shared.view(), 0, 3), 1, 4));
  const Array outer = Array({3, 1, 6, 5}, GetParam()).randomize(13);
  check_matmul(expanded(outer.view(), 1, 4), b.view());
  const Array inner = Array({1, 4, 5, 7}, GetParam()).randomize(14);
  check_matmul(a.view(), expanded(inner.view(), 0, 3));
  check_matmul(a.transposed(0, 1), b.transposed(0, 1));
}

TEST_P(Matmul, BatchesOfHeadsSeenThroughATranspose) {
  const Array q = Array({2, 9, 3, 8}, GetParam()).randomize(15);
  const Array k = Array({2, 9, 3, 8}, GetParam()).randomize(16);
  TensorView keys = k.transposed(1, 2);
  std::swap(keys.shape[2], keys.shape[3]);
  std::swap(keys.strides[2], keys.strides[3]);
  check_matmul(q.transposed(1, 2), keys);
}

TEST_P(Matmul, EmptyProductsAreZeroOrNothing) {
  check_matmul(Array({3, 0}, GetParam()).view(), Array({0, 2}, GetParam()).view());
  check_matmul(Array({0, 4}, GetParam()).view(), Array({4, 2}, GetParam()).view());
  check_matmul(Array({0, 4, 3}, GetParam()).view(), Array({0, 3, 2}, GetParam()).view());
}

TEST_P(Matmul, LinearAddsTheBiasOrNone) {
  for (const std::int64_t rows : {0, 1, 19}) {
    for (const std::int64_t in : {0, 1, 21}) {
      for (const std::int64_t out : {1, 10, 48}) {
        const Array x = Array({rows, in}, GetParam()).randomize(17);
        const Array w = Array({out, in}, GetParam()).randomize(18);
        const Array bias = Array({out}, GetParam() == DType::bf16 ? DType::f32 : GetParam()).randomize(19);
        std::vector<double> expected = reference_matmul(x.view(), w.transposed(0, 1));
        expected.resize(static_cast<std::size_t>(rows * out));
        Array y({rows, out}, GetParam());
        run("linear", {x.view(), w.view()}, {y.view()});
        expect_close(y.values(), expected, tolerance(GetParam()), "linear without bias");
        for (std::int64_t i = 0; i < rows * out; ++i) expected[static_cast<std::size_t>(i)] += bias.at(i % out);
        run("linear", {x.view(), w.view(), bias.view()}, {y.view()});
        expect_close(y.values(), expected, tolerance(GetParam()), "linear with bias");
      }
    }
  }
}

std::string dtype_name(const testing::TestParamInfo<DType>& info) { return std::string(name_of(info.param)); }

INSTANTIATE_TEST_SUITE_P(Floats, Matmul, testing::ValuesIn(kFloats), dtype_name);

TEST(MatmulErrors, IntegersAreRefusedByName) {
  const Array a = Array({2, 2}, DType::i32).fill(1);
  Array y({2, 2}, DType::i32);
  try {
    run("matmul", {a.view(), a.view()}, {y.view()});
    FAIL() << "expected InvalidArgument";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string_view(error.what()).find("matmul"), std::string_view::npos) << error.what();
    EXPECT_NE(std::string_view(error.what()).find("i32"), std::string_view::npos) << error.what();
  }
}

TEST(MatmulResults, AreTheSameBitsEachTime) {
  const Array a = Array({200, 300}, DType::f32).randomize(20), b = Array({300, 100}, DType::f32).randomize(21);
  Array first({200, 100}, DType::f32), second({200, 100}, DType::f32);
  run("matmul", {a.view(), b.view()}, {first.view()});
  run("matmul", {a.view(), b.view()}, {second.view()});
  EXPECT_EQ(first.values(), second.values());
}

}  // namespace
}  // namespace ferry::test
