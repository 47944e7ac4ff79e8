// A progress bar on stderr: share done, rate and time left in wall time, and a text of the program's own. Where stderr
// is no terminal it prints a plain line at every tenth of the way.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace program {

class Progress {
 public:
  // Counts units such as "words". An earlier run may have done `share` of the way and `units` of them.
  Progress(std::string unit, double share, double units, bool quiet);
  // Clears the bar.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // share: of the way, from 0 to 1.
  void update(double share, double units, std::string_view details);
  // Units a second of wall time since construction.
  double rate() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::string line(std::string_view details) const;

  double seconds() const;

  std::string unit_;
  double first_share_, first_units_, share_, units_;
  bool quiet_, terminal_;
  Clock::time_point began_ = Clock::now(), drawn_{};
  int tenths_;  // printed, where there is no terminal
};

}  // namespace program
