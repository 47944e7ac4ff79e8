#include "tests/swap/training_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include <ferry/checkpoint.h>
#include <ferry/device_guard.h>
#include <ferry/losses.h>
#include <ferry/no_grad.h>
#include "tests/swap/training_blocks.h"

namespace ferry::test {
namespace {

constexpr std::int64_t kClasses = 10;
constexpr std::size_t kShadows = 2;

template <class T>
std::vector<unsigned char> bytes_as(const Tensor& tensor) {
  const std::vector<T> values = tensor.to_vector<T>();
  std::vector<unsigned char> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<unsigned char> bytes_of(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f32:
      return bytes_as<float>(tensor);
    case DType::f64:
      return bytes_as<double>(tensor);
    case DType::f16:
      return bytes_as<float16>(tensor);
    case DType::bf16:
      return bytes_as<bfloat16>(tensor);
    case DType::i32:
      return bytes_as<std::int32_t>(tensor);
    default:
      return bytes_as<std::int64_t>(tensor);
  }
}

Tensor host_copy(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  const std::vector<unsigned char> bytes = bytes_of(tensor);
  return from_host(bytes.data(), tensor.dtype(), tensor.shape());
}

// A seed for what is drawn at one place of the program.
std::uint64_t mixed(std::uint64_t seed, std::initializer_list<int> where) {
  for (const int each : where) seed = (seed ^ static_cast<std::uint64_t>(each + 1)) * 0x9e3779b97f4a7c15u;
  return seed;
}

std::int64_t rows_of(const ProgramSpec& spec, int number) {
  constexpr std::array<std::int64_t, 4> kRows = {16, 32, 64, 128};
  return spec.batch_changes && number > 0 ? kRows[mixed(spec.seed, {number}) >> 62] : spec.batch;
}

// Most are made by an op where the guard says; some lie in host memory.
Tensor created(const BlockParameter& what, Random& random) {
  const Tensor values = to_tensor(random_array(what.shape, what.low, what.high, what.dtype, random), what.dtype);
  return random() % 4 == 0 ? values : values * 1.0;
}

std::optional<std::string_view> guard_text(Guard guard) {
  if (guard == Guard::none) return std::nullopt;
  return guard == Guard::cpu ? "cpu" : "gpu";
}

template <class Options>
Options with_rate(double rate) {
  Options options;
  options.rate = rate;
  options.weight_decay = 0.01;
  options.master_weights = true;
  return options;
}

}  // namespace

std::string first_difference(const Results& expected, const Results& actual) {
  for (std::size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
    const Result &a = expected[i], &b = actual[i];
    if (a.name != b.name) return fmt::format("'{}' stands where '{}' was expected", b.name, a.name);
    if (a.bytes.size() != b.bytes.size()) {
      return fmt::format("{} has {} bytes instead of {}", a.name, b.bytes.size(), a.bytes.size());
    }
    const auto [at, _] = std::ranges::mismatch(a.bytes, b.bytes);
    if (at == a.bytes.end()) continue;
    return fmt::format("{} differs from byte {} of {} on", a.name, at - a.bytes.begin(), a.bytes.size());
  }
  if (expected.size() == actual.size()) return "";
  return fmt::format("{} results instead of {}", actual.size(), expected.size());
}

TrainingProgram::TrainingProgram(ProgramSpec spec, Hooks hooks) : spec_(std::move(spec)), hooks_(std::move(hooks)) {
  make_parameters();
  make_optimizer();
}

void TrainingProgram::make_parameters() {
  Random random(mixed(spec_.seed, {1}));
  std::vector<BlockParameter> known;  // of each parameter
  for (const BlockSpec& block : spec_.blocks) {
    const BlockKind& kind = block_kinds()[block.kind];
    std::vector<std::size_t> mine, my_buffers;
    // A parameter lives where its block runs, or comes there.
    std::optional<DeviceGuard<>> guard;
    const bool there = random() % 2 == 0;
    if (block.guard == Guard::cpu && there) guard.emplace(std::string_view("cpu"));
    for (const BlockParameter& wanted :
         kind.parameters ? kind.parameters(spec_.width) : std::vector<BlockParameter>{}) {
      const auto same = std::ranges::find_if(known, [&](const BlockParameter& other) {
        return wanted.shareable && other.shareable && other.shape == wanted.shape && other.dtype == wanted.dtype &&
               other.low == wanted.low;
      });
      if (same != known.end() && random() % 2 == 0) {
        mine.push_back(static_cast<std::size_t>(same - known.begin()));
        continue;
      }
      mine.push_back(parameters_.size());
      known.push_back(wanted);
      parameters_.push_back(created(wanted, random));
    }
    for (const BlockParameter& wanted : kind.buffers ? kind.buffers(spec_.width) : std::vector<BlockParameter>{}) {
      my_buffers.push_back(buffers_.size());
      buffers_.push_back(created(wanted, random));
    }
    block_parameters_.push_back(std::move(mine));
    block_buffers_.push_back(std::move(my_buffers));
  }
  head_ = created({.shape = {kClasses, spec_.width}, .low = -0.3, .high = 0.3}, random);
  parameters_.push_back(head_);
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    named(parameters_[i], fmt::format("parameter {}", i)).set_requires_grad();
  carried_ = zeros({1, spec_.width});
  previous_ = zeros({1, spec_.width});
  if (!spec_.shadow) return;
  const NoGrad no_grad;
  for (const Tensor& parameter : parameters_) {
    if (parameter.dtype() == DType::f32 && shadows_.size() < kShadows) shadows_.push_back(parameter.detach() * 1.0);
  }
}

void TrainingProgram::make_optimizer() {
  switch (spec_.rule) {
    case UpdateRule::sgd:
      optimizer_ = std::make_unique<optim::Sgd>(parameters_, with_rate<optim::SgdOptions>(0.05));
      return;
    case UpdateRule::momentum: {
      auto options = with_rate<optim::SgdOptions>(0.02);
      options.momentum = 0.9;
      options.master_weights = false;
      optimizer_ = std::make_unique<optim::Sgd>(parameters_, options);
      return;
    }
    case UpdateRule::adamw:
      optimizer_ = std::make_unique<optim::AdamW>(parameters_, with_rate<optim::AdamWOptions>(0.01));
      return;
    case UpdateRule::adagrad:
      optimizer_ = std::make_unique<optim::Adagrad>(parameters_, with_rate<optim::AdagradOptions>(0.01));
      return;
    case UpdateRule::by_hand:
      return;
  }
}

void TrainingProgram::passed() const {
  if (hooks_.after_block) hooks_.after_block();
}

std::vector<Tensor> TrainingProgram::inputs(int number, int micro_batch) {
  Random random(mixed(spec_.seed, {2, number, micro_batch}));
  const Shape shape{rows_of(spec_, number), spec_.width};
  Tensor x = to_tensor(random_array(shape, -1, 1, DType::f32, random), DType::f32);
  if (spec_.input_gradient) input_ = x.set_requires_grad();
  return {x, expand(carried_, shape) * 1.0, expand(previous_, shape) * 0.5};
}

Tensor TrainingProgram::run_block(std::size_t index, const std::vector<Tensor>& values, int number, int micro_batch) {
  const BlockSpec& block = spec_.blocks[index];
  BlockCall call{.a = values[block.a],
                 .b = values[block.b],
                 .parameters = {},
                 .buffers = {},
                 .random = Random(mixed(block.seed, {spec_.repeats ? 0 : number, micro_batch})),
                 .block_seed = block.seed,
                 .rows = values.front().size(0),
                 .width = spec_.width,
                 .step = number};
  for (const std::size_t each : block_parameters_[index]) call.parameters.push_back(parameters_[each]);
  for (const std::size_t each : block_buffers_[index]) call.buffers.push_back(buffers_[each]);
  std::optional<DeviceGuard<>> guard;
  if (const auto text = guard_text(block.guard)) guard.emplace(*text);
  const auto run = block_kinds()[block.kind].run;
  if (!block.checkpointed) return run(std::move(call));
  const std::vector<Tensor> read{call.a, call.b};
  call.a = call.b = {};
  const CheckpointRegion region = [run, call = std::move(call)](const std::vector<Tensor>& x) {
    BlockCall again = call;
    again.a = x[0];
    again.b = x[1];
    return std::vector<Tensor>{run(std::move(again))};
  };
  return checkpoint(region, read).front();
}

std::vector<Tensor> TrainingProgram::forward(int number, int micro_batch) {
  std::vector<Tensor> values = inputs(number, micro_batch);
  for (std::size_t i = 0; i < spec_.blocks.size(); ++i) {
    values.push_back(run_block(i, values, number, micro_batch));
    passed();
  }
  return values;
}

std::vector<Tensor> TrainingProgram::losses(const std::vector<Tensor>& values, int number, int micro_batch) {
  Random random(mixed(spec_.seed, {3, number, micro_batch}));
  std::vector<std::int64_t> labels(static_cast<std::size_t>(values.back().size(0)));
  for (std::int64_t& label : labels) label = static_cast<std::int64_t>(random() % kClasses);
  const double share = 1.0 / spec_.micro_batches;
  Tensor first = softmax_cross_entropy(linear(values.back(), head_), from_vector(labels)) * share;
  if (spec_.unused_values_count) {
    for (std::size_t i = ProgramSpec::kInputs; i + 1 < values.size(); ++i) {
      const bool used = std::ranges::any_of(spec_.blocks, [i](const BlockSpec& b) { return b.a == i || b.b == i; });
      if (!used) first = first + mean(values[i]) * (0.1 * share);
    }
  }
  std::vector<Tensor> result{first};
  if (spec_.two_losses) {
    result.push_back(mean(square_error(values[mixed(spec_.seed, {4}) % values.size()], 0.1)) * share + first * 0.1);
  }
  // The state of the loop.
  const NoGrad no_grad;
  carried_ = carried_ * 0.9 + mean(values.back(), {0}, true) * 0.1;
  previous_ = mean(values[mixed(spec_.seed, {5}) % values.size()], {0}, true);
  return result;
}

void TrainingProgram::step(int number) {
  const auto zero = [&] {
    for (Tensor& parameter : parameters_) parameter.zero_grad();
  };
  if (!spec_.late_zero) zero();
  for (int micro_batch = 0; micro_batch < spec_.micro_batches; ++micro_batch) {
    std::vector<Tensor> all = losses(forward(number, micro_batch), number, micro_batch);
    passed();
    if (spec_.late_zero && micro_batch == 0) zero();
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].backward({}, {.retain_graph = i + 1 < all.size()});
      passed();
    }
    for (const Tensor& loss : all) kept_losses_.push_back(loss.detach());
  }
  update();
  passed();
  const std::string prefix = fmt::format("step {}", number);
  if (number + 1 == spec_.steps || spec_.reads_every_step) record_state(prefix);
}

