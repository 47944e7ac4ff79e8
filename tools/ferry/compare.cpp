// ferry compare: one model under each way to live with less memory, side by side.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/base/check.h"
#include "tools/common/output_file.h"
#include "tools/ferry/command.h"
#include "tools/ferry/compare_page.h"
#include "tools/ferry/comparison.h"

namespace ferry::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kLadder{1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3};

struct Settings {
  JobOptions job;
  std::int64_t batch = 0;
  std::string budget, json, html;
  std::vector<std::string> rows;
  bool explain = false, no_largest_batch = false, no_ladder = false;
  bool quiet() const { return json == "-"; }
};

double milliseconds(Nanoseconds time) { return std::chrono::duration<double, std::milli>(time).count(); }

double ratio(Nanoseconds time, Nanoseconds base) {
  return static_cast<double>(time.count()) / static_cast<double>(std::max<Nanoseconds::rep>(base.count(), 1));
}

bool wants(const Settings& settings, std::string_view row) {
  return settings.rows.empty() || row == "none" || std::ranges::find(settings.rows, row) != settings.rows.end();
}

void check_rows(const Settings& settings) {
  for (const std::string& row : settings.rows) {
    std::string names;
    for (const Method& method : all_methods()) names += (names.empty() ? "" : ", ") + std::string(method.name);
    FERRY_CHECK(std::ranges::find(all_methods(), row, &Method::name) != all_methods().end(), InvalidArgument,
                "compare: there is no row '{}'; rows: {}", row, names);
  }
}

void print_head(const Settings& settings, const Comparison& comparison) {
  const StepFigures& none = comparison.unlimited().figures;
  fmt::print("Place: {}, {}; {} of memory\n", comparison.device().name,
             comparison.device().simulated ? "virtual time" : comparison.device().description,
             to_string(comparison.device().capacity));
  fmt::print("Model: {}, batch {}, optimizer {}, {}; peak without a budget {}\n", settings.job.model, settings.batch,
             settings.job.optimizer, settings.job.precision, to_string(none.peak_allocated));
  fmt::print("Budget: {} ({:.0f} % of that peak)\n\n", to_string(comparison.budget()),
             100.0 * static_cast<double>(comparison.budget().count) /
                 static_cast<double>(std::max<std::int64_t>(none.peak_allocated.count, 1)));
  fmt::print("{:<18}{:>11}{:>8}{:>12}{:>12}{:>12}{:>12}{:>10}{:>11}{:>9}\n", "Method", "ms a step", "ratio",
             "allocated", "reserved", "out", "in", "stall ms", "recomp. ms", "largest");
  std::fflush(stdout);
}

std::string largest_text(const MeasuredRow& row) {
  return row.largest_batch ? fmt::to_string(*row.largest_batch) : "-";
}

void print_row(const MeasuredRow& row, const Measurement& none) {
  const std::string note = row.note.empty() ? "" : "  " + row.note;
  if (!row.measured) {
    fmt::print("{:<18}{:>11}{:>8}{:>12}{:>12}{:>12}{:>12}{:>10}{:>11}{:>9}{}\n", row.method->name, "-", "-", "-", "-",
               "-", "-", "-", "-", largest_text(row), note);
  } else {
    const StepFigures& it = row.measured->figures;
    fmt::print("{:<18}{:>11.3f}{:>8.3f}{:>12}{:>12}{:>12}{:>12}{:>10.3f}{:>11.3f}{:>9}{}\n", row.method->name,
               milliseconds(it.step), ratio(it.step, none.figures.step), to_string(it.peak_allocated),
               to_string(it.peak_reserved), to_string(it.bytes_out), to_string(it.bytes_in), milliseconds(it.stall),
               milliseconds(it.recompute), largest_text(row), note);
  }
  std::fflush(stdout);
}

void print_ladder(const Ladder& ladder) {
  fmt::print("\nPlanned, device time of a step ({} of peak, {:.3f} ms of ops):\n", to_string(ladder.peak),
             milliseconds(ladder.base_time));
  for (const LadderStep& step : ladder.steps) {
    fmt::print(
        "  {:>4.2f} x  {:>12}  {}\n", step.part, to_string(step.budget),
        step.step ? fmt::format("{:>10.3f} ms  {:.3f} x", milliseconds(*step.step), ratio(*step.step, ladder.base_time))
                  : "no plan keeps it");
  }
}

Json row_json(const MeasuredRow& row, const Measurement& none) {
  Json result = {{"method", row.method->name}, {"feasible", row.feasible},  {"step_ms", nullptr},
                 {"ratio", nullptr},           {"peak_allocated", nullptr}, {"peak_reserved", nullptr},
                 {"bytes_out", nullptr},       {"bytes_in", nullptr},       {"stall_ms", nullptr},
                 {"recompute_ms", nullptr},    {"largest_batch", nullptr}};
  if (row.largest_batch) result["largest_batch"] = *row.largest_batch;
  if (!row.measured) return result;
  const StepFigures& it = row.measured->figures;
  result["step_ms"] = milliseconds(it.step);
  result["ratio"] = ratio(it.step, none.figures.step);
  result["peak_allocated"] = it.peak_allocated.count;
  result["peak_reserved"] = it.peak_reserved.count;
  result["bytes_out"] = it.bytes_out.count;
  result["bytes_in"] = it.bytes_in.count;
  result["stall_ms"] = milliseconds(it.stall);
  result["recompute_ms"] = milliseconds(it.recompute);
  return result;
}

