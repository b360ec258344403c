#!/usr/bin/env node
// The GPU that is opened, driver and libraries, as one line of JSON; `isEmulated`: there is no GPU, and times
// mean nothing. If none can be opened: what is missing, with its remedy, and status 1 or 2.
import { chooseExitCode, formatError } from '@mtl/errors';
import { findGpu, openCuda } from '@mtl/kernels/internal';

try {
  console.log(JSON.stringify({ ...openCuda(), isEmulated: findGpu().isEmulated }));
} catch (error) {
  console.error(formatError(error));
  process.exitCode = chooseExitCode(error);
}
