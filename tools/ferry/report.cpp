// ferry report: the Profiling Report of a trace that a program saved.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "placement/advisor.h"
#include "profiler/exporters.h"
#include "profiler/report.h"
#include "src/base/check.h"
#include "src/trace/trace_json.h"
#include "tools/ferry/command.h"

namespace ferry::cli {
namespace {

struct Settings {
  std::string file, sort = "default", format = "text", output;
  bool per_thread = false;
};

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  FERRY_CHECK(file.good(), ParseError, "'{}' cannot be read", path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

trace::Trace read_trace(const std::string& path) {
  const std::string text = read_file(path);
  try {
    return trace::read_json(text, path);
  } catch (const ParseError&) {
    if (text.find("\"ferry_trace\"") != std::string::npos) throw;
    const bool chrome = text.find("\"traceEvents\"") != std::string::npos;
    throw ParseError(
        fmt::format("{} is no trace of ferry{}; save one with Profiler::write_trace or a program's option "
                    "--profile FILE.trace",
                    path, chrome ? " but a Chrome trace, which Perfetto opens" : ""));
  }
}

void write_report(const Settings& settings, std::ostream& out) {
  const trace::Trace trace = read_trace(settings.file);
  profiler::ReportOptions options{.sort = profiler::parse_sort_key(settings.sort),
                                  .per_thread = settings.per_thread,
                                  .findings = profiler::find_hotspots(trace)};
  placement::advise(trace, options.findings);
  if (settings.format == "text") out << profiler::report_text(trace, options);
  if (settings.format == "json") {
    using nlohmann::json;
    out << profiler::report_json(trace, options).dump(2, ' ', false, json::error_handler_t::replace) << '\n';
  }
  if (settings.format == "html") profiler::write_html(trace, options, out);
  if (settings.format == "chrome") profiler::write_chrome_trace(trace, out);
}

void run(const Settings& settings) {
  if (settings.output.empty()) return write_report(settings, std::cout);
  std::ostringstream text;
  write_report(settings, text);
  std::ofstream file(settings.output, std::ios::binary);
  file << text.str();
  FERRY_CHECK(file.flush().good(), InvalidArgument, "'{}' cannot be written", settings.output);
}

}  // namespace

void add_report_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("report", "Print the Profiling Report of a saved trace");
  const auto settings = std::make_shared<Settings>();
  command->add_option("trace", settings->file, "A trace that Profiler::write_trace saved")->required();
  command->add_option("--sort", settings->sort, "default, total, calls, max, min or ave")->capture_default_str();
  command->add_option("--format", settings->format, "text, json, html or chrome (for Perfetto)")
      ->check(CLI::IsMember({"text", "json", "html", "chrome"}))
      ->capture_default_str();
  command->add_option("-o,--output", settings->output, "Write to FILE instead of stdout")->type_name("FILE");
  command->add_flag("--per-thread", settings->per_thread, "A table for each thread");
  command->callback([settings] { run(*settings); });
}

}  // namespace ferry::cli
