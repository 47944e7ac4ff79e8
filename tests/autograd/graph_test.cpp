// The graph's rules: accumulation, retaining, detaching, NoGrad, in-place writes, conversions, depth.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include <ferry/device_guard.h>
#include <ferry/no_grad.h>
#include <ferry/ops.h>
#include <ferry/profiler.h>
#include "tests/support/runtime_fixture.h"

namespace ferry::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GraphOfOps : public OnSim {
 protected:
  static Tensor leaf(const std::vector<double>& values) { return from_vector(values).set_requires_grad(); }
};

TEST_F(GraphOfOps, TwoBackwardCallsAddUp) {
  const Tensor x = leaf({1, 2, 3});
  sum(x * x).backward();
  sum(x * 3.0).backward();
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(5, 7, 9));
}

TEST_F(GraphOfOps, AccumulationLeavesAGradientThatWasTakenUnchanged) {
  const Tensor x = leaf({1, 2});
  sum(x * 2.0).backward();
  const Tensor first = x.grad();
  sum(x * 3.0).backward();
  EXPECT_THAT(first.to_vector<double>(), ElementsAre(2, 2));
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(5, 5));
}

TEST_F(GraphOfOps, AGradientMayBeWrittenInPlace) {
  Tensor x = leaf({1, 2}), y = leaf({3, 4});
  sum(x).backward();  // each element's gradient is the same 1
  x.grad().mul_(0.5);
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(0.5, 0.5));
  x.zero_grad();
  Tensor start = from_vector<double>({1, 10});
  (x + y).backward(start);
  x.grad().mul_(3);
  start.fill_(0);
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(3, 30));
  EXPECT_THAT(y.grad().to_vector<double>(), ElementsAre(1, 10));
}

TEST_F(GraphOfOps, AConstantPowerHasNoSlopeAnywhere) {
  const Tensor x = leaf({0, 2});
  sum(pow(x, 0)).backward();
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(0, 0));
}

TEST_F(GraphOfOps, BackwardNamesTheLineOfItsCall) {
  const auto here = HasSubstr("graph_test.cpp");
  EXPECT_THAT(message_of<ShapeError>([] { (leaf({1, 2}) * 2.0).backward(); }), here);
  EXPECT_THAT(message_of<InvalidArgument>([] { zeros({}).backward(); }), here);
}

TEST_F(GraphOfOps, GradientGivenByTheCallerIsNotWritten) {
  const Tensor x = leaf({1, 2});
  Tensor start = from_vector<double>({1, 10});
  x.backward(start);
  x.backward(start);
  EXPECT_THAT(start.to_vector<double>(), ElementsAre(1, 10));
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(2, 20));
}

TEST_F(GraphOfOps, OneGradientDeliveredToTwoLeavesStaysTwo) {
  const Tensor x = leaf({1, 2}), y = leaf({3, 4});
  (x + y).backward(from_vector<double>({1, 1}));
  sum(x * 5.0).backward();
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(6, 6));
  EXPECT_THAT(y.grad().to_vector<double>(), ElementsAre(1, 1));
}

TEST_F(GraphOfOps, SharedSubexpressionCountsOncePerUse) {
  const Tensor x = leaf({2});
  const Tensor shared = x * x;
  sum(shared * shared + shared).backward();  // 4 x³ + 2 x
  EXPECT_EQ(x.grad().item(), 36);
}

TEST_F(GraphOfOps, TheSameTensorOnBothSides) {
  const Tensor x = leaf({3});
  sum(x / x + x - x).backward();
  EXPECT_EQ(x.grad().item(), 0);
}

TEST_F(GraphOfOps, SecondBackwardNeedsRetainGraph) {
  const Tensor x = leaf({2});
  const Tensor y = sum(x * x);
  y.backward({}, {.retain_graph = true});
  y.backward();
  EXPECT_EQ(x.grad().item(), 8);
  EXPECT_THAT(message_of<InvalidArgument>([&] { y.backward(); }),
              AllOf(HasSubstr("retain_graph"), HasSubstr("graph_test.cpp")));
  EXPECT_EQ(x.grad().item(), 8);
}

