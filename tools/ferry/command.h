// A command of the `ferry` program: one file each, one line in main.cpp.
#pragma once

#include <CLI/CLI.hpp>

namespace ferry::cli {

// Adds the command to `app`; its callback runs it. Throws from the callback: ferry::Error for bad input.
void add_analyze_command(CLI::App& app);
void add_calibrate_command(CLI::App& app);
void add_compare_command(CLI::App& app);
void add_devices_command(CLI::App& app);
void add_max_batch_command(CLI::App& app);
void add_models_command(CLI::App& app);
void add_profile_command(CLI::App& app);
void add_replay_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_train_command(CLI::App& app);

}  // namespace ferry::cli
