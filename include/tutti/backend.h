/* The C ABI between Tutti and a backend plug-in: a shared library, libtutti_NAME.so, that runs
 * nodes on a kind of device. It exports one symbol, tutti_backend_entry, of type
 * tutti_backend_entry_fn.
 *
 * Rules of this border
 * - Nothing crosses it but these structs, plain numbers, and pointers; no exception, no C++ object.
 * - Every struct that one side fills for the other begins with `size` = its sizeof there, so that
 *   fields can be added at the end. A change of meaning or order changes TUTTI_BACKEND_ABI.
 * - Errors: a function that can fail takes a tutti_error last. It returns nonzero (or null where it
 *   returns a pointer) and fills code and message; on success it leaves the error as it is. The
 *   message begins with what is wrong and names the value and what was expected; the host puts the
 *   node in front. It is UTF-8, cut to fit, always terminated.
 * - Ownership: who makes a thing destroys it, through the function beside the one that made it.
 *   Pointers in arguments are valid during the call only, unless said otherwise here.
 * - Threads: functions on a backend may be called from any thread, several at a time; those on one
 *   rank (and on its kernels, buffers and recordings) by one thread at a time, different ranks at
 *   the same time. Destruction happens with no call of the rank under way; kernels, buffers and
 *   recordings go before their rank, ranks before their backend, and the library is never unloaded.
 * - Addresses of device memory are plain pointers that the host never follows, unless
 * is_host_memory says so.
 */
#ifndef TUTTI_BACKEND_H_
#define TUTTI_BACKEND_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_BACKEND_ABI 2u
#define TUTTI_BACKEND_ENTRY "tutti_backend_entry"

enum tutti_code {
  TUTTI_OK = 0,
  TUTTI_INVALID_ARGUMENT = 1,
  TUTTI_NOT_FOUND = 2,
  TUTTI_ALREADY_EXISTS = 3,
  TUTTI_UNAVAILABLE = 4,
  TUTTI_UNIMPLEMENTED = 5,
  TUTTI_INTERNAL = 6,
  TUTTI_CANCELLED = 7,
  TUTTI_DEADLINE_EXCEEDED = 8,
  TUTTI_RESOURCE_EXHAUSTED = 9
};

typedef struct tutti_error {
  int32_t code; /* enum tutti_code */
  char message[2044];
} tutti_error;

typedef struct tutti_backend tutti_backend;
typedef struct tutti_rank tutti_rank;
typedef struct tutti_kernel tutti_kernel;
typedef struct tutti_buffer tutti_buffer;
typedef struct tutti_recording tutti_recording;
typedef struct tutti_host_memory tutti_host_memory;
typedef struct tutti_device_memory tutti_device_memory;

/* Dense, row-major. dtype is ONNX's TensorProto.DataType; 0 is an optional operand that is absent.
 * data: the elements in host memory where they are constant, else null. Where is_host_memory is
 * nonzero, constants outlive the kernels that read them; elsewhere they are valid during the call
 * that is told of them. */
typedef struct tutti_tensor {
  int32_t dtype;
  int32_t rank;
  const int64_t* dims;
  const void* data;
} tutti_tensor;

/* One node with everything that is known before it runs. */
typedef struct tutti_node {
  uint32_t size;
  /* The node alone in the text form of src/graph/printer.h: a graph whose inputs are the node's
   * present operands (each value once) and whose outputs are the node's, with symbolic sizes. */
  const char* text;
  const tutti_tensor* inputs; /* by operand, sizes bound */
  uint64_t num_inputs;
  const tutti_tensor* outputs;
  uint64_t num_outputs;
  /* What the symbols of the text stand for: sizes and rank coordinates. */
  const char* const* symbol_names;
  const int64_t* symbol_values;
  uint64_t num_symbols;
} tutti_node;

/* The ranks along one mesh axis, from the host; valid as long as the rank. gather is collective:
 * every rank calls it in the same order with as many bytes, and all[r * bytes ..] becomes rank r's
 * bytes. It blocks, and fails on all ranks once any has called abort or the host gives up. abort:
 * from any thread. add_sent counts bytes of exchanges for reports. */
typedef struct tutti_communicator {
  uint32_t size;
  int32_t rank;
  int32_t num_ranks;
  void* context;
  int (*gather)(void* context, const void* mine, void* all, uint64_t bytes, tutti_error* error);
  void (*abort)(void* context, const tutti_error* reason);
  void (*add_sent)(void* context, int64_t bytes);
} tutti_communicator;

/* Rows of row_bytes, as far apart as the strides say, all in bytes. */
typedef struct tutti_rows {
  uint32_t size;
  void* target;
  uint64_t target_stride;
  const void* source;
  uint64_t source_stride;
  uint64_t row_bytes;
  uint64_t rows;
} tutti_rows;