void TrainingProgram::update() {
  if (spec_.clips) optim::clip_grad_norm(parameters_, 0.5);
  if (hooks_.before_update) hooks_.before_update();
  if (optimizer_) {
    std::optional<DeviceGuard<cpu>> guard;
    if (spec_.offload) guard.emplace();
    optimizer_->step();
  } else {
    update_by_hand();
  }
  if (hooks_.after_update) hooks_.after_update();
  const NoGrad no_grad;
  std::size_t shadow = 0;
  for (const Tensor& parameter : parameters_) {
    if (shadow == shadows_.size()) break;
    if (parameter.dtype() != DType::f32) continue;
    shadows_[shadow].mul_(0.9);
    shadows_[shadow].add_(parameter.detach() * 0.1);
    ++shadow;
  }
}

void TrainingProgram::update_by_hand() {
  const NoGrad no_grad;
  for (Tensor& parameter : parameters_) {
    if (parameter.has_grad()) parameter.sub_(parameter.grad() * 0.05);
  }
}

void TrainingProgram::record(const std::string& name, const Tensor& tensor) {
  results_.push_back({name, bytes_of(tensor)});
}

std::vector<std::pair<std::string, Tensor>> TrainingProgram::state_tensors() {
  std::vector<std::pair<std::string, Tensor>> all;
  for (std::size_t i = 0; i < parameters_.size(); ++i) all.emplace_back(fmt::format("parameter {}", i), parameters_[i]);
  for (std::size_t i = 0; i < shadows_.size(); ++i) all.emplace_back(fmt::format("average {}", i), shadows_[i]);
  for (std::size_t i = 0; i < buffers_.size(); ++i) all.emplace_back(fmt::format("statistic {}", i), buffers_[i]);
  return all;
}

