// What a random training program consists of: drawing it from a seed, making it smaller, printing it.
#include <fmt/format.h>

#include <array>

#include "tests/swap/training_blocks.h"
#include "tests/swap/training_program.h"

namespace ferry::test {
namespace {

constexpr std::array<std::string_view, 5> kRules = {"sgd", "momentum", "adamw", "adagrad", "by_hand"};
constexpr std::array<std::string_view, 3> kGuards = {"", " on the cpu", " on the gpu"};

bool one_in(Random& random, std::uint64_t n) { return random() % n == 0; }

template <class T, std::size_t N>
T one_of(Random& random, const std::array<T, N>& choices) {
  return choices[random() % N];
}

BlockSpec random_block(Random& random, std::size_t values, bool mixed) {
  BlockSpec block{.kind = random() % block_kinds().size(), .seed = random()};
  block.a = one_in(random, 3) ? random() % values : values - 1;
  block.b = random() % values;
  // Half of the ops on the CPU; elsewhere a guard for the GPU changes nothing.
  if (mixed) {
    block.guard = one_in(random, 2) ? Guard::cpu : Guard::none;
  } else if (one_in(random, 8)) {
    block.guard = Guard::gpu;
  }
  block.checkpointed = one_in(random, 7);
  return block;
}

ProgramSpec without_block(const ProgramSpec& spec, std::size_t index) {
  ProgramSpec smaller = spec;
  const std::size_t value = ProgramSpec::kInputs + index, instead = spec.blocks[index].a;
  smaller.blocks.erase(smaller.blocks.begin() + static_cast<std::ptrdiff_t>(index));
  for (BlockSpec& block : smaller.blocks) {
    for (std::size_t* input : {&block.a, &block.b}) {
      if (*input == value) *input = instead;
      if (*input > value) --*input;
    }
  }
  return smaller;
}

// All features that can be taken away by setting one member.
template <class T>
void simplify(const ProgramSpec& spec, T ProgramSpec::*member, T plain, std::vector<ProgramSpec>& result) {
  if (spec.*member == plain) return;
  result.push_back(spec);
  result.back().*member = plain;
}

}  // namespace

ProgramSpec random_spec(std::uint64_t seed) {
  Random random(seed);
  ProgramSpec spec{.seed = seed};
  spec.steps = 2 + static_cast<int>(random() % 3);
  spec.width = one_of(random, std::array<std::int64_t, 2>{48, 96});
  spec.batch = one_of(random, std::array<std::int64_t, 4>{16, 32, 64, 128});
  spec.repeats = one_in(random, 3);
  if (spec.repeats) spec.steps += 2;  // the first records, the second may differ by what is made once
  spec.batch_changes = !spec.repeats && one_in(random, 2);
  spec.micro_batches = one_in(random, 4) ? 2 : 1;
  spec.two_losses = one_in(random, 3);
  spec.unused_values_count = one_in(random, 2);
  spec.input_gradient = one_in(random, 6);
  spec.rule = static_cast<UpdateRule>(random() % kRules.size());
  spec.offload = spec.rule != UpdateRule::by_hand && one_in(random, 4);
  spec.clips = one_in(random, 5);
  spec.shadow = one_in(random, 4);
  spec.late_zero = one_in(random, 2);
  spec.reads_every_step = one_in(random, 2);
  const bool mixed = one_in(random, 2);
  const std::size_t blocks = 4 + random() % 11;
  for (std::size_t i = 0; i < blocks; ++i) {
    spec.blocks.push_back(random_block(random, ProgramSpec::kInputs + i, mixed));
  }
  return spec;
}

std::vector<ProgramSpec> simplified(const ProgramSpec& spec) {
  std::vector<ProgramSpec> result;
  for (std::size_t i = spec.blocks.size(); i-- > 0;) result.push_back(without_block(spec, i));
  if (spec.steps > 1) {
    result.push_back(spec);
    --result.back().steps;
  }
  simplify(spec, &ProgramSpec::micro_batches, 1, result);
  simplify(spec, &ProgramSpec::rule, UpdateRule::sgd, result);
  for (bool ProgramSpec::*feature :
       {&ProgramSpec::batch_changes, &ProgramSpec::two_losses, &ProgramSpec::unused_values_count,
        &ProgramSpec::input_gradient, &ProgramSpec::offload, &ProgramSpec::clips, &ProgramSpec::shadow,
        &ProgramSpec::late_zero, &ProgramSpec::reads_every_step}) {
    simplify(spec, feature, false, result);
  }
  for (std::size_t i = 0; i < spec.blocks.size(); ++i) {
    if (spec.blocks[i].guard != Guard::none) {
      result.push_back(spec);
      result.back().blocks[i].guard = Guard::none;
    }
    if (spec.blocks[i].checkpointed) {
      result.push_back(spec);
      result.back().blocks[i].checkpointed = false;
    }
  }
  return result;
}

std::string to_string(const ProgramSpec& spec) {
  std::string text = fmt::format("program of seed {}: {} steps of {} x [{}{}, {}], {}", spec.seed, spec.steps,
                                 spec.micro_batches, spec.batch, spec.batch_changes ? " and others" : "", spec.width,
                                 kRules[static_cast<std::size_t>(spec.rule)]);
  const auto feature = [&](bool on, std::string_view name) {
    if (on) text += fmt::format(", {}", name);
  };
  feature(spec.repeats, "repeats");
  feature(spec.offload, "offload");
  feature(spec.two_losses, "two_losses");
  feature(spec.unused_values_count, "unused_values_count");
  feature(spec.input_gradient, "input_gradient");
  feature(spec.clips, "clips");
  feature(spec.shadow, "shadow");
  feature(spec.late_zero, "late_zero");
  feature(spec.reads_every_step, "reads_every_step");
  for (std::size_t i = 0; i < spec.blocks.size(); ++i) {
    const BlockSpec& block = spec.blocks[i];
    text += fmt::format("\n  {} = {}({}, {}) seed {}{}{}", ProgramSpec::kInputs + i, block_kinds()[block.kind].name,
                        block.a, block.b, block.seed, kGuards[static_cast<std::size_t>(block.guard)],
                        block.checkpointed ? " in a checkpoint" : "");
  }
  return text;
}

}  // namespace ferry::test
