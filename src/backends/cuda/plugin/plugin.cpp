// The one symbol of libtutti_cuda.so.
#include "backends/abi/export_backend.h"
#include "backends/cuda/backend.h"
#include "backends/cuda/offline.h"

extern "C" __attribute__((visibility("default"))) const tutti_backend_api* tutti_backend_entry() {
  return tutti::abi::export_backend("cuda", tutti::cuda::CudaBackend::create,
                                    tutti::cuda::OfflineBackend::create);
}
