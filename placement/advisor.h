// Computes which op to put on which device so that synchronous copies go away, by replaying a recorded trace's copies
// under the changed placement.
#pragma once

#include <vector>

#include "src/trace/trace.h"

namespace ferry::placement {

// Fills `advice` of each hotspot, best first. A change is proposed only when the trace, replayed with it on a virtual
// clock, gets shorter: copies that vanish against copies that appear elsewhere, and the ops' own time on the other
// device. blocked_saved is what that saves before compute_added, the host time by which the moved ops get slower. Only
// recorded ops are moved: tensors that were made before the trace began stay where they are. Backward ops move with
// their forward op. In synchronous mode every implicit copy blocks the host, in staged mode only those to the host;
// copies_removed and copies_added count both kinds, the text tells them apart. Explicit reads that a change would spare
// are no argument for it; those it would cost are one against.
void advise(const trace::Trace& trace, std::vector<trace::Hotspot>& hotspots);

}  // namespace ferry::placement
