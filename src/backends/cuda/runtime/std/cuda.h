#pragma once

// What the driver fills in and the copy engine reads.
struct alignas(64) CUtensorMap {
  unsigned long opaque[16];
};
