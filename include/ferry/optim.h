// Optimizers: update parameters from their gradients. An update runs where its parameter lives.
#pragma once

#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include <ferry/nn.h>
#include <ferry/tensor.h>

namespace ferry::optim {

struct SgdOptions {
  double rate = 0.01;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

// g = gradient + weight_decay p; v ← momentum v + (1 - dampening) g (v ← g at first); p ← p - rate v, or
// p - rate (g + momentum v) with nesterov. A row-sparse gradient updates the rows it names only, velocity included.
class Sgd {
 public:
  // Throws: InvalidArgument for a negative rate, momentum or weight decay, or nesterov without momentum.
  Sgd(std::vector<Tensor> parameters, SgdOptions options);
  Sgd(const nn::Module& module, SgdOptions options);

  // Updates every parameter that has a gradient.
  // Throws: OutOfMemory and others while gradients and velocities are made ready, before any parameter has changed.
  void step(std::source_location where = std::source_location::current());
  void zero_grad();

  double rate() const { return options_.rate; }
  void set_rate(double rate) { options_.rate = rate; }

  // Velocities under their parameters' positions ("velocity.3"), for checkpoints; those not made yet are absent.
  std::vector<nn::NamedTensor> state() const;
  void set_state(const std::vector<nn::NamedTensor>& state);

 private:
  struct Slot {
    Tensor parameter;
    Tensor velocity;     // undefined before the first step with momentum
    bool fresh = false;  // velocity is zeros that no step has used
  };
  // All that a parameter's update needs, on its device: applying it allocates nothing.
  struct Update {
    Slot* slot;
    Tensor gradient;
    std::optional<RowSparse> rows;
  };
  Update prepare(Slot& slot, std::source_location where);
  void apply(const Update& update, std::source_location where);

  SgdOptions options_;
  std::vector<Slot> slots_;
};

}  // namespace ferry::optim
