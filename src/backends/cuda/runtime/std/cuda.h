#pragma once

// Filled in by the driver, read by the copy engine.
struct alignas(64) CUtensorMap {
  unsigned long opaque[16];
};