TEST_F(GraphOfOps, BackwardReleasesWhatItSaved) {
  const Bytes before = runtime_->live_bytes();
  const Tensor x = from_vector<double>({1, 2}).set_requires_grad();
  Tensor y = uniform({1 << 16}, 0, 1, DType::f64);
  const Tensor loss = sum(sum(y * y) * x);
  y = Tensor();
  Tensor big = uniform({1 << 16}, 0, 1, DType::f64);
  const Tensor other = sum(big * sum(x));
  big = Tensor();
  const Bytes held = runtime_->live_bytes();
  other.backward();
  EXPECT_GE((held - runtime_->live_bytes()).count, (1 << 16) * 8 - 4096);
  EXPECT_GT(held, before);
}

// The fixture looks for what is left: no op may keep itself alive through the results it saved.
TEST_F(GraphOfOps, GraphsWithoutABackwardAreReleased) {
  const Tensor x = full({1, 2, 4, 4}, 0.5).set_requires_grad();
  for (const Tensor& y :
       {tanh(x), sigmoid(x), relu(x), sqrt(x), exp(x), max(x), l2_normalize(x), max_pool2d(x),
        batch_norm(x, {}, {}, {}, {}), softmax_cross_entropy(reshape(x, {4, 8}), zeros({4}, DType::i64))}) {
    EXPECT_TRUE(y.requires_grad());
  }
}

TEST_F(GraphOfOps, NoGradBuildsNothing) {
  const Tensor x = leaf({1});
  {
    const NoGrad outer;
    EXPECT_FALSE((x * x).requires_grad());
    { const NoGrad inner; }
    EXPECT_FALSE(grad_enabled());
    EXPECT_FALSE(reshape(x, {1, 1}).requires_grad());
  }
  EXPECT_TRUE((x * x).requires_grad());
  try {
    const NoGrad scope;
    throw 1;
  } catch (int) {
  }
  EXPECT_TRUE(grad_enabled());
}

TEST_F(GraphOfOps, DetachLeavesTheGraphAndSharesElements) {
  Tensor x = leaf({1, 2});
  Tensor y = x * 2.0;
  Tensor cut = y.detach();
  EXPECT_FALSE(cut.requires_grad());
  EXPECT_TRUE(cut.is_leaf());
  cut.fill_(7);
  EXPECT_THAT(y.to_vector<double>(), ElementsAre(7, 7));
  EXPECT_THAT(message_of<InvalidArgument>([&] { cut.backward(); }), HasSubstr("requires grad"));
}

TEST_F(GraphOfOps, StartingPointErrors) {
  const Tensor x = leaf({1, 2});
  EXPECT_THAT(message_of<ShapeError>([&] { (x * x).backward(); }), HasSubstr("[2]"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                (x * x).backward(from_vector<double>({1, 2, 3}));
              }),
              AllOf(HasSubstr("[3]"), HasSubstr("[2]")));
  EXPECT_THAT(message_of<ShapeError>([&] { (x * x).backward(from_vector<float>({1, 2})); }), HasSubstr("f32"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { from_vector<double>({1}).backward(); }), HasSubstr("requires grad"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { Tensor().backward(); }), HasSubstr("undefined"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { from_vector<std::int64_t>({1}).set_requires_grad(); }),
              HasSubstr("i64"));
  Tensor result = x * x;
  EXPECT_THAT(message_of<InvalidArgument>([&] { result.set_requires_grad(false); }), HasSubstr("detach"));
}

// --- in place --------------------------------------------------------------------------------------------------------

