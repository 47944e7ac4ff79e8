// What calls of indexing ops refuse, and properties of them that the table of cases does not show.
#include <limits>

#include <ferry/indexing.h>
#include "tests/support/bad_call.h"
#include "tests/support/generators.h"

namespace ferry::test {
namespace {

class Indexing : public OnBackend {
 protected:
  template <class E>
  void expect(const std::vector<BadCall>& calls) {
    expect_errors<E>(calls, "indexing_test.cpp");
  }
};

TEST_P(Indexing, ShapesAndAxesThatDoNotFit) {
  const auto x = [] { return of({2, 3}); };
  const auto index = [](const Shape& shape) { return of(shape, DType::i64); };
  expect<ShapeError>({
      {"split_sizes",
       [=] {
         split(x(), {1, 1}, 1);
       },
       {"split", "add up to 2", "[2, 3]"}},
      {"split_beyond",
       [=] {
         split(x(), {2, std::numeric_limits<std::int64_t>::max()}, 1);
       },
       {"split", "[2, 3]"}},
      {"pad_huge",
       [=] {
         pad(x(), {0, std::numeric_limits<std::int64_t>::max()}, {0, 1});
       },
       {"pad", "axis 1", "[2, 3]"}},
      {"split_count", [=] { split(x(), 2, 1); }, {"split", "[2, 3]", "2 equal parts"}},
      {"stack",
       [=] {
         stack({x(), of({2, 2})});
       },
       {"stack", "xs[1]", "[2, 3]", "[2, 2]"}},
      {"gather_rank", [=] { gather(x(), 0, index({2})); }, {"gather", "'index'", "[2, 3]", "[2]"}},
      {"gather_extent",
       [=] {
         gather(x(), 0, index({2, 4}));
       },
       {"gather", "axis 1", "[2, 4]"}},
      {"index_select",
       [=] {
         index_select(x(), 0, index({1, 1}));
       },
       {"index_select", "'indices'", "[1, 1]"}},
      {"where", [=] { where(of({2}, DType::boolean), x(), x()); }, {"where", "'condition'", "[2, 3]"}},
      {"where_values", [=] { where(of({}, DType::boolean), x(), of({2})); }, {"where", "'a'", "'b'"}},
      {"masked_fill",
       [=] {
         masked_fill(of({3}), of({2, 3}, DType::boolean), 0);
       },
       {"masked_fill", "[2, 3]"}},
      {"pad_reflect",
       [=] {
         pad(x(), {0, 3}, {0, 0}, {.mode = PadMode::reflect});
       },
       {"pad", "axis 1", "[2, 3]"}},
      {"pad_negative",
       [=] {
         pad(x(), {0, 0}, {-1, 0});
       },
       {"pad", "axis 0"}},
  });
}

TEST_P(Indexing, ArgumentsThatAreNotTaken) {
  const auto x = [] { return of({2, 3}); };
  expect<InvalidArgument>({
      {"split_axis", [=] { split(x(), 1, 2); }, {"split", "axis 2"}},
      {"split_nothing", [=] { split(x(), std::vector<std::int64_t>{}, 0); }, {"split"}},
      {"split_negative",
       [=] {
         split(x(), {-1, 3}, 0);
       },
       {"split", "-1"}},
      {"split_zero", [=] { split(x(), 0, 0); }, {"split", "0 parts"}},
      {"stack_nothing", [] { stack({}); }, {"stack"}},
      {"stack_axis", [=] { stack({x()}, 3); }, {"stack", "axis 3"}},
      {"stack_undefined",
       [=] {
         stack({x(), Tensor()});
       },
       {"stack", "xs[1]", "undefined"}},
      {"gather_axis",
       [=] {
         gather(x(), 2, of({2, 3}, DType::i64));
       },
       {"gather", "axis 2"}},
      {"gather_floats", [=] { gather(x(), 0, x()); }, {"gather", "'index'", "i64"}},
      {"index_select_undefined", [=] { index_select(x(), 0, {}); }, {"index_select", "'indices'", "undefined"}},
      {"where_floats", [=] { where(x(), x(), x()); }, {"where", "'condition'", "bool"}},
      {"where_types",
       [=] {
         where(of({2, 3}, DType::boolean), x(), of({2, 3}, DType::f64));
       },
       {"where", "'a'", "'b'", "f64"}},
      {"masked_fill_mask", [=] { masked_fill(x(), x(), 0); }, {"masked_fill", "'mask'", "bool"}},
      {"pad_counts",
       [=] {
         pad(x(), {1}, {1, 1});
       },
       {"pad", "1 begins", "2 ends"}},
      {"flip_twice",
       [=] {
         flip(x(), {0, -2});
       },
       {"flip", "axis -2"}},
  });
}

TEST_P(Indexing, IndicesOutOfRange) {
  for (const std::int64_t bad : {std::int64_t{3}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    const auto indices = [bad] { return from_vector<std::int64_t>({0, 2, bad, 1}); };
    const std::string value = std::to_string(bad);
    expect<InvalidArgument>({
        {"gather",
         [=] {
           gather(of({3, 2}), 0, reshape(indices(), {2, 2})).to_vector<float>();
         },
         {"gather", "index[2] = " + value, "axis 0", "[3, 2]", "0 to 2"}},
        {"index_select",
         [=] {
           index_select(of({2, 3}), 1, indices()).to_vector<float>();
         },
         {"index_select", "indices[2] = " + value, "axis 1", "[2, 3]", "0 to 2"}},
    });
  }
  expect<InvalidArgument>({{"none",
                            [] {
                              index_select(of({2, 0}), 1, from_vector<std::int64_t>({0})).to_vector<float>();
                            },
                            {"index_select", "takes none"}}});
}

TEST_P(Indexing, PartsShareStorage) {
  const Tensor x = zeros({2, 6});
  const std::vector<Tensor> parts = split(x, {2, 4}, 1);
  Tensor(parts[1]).add_(ones({2, 4}));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1}));
}

