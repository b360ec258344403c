#!/usr/bin/env node
// Prints the opened GPU, driver and libraries as a line of JSON. `isEmulated` is true if there is no GPU, so
// that times have no meaning. If no GPU can be opened, prints the missing component with its remedy, and ends
// with status 1 or 2.
import { chooseExitCode, formatError } from '@mtl/errors';
import { findGpu, openCuda } from '@mtl/kernels/internal';

try {
  console.log(JSON.stringify({ ...openCuda(), isEmulated: findGpu().isEmulated }));
} catch (error) {
  console.error(formatError(error));
  process.exitCode = chooseExitCode(error);
}