typedef struct tutti_rank_options {
  uint32_t size;
  int32_t device;  /* index on this machine */
  int32_t rank;    /* in the mesh */
  int32_t threads; /* host threads that the rank may use */
  uint64_t num_axes;
  const char* const* axis_names;           /* by mesh axis */
  const tutti_communicator* communicators; /* by mesh axis; num_ranks 1 for axes of size 1 */
  const tutti_communicator* group;         /* all ranks of the mesh; num_ranks 1 for one */
} tutti_rank_options;

/* What a device is doing, for people and dashboards. Numbers below 0 are not known. */
typedef struct tutti_device_load {
  uint32_t size;
  char uuid[96];             /* "GPU-..." */
  double memory_total_bytes; /* of the device, whoever uses it */
  double memory_used_bytes;
  double utilization; /* 0 to 1 */
  double power_watts; /* drawn now */
  double power_limit_watts;
  double energy_joules; /* since the driver was loaded */
} tutti_device_load;

/* Something that a backend has made or measured and would otherwise make again: machine code, the
 * fastest algorithm. Plans carry them (docs/plan.md). All but kind and key is for people. */
typedef struct tutti_artifact {
  uint32_t size;
  const char* kind;    /* "cubin" */
  const char* target;  /* what it holds for: "sm_90" */
  const char* made_by; /* "NVRTC 13.0" */
  const char* name;    /* "row" */
  /* Two artifacts of a kind and key stand for each other. */
  uint64_t key_high;
  uint64_t key_low;
  const void* content;
  uint64_t content_bytes;
} tutti_artifact;

