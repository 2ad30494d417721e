#pragma once

#include <exception>
#include <new>

#include "rapt/c.h"
#include "rapt/error.h"

// C functions report errors by a status and a text, never by an exception.
namespace rapt::inline v1::c {

// The text of rapt_last_error().
void set_last_error(const char* text) noexcept;

// Stops exceptions. Only a failure changes the text, so that asking for a name does not clear it.
template <class F>
int contained(F&& call) noexcept {
  try {
    call();
    return RAPT_OK;
  } catch (const Error& error) {
    set_last_error(error.what());
    return RAPT_BAD_INPUT;
  } catch (const std::bad_alloc&) {
    set_last_error("rapt: out of memory");
  } catch (const std::exception& error) {
    set_last_error(error.what());
  } catch (...) {
    set_last_error("rapt: unknown error");
  }
  return RAPT_FAILED;
}

// For calls that return a status.
template <class F>
int guarded(F&& call) noexcept {
  set_last_error("");
  return contained(call);
}

}  // namespace rapt::inline v1::c
