// {"ferry_plan": 1, "fingerprint": "hex", "budget": bytes, "methods": "both", "link": {…}, "steps": [["run", 3], …],
//  "storages": [{"name", "bytes", "choice", "windows": [{"choice", "leaves_after", "back_before", "needed_by"}]}]}
// The storages are for readers; the steps are the plan.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "src/base/check.h"
#include "swap/plan.h"

namespace ferry::swap {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;
constexpr std::array kSteps = {"create", "run", "drop", "copy_out", "leave", "bring_in"};
constexpr std::array kChoices = {"keep", "swap", "recompute"};
constexpr std::array kMethods = {"recompute", "swap", "both"};

json storages_json(const Plan& plan, const Iteration& iteration) {
  json list = json::array();
  for (const StoragePlan& it : decisions(plan, iteration)) {
    const Storage& storage = iteration.storages[static_cast<std::size_t>(it.storage)];
    json windows = json::array();
    for (const Window& window : it.windows)
      windows.push_back({{"choice", kChoices[static_cast<std::size_t>(window.choice)]},
                         {"leaves_after", window.leaves_after},
                         {"back_before", window.back_before},
                         {"needed_by", window.needed_by}});
    list.push_back({{"name", iteration.tensors[static_cast<std::size_t>(storage.root)].name},
                    {"bytes", storage.size.count},
                    {"choice", kChoices[static_cast<std::size_t>(it.choice)]},
                    {"windows", std::move(windows)}});
  }
  return list;
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view file) : file_(file), root_(json::parse(text, nullptr, false)) {
    if (!root_.is_object()) fail("is no JSON object");
    if (number(root_, "ferry_plan") != kVersion) fail(fmt::format("is no plan of version {}", kVersion));
  }

  Plan read(const Iteration& iteration) const {
    Plan plan;
    const json& print = field(root_, "fingerprint");
    if (!print.is_string() || print.get<std::string>() != fmt::format("{:016x}", fingerprint(iteration)))
      fail("was made for another iteration");
    plan.fingerprint = fingerprint(iteration);
    plan.budget = Bytes{number(root_, "budget")};
    plan.methods = static_cast<Methods>(name(field(root_, "methods"), kMethods));
    const json& link = field(root_, "link");
    if (!link.is_object()) fail("has a link that is no object");
    plan.link = {.out_bytes_per_second = static_cast<double>(number(link, "out_bytes_per_second")),
                 .in_bytes_per_second = static_cast<double>(number(link, "in_bytes_per_second")),
                 .latency = Nanoseconds(number(link, "latency_ns"))};
    const json& steps = field(root_, "steps");
    if (!steps.is_array()) fail("has steps that are no array");
    for (const json& step : steps) plan.program.push_back(read_step(step));
    plan.cost = evaluate(iteration, plan.program, plan.budget, plan.link);
    if (!plan.cost.feasible) fail(fmt::format("does not work: {}", plan.cost.reason));
    plan.base_time = unconstrained(iteration).time;
    plan.bound = lower_bound(iteration, plan.budget, plan.methods, plan.link);
    return plan;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw ParseError(fmt::format("{}: the plan {}", file_, what));
  }

  const json& field(const json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end()) fail(fmt::format("has no field '{}'", key));
    return *found;
  }
  std::int64_t number(const json& object, const char* key) const {
    const json& value = field(object, key);
    if (!value.is_number_integer() || value < 0 || value > (std::int64_t{1} << 62))
      fail(fmt::format("has a '{}' that is no number from 0 on", key));
    return value.get<std::int64_t>();
  }
  template <std::size_t n>
  std::size_t name(const json& value, const std::array<const char*, n>& known) const {
    for (std::size_t i = 0; i < n; ++i)
      if (value.is_string() && value.get_ref<const std::string&>() == known[i]) return i;
    fail(fmt::format("has an unknown {}", value.dump()));
  }
  Step read_step(const json& step) const {
    if (!step.is_array() || step.size() != 2 || !step[1].is_number_integer() || step[1] < 0 || step[1] > 0x7fffffff)
      fail(fmt::format("has the step {}", step.dump()));
    return {static_cast<Step::Kind>(name(step[0], kSteps)), step[1].get<std::int32_t>()};
  }

  std::string_view file_;
  json root_;
};

}  // namespace

std::string plan_to_json(const Plan& plan, const Iteration& iteration) {
  json steps = json::array();
  for (const Step& step : plan.program) steps.push_back({kSteps[static_cast<std::size_t>(step.kind)], step.index});
  const auto whole = [](double speed) { return static_cast<std::int64_t>(speed); };
  const json result = {{"ferry_plan", kVersion},
                       {"fingerprint", fmt::format("{:016x}", plan.fingerprint)},
                       {"budget", plan.budget.count},
                       {"methods", kMethods[static_cast<std::size_t>(plan.methods)]},
                       {"link",
                        {{"out_bytes_per_second", whole(plan.link.out_bytes_per_second)},
                         {"in_bytes_per_second", whole(plan.link.in_bytes_per_second)},
                         {"latency_ns", plan.link.latency.count()}}},
                       {"time_ns", plan.cost.time.count()},
                       {"storages", storages_json(plan, iteration)},
                       {"steps", std::move(steps)}};
  return result.dump();
}

Plan plan_from_json(std::string_view text, std::string_view name, const Iteration& iteration) {
  return Reader(text, name).read(iteration);
}

}  // namespace ferry::swap
