// Every launch as a line of a file, so that two versions of the backend can be compared.
#pragma once

#include <cstddef>
#include <vector>

namespace tutti::cuda_emulator {

struct LoadedKernel;
struct GridShape;

// To the file that $TUTTI_CUDA_EMULATOR_LOG names, if any: the kernel's name and the hash of its
// text, blocks, threads, shared bytes, then its parameters: addresses as allocation and offset in
// it are not the same from run to run, so they are left out but for which are null; numbers whole.
void log_launch(const LoadedKernel& kernel, const GridShape& shape,
                const std::vector<std::byte>& parameters);

}  // namespace tutti::cuda_emulator
