// Shapes and dtypes that ops do not take: each error names the op, the argument, both shapes and the source line.
#include "tests/support/bad_call.h"

namespace ferry::test {
namespace {

using ::testing::HasSubstr;

class OpErrors : public OnBackend {
 protected:
  template <class E>
  void expect(const std::vector<BadCall>& calls) {
    expect_errors<E>(calls, "errors_test.cpp");
  }
};

TEST_P(OpErrors, ShapesThatDoNotFit) {
  expect<ShapeError>({
      {"add",
       [] {
         of({2, 3}) + of({2, 4});
       },
       {"add", "'a'", "'b'", "[2, 3]", "[2, 4]"}},
      {"mul",
       [] {
         of({2, 3}) * of({3, 2});
       },
       {"mul", "[2, 3]", "[3, 2]"}},
      {"sub", [] { of({5}) - of({4}); }, {"sub", "[5]", "[4]"}},
      {"div", [] { of({5}) / of({4}); }, {"div", "[5]", "[4]"}},
      {"maximum", [] { maximum(of({5}), of({4})); }, {"maximum", "[5]", "[4]"}},
      {"less", [] { less(of({5}), of({4})); }, {"less", "[5]", "[4]"}},
      {"square_error", [] { square_error(of({5}), of({4})); }, {"square_error", "[5]", "[4]"}},
      {"add_",
       [] {
         of({3}).add_(of({2, 3}));
       },
       {"add_", "[3]", "[2, 3]", "in place"}},
      {"copy_", [] { of({3}).copy_(of({1})); }, {"copy_", "[3]", "[1]"}},
      {"matmul",
       [] {
         matmul(of({2, 3}), of({4, 5}));
       },
       {"matmul", "[2, 3]", "[4, 5]"}},
      {"matmul_batch",
       [] {
         matmul(of({2, 2, 3}), of({3, 3, 5}));
       },
       {"matmul", "[2, 2, 3]", "[3, 3, 5]"}},
      {"matmul_rank",
       [] {
         matmul(of({3}), of({3, 5}));
       },
       {"matmul", "[3]"}},
      {"linear",
       [] {
         linear(of({2, 3}), of({5, 4}));
       },
       {"linear", "'weight'", "[2, 3]", "[5, 4]"}},
      {"linear_rows",
       [] {
         linear(of({2, 2, 3}), of({5, 4}));
       },
       {"linear", "[5, 4]"}},
      {"linear_bias",
       [] {
         linear(of({2, 3}), of({5, 3}), of({4}));
       },
       {"linear", "'bias'", "[4]", "[5, 3]"}},
      {"linear_rank",
       [] {
         linear(of({}), of({5, 3}));
       },
       {"linear", "'x'"}},
      {"conv2d",
       [] {
         conv2d(of({1, 3, 5, 5}), of({4, 2, 3, 3}));
       },
       {"conv2d", "'weight'", "[1, 3, 5, 5]", "[4, 2, 3, 3]"}},
      {"conv2d_rank",
       [] {
         conv2d(of({3, 5, 5}), of({4, 3, 3, 3}));
       },
       {"conv2d", "'x'", "[3, 5, 5]"}},
      {"conv2d_bias",
       [] {
         conv2d(of({1, 3, 5, 5}), of({4, 3, 3, 3}), of({3}));
       },
       {"conv2d", "'bias'", "[3]"}},
      {"conv2d_window",
       [] {
         conv2d(of({1, 3, 2, 5}), of({4, 3, 3, 3}));
       },
       {"conv2d", "[1, 3, 2, 5]", "[4, 3, 3, 3]"}},
      {"max_pool2d",
       [] {
         max_pool2d(of({1, 3, 1, 5}));
       },
       {"max_pool2d", "'x'", "[1, 3, 1, 5]"}},
      {"avg_pool2d",
       [] {
         avg_pool2d(of({3, 5}));
       },
       {"avg_pool2d", "'x'", "[3, 5]"}},
      {"batch_norm",
       [] {
         batch_norm(of({4, 3}), of({4}), {}, {}, {});
       },
       {"batch_norm", "'gamma'", "[4]", "[4, 3]"}},
      {"batch_norm_rank",
       [] {
         batch_norm(of({4, 3, 2}), {}, {}, {}, {});
       },
       {"batch_norm", "'x'", "[4, 3, 2]"}},
      {"batch_norm_empty",
       [] {
         batch_norm(of({0, 3}), {}, {}, {}, {});
       },
       {"batch_norm", "[0, 3]"}},
      {"batch_norm_running",
       [] {
         batch_norm(of({4, 3}), {}, {}, of({2}), of({2}));
       },
       {"[2]", "[3]"}},
      {"cross_entropy",
       [] {
         softmax_cross_entropy(of({4, 3}), of({3}, DType::i64));
       },
       {"softmax_cross_entropy", "'labels'", "[4, 3]", "[3]"}},
      {"concat",
       [] {
         concat({of({2, 3}), of({2, 4})}, 0);
       },
       {"concat", "[2, 3]", "[2, 4]"}},
      {"concat_rank",
       [] {
         concat({of({2, 3}), of({2})}, 0);
       },
       {"concat", "[2, 3]", "[2]"}},
      {"reshape",
       [] {
         reshape(of({2, 3}), {4, 2});
       },
       {"reshape", "[2, 3]", "[4, 2]"}},
      {"reshape_open",
       [] {
         reshape(of({2, 3}), {4, -1});
       },
       {"reshape", "[2, 3]", "[4, -1]"}},
      {"reshape_two_open",
       [] {
         reshape(of({2, 3}), {-1, -1});
       },
       {"reshape", "[-1, -1]"}},
      {"expand",
       [] {
         expand(of({2, 3}), {2, 2});
       },
       {"expand", "[2, 3]", "[2, 2]"}},
      {"expand_rank",
       [] {
         expand(of({2, 3}), {3});
       },
       {"expand", "[2, 3]", "[3]"}},
      {"crop",
       [] {
         crop(of({2, 3}), {2, 4});
       },
       {"crop", "'x'", "[2, 3]", "[2, 4]"}},
      {"crop_offset",
       [] {
         crop(of({2, 3}), {2, 2}, {1, 0});
       },
       {"crop", "[2, 3]", "[1, 0]"}},
      {"max",
       [] {
         max(of({2, 0}));
       },
       {"max", "'x'", "[2, 0]"}},
      {"argmax",
       [] {
         argmax(of({2, 0}), 1);
       },
       {"argmax", "'x'", "[2, 0]"}},
      {"embedding", [] { embedding(of({3}), of({2}, DType::i64)); }, {"embedding", "'table'", "[3]"}},
      {"embedding_bag",
       [] {
         embedding_bag(of({3, 2}), of({2, 2}, DType::i64), of({1}, DType::i64));
       },
       {"embedding_bag", "'ids'", "[2, 2]"}},
      {"slice",
       [] {
         slice(of({4, 4}), {0, 1}, of({1}, DType::i64), of({2}, DType::i64));
       },
       {"slice", "'starts'", "[1]"}},
      {"item", [] { of({2}).item(); }, {"item", "[2]"}},
  });
}

TEST_P(OpErrors, ShapesThatNoTensorHas) {
  constexpr std::int64_t kHalf = std::int64_t{1} << 32;
  const auto row = [] { return expand(of({1, 1}), {1, kHalf}); };
  const auto column = [] { return expand(of({1, 1}), {kHalf, 1}); };
  const std::string too_large = "2^56 elements";
  expect<ShapeError>({
      {"full",
       [] {
         zeros({kHalf, kHalf});
       },
       {"fill", "[4294967296, 4294967296]", too_large}},
      {"full_product_wraps",
       [] {
         zeros({std::int64_t{1} << 62, 4});
       },
       {"fill", too_large}},
      {"full_bytes_wrap", [] { zeros({std::int64_t{1} << 61}); }, {"fill", too_large}},
      {"full_with_zero",
       [] {
         zeros({kHalf, 0, kHalf});
       },
       {"fill", too_large}},
      {"uniform",
       [] {
         uniform({kHalf, kHalf});
       },
       {"uniform", too_large}},
      {"from_host",
       [] {
         from_host(nullptr, DType::f32, {kHalf, kHalf});
       },
       {"from_host", too_large}},
      {"from_host_negative", [] { from_host(nullptr, DType::f32, {-1}); }, {"from_host", "negative"}},
      {"expand",
       [] {
         expand(of({1}), {kHalf, kHalf});
       },
       {"expand", too_large}},
      {"expand_negative",
       [] {
         expand(of({1}), {-5, 2});
       },
       {"expand", "negative"}},
      {"add", [=] { row() + column(); }, {"add", too_large}},
      {"matmul", [=] { matmul(column(), row()); }, {"matmul", too_large}},
      {"concat", [=] { concat(std::vector<Tensor>(20, expand(of({1}), {std::int64_t{1} << 55})), 0); }, {too_large}},
      {"reshape_to_nothing",
       [] {
         reshape(of({0}), {kHalf, kHalf});
       },
       {"reshape", "[0]"}},
      {"conv2d",
       [] {
         conv2d(of({1, 1, 3, 3}), of({1, 1, 2, 2}), {}, {.padding = {1 << 30, 1 << 30}});
       },
       {"conv2d", too_large}},
      {"conv2d_kernel",
       [] {
         conv2d(of({1, 1, 3, 3}), of({1, 1, 0, 2}));
       },
       {"conv2d", "'weight'"}},
      {"conv2d_channels",
       [] {
         conv2d(of({1, 0, 3, 3}), of({2, 0, 2, 2}));
       },
       {"conv2d", "'x'"}},
  });
}

TEST_P(OpErrors, DtypesThatAreNotTaken) {
  const auto whole = [] { return of({2, 2}, DType::i64); };
  const auto truth = [] { return of({2, 2}, DType::boolean); };
  expect<InvalidArgument>({
      {"add", [] { of({2}) + of({2}, DType::f64); }, {"add", "'a'", "'b'", "f32", "f64"}},
      {"add_bool", [=] { truth() + truth(); }, {"add", "'a'", "bool"}},
      {"add_", [] { of({2}).add_(of({2}, DType::i64)); }, {"add_", "f32", "i64"}},
      {"scalar_bool", [=] { truth() * 2.0; }, {"mul_scalar", "bool"}},
      {"tanh", [=] { tanh(whole()); }, {"tanh", "'x'", "i64"}},
      {"sum", [=] { sum(truth()); }, {"sum", "'x'", "bool"}},
      {"mean", [=] { mean(whole()); }, {"mean", "'x'", "i64"}},
      {"matmul", [=] { matmul(whole(), whole()); }, {"matmul", "'a'", "i64"}},
      {"matmul_mixed",
       [] {
         matmul(of({2, 2}), of({2, 2}, DType::f16));
       },
       {"matmul", "f32", "f16", ".to("}},
      {"linear",
       [] {
         linear(of({2, 2}), of({2, 2}, DType::f64));
       },
       {"linear", "f32", "f64"}},
      {"conv2d",
       [] {
         conv2d(of({1, 1, 3, 3}), of({1, 1, 1, 1}, DType::f64));
       },
       {"conv2d", "f32", "f64"}},
      {"max_pool2d",
       [] {
         max_pool2d(of({1, 1, 2, 2}, DType::i32));
       },
       {"max_pool2d", "i32"}},
      {"batch_norm",
       [] {
         batch_norm(of({2, 2}), of({2}, DType::f64), {}, {}, {});
       },
       {"batch_norm", "'gamma'", "f64"}},
      {"l2_normalize", [=] { l2_normalize(whole()); }, {"l2_normalize", "i64"}},
      {"labels",
       [] {
         softmax_cross_entropy(of({2, 2}), of({2}));
       },
       {"softmax_cross_entropy", "'labels'", "f32"}},
      {"ids",
       [] {
         embedding(of({2, 2}), of({2}));
       },
       {"embedding", "'ids'", "f32"}},
      {"offsets",
       [] {
         embedding_bag(of({2, 2}), of({2}, DType::i64), of({1}, DType::i32));
       },
       {"embedding_bag", "'offsets'", "i32"}},
      {"bounds",
       [] {
         slice(of({2, 2}), {0}, of({1}), of({1}));
       },
       {"slice", "'starts'", "f32"}},
      {"concat",
       [] {
         concat({of({2}), of({2}, DType::f64)}, 0);
       },
       {"concat", "f32", "f64"}},
      {"fetch", [] { of({2}).to_vector<double>(); }, {"f32", "f64"}},
  });
}

INSTANTIATE_TEST_SUITE_P(All, OpErrors, each_backend(), backend_name);

TEST(OpErrorsOfRuntimes, TensorsOfTwoDoNotMix) {
  CheckedRuntime first(cpu_backend());
  const Tensor a = of({2});
  CheckedRuntime second(sim_backend());
  const Tensor b = named(of({2}), "theirs");
  const std::string message = message_of<InvalidArgument>([&] { a + b; });
  EXPECT_THAT(message, ::testing::AllOf(HasSubstr("add"), HasSubstr("'theirs'"), HasSubstr("another Runtime"),
                                        HasSubstr("errors_test.cpp:")));
}

}  // namespace
}  // namespace ferry::test
