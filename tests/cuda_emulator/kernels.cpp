#include "kernels.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "launch_log.h"

namespace tutti::cuda_emulator {
namespace {

constexpr std::size_t kSharedWithoutAsking = std::size_t{48} << 10;
constexpr std::size_t kMostShared = std::size_t{227} << 10;
constexpr double kSeconds = 1e-3;  // of any launch, on the stream's clock

// "" when the device may use the address, or why not.
std::string objection(const void* address, int device, Machine& machine) {
  if (address == nullptr) return "";
  const auto lies_in = machine.memory().find(address);
  char text[160];
  if (!lies_in) {
    std::snprintf(text, sizeof text, "address %p is in no memory of a device, nor pinned", address);
    return text;
  }
  if (lies_in->is_pinned || Peers::get().reaches(device, lies_in->device)) return "";
  std::snprintf(text, sizeof text, "address %p is of device %d, which device %d does not reach",
                address, lies_in->device, device);
  return text;
}

std::string damage_around(const std::vector<const void*>& addresses, Machine& machine) {
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto lies_in = machine.memory().find(addresses[i]);
    if (!lies_in) continue;
    const std::string damage = Memory::damage(*lies_in);
    if (!damage.empty()) return damage + ", in which parameter " + std::to_string(i) + " lies";
  }
  return "";
}

}  // namespace

std::unique_ptr<LoadedKernel> load_kernel(const char* code, const char* name, Machine& machine) {
  auto kernel = std::make_unique<LoadedKernel>();
  kernel->name = name;
  kernel->code = std::string(code, std::strcspn(code, "\n"));
  void* library = dlopen(kernel->code.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "[cuda emulator] %s\n", dlerror());
    return nullptr;
  }
  using Bind = void (*)(KernelServices*, KernelFacts*);
  const auto bind = reinterpret_cast<Bind>(dlsym(library, "emulated_bind"));
  kernel->run = reinterpret_cast<decltype(kernel->run)>(dlsym(library, "emulated_run"));
  if (bind == nullptr || kernel->run == nullptr) return nullptr;
  bind(machine.grid_runner().services(), &kernel->facts);
  return kernel;
}

cudaError_t check_launch(const LoadedKernel& kernel, const GridShape& shape, int device) {
  const std::size_t threads = std::size_t{shape.threads.x} * shape.threads.y * shape.threads.z;
  if (threads == 0 || threads > Fibers::kMost || shape.blocks.x == 0 || shape.blocks.y == 0 ||
      shape.blocks.z == 0 || shape.blocks.x > 0x7fffffffU || shape.blocks.y > 65535 ||
      shape.blocks.z > 65535) {
    return cudaErrorInvalidConfiguration;
  }
  if (threads > kernel.facts.launch_bounds) return cudaErrorInvalidValue;
  const auto allowed = kernel.most_shared.find(device);
  const std::size_t most =
      allowed == kernel.most_shared.end() ? kSharedWithoutAsking : allowed->second;
  return shape.shared_bytes > std::min(most, kMostShared) ? cudaErrorInvalidValue : cudaSuccess;
}

Step launch_step(const LoadedKernel& kernel, const GridShape& shape, int device,
                 const void* parameters) {
  const auto* bytes = static_cast<const std::byte*>(parameters);
  auto copy = std::make_shared<std::vector<std::byte>>(bytes, bytes + kernel.facts.parameter_bytes);
  std::vector<const void*> addresses(kernel.facts.pointers);
  if (!addresses.empty()) std::memcpy(addresses.data(), bytes, addresses.size() * sizeof(void*));
  log_launch(kernel, shape, *copy);
  Step step;
  step.name = "kernel " + kernel.name;
  step.seconds = kSeconds;
  step.work = [&kernel, shape, device, copy, addresses]() -> std::string {
    Machine& machine = Machine::get();
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      const std::string why = objection(addresses[i], device, machine);
      if (!why.empty()) return "parameter " + std::to_string(i) + ": " + why;
    }
    std::string wrong = machine.grid_runner().run(
        kernel.facts, shape, [&kernel, data = copy->data()] { kernel.run(data); });
    return wrong.empty() ? damage_around(addresses, machine) : wrong;
  };
  return step;
}

Peers& Peers::get() {
  static Peers* peers = new Peers;
  return *peers;
}

bool Peers::enable(int device, int peer) {
  const std::lock_guard lock(mutex_);
  return pairs_.emplace(device, peer).second;
}

bool Peers::reaches(int device, int peer) const {
  const std::lock_guard lock(mutex_);
  return device == peer || pairs_.contains({device, peer});
}

}  // namespace tutti::cuda_emulator
