#pragma once

#include "rapt/api.h"
#include "rapt/attend.h"
#include "rapt/custom.h"
#include "rapt/dtype.h"
#include "rapt/error.h"
#include "rapt/mask.h"
#include "rapt/mechanism.h"
#include "rapt/mechanisms.h"
#include "rapt/registry.h"
#include "rapt/threads.h"
#include "rapt/view.h"
