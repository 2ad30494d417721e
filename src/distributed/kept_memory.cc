#include "distributed/kept_memory.h"

#include <exception>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace rapt::inline v1::distributed {

void keep_for_messages(std::shared_ptr<void> memory) noexcept {
  static std::mutex mutex;
  // Never destroyed: threads may fail while the process ends.
  static auto* const kept = new (std::nothrow) std::vector<std::shared_ptr<void>>;
  if (!kept) std::terminate();
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(memory));
}

}  // namespace rapt::inline v1::distributed
