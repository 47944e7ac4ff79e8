// Optimizers: update parameters from their gradients.
//
// An update runs where its parameter lives, and its state lives there too. Under a DeviceGuard for the CPU an optimizer
// keeps state on the CPU and updates there (optimizer offload): gradients of GPU parameters come over, the parameters
// go back. One call updates all parameters that agree in device, dtype and options.
//
// Row-sparse gradients (embeddings) update the rows they name (RowSparseUpdate::lazy), or every row as if the gradient
// were dense. State and master weights of 16-bit parameters are f32.
//
// Gradients accumulate over micro-batches: (loss * (1.0 / micro_batches)).backward() for each, then one step; a mean
// over micro-batches of one size is then the mean over the whole batch.
//
// A step that fails before its update begins (out of memory, device errors) has changed no parameter and no state.
// Thread-safety: as the parameters: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include <ferry/error.h>
#include <ferry/nn.h>
#include <ferry/tensor.h>

namespace ferry::optim {

// Which rows of a parameter a row-sparse gradient updates.
enum class RowSparseUpdate : std::uint8_t {
  lazy,    // those it names; the others and their state stay, without decay
  strict,  // all, bit for bit as a dense gradient with zeros elsewhere
};

// Parameters with options of their own.
template <class Options>
struct ParameterGroup {
  std::vector<Tensor> parameters;
  Options options;
};

// A step that failed after it had begun to write: the parameters that it names have their new values, the others their
// old ones. Retrying the step would apply the former twice. It may name all of them: then only what follows the update
// failed, such as bringing offloaded parameters back or, under a memory budget, the end of the iteration.
class PartialUpdate : public Error {
 public:
  PartialUpdate(std::string message, std::vector<std::string> updated)
      : Error(std::move(message)), updated_(std::move(updated)) {}
  const std::vector<std::string>& updated() const noexcept { return updated_; }

 private:
  std::vector<std::string> updated_;
};

class OptimizerCore;

class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates every parameter that has a gradient.
  // Throws: OutOfMemory and others while gradients and state are made ready, before any parameter has changed;
  // PartialUpdate after that.
  void step(std::source_location where = std::source_location::current());
  void zero_grad();

  // In the order of their groups; state is numbered by it.
  std::vector<Tensor> parameters() const;
  std::size_t group_count() const;

  // Throws: InvalidArgument for a group that does not exist, a negative rate.
  double rate(std::size_t group = 0) const;
  void set_rate(double rate);  // of all groups
  void set_rate(std::size_t group, double rate);

  // For checkpoints, by position: "exp_avg.3", "step.3", "master.3"; what no step has made yet is absent. The tensors
  // are the optimizer's own: the next step writes them.
  std::vector<nn::NamedTensor> state() const;
  // Takes copies. State that is absent here is as before the first step.
  // Throws: InvalidArgument (a name that is not of this optimizer), ShapeError; nothing has changed then.
  void set_state(const std::vector<nn::NamedTensor>& state);

 protected:
  explicit Optimizer(std::unique_ptr<OptimizerCore> core);

 private:
  std::unique_ptr<OptimizerCore> core_;
};

struct SgdOptions {
  double rate = 0.01;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  RowSparseUpdate row_sparse = RowSparseUpdate::lazy;
  bool master_weights = false;  // of 16-bit parameters: the step is taken on an f32 copy
};

// g = gradient + weight_decay p; v ← momentum v + (1 - dampening) g (v ← g at first); p ← p - rate v, or
// p - rate (g + momentum v) with nesterov (https://pytorch.org/docs/stable/generated/torch.optim.SGD.html).
class Sgd : public Optimizer {
 public:
  // Throws: InvalidArgument for a negative rate, momentum or weight decay, nesterov without momentum, a parameter that
  // is no leaf that requires grad or stands twice.
  Sgd(std::vector<Tensor> parameters, SgdOptions options);
  Sgd(const nn::Module& module, SgdOptions options);
  explicit Sgd(std::vector<ParameterGroup<SgdOptions>> groups);
};

struct AdamOptions {
  double rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  RowSparseUpdate row_sparse = RowSparseUpdate::lazy;
  bool master_weights = false;
};

// g = gradient + weight_decay p; m ← beta1 m + (1 - beta1) g; v ← beta2 v + (1 - beta2) g²; with amsgrad v̂ is the
// largest v so far, else v; p ← p - rate / (1 - beta1^t) · m / (√v̂ / √(1 - beta2^t) + epsilon)
// (Kingma & Ba 2015; https://pytorch.org/docs/stable/generated/torch.optim.Adam.html). t counts the parameter's steps,
// whichever rows they update.
class Adam : public Optimizer {
 public:
  // Throws: InvalidArgument for a negative rate, epsilon or weight decay, or a beta outside [0, 1).
  explicit Adam(std::vector<Tensor> parameters, AdamOptions options = {});
  explicit Adam(const nn::Module& module, AdamOptions options = {});
  explicit Adam(std::vector<ParameterGroup<AdamOptions>> groups);
};

struct AdamWOptions {
  double rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
  RowSparseUpdate row_sparse = RowSparseUpdate::lazy;
  bool master_weights = false;
};

// Adam whose decay is no part of the gradient: first p ← p (1 - rate weight_decay), then Adam's step with g = gradient
// (Loshchilov & Hutter 2019; https://pytorch.org/docs/stable/generated/torch.optim.AdamW.html).
class AdamW : public Optimizer {
 public:
  // Throws: as Adam.
  explicit AdamW(std::vector<Tensor> parameters, AdamWOptions options = {});
  explicit AdamW(const nn::Module& module, AdamWOptions options = {});
  explicit AdamW(std::vector<ParameterGroup<AdamWOptions>> groups);
};

struct AdagradOptions {
  double rate = 1e-2;
  double rate_decay = 0;
  double weight_decay = 0;
  double initial_accumulator = 0;
  double epsilon = 1e-10;
  RowSparseUpdate row_sparse = RowSparseUpdate::lazy;
  bool master_weights = false;
};

// g = gradient + weight_decay p; s ← s + g²; p ← p - rate / (1 + (t - 1) rate_decay) · g / (√s + epsilon)
// (Duchi et al. 2011; https://pytorch.org/docs/stable/generated/torch.optim.Adagrad.html).
class Adagrad : public Optimizer {
 public:
  // Throws: InvalidArgument for a negative option.
  explicit Adagrad(std::vector<Tensor> parameters, AdagradOptions options = {});
  explicit Adagrad(const nn::Module& module, AdagradOptions options = {});
  explicit Adagrad(std::vector<ParameterGroup<AdagradOptions>> groups);
};

// Multiplies all gradients by max_norm / (norm + 1e-6) where their norm, that of all of them as one vector, is larger.
// Returns the norm before, f32 [1] (f64 where all gradients are); nothing waits for it. Row-sparse gradients are
// coalesced. Throws: InvalidArgument for a max_norm that is not positive.
Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm,
                      std::source_location where = std::source_location::current());
// Every element into [-limit, limit]. Throws: InvalidArgument for a limit that is not positive.
void clip_grad_value(const std::vector<Tensor>& parameters, double limit,
                     std::source_location where = std::source_location::current());

}  // namespace ferry::optim
