// Graphs, and the capture of streams into them.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "machine.h"

namespace tutti::cuda_emulator {

struct GraphNode {
  Step step;
  std::set<int> after;  // nodes before it
};

using GraphNodes = std::vector<GraphNode>;

// One capture, of the stream that began it and all that have joined. Used under the machine's lock.
struct Capture {
  Stream* origin = nullptr;
  std::set<Stream*> members;
  GraphNodes nodes;
  cudaError_t broken = cudaSuccess;  // what has spoilt it
};

cudaError_t begin_capture(Stream& stream);
// The nodes. Every member leaves the capture, also after an error: cudaErrorStreamCaptureUnjoined
// when work of a member does not come before the origin's end.
cudaError_t end_capture(Stream& stream, GraphNodes* nodes);

// To the stream's queue, or to the capture that it takes part in.
void add_work(Stream& stream, Step step);
cudaError_t record_event(Stream& stream, Event& event);
cudaError_t wait_for_event(Stream& stream, Event& event);
// A stream that is destroyed leaves its capture, which is spoilt.
void leave_capture(Stream& stream);

// Does the work of the nodes, each after those before it, otherwise in an order that changes.
std::string run_graph(const GraphNodes& nodes, Machine& machine);

}  // namespace tutti::cuda_emulator
