#pragma once

#include "rapt/attend.h"
#include "rapt/custom.h"
#include "rapt/dtype.h"
#include "rapt/error.h"
#include "rapt/mask.h"
#include "rapt/mechanism.h"
#include "rapt/mechanisms.h"
#include "rapt/registry.h"
#include "rapt/threads.h"
#include "rapt/trained_model.h"
#include "rapt/view.h"