TEST_F(GraphOfOps, WritingALeafThatRequiresGradIsAnError) {
  Tensor x = named(leaf({1, 2}), "weight");
  const Tensor y = from_vector<double>({1, 1});
  for (const auto& write :
       std::vector<std::function<void()>>{[&] { x.add_(y); }, [&] { x.sub_(y); }, [&] { x.mul_(y); },
                                          [&] { x.mul_(2.0); }, [&] { x.fill_(0); }, [&] { x.copy_(y); }}) {
    EXPECT_THAT(message_of<InvalidArgument>(write),
                AllOf(HasSubstr("'weight'"), HasSubstr("leaf"), HasSubstr("NoGrad"), HasSubstr("graph_test.cpp")));
  }
  EXPECT_THAT(x.to_vector<double>(), ElementsAre(1, 2));
  {
    const NoGrad scope;
    x.add_(y);
  }
  EXPECT_THAT(x.to_vector<double>(), ElementsAre(2, 3));
  EXPECT_TRUE(x.requires_grad());
}

TEST_F(GraphOfOps, WritingAViewInTheGraphIsAnError) {
  const Tensor x = leaf({1, 2});
  Tensor view = narrow(x * 1.0, 0, 0, 1);
  EXPECT_THAT(message_of<InvalidArgument>([&] { view.mul_(2.0); }),
              AllOf(HasSubstr("view"), HasSubstr("out-of-place")));
}

TEST_F(GraphOfOps, WritingIntoAViewWouldHideAGradientFromItsBase) {
  const Tensor x = leaf({5});
  Tensor base = zeros({3}, DType::f64);
  Tensor view = narrow(base, 0, 1, 1);
  EXPECT_THAT(message_of<InvalidArgument>([&] { view.add_(x); }), HasSubstr("view"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { view.copy_(x); }), HasSubstr("view"));
}

TEST_F(GraphOfOps, InPlaceResultsAreInTheGraph) {
  const Tensor x = leaf({2, 3}), y = leaf({4, 5});
  Tensor z = x * 2.0;
  z.add_(y).mul_(3.0).sub_(x);
  sum(z).backward();
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(5, 5));
  EXPECT_THAT(y.grad().to_vector<double>(), ElementsAre(3, 3));
}

// A view made before its base is written shows the written elements: so does its gradient.
TEST_F(GraphOfOps, ViewsGoThroughLaterWritesToTheirBase) {
  const Tensor x = leaf({2, 3}), y = leaf({4, 5});
  Tensor base = x * 1.0;
  const Tensor view = narrow(base, 0, 0, 1), deeper = reshape(transpose(reshape(view, {1, 1})), {1});
  base.mul_(3.0);
  sum(view * 2.0).backward({}, {.retain_graph = true});
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(6, 0));
  sum(deeper * 2.0).backward({}, {.retain_graph = true});
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(12, 0));
  base.copy_(y);
  sum(deeper + view).backward({}, {.retain_graph = true});
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(12, 0));
  EXPECT_THAT(y.grad().to_vector<double>(), ElementsAre(2, 0));
  base.fill_(1);
  EXPECT_THAT(view.to_vector<double>(), ElementsAre(1));
  sum(view * 5.0 + y).backward();
  EXPECT_THAT(y.grad().to_vector<double>(), ElementsAre(3, 1));
}

TEST_F(GraphOfOps, ViewsEnterTheGraphWithTheirBase) {
  const Tensor x = leaf({5, 6});
  Tensor base = zeros({2}, DType::f64);
  const Tensor view = narrow(base, 0, 1, 1), deeper = reshape(view, {1, 1});
  const Tensor cut = view.detach();
  EXPECT_FALSE(view.requires_grad());
  base.add_(x);
  EXPECT_TRUE(deeper.requires_grad());
  EXPECT_FALSE(view.is_leaf());
  EXPECT_FALSE(cut.requires_grad());
  sum(deeper * view).backward({}, {.retain_graph = true});
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(0, 12));
  const Tensor later = narrow(base, 0, 0, 1);
  sum(later).backward();
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(1, 12));
}

TEST_F(GraphOfOps, ViewsThatAreLeavesStayLeaves) {
  const Tensor x = leaf({5, 6});
  Tensor base = zeros({2}, DType::f64);
  Tensor view = narrow(base, 0, 1, 1);
  view.set_requires_grad();
  base.add_(x);
  EXPECT_TRUE(view.is_leaf());
  sum(view * 2.0).backward();
  EXPECT_THAT(view.grad().to_vector<double>(), ElementsAre(2));
  EXPECT_FALSE(x.has_grad());
}

