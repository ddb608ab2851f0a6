// A library without functions, under the name of one that the emulator has no stand-in for: the
// backend takes it for missing, also where the real one is installed.
namespace tutti::cuda_emulator {
extern const int kIsAbsent;
const int kIsAbsent = 1;
}  // namespace tutti::cuda_emulator
