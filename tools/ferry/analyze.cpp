// ferry analyze: where the program of a trace waits for copies, for traces of many tools.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "profiler/analysis_report/compare.h"
#include "profiler/analysis_report/gate.h"
#include "profiler/analysis_report/perfetto.h"
#include "profiler/analysis_report/report.h"
#include "profiler/analysis_report/views.h"
#include "profiler/importers/importer.h"
#include "src/base/check.h"
#include "tools/ferry/command.h"

namespace ferry::cli {
namespace {

using profiler::analysis::TraceIndex;
using profiler::analysis_report::AnalysisReport;
namespace reports = profiler::analysis_report;

struct Settings {
  std::vector<std::string> files;
  std::string format = "text", sort = "blocked", output, allow, max_blocked, perfetto;
  std::optional<std::size_t> top;
  std::optional<std::int64_t> step, rank, max_sync;
  bool compare = false;

  reports::PrintOptions print_options() const { return {.top = top.value_or(reports::PrintOptions{}.top)}; }
};

struct Analysis {
  AnalysisReport report;
  std::vector<reports::HotspotView> views;  // for the page
};

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  FERRY_CHECK(file.good(), ParseError, "'{}' cannot be read", path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Writes through `write` to the file, or to standard output for "".
template <class Write>
void write_to(const std::string& path, const Write& write) {
  if (path.empty()) return write(std::cout);
  std::ofstream file(path, std::ios::binary);
  write(file);
  FERRY_CHECK(file.flush().good(), InvalidArgument, "'{}' cannot be written", path);
}

// Nothing for a file of another rank than the one asked for.
std::optional<AnalysisReport> analyse_file(const Settings& settings, const std::string& file, Analysis& analysis) {
  profiler::analysis::Activity activity = profiler::importers::import_trace(profiler::importers::Input::file(file));
  if (settings.rank && activity.rank != *settings.rank) return std::nullopt;
  const TraceIndex index(std::move(activity), settings.step);
  AnalysisReport report = reports::make_report(index);
  reports::sort_hotspots(report, reports::parse_hotspot_sort(settings.sort));
  if (settings.format == "html") {
    for (reports::HotspotView& view : reports::hotspot_views(index, report, settings.print_options().top))
      analysis.views.push_back(std::move(view));
  }
  if (!settings.perfetto.empty())
    write_to(settings.perfetto, [&](std::ostream& out) { reports::write_perfetto(index, out); });
  return report;
}

Analysis analyse(const Settings& settings, const std::vector<std::string>& files) {
  Analysis analysis;
  std::vector<AnalysisReport> parts;
  for (const std::string& file : files) {
    if (auto report = analyse_file(settings, file, analysis)) parts.push_back(std::move(*report));
  }
  FERRY_CHECK(!parts.empty(), InvalidArgument, "no file is of rank {}", settings.rank.value_or(-1));
  analysis.report = reports::merge_reports(std::move(parts));
  if (!settings.allow.empty()) {
    auto allowances = reports::parse_allowances(read_file(settings.allow), settings.allow);
    reports::allow(analysis.report, allowances);
  }
  reports::sort_hotspots(analysis.report, reports::parse_hotspot_sort(settings.sort));
  return analysis;
}

void write_json(const nlohmann::json& json, std::ostream& out) {
  out << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

void write(const Settings& settings, const Analysis& analysis, const reports::Limits& limits, std::ostream& out) {
  const AnalysisReport& report = analysis.report;
  // JSON and the page hold all rows, unless the user wants fewer.
  const auto rows = [&] { return settings.top ? reports::first_rows(report, *settings.top) : report; };
  if (settings.format == "text") out << reports::report_text(report, settings.print_options());
  if (settings.format == "markdown") out << reports::report_markdown(report, settings.print_options());
  if (settings.format == "html") out << reports::report_html(rows(), analysis.views);
  if (settings.format == "junit") out << reports::report_junit(report, limits);
  if (settings.format == "json") write_json(reports::report_json(rows()), out);
}

void check(const AnalysisReport& report, const reports::Limits& limits) {
  const reports::Verdict verdict = reports::judge(report, limits);
  if (verdict.passed()) return;
  std::cout.flush();
  fmt::print(stderr, "{}", reports::verdict_text(report, verdict));
  throw CLI::RuntimeError(1);
}

// The limits hold for the second trace, and JUnit's cases are of it.
void compare(const Settings& settings, const reports::Limits& limits) {
  FERRY_CHECK(settings.files.size() == 2, InvalidArgument, "--compare takes two traces, not {}", settings.files.size());
  const AnalysisReport before = analyse(settings, {settings.files[0]}).report;
  const AnalysisReport after = analyse(settings, {settings.files[1]}).report;
  const reports::PrintOptions options = settings.print_options();
  write_to(settings.output, [&](std::ostream& out) {
    if (settings.format == "text") out << reports::comparison_text(before, after, options);
    if (settings.format == "markdown") out << reports::comparison_markdown(before, after, options);
    if (settings.format == "html") out << reports::comparison_html(before, after, options);
    if (settings.format == "junit") out << reports::report_junit(after, limits);
    if (settings.format == "json") write_json(reports::comparison_json(before, after, settings.top), out);
  });
  check(after, limits);
}

void run(const Settings& settings) {
  reports::parse_hotspot_sort(settings.sort);
  reports::Limits limits{.max_sync = settings.max_sync};
  if (!settings.max_blocked.empty()) limits.max_blocked = reports::parse_share(settings.max_blocked);
  FERRY_CHECK(settings.perfetto.empty() || settings.files.size() == 1, InvalidArgument,
              "--perfetto takes one trace, not {}", settings.files.size());
  if (settings.compare) return compare(settings, limits);
  const Analysis analysis = analyse(settings, settings.files);
  write_to(settings.output, [&](std::ostream& out) { write(settings, analysis, limits, out); });
  check(analysis.report, limits);
}

}  // namespace

void add_analyze_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("analyze", "Say where the program of a trace waits for copies");
  const auto settings = std::make_shared<Settings>();
  command
      ->add_option("traces", settings->files,
                   "Traces of PyTorch, Nsight Systems (sqlite), TensorFlow, JAX, "
                   "PaddlePaddle or ferry; plain or gzip; several files of one job")
      ->required();
  command->add_option("--format", settings->format, "text, json, html, markdown or junit")
      ->check(CLI::IsMember({"text", "json", "html", "markdown", "junit"}))
      ->capture_default_str();
  command->add_option("-o,--output", settings->output, "Write to FILE instead of stdout")->type_name("FILE");
  command->add_option("--sort", settings->sort, "Order of hotspots: blocked, calls, bytes, drain or copy")
      ->capture_default_str();
  command
      ->add_option("--top", settings->top,
                   "Rows of hotspots, and of findings of a rule (default: 20; JSON and the page: all)")
      ->type_name("N");
  command->add_option("--step", settings->step, "Only the step of this number")->type_name("N");
  command->add_option("--rank", settings->rank, "Only files of this rank")->type_name("N");
  command->add_option("--max-sync", settings->max_sync, "Exit 1 for more synchronous copies than N")->type_name("N");
  command->add_option("--max-blocked", settings->max_blocked, "Exit 1 when they block the host for more of the time")
      ->type_name("5%");
  command->add_option("--allow", settings->allow, "Lines \"PATTERN  # reason\": copies that do not count")
      ->type_name("FILE");
  command->add_flag("--compare", settings->compare, "Show what changed from the first trace to the second");
  command->add_option("--perfetto", settings->perfetto, "Write the trace with its findings, for ui.perfetto.dev")
      ->type_name("FILE");
  command->callback([settings] { run(*settings); });
}

}  // namespace ferry::cli
