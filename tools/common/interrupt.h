// Ctrl-C as a question the training loop asks, so that it can save first. A second Ctrl-C ends the program at once.
#pragma once

namespace program {

constexpr int kInterruptedExitCode = 130;

// Answers Ctrl-C (and a termination request) from now on.
void watch_for_interrupt();
bool interrupted();

}  // namespace program
