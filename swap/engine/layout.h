// Where the storages of a plan lie: an address for each residency of its program, such that no two overlap and the
// iteration ends as it began, with what lives on at the addresses where the next one expects it.
//
// Requests of the allocator's small pool have no addresses: room for them is left at the arena's high end. Addresses
// are wishes: where one is not free, the allocator takes another. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "swap/engine/iteration_recorder.h"
#include "swap/engine/room.h"
#include "swap/packing.h"
#include "swap/plan.h"
#include "swap/residency.h"

namespace ferry::swap {

class Layout {
 public:
  Layout(Mechanism& mechanism, Room& room) : mechanism_(mechanism), room_(room) {}

  // Part of a budget that a plan for the iteration should leave to the small pool: all of `usual` where there is
  // nothing else.
  static double reserve_for(const Iteration& iteration, Bytes budget, double usual);
  // What the small pool may hold beyond an iteration's small storages.
  static Bytes unfilled(const Iteration& iteration);

  // Finds addresses for the plan's residencies, between an iteration and the next. `values` by storage of the
  // iteration: those that live. What of the arena is none of theirs stays where it is. Returns the bytes of residencies
  // that have no address. Throws: DeviceError.
  Bytes arrange(const IterationRecorder::Recorded& recorded, const Plan& plan, std::span<Value* const> values);
  // Moves what lives to where the plan's iteration begins. False: something lies elsewhere still. Throws: DeviceError.
  bool settle(std::span<Value* const> values);
  // No storage has an address.
  void clear();

  // Residencies that the step of the program begins: [first, last).
  struct Range {
    std::size_t first = 0, last = 0;
  };
  Range begun_by(std::size_t step) const;
  StorageIndex storage_of(std::size_t residency) const { return residencies_.all[residency].storage; }
  // Null: anywhere.
  void* address(std::size_t residency) const { return addresses_[residency]; }
  // Where a storage that lived when addresses were found lies when an iteration begins; null: anywhere.
  void* home(StorageIndex storage) const;

 private:
  struct Survey;
  void survey_residencies(Survey& survey, std::span<Value* const> values) const;
  void pair_made_with_departing(Survey& survey) const;
  void survey_obstacles(Survey& survey, std::span<Value* const> values) const;
  Bytes capacity_for_large(const Survey& survey) const;
  bool move_aside(Value& value, std::span<Value* const> values);

  Mechanism& mechanism_;
  Room& room_;
  Residencies residencies_;
  std::vector<void*> addresses_;  // by residency
  std::vector<void*> homes_;      // by storage
};

}  // namespace ferry::swap
