#!/usr/bin/env node
import { runMtl } from './run-mtl.js';

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // `mtl ... | head` has read enough: nothing went wrong.
  if (error.code === 'EPIPE') process.exit(0);
  throw error;
});

process.exitCode = await runMtl(process.argv.slice(2));
