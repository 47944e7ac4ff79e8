// Eviction policies: which of the evictable storages goes first. Each is one file and one line in policy_list.cpp. They
// see plain values, so that a replayed log and a running program use the same ones.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <ferry/units.h>
#include "swap/iteration.h"
#include "swap/neighborhood.h"

namespace ferry::swap {

enum class Methods : std::uint8_t { recompute, swap, both };
// "recompute", "swap" or "both". Throws: InvalidArgument.
Methods parse_methods(std::string_view text);

// A storage that could leave.
struct Evictable {
  StorageIndex storage = kNone;
  Bytes size{};
  Nanoseconds last_access{};
  bool recomputable = true;
  Nanoseconds swap_time{};  // of its copies out and in on an idle link; without the one out where a host copy is there
};

// What is known at a decision.
struct Situation {
  Nanoseconds now{};
  Methods methods = Methods::recompute;
  const Neighborhood& neighborhood;
  Nanoseconds link_wait{};         // until the copy engines have done what is queued
  std::size_t visit_limit = 4096;  // storages that a score may look at
};

// What it costs to swap a storage at this moment.
inline Nanoseconds swap_cost(const Evictable& it, const Situation& at) { return it.swap_time + at.link_wait; }

class Policy {
 public:
  // When scores change: never while a storage stays evictable (it can be kept in order), or any time (it is looked at
  // when something has to go). `none`: no scores, any storage will do.
  enum class Scores : std::uint8_t { fixed, changing, none };

  virtual ~Policy() = default;
  virtual Scores scores() const { return Scores::changing; }
  // The smallest goes first, infinity last; of equal ones the one made evictable most recently.
  virtual double score(const Evictable& it, const Situation& at) const = 0;
};

std::unique_ptr<Policy> make_dtr_policy();
std::unique_ptr<Policy> make_dtr_local_policy();
std::unique_ptr<Policy> make_msps_policy();
std::unique_ptr<Policy> make_lru_policy();
std::unique_ptr<Policy> make_largest_policy();
std::unique_ptr<Policy> make_random_policy();
std::unique_ptr<Policy> make_hybrid_policy();

// Throws: InvalidArgument that lists the names.
std::unique_ptr<Policy> make_policy(std::string_view name);
std::vector<std::string> policy_names();

// cost ÷ (bytes × staleness), the form of the score that several share; infinity for zero bytes.
double cost_over_size_and_staleness(Nanoseconds cost, const Evictable& it, const Situation& at);
// `recompute` where that may be done, else the cost of swapping.
Nanoseconds preferred_cost(Nanoseconds recompute, const Evictable& it, const Situation& at);

}  // namespace ferry::swap
