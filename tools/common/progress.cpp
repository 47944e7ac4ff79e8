#include "tools/common/progress.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

namespace program {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr int kBarWidth = 24;

std::string thousands(double value) {
  if (value >= 1e6) return fmt::format("{:.2f}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.0f}k", value / 1e3);
  return fmt::format("{:.0f}", value);
}

std::string duration(double seconds) {
  const auto whole = static_cast<long>(seconds + 0.5);
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

Progress::Progress(std::string unit, double share, double units, bool quiet)
    : unit_(std::move(unit)),
      first_share_(share),
      first_units_(units),
      share_(share),
      units_(units),
      quiet_(quiet),
      terminal_(isatty(STDERR_FILENO) != 0),
      tenths_(static_cast<int>(10 * share)) {}

Progress::~Progress() {
  if (!quiet_ && terminal_) fmt::print(stderr, "\r\x1b[K");
}

double Progress::seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

double Progress::rate() const { return (units_ - first_units_) / std::max(seconds(), 1e-9); }

std::string Progress::line(std::string_view details) const {
  const double gained = share_ - first_share_;
  const std::string left = gained > 0 ? duration(seconds() * std::max(1 - share_, 0.0) / gained) : "-:--";
  const std::string figures =
      fmt::format("{:5.1f} %  {}  {} {}/s wall  {} left", 100 * share_, details, thousands(rate()), unit_, left);
  if (!terminal_) return figures;
  const int filled = static_cast<int>(share_ * kBarWidth);
  return fmt::format("[{:=>{}}{:>{}}] {}", "", filled, "", kBarWidth - filled, figures);
}

void Progress::update(double share, double units, std::string_view details) {
  share_ = std::clamp(share, 0.0, 1.0);
  units_ = units;
  if (quiet_) return;
  if (terminal_) {
    if (Clock::now() - drawn_ < kRedraw) return;
    drawn_ = Clock::now();
    fmt::print(stderr, "\r{}\x1b[K", line(details));
    return;
  }
  const int tenths = static_cast<int>(10 * share_);
  if (tenths <= tenths_) return;
  tenths_ = tenths;
  fmt::print(stderr, "{}\n", line(details));
}

}  // namespace program