void TrainingProgram::record_state(const std::string& prefix) {
  for (std::size_t i = 0; i < kept_losses_.size(); ++i) {
    record(fmt::format("{}: loss {}", prefix, i), kept_losses_[i]);
  }
  kept_losses_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::string name = fmt::format("{}: gradient {}", prefix, i);
    if (const auto sparse = parameters_[i].row_sparse_grad()) {
      record(name + " (rows)", sparse->rows);
      record(name + " (values)", sparse->values);
    } else if (parameters_[i].has_grad()) {
      record(name, parameters_[i].grad());
    }
  }
  if (spec_.input_gradient && input_.has_grad()) record(prefix + ": gradient of the input", input_.grad());
  for (const auto& [name, tensor] : state_tensors()) record(fmt::format("{}: {}", prefix, name), tensor);
  if (optimizer_) {
    for (const nn::NamedTensor& each : optimizer_->state())
      record(fmt::format("{}: {}", prefix, each.name), each.tensor);
  }
  record(prefix + ": carried", carried_);
  record(prefix + ": of the step before", previous_);
}

bool TrainingProgram::losses_are_finite() const {
  return std::ranges::all_of(results_, [](const Result& result) {
    if (result.name.find("loss") == std::string::npos) return true;
    float value = 0;
    std::memcpy(&value, result.bytes.data(), sizeof value);
    return std::isfinite(value);
  });
}

