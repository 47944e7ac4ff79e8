#include "tools/common/interrupt.h"

#include <csignal>

namespace program {
namespace {

volatile std::sig_atomic_t interrupt_seen = 0;

}  // namespace

void watch_for_interrupt() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupt_seen = 1; };
  // The default action is back after the first signal.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return interrupt_seen != 0; }

}  // namespace program