TEST_F(GraphOfOps, DeepViewsNeedNoStack) {
  Tensor view = zeros({2, 3}, DType::f64);
  for (int i = 0; i < 100'000; ++i) view = transpose(view);
  Tensor in_graph = zeros({2, 3}, DType::f64).set_requires_grad();
  for (int i = 0; i < 100'000; ++i) in_graph = transpose(in_graph);
}

TEST_F(GraphOfOps, CopyAndFillCutWhatWasThere) {
  const Tensor x = leaf({2, 3}), y = leaf({4, 5});
  Tensor z = x * 2.0;
  z.copy_(y);
  sum(z * z).backward();
  EXPECT_THAT(y.grad().to_vector<double>(), ElementsAre(8, 10));
  Tensor w = x * 1.0;
  w.fill_(3);
  if (w.requires_grad()) sum(w).backward();
  if (x.has_grad()) {
    EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(0, 0));
  }
}

// An input that backward needs and that was written since is an error, never a wrong gradient.
TEST_F(GraphOfOps, ChangedInputOfMulIsNoticed) {
  const Tensor x = leaf({2, 3});
  Tensor factor = from_vector<double>({4, 5});
  const Tensor y = sum(x * factor);
  factor.add_(factor);
  const std::string message = message_of<InvalidArgument>([&] { y.backward(); });
  EXPECT_THAT(message, AllOf(HasSubstr("mul"), HasSubstr("in place"), HasSubstr("graph_test.cpp")));
  EXPECT_FALSE(x.has_grad());
}

TEST_F(GraphOfOps, ChangedResultOfTanhIsNoticed) {
  const Tensor x = leaf({2, 3});
  Tensor y = tanh(x);
  y.detach().mul_(2.0);
  EXPECT_THAT(message_of<InvalidArgument>([&] { sum(y).backward(); }), AllOf(HasSubstr("tanh"), HasSubstr("in place")));
}

TEST_F(GraphOfOps, ChangeThroughAViewIsNoticed) {
  const Tensor x = leaf({2, 3});
  Tensor factor = from_vector<double>({4, 5});
  const Tensor y = sum(x * factor);
  narrow(factor, 0, 1, 1).fill_(0);
  message_of<InvalidArgument>([&] { y.backward(); });
}

TEST_F(GraphOfOps, MulInPlaceCannotGiveTheGradientOfItsFactor) {
  const Tensor x = leaf({2, 3}), factor = leaf({4, 5});
  Tensor y = x * 1.0;
  y.mul_(factor);
  EXPECT_THAT(message_of<InvalidArgument>([&] { sum(y).backward(); }), AllOf(HasSubstr("mul_"), HasSubstr("in place")));
}

TEST_F(GraphOfOps, ChangeThatBackwardDoesNotNeedIsAllowed) {
  const Tensor x = leaf({2, 3});
  Tensor y = from_vector<double>({1, 1});
  const Tensor z = sum(x + y);
  y.fill_(9);
  z.backward();
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(1, 1));
}

// --- conversions and depth -------------------------------------------------------------------------------------------

TEST_F(GraphOfOps, GradientPassesDtypes) {
  const Tensor x = leaf({1.5, 2.5});
  const Tensor y = x.to(DType::f32) * 2.0;
  EXPECT_EQ(y.dtype(), DType::f32);
  sum(y.to(DType::f64) * x).backward();
  EXPECT_EQ(x.grad().dtype(), DType::f64);
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(6, 10));
}

TEST_F(GraphOfOps, NoGradientThroughWholeNumbers) {
  const Tensor x = leaf({1.5, 2.5});
  EXPECT_FALSE(x.to(DType::i64).requires_grad());
  EXPECT_FALSE(greater(x, x).requires_grad());
  EXPECT_FALSE(argmax(x).requires_grad());
  EXPECT_FALSE(shape(x).requires_grad());
}

