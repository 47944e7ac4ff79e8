// Axes, undefined tensors and indices that ops do not take.
#include <limits>

#include "tests/support/bad_call.h"

namespace ferry::test {
namespace {

class ArgumentErrors : public OnBackend {
 protected:
  template <class E>
  void expect(const std::vector<BadCall>& calls) {
    expect_errors<E>(calls, "argument_errors_test.cpp");
  }
};

TEST_P(ArgumentErrors, AxesThatDoNotExist) {
  const auto x = [] { return of({2, 3}); };
  expect<InvalidArgument>({
      {"sum", [=] { sum(x(), {2}); }, {"sum", "axis 2", "2 axes"}},
      {"mean", [=] { mean(x(), {-3}); }, {"mean", "axis -3"}},
      {"max", [=] { max(x(), {5}); }, {"max", "axis 5"}},
      {"argmax", [=] { argmax(x(), 2); }, {"argmax", "axis 2"}},
      {"argmax_rank_0", [] { argmax(of({})); }, {"argmax", "axis -1"}},
      {"concat",
       [=] {
         concat({x(), x()}, 2);
       },
       {"concat", "axis 2"}},
      {"concat_nothing", [] { concat({}, 0); }, {"concat"}},
      {"transpose", [=] { transpose(x(), 0, 2); }, {"transpose", "axis 2"}},
      {"transpose_rank_1", [] { transpose(of({2})); }, {"transpose", "axis -2"}},
      {"permute", [=] { permute(x(), {0}); }, {"permute", "[2, 3]"}},
      {"permute_twice",
       [=] {
         permute(x(), {0, 0});
       },
       {"permute", "axis 0"}},
      {"narrow", [=] { narrow(x(), 2, 0, 1); }, {"narrow", "axis 2"}},
      {"narrow_beyond", [=] { narrow(x(), 1, 2, 2); }, {"narrow", "2 elements from 2", "[2, 3]"}},
      {"narrow_before", [=] { narrow(x(), 1, -1, 1); }, {"narrow", "[2, 3]"}},
      {"select", [=] { select(x(), 0, 2); }, {"select", "index 2", "[2, 3]"}},
      {"flatten", [=] { flatten(x(), 2); }, {"flatten", "axis 2"}},
      {"slice", [=] { slice(x(), {2}, {0}, {1}); }, {"slice", "axis 2"}},
      {"slice_step", [=] { slice(x(), {0}, {0}, {1}, {0}); }, {"slice", "step 0"}},
      {"slice_lengths",
       [=] {
         slice(x(), {0, 1}, {0}, {1});
       },
       {"slice"}},
      {"slice_twice",
       [=] {
         slice(x(), {0, 0}, {0, 1}, {1, 2});
       },
       {"slice", "axis 0"}},
      {"l2_normalize", [=] { l2_normalize(x(), 2); }, {"l2_normalize", "axis 2"}},
      {"conv2d_stride",
       [] {
         conv2d(of({1, 1, 3, 3}), of({1, 1, 1, 1}), {}, {.stride = {0, 1}});
       },
       {"conv2d", "stride"}},
      {"conv2d_groups",
       [] {
         conv2d(of({1, 3, 3, 3}), of({4, 1, 1, 1}), {}, {.groups = 2});
       },
       {"conv2d", "groups"}},
      {"pool_padding",
       [] {
         max_pool2d(of({1, 1, 3, 3}), {.padding = {2, 0}});
       },
       {"max_pool2d", "padding"}},
  });
}

// Sums and products of what a caller passes may not fit into 64 bits.
TEST_P(ArgumentErrors, NumbersThatOverflow) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  const auto x = [] { return of({4}); };
  const auto image = [] { return of({1, 1, 3, 3}); };
  expect<InvalidArgument>({
      {"narrow_start", [=] { narrow(x(), 0, kHuge, 1); }, {"narrow", "[4]"}},
      {"narrow_length", [=] { narrow(x(), 0, 2, kHuge); }, {"narrow", "[4]"}},
      {"arange", [] { arange(0, 1e30); }, {"arange", "2^56"}},
      {"uniform", [] { uniform({2}, -1e308, 1e308, DType::f64); }, {"uniform", "finite"}},
      {"conv2d_padding",
       [=] {
         conv2d(image(), image(), {}, {.padding = {kHuge, 0}});
       },
       {"conv2d", "padding"}},
      {"pool_padding",
       [=] {
         max_pool2d(image(), {.padding = {std::int64_t{1} << 62, 0}});
       },
       {"max_pool2d", "padding"}},
      {"pool_window",
       [=] {
         constexpr std::int64_t kWide = std::int64_t{1} << 33;
         max_pool2d(image(), {.kernel = {kWide, kWide}, .padding = {kWide / 2, kWide / 2}});
       },
       {"max_pool2d", "window"}},
  });
  expect<ShapeError>({
      {"crop", [=] { crop(x(), Shape{kHuge}, {1}); }, {"crop", "[4]"}},
      {"slice_axes",
       [=] { slice(x(), std::vector<int>(9), std::vector<std::int64_t>(9), std::vector<std::int64_t>(9)); },
       {"slice", "8 axes"}},
  });
  EXPECT_EQ(slice(arange(0, 10), {0}, {3}, {10}, {kHuge}).to_vector<std::int64_t>(), std::vector<std::int64_t>{3});
}

TEST_P(ArgumentErrors, DevicesThatDoNotExist) {
  for (const Device device : {Device{DeviceType::gpu, -1}, Device{DeviceType::gpu, 100}, Device{DeviceType::cpu, 3}}) {
    expect<InvalidArgument>({{"to", [=] { of({2}).to(device); }, {"to", "there is no"}}});
  }
}

TEST_P(ArgumentErrors, UndefinedTensors) {
  const Tensor none;
  const auto x = [] { return of({2, 2}); };
  const std::vector<BadCall> calls = {
      {"add", [&] { none + x(); }, {"add", "'a'"}},
      {"add_second", [&] { x() + none; }, {"add", "'b'"}},
      {"add_scalar", [&] { none + 1.0; }, {"add_scalar", "'x'"}},
      {"tanh", [&] { tanh(none); }, {"tanh", "'x'"}},
      {"sum", [&] { sum(none); }, {"sum", "'x'"}},
      {"argmax", [&] { argmax(none); }, {"argmax", "'x'"}},
      {"matmul", [&] { matmul(x(), none); }, {"matmul", "'b'"}},
      {"linear", [&] { linear(none, x()); }, {"linear", "'x'"}},
      {"linear_weight", [&] { linear(x(), none); }, {"linear", "'weight'"}},
      {"conv2d", [&] { conv2d(none, none); }, {"conv2d", "'x'"}},
      {"max_pool2d", [&] { max_pool2d(none); }, {"max_pool2d", "'x'"}},
      {"avg_pool2d", [&] { avg_pool2d(none); }, {"avg_pool2d", "'x'"}},
      {"batch_norm", [&] { batch_norm(none, {}, {}, {}, {}); }, {"batch_norm", "'x'"}},
      {"l2_normalize", [&] { l2_normalize(none); }, {"l2_normalize", "'x'"}},
      {"cross_entropy", [&] { softmax_cross_entropy(x(), none); }, {"softmax_cross_entropy", "'labels'"}},
      {"square_error", [&] { square_error(none, 1); }, {"'x'"}},
      {"embedding", [&] { embedding(x(), none); }, {"embedding", "'ids'"}},
      {"embedding_bag", [&] { embedding_bag(none, none, none); }, {"embedding_bag", "'table'"}},
      {"shape", [&] { shape(none); }, {"shape", "'x'"}},
      {"slice", [&] { slice(none, {0}, {0}, {1}); }, {"slice", "'x'"}},
      {"slice_starts", [&] { slice(x(), {0}, none, from_vector<std::int64_t>({1})); }, {"slice", "'starts'"}},
      {"crop", [&] { crop(none, Shape{1}); }, {"crop", "'x'"}},
      {"crop_shape", [&] { crop(x(), none); }, {"crop", "'shape'"}},
      {"to_dtype", [&] { none.to(DType::f64); }, {"to", "'x'"}},
      {"to_device", [&] { none.to(cpu::device); }, {"to", "'x'"}},
      {"row_sparse", [&] { RowSparse{}.dense(); }, {"values"}},
      {"concat",
       [&] {
         concat({x(), none}, 0);
       },
       {"concat"}},
      {"reshape", [&] { reshape(none, {1}); }, {"reshape", "'x'"}},
      {"flatten", [&] { flatten(none); }, {"flatten", "'x'"}},
      {"transpose", [&] { transpose(none); }, {"transpose", "'x'"}},
      {"permute", [&] { permute(none, {}); }, {"permute", "'x'"}},
      {"narrow", [&] { narrow(none, 0, 0, 1); }, {"narrow", "'x'"}},
      {"select", [&] { select(none, 0, 0); }, {"select", "'x'"}},
      {"expand", [&] { expand(none, {1}); }, {"expand", "'x'"}},
      {"zeros_like", [&] { zeros_like(none); }, {"zeros_like", "'x'"}},
      {"ones_like", [&] { ones_like(none); }, {"ones_like", "'x'"}},
      {"add_", [&] { x().add_(none); }, {"add_", "'other'"}},
  };
  for (BadCall bad : calls) {
    bad.words.add("undefined");
    expect<InvalidArgument>({bad});
  }
}

// Whether the value is read at once or by queued work: the error comes with the op's line, at the latest when the
// result is read.
TEST_P(ArgumentErrors, IndicesOutOfRange) {
  const auto table = [] { return of({5, 3}); };
  for (const std::int64_t bad : {std::int64_t{5}, std::int64_t{-1}, std::int64_t{1} << 40, std::int64_t{-5}}) {
    const auto ids = [bad] { return from_vector<std::int64_t>({0, bad, 1}); };
    expect<InvalidArgument>({
        {"embedding", [=] { embedding(table(), ids()).to_vector<float>(); }, {"embedding", std::to_string(bad), "5"}},
        {"embedding_bag",
         [=] {
           embedding_bag(table(), ids(), from_vector<std::int64_t>({0, 1})).to_vector<float>();
         },
         {"embedding_bag", std::to_string(bad), "5"}},
        {"cross_entropy",
         [=] {
           softmax_cross_entropy(of({3, 5}), ids()).item();
         },
         {"softmax_cross_entropy", std::to_string(bad), "5"}},
    });
  }
  for (const auto& offsets : std::vector<std::vector<std::int64_t>>{{1, 2}, {0, 2, 1}, {0, 4}, {0, -1}}) {
    expect<InvalidArgument>(
        {{"offsets",
          [=] {
            embedding_bag(table(), from_vector<std::int64_t>({0, 1, 2}), from_vector(offsets)).to_vector<float>();
          },
          {"embedding_bag", "offsets"}}});
  }
  EXPECT_EQ(sum(embedding(table(), from_vector<std::int64_t>({4, 0}))).item(), 0);  // the runtime goes on
}

INSTANTIATE_TEST_SUITE_P(All, ArgumentErrors, each_backend(), backend_name);

}  // namespace
}  // namespace ferry::test
