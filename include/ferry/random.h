// The state of the random numbers that ops draw: kept for checkpoints of a training run, set to repeat a computation.
#pragma once

#include <cstdint>

namespace ferry {

// Numbers depend on the seed and on how many were drawn before, nothing else.
struct RandomState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  // numbers drawn since the seed was set

  bool operator==(const RandomState&) const = default;
};

// Of the calling thread's runtime, which all its threads share.
RandomState random_state();
void set_random_state(RandomState state);

// What is drawn in the scope does not count: the state from before is set again at its end, exceptions included.
class [[nodiscard]] RestoredRandomState {
 public:
  RestoredRandomState() : before_(random_state()) {}
  // Draws from `state` in the scope.
  explicit RestoredRandomState(RandomState state) : before_(random_state()) { set_random_state(state); }
  ~RestoredRandomState() { set_random_state(before_); }
  RestoredRandomState(const RestoredRandomState&) = delete;
  RestoredRandomState& operator=(const RestoredRandomState&) = delete;

 private:
  RandomState before_;
};

}  // namespace ferry
