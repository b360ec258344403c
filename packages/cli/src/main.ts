#!/usr/bin/env node
import { endWithoutOutput } from '@mtl/runs/internal';
import { runMtl } from './run-mtl.js';

// `mtl ... | head` has read enough: nothing went wrong
endWithoutOutput({ exitCode: 0 });

process.exitCode = await runMtl(process.argv.slice(2));
