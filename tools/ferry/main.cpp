// ferry: the command-line program. Exits 2 for bad usage or input, with one line on stderr.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string_view>

#include <ferry/error.h>
#include "tools/ferry/command.h"

namespace {

// CLI11 alone would complain that a command is missing.
void require_known_command(const CLI::App& app, std::string_view word) {
  if (word.empty() || word.front() == '-') return;
  std::string names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == word) return;
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  throw ferry::InvalidArgument(fmt::format("there is no command '{}'; commands: {}", word, names));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Places ops on CPU and GPU and shows what the copies between them cost.", "ferry");
  app.set_version_flag("--version", "ferry " FERRY_VERSION, "Print the version");
  app.require_subcommand(1);
  ferry::cli::add_analyze_command(app);
  ferry::cli::add_calibrate_command(app);
  ferry::cli::add_compare_command(app);
  ferry::cli::add_devices_command(app);
  ferry::cli::add_max_batch_command(app);
  ferry::cli::add_models_command(app);
  ferry::cli::add_profile_command(app);
  ferry::cli::add_replay_command(app);
  ferry::cli::add_report_command(app);
  ferry::cli::add_train_command(app);
  try {
    if (argc > 1) require_known_command(app, argv[1]);
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "ferry: {}\n", error.what());
    return 2;
  }
  if (std::fflush(stdout) != 0) {
    fmt::print(stderr, "ferry: cannot write to standard output\n");
    return 2;
  }
  return 0;
}
