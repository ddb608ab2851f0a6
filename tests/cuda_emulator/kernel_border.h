// The border between the emulator and a kernel that is compiled for the host: both include this, so
// there are no headers here.
#pragma once

namespace tutti::cuda_emulator {

struct Dim3 {
  unsigned x, y, z;
};

// The thread that runs: what the kernel reads as threadIdx and so on.
struct ThreadPlace {
  Dim3 thread, block, block_dim, grid_dim;
};

// What lanes of a warp tell each other in one step.
struct LanePacket {
  unsigned long long words[4];
};

// What a kernel asks of the emulator.
struct KernelServices {
  const ThreadPlace* place;
  unsigned char* dynamic_shared;
  void (*sync_threads)();
  // All lanes of the warp that have not ended call together, with the same `kind`. The packets by
  // lane, valid until the next call; the last lane to come calls `combine` on them, if it is not
  // null. `mask` names all of those lanes.
  const LanePacket* (*exchange)(unsigned mask, const char* kind, const LanePacket& mine,
                                void (*combine)(LanePacket* packets));
  unsigned (*took_part)();  // which lanes did so in the latest exchange
  void (*fail)(const char* what);
};

// What is known of a kernel from its text.
struct KernelFacts {
  unsigned parameter_bytes;
  unsigned pointers;       // the parameters begin with so many addresses
  unsigned launch_bounds;  // most threads of a block
  bool is_collective;      // threads wait for each other
  unsigned char* shared_begin;
  unsigned char* shared_end;
};

}  // namespace tutti::cuda_emulator
