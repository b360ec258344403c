#!/usr/bin/env node
import { endWithoutOutput } from '@mtl/runs/internal';
import { runMtl } from './run-mtl.js';

// a reader that closes the output early, such as `| head`, is not an error
endWithoutOutput({ exitCode: 0 });

process.exitCode = await runMtl(process.argv.slice(2));