typedef struct tutti_backend_api {
  uint32_t abi; /* TUTTI_BACKEND_ABI */
  uint32_t size;
  const char* name; /* "cuda" */

  /* Null when this machine cannot run the backend; the error says why ("no CUDA device: ..."). */
  tutti_backend* (*create_backend)(tutti_error* error);
  void (*destroy_backend)(tutti_backend* backend);
  int32_t (*device_count)(tutti_backend* backend);
  /* A line for people: the devices and the versions of what they are driven with. The string lives
   * as long as the backend. */
  const char* (*describe)(tutti_backend* backend);

  tutti_rank* (*create_rank)(tutti_backend* backend, const tutti_rank_options* options,
                             tutti_error* error);
  void (*destroy_rank)(tutti_rank* rank);
  int32_t (*is_host_memory)(tutti_rank* rank);

  tutti_kernel* (*make_kernel)(tutti_rank* rank, const tutti_node* node, tutti_error* error);
  void (*destroy_kernel)(tutti_kernel* kernel);
  uint64_t (*workspace_bytes)(tutti_kernel* kernel);
  /* Nonzero when the kernel never reads constant input i again. */
  int32_t (*consumes_constant)(tutti_kernel* kernel, uint64_t i);
  /* Null for absent inputs. Asynchronous where the device is; the workspace has workspace_bytes, a
   * multiple of 256 bytes from the start of an allocated buffer. */
  int (*run_kernel)(tutti_kernel* kernel, const void* const* inputs, uint64_t num_inputs,
                    void* const* outputs, uint64_t num_outputs, void* workspace,
                    tutti_error* error);

  tutti_buffer* (*allocate)(tutti_rank* rank, uint64_t bytes, tutti_error* error);
  void* (*buffer_data)(tutti_buffer* buffer);
  void (*free_buffer)(tutti_buffer* buffer);
  /* Where a constant lives on the device, as long as the rank. */
  const void* (*place_constant)(tutti_rank* rank, const tutti_tensor* tensor, tutti_error* error);

  /* The host's memory may be reused when upload returns, and is filled when download returns. */
  int (*upload)(tutti_rank* rank, void* target, const void* host, uint64_t bytes,
                tutti_error* error);
  int (*download)(tutti_rank* rank, void* host, const void* source, uint64_t bytes,
                  tutti_error* error);
  int (*copy)(tutti_rank* rank, void* target, const void* source, uint64_t bytes,
              tutti_error* error);
  /* Waits until all that the rank was asked for is done. Errors: what has failed on the device
   * since the last call; TUTTI_INVALID_ARGUMENT for what a kernel found wrong with the data. */
  int (*finish)(tutti_rank* rank, tutti_error* error);

  /* Between the first two, run_kernel notes what it would do instead of doing it; kernels have run
   * before. Where can_record is zero the others are not called. See records_exchanges. */
  int32_t (*can_record)(tutti_rank* rank);
  int (*begin_recording)(tutti_rank* rank, tutti_error* error);
  tutti_recording* (*end_recording)(tutti_rank* rank, tutti_error* error);
  int (*replay)(tutti_recording* recording, tutti_error* error);
  void (*destroy_recording)(tutti_recording* recording);

  /* Marks on the device's own time line; where has_clock is zero the others are not called. */
  int32_t (*has_clock)(tutti_rank* rank);
  int (*mark)(tutti_rank* rank, uint64_t i, tutti_error* error);
  int (*seconds_between)(tutti_rank* rank, uint64_t from, uint64_t to, double* seconds,
                         tutti_error* error);

  /* A request's own tensors: the source of the first and the target of the second lie in host
   * memory, or where check_device_memory allows it. Both are the rank's until finish returns; then
   * the target is filled. */
  int (*read_input)(tutti_rank* rank, const tutti_rows* rows, tutti_error* error);
  int (*write_output)(tutti_rank* rank, void* target, const void* source, uint64_t bytes,
                      tutti_error* error);

  /* Nonzero: exchanges are recorded too; begin_recording, end_recording and replay are then
   * collective over the group of all ranks, and one recording holds what all of them did. Zero: no
   * exchange runs in a recording. */
  int32_t (*records_exchanges)(tutti_rank* rank);
  /* Instead of end_recording, after an error. Not collective. */
  void (*drop_recording)(tutti_rank* rank);

  /* Whether a request's tensor may lie at data in the memory of device; TUTTI_INVALID_ARGUMENT says
   * why not. Its content is ready before the request, and nobody else writes it until the answer.
   */
  int (*check_device_memory)(tutti_backend* backend, int32_t device, const void* data,
                             uint64_t bytes, tutti_error* error);
  /* Copies such memory to the host and waits for it. */
  int (*read_device_memory)(tutti_backend* backend, void* host, int32_t device, const void* source,
                            uint64_t bytes, tutti_error* error);
  /* Host memory that the devices reach fastest, 64-byte aligned; *memory is null where any host
   * memory does. It may outlive the backend. */
  int (*allocate_host)(tutti_backend* backend, uint64_t bytes, tutti_host_memory** memory,
                       tutti_error* error);
  void* (*host_data)(tutti_host_memory* memory);
  void (*free_host)(tutti_host_memory* memory);

  /* From here on, an entry that a plug-in of version 2 does not have is null or past its table's
   * size: the host does without. */

  /* Memory of a device that another process shares, by the handle that it gave out (for CUDA the 64
   * bytes of cudaIpcMemHandle_t). TUTTI_INVALID_ARGUMENT: no such device, a handle that is none,
   * fewer bytes behind it than asked for. The other process keeps the memory until free_device. */
  tutti_device_memory* (*open_device_memory)(tutti_backend* backend, int32_t device,
                                             const void* handle, uint64_t handle_bytes,
                                             uint64_t bytes, tutti_error* error);
  /* Memory for a request's tensors, 256-byte aligned; *memory is null where they do not gain by
   * lying on a device. TUTTI_RESOURCE_EXHAUSTED when there is no room. */
  int (*allocate_device)(tutti_backend* backend, int32_t device, uint64_t bytes,
                         tutti_device_memory** memory, tutti_error* error);
  void* (*device_data)(tutti_device_memory* memory);
  /* Of both kinds; the memory may outlive the backend. */
  void (*free_device)(tutti_device_memory* memory);
  /* Copies the host's memory to such memory and waits for it; ranks go on meanwhile. */
  int (*write_device_memory)(tutti_backend* backend, int32_t device, void* target, const void* host,
                             uint64_t bytes, tutti_error* error);
  int (*device_load)(tutti_backend* backend, int32_t device, tutti_device_load* load,
                     tutti_error* error);

  /* A backend that makes kernels for devices of a kind ("sm_90") without having one: its only
   * device takes ranks, constants and make_kernel; buffers have no memory, and whatever would run
   * is TUTTI_UNIMPLEMENTED. TUTTI_INVALID_ARGUMENT names the kinds; TUTTI_NOT_FOUND: no compiler.
   */
  tutti_backend* (*create_offline)(const char* target, tutti_error* error);
  /* From now on, ranks use it instead of making or measuring the same. What is not for this
   * machine does no harm. */
  void (*offer_artifact)(tutti_backend* backend, const tutti_artifact* artifact);
  /* Calls give with everything that the backend's ranks have used so far, wherever it came from. */
  void (*list_artifacts)(tutti_backend* backend, void* context,
                         void (*give)(void* context, const tutti_artifact* artifact));
} tutti_backend_api;

/* The table lives as long as the process. */
typedef const tutti_backend_api* (*tutti_backend_entry_fn)(void);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_BACKEND_H_ */
