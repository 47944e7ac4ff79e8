// ferry replay: runs an eviction policy or the planner on a recorded iteration.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/base/check.h"
#include "swap/bound.h"
#include "swap/log_file.h"
#include "swap/planner.h"
#include "swap/replay.h"
#include "tools/ferry/command.h"

namespace ferry::cli {
namespace {

struct Settings {
  std::string log, budget = "0.5x", policy = "dtr", methods, link, json, threshold, minimum_size = "0";
  std::string save_plan;
  bool sqrt_sampling = false, explain = false;
  std::uint64_t seed = 1;
  double limit = 2, reserve = 0;
};

// "0.5x" of the peak, or bytes.
Bytes parse_budget(const std::string& text, Bytes peak) {
  double factor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (error != std::errc{} || end + 1 != text.data() + text.size() || *end != 'x') return parse_bytes(text);
  FERRY_CHECK(factor > 0 && factor <= 1e6, InvalidArgument, "a budget of '{}' is out of range (0x to 1000000x)", text);
  return Bytes{static_cast<std::int64_t>(static_cast<double>(peak.count) * factor)};
}

// "12GB/s", each way.
swap::Link parse_link(const std::string& text) {
  if (text.empty()) return {};
  FERRY_CHECK(text.ends_with("/s"), InvalidArgument, "'{}' is no speed of a link; write for example 12GB/s", text);
  const auto speed = static_cast<double>(parse_bytes(text.substr(0, text.size() - 2)).count);
  FERRY_CHECK(speed > 0, InvalidArgument, "a link of '{}' moves nothing", text);
  return {.out_bytes_per_second = speed, .in_bytes_per_second = speed};
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

nlohmann::json to_json(const swap::Cost& cost, const swap::Unconstrained& base, const swap::Bound& bound, Bytes budget,
                       double seconds) {
  const auto ratio = [&](Nanoseconds time) {
    return static_cast<double>(time.count()) / static_cast<double>(std::max<Nanoseconds::rep>(base.time.count(), 1));
  };
  nlohmann::json result = {{"feasible", cost.feasible},      {"overhead", nullptr},
                           {"peak", cost.peak.count},        {"base_peak", base.peak.count},
                           {"base_ns", base.time.count()},   {"bound", nullptr},
                           {"decisions", cost.decisions},    {"seconds", seconds},
                           {"budget", budget.count},         {"recompute_ns", cost.recompute.count()},
                           {"stall_ns", cost.stall.count()}, {"bytes_out", cost.bytes_out.count},
                           {"bytes_in", cost.bytes_in.count}};
  if (cost.feasible) result["overhead"] = ratio(cost.time);
  if (!cost.feasible) result["reason"] = cost.reason;
  if (bound.feasible) result["bound"] = ratio(bound.time);
  return result;
}

void print_text(const nlohmann::json& result, const Settings& settings, std::ostream& out) {
  const auto bytes = [&](const char* field) { return to_string(Bytes{result[field].get<std::int64_t>()}); };
  const auto time = [&](const char* field) { return to_string(Nanoseconds(result[field].get<std::int64_t>())); };
  out << fmt::format("{} under {} ({} without a budget, {} a step)\n", settings.policy, bytes("budget"),
                     bytes("base_peak"), time("base_ns"));
  if (result["feasible"]) {
    out << fmt::format("time      {:.4f} x, lower bound {}\n", result["overhead"].get<double>(),
                       result["bound"].is_null() ? "none" : fmt::format("{:.4f} x", result["bound"].get<double>()));
    out << fmt::format("of it     {} recomputing, {} waiting for copies\n", time("recompute_ns"), time("stall_ns"));
    out << fmt::format("moved     {} out, {} in\n", bytes("bytes_out"), bytes("bytes_in"));
    out << fmt::format("peak      {}\n", bytes("peak"));
  } else {
    out << fmt::format("not feasible: {}\n", result["reason"].get<std::string>());
  }
  out << fmt::format("decisions {}, {:.3f} s\n", result["decisions"].get<std::int64_t>(),
                     result["seconds"].get<double>());
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  FERRY_CHECK(file.flush().good(), InvalidArgument, "'{}' cannot be written", path);
}

void print(const nlohmann::json& result, const Settings& settings) {
  if (settings.json.empty()) return print_text(result, settings, std::cout);
  if (settings.json == "-") return void(std::cout << result.dump() << '\n');
  write_file(settings.json, result.dump() + '\n');
}

swap::ReplayOptions options_of(const Settings& settings) {
  swap::ReplayOptions options{.policy = settings.policy, .link = parse_link(settings.link)};
  options.methods = !settings.methods.empty() ? swap::parse_methods(settings.methods)
                    : options.link.exists()   ? swap::Methods::both
                                              : swap::Methods::recompute;
  FERRY_CHECK(options.methods == swap::Methods::recompute || options.link.exists(), InvalidArgument,
              "--methods {} needs the link's speed: add for example --link 12GB/s", settings.methods);
  FERRY_CHECK(settings.limit >= 0, InvalidArgument, "--limit is negative");
  options.time_limit = settings.limit;
  options.victims = {.minimum_size = parse_bytes(settings.minimum_size),
                     .sqrt_sampling = settings.sqrt_sampling,
                     .seed = settings.seed};
  return options;
}

swap::Cost plan(const swap::Iteration& iteration, const swap::ReplayOptions& options, const Settings& settings) {
  const swap::PlanResult result = swap::make_plan(iteration, {.budget = options.budget,
                                                              .methods = options.methods,
                                                              .link = options.link,
                                                              .reserve = settings.reserve,
                                                              .seed = settings.seed});
  if (!result.plan) {
    swap::Cost cost{.reason = result.reason};
    if (result.smallest)
      cost.reason += fmt::format("; the smallest budget that a plan keeps is {} bytes", result.smallest->count);
    return cost;
  }
  if (!settings.save_plan.empty()) write_file(settings.save_plan, swap::plan_to_json(*result.plan, iteration) + '\n');
  if (settings.explain) std::cerr << swap::explain(*result.plan, iteration);
  return result.plan->cost;
}

void run(const Settings& settings) {
  const auto begin = std::chrono::steady_clock::now();
  swap::ReplayOptions options = options_of(settings);
  const bool is_plan = settings.policy == "plan";
  if (!is_plan) swap::make_policy(settings.policy);  // a wrong name is said before the log is read
  FERRY_CHECK(is_plan || (!settings.explain && settings.save_plan.empty()), InvalidArgument,
              "--explain and --save-plan need --policy plan");
  const swap::Iteration iteration = swap::read_iteration(settings.log);
  const swap::Unconstrained base = swap::unconstrained(iteration);
  options.budget = parse_budget(settings.budget, base.peak);
  if (!settings.threshold.empty()) options.threshold = parse_budget(settings.threshold, base.peak);
  const swap::Cost cost = is_plan ? plan(iteration, options, settings) : swap::replay(iteration, options);
  const swap::Bound bound = swap::lower_bound(iteration, options.budget, options.methods, options.link);
  print(to_json(cost, base, bound, options.budget, seconds_since(begin)), settings);
}

}  // namespace

void add_replay_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("replay", "Run an eviction policy or the planner on a recorded iteration");
  const auto settings = std::make_shared<Settings>();
  command->add_option("log", settings->log, "A ferry trace, or a log of the DTR simulator; plain or gzip")->required();
  command->add_option("--budget", settings->budget, "Bytes (5GiB), or a part of the peak without one (0.5x)")
      ->capture_default_str();
  command
      ->add_option("--policy", settings->policy,
                   "dtr, dtr_local, msps, lru, largest, random, hybrid; or plan, the planner")
      ->capture_default_str();
  command->add_option("--methods", settings->methods,
                      "recompute, swap or both; the default is both with a link, else recompute");
  command->add_option("--link", settings->link, "Speed between device and host, each way: 12GB/s");
  command->add_option("--threshold", settings->threshold, "Evict above so much memory; default: the budget");
  command->add_option("--minimum-evictee-size", settings->minimum_size, "Smaller storages stay")->capture_default_str();
  command->add_flag("--sqrt-sampling", settings->sqrt_sampling, "Look at a random square root of the candidates");
  command->add_option("--seed", settings->seed, "For sampling and random")->capture_default_str();
  command->add_option("--limit", settings->limit, "Give up at so many times the time without a budget; 0: never")
      ->capture_default_str();
  command->add_option("--reserve", settings->reserve, "Part of the budget that a plan leaves free (0.05)");
  command->add_flag("--explain", settings->explain, "Say on stderr what the plan does with each tensor and why");
  command->add_option("--save-plan", settings->save_plan, "Write the plan as JSON to FILE")->type_name("FILE");
  command->add_option("--json", settings->json, "Write the result as JSON to FILE, - for stdout")->type_name("FILE");
  command->callback([settings] { run(*settings); });
}

}  // namespace ferry::cli