TEST_P(Indexing, PartsWithoutGradientGiveZeros) {
  const Tensor x = ones({6}).set_requires_grad();
  const std::vector<Tensor> parts = split(x, 3);
  sum(parts[1] * 2.0).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 0, 2, 2, 0, 0}));
}

// A view of a part, made before the whole is written in place, belongs to that part afterwards too.
TEST_P(Indexing, PartsFollowLaterWrites) {
  for (const bool before : {false, true}) {
    Tensor x = ones({4});
    Tensor whole = before ? x.set_requires_grad() * 1.0 : zeros({4});
    const Tensor last = narrow(split(whole, 2)[1], 0, 1, 1);
    before ? whole.mul_(2) : whole.add_(x.set_requires_grad() * 2.0);
    sum(last).backward();
    EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 0, 0, 2}));
  }
}

TEST_P(Indexing, GradientsOfAllPartsArePutTogether) {
  const Tensor x = ones({4, 3}).set_requires_grad();
  Tensor total = zeros({4, 1});
  for (const Tensor& part : split(x, 3, 1)) total = total + part * part;
  sum(total).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(12, 2));
}

// Sums of 16-bit floats are rounded once, whatever their length: 1000 ones would stick at 256 in bf16.
TEST_P(Indexing, RepeatedIndicesAddInFloat) {
  const Tensor indices = zeros({1000}, DType::i64);
  for (const Shape& shape : {Shape{2}, Shape{2, 9}}) {
    const Tensor x = zeros(shape, DType::bf16).set_requires_grad();
    index_select(x, 0, indices).backward(ones(shape.rank() == 1 ? Shape{1000} : Shape{1000, 9}, DType::bf16));
    EXPECT_EQ(to_array(x.grad()).values[0], 1000);
  }
}

// The 1 is lost beside 1e8, as it comes first; added last it would not be.
TEST_P(Indexing, RepeatedIndicesAddInTheirOrder) {
  const std::vector<float> terms{1, 1e8f, -1e8f, 3};
  const Tensor indices = from_vector<std::int64_t>({0, 0, 0, 0});
  for (const std::int64_t width : {1, 12}) {
    const Tensor x = zeros({1, width}).set_requires_grad();
    index_select(x, 0, indices).backward(expand(reshape(from_vector(terms), {4, 1}), {4, width}).contiguous());
    EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(static_cast<std::size_t>(width), 3));
  }
}

TEST_P(Indexing, PartsOfImagesKeepTheirOrderInMemory) {
  const Tensor image = permute(ones({2, 4, 5, 6}), {0, 3, 1, 2});
  const std::vector<Tensor> parts = split(image, {2, 4}, 1);
  EXPECT_EQ(concat({parts[1], parts[0]}, 1).strides(), image.strides());
  EXPECT_EQ(slice(image, {1}, {1}, {4}).strides(), channels_last_strides({2, 3, 4, 5}));
  EXPECT_EQ(index_select(image, 1, from_vector<std::int64_t>({3, 0})).strides(), channels_last_strides({2, 2, 4, 5}));
  EXPECT_EQ(concat({ones({2, 1, 4, 5}), ones({2, 1, 4, 5})}, 1).strides(), contiguous_strides({2, 2, 4, 5}));
}

TEST_P(Indexing, ImagesKeepTheirOrderInMemory) {
  const Tensor image = permute(ones({2, 4, 5, 3}), {0, 3, 1, 2});
  const Strides strides = image.strides();
  EXPECT_EQ(pad(image, {0, 0, 0, 0}, {0, 0, 0, 0}).strides(), strides);
  EXPECT_EQ(masked_fill(image, zeros({1}, DType::boolean), 0).strides(), strides);
}

INSTANTIATE_TEST_SUITE_P(All, Indexing, each_backend(), backend_name);

}  // namespace
}  // namespace ferry::test
