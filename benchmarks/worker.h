// A benchmark process that stays resident and times a batch when asked, so that a driver can alternate between two.
//
// One line in, one line out: "run NAME COUNT" answers with the nanoseconds that COUNT runs took, "list" with the names,
// anything else, and what a benchmark throws, with "error REASON". A benchmark is set up when its name is first asked
// for and torn down when another name is.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace bench {

using Nanoseconds = std::chrono::nanoseconds;

// Times `count` runs. Set-up that belongs to a batch but not to its runs stays outside the time returned.
using Batch = std::function<Nanoseconds(std::int64_t count)>;

struct Benchmark {
  std::string name;
  std::function<Batch()> set_up;
};

// What `count` calls of `run` take together.
template <class Run>
Nanoseconds time(std::int64_t count, Run&& run) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < count; ++i) run();
  return std::chrono::duration_cast<Nanoseconds>(std::chrono::steady_clock::now() - begin);
}

// A Batch that only repeats `run`, after calling it once so that caches and pools are warm.
template <class Run>
Batch repeat(Run run) {
  run();
  return [run](std::int64_t count) mutable { return time(count, run); };
}

class Worker {
 public:
  explicit Worker(std::vector<Benchmark> benchmarks) : benchmarks_(std::move(benchmarks)) {}

  // Answers requests until the input ends.
  void serve() {
    for (std::string line; std::getline(std::cin, line);) {
      try {
        std::cout << answer(line) << std::endl;
      } catch (const std::exception& error) {
        std::cout << "error " << error.what() << std::endl;
      }
    }
  }

 private:
  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string verb, name;
    std::int64_t count = 0;
    words >> verb;
    if (verb == "list") return names();
    if (verb != "run" || !(words >> name >> count) || count < 1) return "error unknown request: " + line;
    return std::to_string(batch_of(name)(count).count());
  }

  std::string names() const {
    std::string joined;
    for (const Benchmark& benchmark : benchmarks_) joined += (joined.empty() ? "" : " ") + benchmark.name;
    return joined;
  }

  const Batch& batch_of(const std::string& name) {
    if (name == current_) return batch_;
    current_.clear();
    batch_ = nullptr;
    for (const Benchmark& benchmark : benchmarks_) {
      if (benchmark.name != name) continue;
      batch_ = benchmark.set_up();
      current_ = name;
      return batch_;
    }
    throw std::invalid_argument("no benchmark named " + name);
  }

  std::vector<Benchmark> benchmarks_;
  std::string current_;
  Batch batch_;
};

}  // namespace bench
