// Status and tutti_error, both ways.
#pragma once

#include <exception>

#include "base/status.h"
#include "tutti/backend.h"

namespace tutti::abi {

// Fills `error` and returns nonzero for errors; leaves it alone and returns 0 for OK.
int report(const Status& status, tutti_error* error);
Status to_status(const tutti_error& error);

// Runs f() -> Status so that no exception crosses the border.
template <class F>
int guarded(tutti_error* error, F&& f) {
  try {
    return report(f(), error);
  } catch (const std::exception& exception) {
    return report(internal_error("exception: ", exception.what()), error);
  } catch (...) {
    return report(internal_error("exception of unknown type"), error);
  }
}

// The other direction: calls f(&error) -> int.
template <class F>
Status called(F&& f) {
  tutti_error error;
  error.code = TUTTI_INTERNAL;
  error.message[0] = '\0';
  return f(&error) == 0 ? Status() : to_status(error);
}

}  // namespace tutti::abi
