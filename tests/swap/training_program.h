// Random training programs: what a memory budget must leave as it is, bit for bit.
//
// A seed gives a ProgramSpec, plain data: blocks over values [N, width] (see training_blocks.h) with branches and
// shared parameters, each perhaps in a DeviceGuard or a checkpoint, one or two losses, micro-batches, an optimizer,
// tensors that are kept from step to step. A TrainingProgram runs a spec on the current runtime. Two runs of one spec
// give equal bytes, whatever the device, the order of execution and the memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ferry/optim.h>
#include <ferry/random.h>
#include <ferry/tensor.h>

namespace ferry::test {

enum class Guard : std::uint8_t { none, cpu, gpu };

struct BlockSpec {
  std::size_t kind = 0;  // of block_kinds()
  std::uint64_t seed = 0;
  std::size_t a = 0, b = 0;  // values it reads: kInputs of the program, then one a block
  Guard guard = Guard::none;
  bool checkpointed = false;
};

enum class UpdateRule : std::uint8_t { sgd, momentum, adamw, adagrad, by_hand };

struct ProgramSpec {
  // The batch, the carried state, and the mean of a value of the step before.
  static constexpr std::size_t kInputs = 3;

  std::uint64_t seed = 0;
  std::vector<BlockSpec> blocks{};
  int steps = 2;
  std::int64_t width = 96;  // a multiple of 48
  std::int64_t batch = 16;
  bool batch_changes = false;  // from step to step
  bool repeats = false;        // every step runs the same ops on the same shapes
  int micro_batches = 1;
  bool two_losses = false;  // of one graph, which the first backward retains
  bool unused_values_count = false;
  bool input_gradient = false;
  UpdateRule rule = UpdateRule::sgd;
  bool offload = false;  // the optimizer in DeviceGuard<cpu>
  bool clips = false;
  bool shadow = false;            // averages of parameters, updated in place
  bool late_zero = false;         // gradients live until the next step has computed its losses
  bool reads_every_step = false;  // else only losses are read before the last step
};

// Some hundred ops a step.
ProgramSpec random_spec(std::uint64_t seed);
// What is left when one thing is taken away: a block (its readers read its input), a step, a feature. For shrinking.
std::vector<ProgramSpec> simplified(const ProgramSpec& spec);
std::string to_string(const ProgramSpec& spec);

// Bytes that a program made, by name.
struct Result {
  std::string name;
  std::vector<unsigned char> bytes;
  bool operator==(const Result&) const = default;
};
using Results = std::vector<Result>;
// What differs first; "" for equal ones.
std::string first_difference(const Results& expected, const Results& actual);

class TrainingProgram {
 public:
  struct Hooks {
    std::function<void()> after_block;    // also after losses, backward and update
    std::function<void()> before_update;  // the optimizer, or what is done by hand, begins
    std::function<void()> after_update;   // it has ended; averages come after it
  };

  explicit TrainingProgram(ProgramSpec spec, Hooks hooks = {});

  // Losses, gradients, parameters, running statistics, optimizer state and carried tensors, as the spec reads them.
  void step(int number);
  // Of all steps so far; losses are read with the state that comes after them.
  const Results& results() const { return results_; }
  // No Optimizer tells a budget that an iteration ends.
  bool steps_by_hand() const { return spec_.rule == UpdateRule::by_hand; }
  bool losses_are_finite() const;

  // What an update changes: parameters and optimizer state, averages included.
  Results updated_state();
  // Everything that the next step depends on, in host memory.
  struct Snapshot {
    std::vector<Tensor> tensors;
    std::vector<nn::NamedTensor> optimizer;
    Tensor carried, previous;
    RandomState random;
  };
  Snapshot snapshot();
  // Gradients are dropped.
  void restore(const Snapshot& snapshot);

 private:
  void make_parameters();
  void make_optimizer();
  std::vector<Tensor> inputs(int number, int micro_batch);
  std::vector<Tensor> forward(int number, int micro_batch);
  Tensor run_block(std::size_t index, const std::vector<Tensor>& values, int number, int micro_batch);
  std::vector<Tensor> losses(const std::vector<Tensor>& values, int number, int micro_batch);
  void update();
  void update_by_hand();
  void record(const std::string& name, const Tensor& tensor);
  void record_state(const std::string& prefix);
  std::vector<std::pair<std::string, Tensor>> state_tensors();
  void passed() const;

  ProgramSpec spec_;
  Hooks hooks_;
  std::vector<Tensor> parameters_, buffers_, shadows_;
  std::vector<std::vector<std::size_t>> block_parameters_, block_buffers_;  // by block
  std::unique_ptr<optim::Optimizer> optimizer_;
  Tensor head_, carried_, previous_, input_;
  std::vector<Tensor> kept_losses_;
  Results results_;
};

}  // namespace ferry::test
