#include "fiber.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <new>

namespace tutti::cuda_emulator {
namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10;

Fibers* current = nullptr;  // whose fiber runs; there is one thread that runs fibers

}  // namespace

#if defined(__x86_64__)

// ucontext asks the kernel for the signal mask at every switch, which costs ten times the switch.
extern "C" void tutti_switch_stacks(void** left, void* entered);
asm(R"(
.text
.type tutti_switch_stacks, @function
tutti_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tutti_switch_stacks, .-tutti_switch_stacks
)");

struct Fibers::Context {
  void* stack = nullptr;
  void* top = nullptr;  // saved stack pointer

  void prepare(void (*main)()) {
    // What a switch pops: six registers, then where it returns to, on a stack that is aligned as
    // behind a call.
    auto** words = reinterpret_cast<void**>(static_cast<char*>(stack) + kStackBytes) - 1;
    *words = nullptr;
    *--words = reinterpret_cast<void*>(main);
    for (int i = 0; i < 6; ++i) *--words = nullptr;
    top = words;
  }
  void enter(Context& from) { tutti_switch_stacks(&from.top, top); }
};

#else

struct Fibers::Context {
  void* stack = nullptr;
  ucontext_t context;

  void prepare(void (*main)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    makecontext(&context, main, 0);
  }
  void enter(Context& from) { swapcontext(&from.context, &context); }
};

#endif

void Fibers::Destroy::operator()(Context* context) const {
  if (context->stack != nullptr) munmap(context->stack, kStackBytes);
  delete context;
}

void Fibers::start(int count, std::function<void(int)> f) {
  f_ = std::move(f);
  if (outside_ == nullptr) outside_.reset(new Context);
  while (contexts_.size() < static_cast<std::size_t>(count)) {
    std::unique_ptr<Context, Destroy> context(new Context);
    context->stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (context->stack == MAP_FAILED) throw std::bad_alloc();
    contexts_.push_back(std::move(context));
  }
  for (int i = 0; i < count; ++i) contexts_[static_cast<std::size_t>(i)]->prepare(&Fibers::main);
}

void Fibers::main() {
  Fibers& fibers = *current;
  fibers.f_(fibers.running_);
  fibers.has_ended_ = true;
  fibers.leave();
}

bool Fibers::resume(int i) {
  current = this;
  running_ = i;
  has_ended_ = false;
  contexts_[static_cast<std::size_t>(i)]->enter(*outside_);
  return has_ended_;
}

void Fibers::leave() { outside_->enter(*contexts_[static_cast<std::size_t>(running_)]); }

}  // namespace tutti::cuda_emulator
