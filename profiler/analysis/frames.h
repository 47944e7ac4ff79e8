// Which functions of a stack are the program's own, and which its framework's.
#pragma once

#include <string_view>

namespace ferry::profiler::analysis {

// Whether a frame as profilers write it ("models/net.py(31): forward", "$net.py:31 forward") is neither part of a
// framework or Python's library nor a built-in function or a module's name.
bool is_user_frame(std::string_view frame);

// The innermost frame of a recorded stack that is the program's; the innermost of all where none is. Takes stacks of
// PyTorch ("inner;outer"), of PaddlePaddle (lines "File 'net.py', line 31, in forward", innermost last) and single
// frames. "" for text that is no stack.
std::string_view user_frame_of_stack(std::string_view stack);

}  // namespace ferry::profiler::analysis
