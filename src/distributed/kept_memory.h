#pragma once

#include <memory>

namespace rapt::inline v1::distributed {

// After a failure messages may read and write their memory for ever: it is kept to the end of the process.
void keep_for_messages(std::shared_ptr<void> memory) noexcept;

}  // namespace rapt::inline v1::distributed