Results TrainingProgram::updated_state() {
  Results state;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    state.push_back({fmt::format("parameter {}", i), bytes_of(parameters_[i])});
  for (std::size_t i = 0; i < shadows_.size(); ++i)
    state.push_back({fmt::format("average {}", i), bytes_of(shadows_[i])});
  if (optimizer_) {
    for (const nn::NamedTensor& each : optimizer_->state()) state.push_back({each.name, bytes_of(each.tensor)});
  }
  return state;
}

TrainingProgram::Snapshot TrainingProgram::snapshot() {
  Snapshot snapshot{.tensors = {},
                    .optimizer = {},
                    .carried = host_copy(carried_),
                    .previous = host_copy(previous_),
                    .random = random_state()};
  for (const auto& [name, tensor] : state_tensors()) snapshot.tensors.push_back(host_copy(tensor));
  if (optimizer_) {
    for (const nn::NamedTensor& each : optimizer_->state()) {
      snapshot.optimizer.push_back({each.name, host_copy(each.tensor)});
    }
  }
  return snapshot;
}

void TrainingProgram::restore(const Snapshot& snapshot) {
  for (Tensor& parameter : parameters_) parameter.zero_grad();
  kept_losses_.clear();
  results_.clear();
  const NoGrad no_grad;
  std::size_t next = 0;
  for (auto& [name, tensor] : state_tensors()) tensor.copy_(snapshot.tensors[next++]);
  if (optimizer_) optimizer_->set_state(snapshot.optimizer);
  carried_ = snapshot.carried * 1.0;
  previous_ = snapshot.previous * 1.0;
  set_random_state(snapshot.random);
}

}  // namespace ferry::test
