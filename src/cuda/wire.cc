// The generated headers are compiled once here, so that a mistake in a table shows in one place.
#include "cuda/wire.h"

#include "cuda/driver_api.h"
#include "cuda/driver_functions.h"
#include "cuda/wire_client.h"
#include "cuda/wire_dispatch.h"
