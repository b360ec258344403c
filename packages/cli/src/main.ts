#!/usr/bin/env node
import { endWithoutOutput } from '@mtl/runs/internal';
import { runMtl } from './run-mtl.js';

// `mtl ... | head` has read enough: nothing went wrong
endWithoutOutput({ exitCode: 0 });

const exitCode = await runMtl(process.argv.slice(2));
// which a launcher or a training run has set already when its output could not be written
process.exitCode = exitCode === 0 ? (process.exitCode ?? 0) : exitCode;
