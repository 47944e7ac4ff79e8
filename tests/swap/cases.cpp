#include "tests/swap/cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace ferry::testing {

using swap::IterationBuilder;
using swap::kNone;
using swap::TensorIndex;

swap::Iteration chain(int layers, Bytes activation, Nanoseconds time) {
  IterationBuilder builder;
  const auto varied = [time](int layer) { return time + time * (layer * 7 % 5) / 20; };
  std::vector<TensorIndex> outputs = {builder.add_input("x", activation, IterationBuilder::Residency::pinned)};
  std::vector<TensorIndex> weights;
  for (int i = 0; i < layers; ++i) {
    weights.push_back(builder.add_input(fmt::format("w{}", i), Bytes{64}, IterationBuilder::Residency::pinned));
    outputs.push_back(builder.run("forward", varied(i), {outputs.back(), weights.back()},
                                  {{.name = fmt::format("y{}", i), .size = activation}}));
  }
  TensorIndex gradient = builder.run("loss", time, {outputs.back()}, {{.name = "dy", .size = activation}});
  for (int i = layers - 1; i >= 0; --i) {
    const auto l = static_cast<std::size_t>(i);
    const TensorIndex made = builder.run(
        "backward", varied(i) * 2, {gradient, outputs[l], outputs[l + 1], weights[l]},
        {{.name = fmt::format("dx{}", i), .size = activation}, {.name = fmt::format("dw{}", i), .size = Bytes{64}}});
    builder.release(gradient);
    builder.release(outputs[l + 1]);
    gradient = made;
  }
  builder.release(gradient);
  return std::move(builder).build();
}

namespace {

class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed) : random_(seed) {}

  swap::Iteration make(int ops) {
    for (int i = 0; i < 3; ++i)
      live_.push_back(builder_.add_input(fmt::format("input{}", i), size(), IterationBuilder::Residency::pinned));
    for (int i = 0; i < ops; ++i) step(i);
    return std::move(builder_).build();
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  Bytes size() { return Bytes{static_cast<std::int64_t>(below(8) == 0 ? 0 : 1 + below(1000))}; }
  TensorIndex any() {
    return live_[below(3) == 0 ? below(live_.size())
                               : live_.size() - 1 - below(std::min<std::size_t>(live_.size(), 4))];
  }

  void step(int i) {
    std::vector<TensorIndex> inputs;
    for (std::uint64_t n = below(4); n > 0; --n) inputs.push_back(any());
    const bool reads_others = below(4) == 0;
    std::vector<IterationBuilder::Output> outputs;
    for (std::uint64_t n = 1 + below(3); n > 0; --n) {
      const bool view = !reads_others && !inputs.empty() && below(5) == 0;
      outputs.push_back({.name = fmt::format("t{}_{}", i, n),
                         .size = view ? Bytes{} : size(),
                         .view_of = view ? inputs[below(inputs.size())] : kNone});
    }
    const auto made = static_cast<TensorIndex>(outputs.size());
    // Its last result stays as it is: what it is made from again may be among its own results.
    if (reads_others && made > 1) outputs.back().recompute = IterationBuilder::Recompute::no;
    const TensorIndex first =
        builder_.run(fmt::format("op{}", i), Nanoseconds(1 + static_cast<std::int64_t>(below(100))), inputs, outputs);
    if (reads_others) read_others_again(made > 1 ? first + made - 1 : kNone);
    for (TensorIndex t = 0; t < made; ++t) live_.push_back(first + t);
    while (live_.size() > 12) release(below(live_.size()));
    if (below(6) == 0) {
      live_.push_back(live_[below(live_.size())]);
      builder_.retain(live_.back());
    }
  }

  void read_others_again(TensorIndex own) {
    std::vector<TensorIndex> inputs = {any()};
    if (const TensorIndex other = any(); other != inputs.front()) inputs.push_back(other);
    if (own != kNone) inputs.push_back(own);
    builder_.reads_again(std::move(inputs));
  }

  void release(std::size_t position) {
    builder_.release(live_[position]);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(position));
  }

  std::mt19937_64 random_;
  IterationBuilder builder_;
  std::vector<TensorIndex> live_;
};

}  // namespace

swap::Iteration random_program(std::uint64_t seed, int ops) { return RandomProgram(seed).make(ops); }

}  // namespace ferry::testing
