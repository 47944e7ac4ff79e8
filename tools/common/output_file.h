// Checks of files that a program writes at its end: better said before hours of training than after.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace program {

// What keeps a file from being written at `path`; "" where nothing does. An existing file stays as it is.
std::string why_not_writable(const std::string& path);

// The check of an option that names a file to write.
CLI::Validator writable_file();

}  // namespace program
