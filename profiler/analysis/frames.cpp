#include "profiler/analysis/frames.h"

#include <algorithm>
#include <array>

namespace ferry::profiler::analysis {
namespace {

// Folders of packages whose functions stand between the program and the GPU.
constexpr std::array<std::string_view, 13> kFrameworks = {"torch",      "torchvision/transforms",
                                                          "jax",        "jaxlib",
                                                          "tensorflow", "keras",
                                                          "paddle",     "numpy",
                                                          "triton",     "functorch",
                                                          "importlib",  "asyncio",
                                                          "concurrent"};

// Files of Python's library that stacks begin with, and of JAX, whose frames lack the folder.
constexpr std::array<std::string_view, 22> kLibraryFiles = {
    "threading.py", "contextlib.py", "functools.py",      "runpy.py",      "queue.py",    "selectors.py",
    "socket.py",    "typing.py",     "traceback_util.py", "pjit.py",       "api.py",      "array.py",
    "dispatch.py",  "profiler.py",   "core.py",           "xla_bridge.py", "compiler.py", "lax.py",
    "lax_numpy.py", "basearray.py",  "lib_inspect.py",    "config.py"};

std::string_view file_of(std::string_view frame) {
  if (frame.starts_with('$')) frame.remove_prefix(1);
  if (frame.starts_with("File '")) {
    frame.remove_prefix(6);
    return frame.substr(0, frame.find('\''));
  }
  const std::size_t end = frame.find_first_of("(:");
  return frame.substr(0, end);
}

// Whether a path goes through the folder: "torch/nn/modules.py", "/usr/lib/python3/site-packages/torch/nn/modules.py".
bool is_in_package(std::string_view path, std::string_view folder) {
  for (const std::string_view root : {"site-packages/", "dist-packages/"}) {
    const std::size_t at = path.rfind(root);
    if (at != std::string_view::npos) path = path.substr(at + root.size());
  }
  return path.starts_with(folder) && path.size() > folder.size() && path[folder.size()] == '/';
}

bool is_python_library(std::string_view path) {
  const std::size_t at = path.find("/lib/python");
  return at != std::string_view::npos && path.find("-packages/") == std::string_view::npos;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

std::string_view innermost_of_lines(std::string_view stack) {
  std::string_view innermost, own;
  while (!stack.empty()) {
    const std::size_t end = std::min(stack.find('\n'), stack.size());
    const std::string_view line = trimmed(stack.substr(0, end));
    stack.remove_prefix(std::min(end + 1, stack.size()));
    if (!line.starts_with("File '")) continue;
    innermost = line;
    if (is_user_frame(line)) own = line;
  }
  return own.empty() ? innermost : own;
}

}  // namespace

bool is_user_frame(std::string_view frame) {
  if (frame.empty() || frame.starts_with('<') || frame.starts_with("nn.Module:")) return false;
  const std::string_view file = file_of(frame);
  if (file.empty() || file.starts_with('<') || is_python_library(file)) return false;
  for (const std::string_view folder : kFrameworks) {
    if (is_in_package(file, folder)) return false;
  }
  return std::find(kLibraryFiles.begin(), kLibraryFiles.end(), file) == kLibraryFiles.end();
}

std::string_view user_frame_of_stack(std::string_view stack) {
  if (stack.find("File '") != std::string_view::npos) return innermost_of_lines(stack);
  const std::string_view innermost = trimmed(stack.substr(0, stack.find(';')));
  while (!stack.empty()) {
    const std::size_t end = std::min(stack.find(';'), stack.size());
    const std::string_view frame = trimmed(stack.substr(0, end));
    stack.remove_prefix(std::min(end + 1, stack.size()));
    if (is_user_frame(frame)) return frame;
  }
  return innermost;
}

}  // namespace ferry::profiler::analysis
