// ferry: the command-line program. Exits 2 for bad usage or input, with one line on stderr.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include <ferry/error.h>
#include "tools/ferry/command.h"

int main(int argc, char** argv) {
  CLI::App app("Places ops on CPU and GPU and shows what the copies between them cost.", "ferry");
  app.require_subcommand(1);
  ferry::cli::add_devices_command(app);
  ferry::cli::add_max_batch_command(app);
  ferry::cli::add_report_command(app);
  try {
    app.parse(argc, argv);
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