TEST_F(GraphOfOps, GradientPassesDevicesAndLandsWhereTheLeafIs) {
  const Tensor x = leaf({1, 2});
  ASSERT_EQ(x.device(), cpu::device);
  const Tensor there = x.to(gpu::device);
  EXPECT_EQ(there.device(), gpu::device);
  EXPECT_EQ(there.to(gpu::device).impl(), there.impl());
  sum((there * there).to(cpu::device) * 2.0).backward();
  EXPECT_EQ(x.grad().device(), cpu::device);
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(4, 8));
}

// Gradients of these ops are written over the gradient they come from where nobody else holds it, and only there.
TEST_F(GraphOfOps, AGradientThatNobodyElseHoldsIsWrittenOver) {
  using Function = Tensor (*)(const Tensor&);
  const std::vector<std::pair<std::string, Function>> functions = {
      {"relu_backward", [](const Tensor& x) { return relu(x); }},
      {"tanh_backward", [](const Tensor& x) { return tanh(x); }},
      {"sigmoid_backward", [](const Tensor& x) { return sigmoid(x); }}};
  for (const auto& [op, function] : functions) {
    SCOPED_TRACE(op);
    const Tensor weight = from_vector(std::vector<double>{0.5, -2, 3, 7});
    const auto run = [&](const auto& backward) {
      const Tensor x = leaf({-1, 0, 0.25, 2});
      Profiler profiler;
      backward(function(x));
      profiler.stop();
      std::ostringstream trace;
      profiler.write_trace(trace);
      return std::pair{x.grad().to_vector<double>(), trace.str().find('"' + op + "_\"") != std::string::npos};
    };
    const auto [expected, held_is_overwritten] = run([&](const Tensor& y) { y.backward(weight); });
    EXPECT_FALSE(held_is_overwritten);
    EXPECT_THAT(weight.to_vector<double>(), ElementsAre(0.5, -2, 3, 7));
    const auto [sole, sole_is_overwritten] = run([&](const Tensor& y) { sum(y * weight).backward(); });
    EXPECT_TRUE(sole_is_overwritten);
    EXPECT_EQ(sole, expected);
    // Two consumers get one gradient: the first of them must leave it to the second.
    const Tensor x = leaf({-1, 0, 0.25, 2});
    const Tensor y = function(x);
    sum((y + function(x)) * weight).backward();
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(x.grad().to_vector<double>()[i], 2 * expected[i]);
    // A gradient that lies in another order than the result is not written over.
    const Tensor square = from_vector(std::vector<double>{-1, 0.25, 2, 1}).set_requires_grad();
    const Tensor turned = permute(function(reshape(square, {2, 2})), {1, 0});
    sum(turned * reshape(weight, {2, 2})).backward();
    const Tensor again = from_vector(std::vector<double>{-1, 0.25, 2, 1}).set_requires_grad();
    function(again).backward(from_vector(std::vector<double>{0.5, 3, -2, 7}));
    EXPECT_EQ(square.grad().to_vector<double>(), again.grad().to_vector<double>());
  }
}

TEST_F(GraphOfOps, DeepChainsNeedNoStack) {
  const DeviceGuard<cpu> on_cpu;
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 100'000; ++i) y = y + 1.0;
  sum(y).backward();
  EXPECT_EQ(x.grad().item(), 1);
  y = Tensor();
  Tensor unused = x;
  for (int i = 0; i < 100'000; ++i) unused = i % 2 == 0 ? unused + x : -unused;
  unused = Tensor();  // released without a backward
}

TEST_F(GraphOfOps, WideGraphsReleaseTheirNodes) {
  const Tensor x = leaf({1});
  Tensor total = x;
  for (int i = 0; i < 1000; ++i) total = total + total * 0.001;
  sum(total).backward();
  EXPECT_GT(x.grad().item(), 2.7);
  EXPECT_LT(x.grad().item(), 2.72);
}

}  // namespace
}  // namespace ferry::test