Json to_json(const Settings& settings, const Comparison& comparison, const std::vector<MeasuredRow>& rows,
             const Ladder& ladder, const std::optional<Bytes>& smallest) {
  Json result = {{"rows", Json::array()}};
  for (const MeasuredRow& row : rows) result["rows"].push_back(row_json(row, comparison.unlimited()));
  result["model"] = settings.job.model;
  result["batch"] = settings.batch;
  result["device"] = comparison.device().name;
  result["budget"] = comparison.budget().count;
  result["peak"] = comparison.unlimited().figures.peak_allocated.count;
  result["smallest_budget"] = smallest ? Json(smallest->count) : Json(nullptr);
  result["ladder"] = Json::array();
  for (const LadderStep& step : ladder.steps) {
    Json entry = {{"part", step.part}, {"budget", step.budget.count}, {"step_ms", nullptr}, {"ratio", nullptr}};
    if (step.step) {
      entry["step_ms"] = milliseconds(*step.step);
      entry["ratio"] = ratio(*step.step, ladder.base_time);
    }
    result["ladder"].push_back(entry);
  }
  if (!settings.explain) return result;
  for (const MeasuredRow& row : rows) {
    if (!row.measured || !row.measured->plan) continue;
    result["decisions"][std::string(row.method->name)] = decisions_json(*row.measured->plan, row.measured->iteration);
  }
  return result;
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  FERRY_CHECK(file.flush().good(), InvalidArgument, "'{}' cannot be written", path);
}

// For the budget that is too small for both methods together.
std::optional<Bytes> smallest_for(const Comparison& comparison, const std::vector<MeasuredRow>& rows, bool quiet) {
  const auto hybrid = std::ranges::find_if(rows, [](const MeasuredRow& row) { return row.method->name == "hybrid"; });
  if (hybrid == rows.end() || hybrid->feasible) return std::nullopt;
  const std::optional<Bytes> smallest = comparison.smallest_budget(*hybrid->method);
  if (quiet) return smallest;
  fmt::print("\nA budget of {} is too small", to_string(comparison.budget()));
  if (smallest)
    fmt::print(": the smallest that hybrid keeps, tried, is {} ({} bytes)\n", to_string(*smallest), smallest->count);
  else
    fmt::print(", and none up to the peak works: the ops at the peak need it all\n");
  return smallest;
}

void print_explanations(const std::vector<MeasuredRow>& rows) {
  for (const MeasuredRow& row : rows) {
    if (!row.method->plans || !row.measured) continue;
    fmt::print("\n{}: ", row.method->name);
    if (row.measured->plan) {
      fmt::print("{}", swap::explain(*row.measured->plan, row.measured->iteration));
    } else {
      fmt::print("there is no plan: {}\n",
                 row.measured->figures.bytes_out.count + row.measured->figures.recompute.count() == 0
                     ? "nothing has to leave"
                     : "memory is given up by the policy");
    }
  }
}

void run(const Settings& settings) {
  check_rows(settings);
  const Comparison comparison(settings.job, settings.batch, settings.budget);
  if (!settings.quiet()) print_head(settings, comparison);
  std::vector<MeasuredRow> rows;
  for (const Method& method : all_methods()) {
    if (!wants(settings, method.name)) continue;
    MeasuredRow row = comparison.measure(method);
    if (!settings.no_largest_batch && comparison.finds_largest_batches())
      row.largest_batch = row.exists ? comparison.largest_batch(method, row.micro_batches) : 0;
    if (!settings.quiet()) print_row(row, comparison.unlimited());
    rows.push_back(std::move(row));
  }
  const std::optional<Bytes> smallest = smallest_for(comparison, rows, settings.quiet());
  const Ladder ladder = settings.no_ladder ? Ladder{} : comparison.ladder(kLadder);
  if (!settings.quiet() && !settings.no_ladder) print_ladder(ladder);
  if (settings.explain && !settings.quiet()) print_explanations(rows);
  const Json figures = to_json(settings, comparison, rows, ladder, smallest);
  const std::string json = figures.dump(2) + '\n';
  if (settings.quiet()) {
    fmt::print("{}", json);
  } else if (!settings.json.empty()) {
    write_file(settings.json, json);
  }
  if (!settings.html.empty()) write_file(settings.html, compare_page(figures, rows));
}

}  // namespace

void add_compare_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("compare", "Train a model under each way to live with less memory, and compare");
  const auto settings = std::make_shared<Settings>();
  add_job_options(*command, settings->job);
  command->add_option("--batch", settings->batch, "Samples in a batch")->required()->check(CLI::PositiveNumber);
  command->add_option("--budget", settings->budget,
                      "Memory to train in: 5GiB, 80% of the card's, or 0.5x of the peak without a budget (default: the "
                      "card's)");
  command->add_option("--rows", settings->rows, "Only these, and none: names with commas between")->delimiter(',');
  command->add_flag("--no-largest-batch", settings->no_largest_batch,
                    "Do not look for the largest batches, as on a real GPU");
  command->add_flag("--no-ladder", settings->no_ladder, "Do not plan for other budgets");
  command->add_flag("--explain", settings->explain, "Say what each plan does with each tensor and why");
  command->add_option("--json", settings->json, "Write the figures to FILE; -: to the standard output, alone")
      ->type_name("FILE");
  command->add_option("--html", settings->html, "Write a page: memory over time, streams, decisions")
      ->type_name("FILE")
      ->check(program::writable_file());
  command->callback([settings] { run(*settings); });
}

}  // namespace ferry::cli
