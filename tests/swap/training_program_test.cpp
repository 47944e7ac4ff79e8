// Random training programs without a budget: equal bytes in every run and order of execution, every kind of block.
#include "tests/swap/training_program.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/support/runtime_fixture.h"
#include "tests/swap/training_blocks.h"

namespace ferry::test {
namespace {

struct Trained {
  Results results;
  bool finite = false;
};

Trained trained(const ProgramSpec& spec, const Backend& backend) {
  CheckedRuntime runtime(backend);
  TrainingProgram program(spec);
  for (int i = 0; i < spec.steps; ++i) program.step(i);
  return {program.results(), program.losses_are_finite()};
}

// All of its results are read, and each kind changes them.
TEST(TrainingPrograms, GiveEqualBytesInEveryRunAndOrder) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const ProgramSpec spec = random_spec(seed);
    SCOPED_TRACE(to_string(spec));
    const Trained expected = trained(spec, sim_backend());
    EXPECT_TRUE(expected.finite);
    EXPECT_FALSE(expected.results.empty());
    EXPECT_EQ(first_difference(expected.results, trained(spec, sim_backend()).results), "");
    EXPECT_EQ(first_difference(expected.results, trained(spec, adversarial_backend(seed)).results), "");
    EXPECT_EQ(first_difference(expected.results, trained(spec, synchronous_backend()).results), "");
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(TrainingPrograms, OtherSeedsAreOtherPrograms) {
  const Trained first = trained(random_spec(1), sim_backend());
  EXPECT_NE(first_difference(first.results, trained(random_spec(2), sim_backend()).results), "");
}

TEST(TrainingPrograms, HaveEveryKindOfBlockAndFeature) {
  std::map<std::string_view, int> kinds;
  std::set<UpdateRule> rules;
  int guarded = 0, blocks = 0, checkpointed = 0, losses = 0, accumulated = 0, changing = 0, offloaded = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const ProgramSpec spec = random_spec(seed);
    rules.insert(spec.rule);
    losses += spec.two_losses;
    accumulated += spec.micro_batches > 1;
    changing += spec.batch_changes;
    offloaded += spec.offload;
    bool mixed = false;
    for (const BlockSpec& block : spec.blocks) {
      ++kinds[block_kinds()[block.kind].name];
      mixed = mixed || block.guard == Guard::cpu;
      checkpointed += block.checkpointed;
    }
    if (!mixed) continue;
    for (const BlockSpec& block : spec.blocks) guarded += block.guard == Guard::cpu, ++blocks;
  }
  EXPECT_EQ(kinds.size(), block_kinds().size());
  for (const auto& [name, count] : kinds) EXPECT_GE(count, 20) << name;
  EXPECT_EQ(rules.size(), 5u);
  EXPECT_NEAR(static_cast<double>(guarded) / blocks, 0.5, 0.1);
  for (const int count : {checkpointed, losses, accumulated, changing, offloaded}) EXPECT_GE(count, 30);
}

// A program of one block: its gradients reach its parameters, also in a checkpoint and on the CPU.
TEST(TrainingPrograms, EachKindOfBlockTrainsAlone) {
  for (std::size_t kind = 0; kind < block_kinds().size(); ++kind) {
    ProgramSpec spec{.seed = kind, .width = 48, .input_gradient = true, .rule = UpdateRule::momentum};
    spec.blocks.push_back({.kind = kind, .seed = kind + 7, .a = 0, .b = 1});
    SCOPED_TRACE(to_string(spec));
    const Trained plain = trained(spec, sim_backend());
    EXPECT_TRUE(plain.finite);
    const std::size_t parameters = block_kinds()[kind].parameters ? block_kinds()[kind].parameters(48).size() : 0;
    std::set<std::string> gradients;
    for (const Result& result : plain.results) {
      if (result.name.find("gradient") != std::string::npos)
        gradients.insert(result.name.substr(0, result.name.find(" (")));
    }
    EXPECT_GE(gradients.size(), parameters + 1);
    spec.blocks[0].checkpointed = true;
    EXPECT_EQ(first_difference(plain.results, trained(spec, sim_backend()).results), "");
    spec.blocks[0].guard = Guard::cpu;
    EXPECT_EQ(first_difference(plain.results, trained(spec, sim_backend()).results), "");
  }
}

TEST(TrainingPrograms, GetSmallerUntilNothingIsLeft) {
  ProgramSpec spec = random_spec(3);
  int trials = 0;
  for (std::vector<ProgramSpec> smaller; !(smaller = simplified(spec)).empty(); ++trials) {
    ASSERT_LT(trials, 200);
    spec = smaller[static_cast<std::size_t>(trials) % smaller.size()];
    trained(spec, sim_backend());
  }
  EXPECT_TRUE(spec.blocks.empty());
  EXPECT_EQ(spec.steps, 1);
}

// A step can be taken again from a snapshot.
TEST(TrainingPrograms, ContinueFromASnapshot) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    ProgramSpec spec = random_spec(seed);
    spec.steps = 2;
    spec.reads_every_step = false;
    SCOPED_TRACE(to_string(spec));
    CheckedRuntime runtime(sim_backend());
    TrainingProgram program(spec);
    program.step(0);
    const TrainingProgram::Snapshot snapshot = program.snapshot();
    program.restore(snapshot);
    program.step(1);
    const Results expected = program.results();
    program.restore(snapshot);
    program.step(1);
    EXPECT_EQ(first_difference(expected, program.results()), "");
  }
}

}  // namespace
}  // namespace ferry::test
