#!/usr/bin/env node
import { endWithoutOutput } from '@mtl/runs/internal';
import { runMtl } from './run-mtl.js';

// it is not an error if the program that reads the output ends early, as in `mtl runs | head`
endWithoutOutput({ exitCode: 0 });

process.exitCode = await runMtl(process.argv.slice(2));
